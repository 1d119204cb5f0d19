// Traces of allocations: read_trace, trace_of_snapshot, and what the model of PyTorch makes of
// them.

#include "ember/replay/trace.h"

#include <algorithm>
#include <string>

#include "ember/base/error.h"
#include "ember/replay/policies.h"
#include "fuzz.h"

namespace {

namespace replay = ember::replay;
using namespace std::literals;

constexpr std::string_view kExamples[] = {
    "ember-trace 1\nend 0\n"sv,
    "ember-trace 1\nprogram p\npeak native 512 2097152\npeak expandable 512 2097152\n"
    "+ 800 2097152 0 0\na 800 1 0 0\nr 800\nc 800\n- 800\nend 5\n"sv,
    "ember-trace 1\n+ 800 20971520 0 0\na 800 2000000 0 0\na 1743 3000000 0 0\nr 800\n"
    "a 2000 1048577 0 0\nc 800\na 800 1100000 0 0\nr 1743\nc 1743\nend 9\n"sv,
    "ember-trace 1\n+ 800 2097152 0 1\na 800 600 0 1\na 802 512 0 1\nr 802\nr 800\nc 802\nc 800\n"
    "+ 4000 2097152 1 0\na 4000 7 1 0\nr 4000\nc 4000\n- 800\n- 4000\nend 13\n"sv,
    "ember-trace 1\nm 800 2097152 0 0\nm 1800 20971520 0 0\na 1000 1500000 0 0\nr 1000\nc 1000\n"
    "u 1000 2097152\nu 800 1048576\nend 7\n"sv,
    "\x80\x02}(X\x0d\x00\x00\x00"
    "device_traces](](}(X\x06\x00\x00\x00"
    "actionX\x0d\x00\x00\x00"
    "segment_allocX\x04\x00\x00\x00"
    "addrJ\x00\x00\x10\x00X\x04\x00\x00\x00"
    "sizeJ\x00\x00\x20\x00X\x06\x00\x00\x00"
    "streamK\x00ueeu."sv,
    "\x80\x02}X\x0d\x00\x00\x00"
    "device_traces](](}X\x06\x00\x00\x00"
    "actionX\x0b\x00\x00\x00"
    "segment_mapsees."sv};

void look_at(const replay::Trace& trace) {
  const std::string text = replay::write_trace(trace);
  fuzz::expect(replay::write_trace(replay::read_trace(text)) == text,
               "what is written is read again as the same");
  const replay::Outcome outcome = replay::replay_torch(trace);
  const std::uint64_t half = outcome.peaks.reserved / 2;
  for (const auto& policy : {replay::replay_torch, replay::replay_expandable}) {
    const replay::Outcome small = policy(trace, {half, 7});
    fuzz::expect(half == 0 || small.peaks.reserved <= half, "a device has what it has");
    fuzz::expect(small.failed_at.has_value() != small.failure.empty(), "a failure has words");
    fuzz::expect(policy(trace, {outcome.peaks.reserved + (1U << 30), 7}).course.size() ==
                     std::min<std::size_t>(7, trace.entries.size()),
                 "there is a moment of each part");
  }
  const replay::Outcome recorded = replay::recorded(trace);
  fuzz::expect(outcome.peaks.allocated >= recorded.peaks.allocated,
               "blocks are no smaller than what was asked for");
  fuzz::expect(outcome.peaks.allocated <= outcome.peaks.reserved, "blocks lie in segments");
  fuzz::expect(outcome.compared != trace.grows(), "only segments that do not grow are compared");
  fuzz::expect((outcome.differences == 0) == outcome.first_difference.empty(),
               "a difference has words");
  fuzz::expect(!outcome.compared || outcome.differences != 0 ||
                   outcome.peaks.reserved <= recorded.peaks.reserved,
               "without a difference the segments are those of the trace");
}

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text(data, size);
  try {
    look_at(bytes.starts_with('\x80') ? replay::trace_of_snapshot(bytes, 0)
                                      : replay::read_trace(bytes));
  } catch (const ember::ValueError& error) {
    fuzz::expect(std::string_view(error.what()).starts_with("trace: "),
                 "an error says whose it is");
  }
  return 0;
}
