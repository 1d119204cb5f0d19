// What another process answers to `ember top`: cuda::top::parse.
#include <string>

#include "ember/memory/top_record.h"
#include "fuzz.h"

namespace {

using ember::cuda::top::parse;

constexpr std::string_view kExamples[] = {
    "",
    "ember-top\t1\nprocess\t7\tpython train.py\nend\n",
    "ember-top\t1\nprocess\t7\tx\ndevice\t0\t1\t512\t2097152\t2147483648\t3\t-1\t30\t75000\t1000"
    "\tGPU-65\tSimulated GPU\nend\n",
    "ember-top\t2\nprocess\t7\tx\nend\n",
    "ember-top\t1\nprocess\t-7\tx\nend\n",
    "ember-top\t1\nprocess\t7\tx\ndevice\t0\t1\nend\n",
    "ember-top\t1\nprocess\t7\t\x1b[2J\nend\n"};

bool is_printable(const std::string& text) {
  for (const char c : text)
    if (c < ' ' || c > '~') return false;
  return text.size() <= 256;
}

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto process = parse(fuzz::text(data, size));
  if (!process) return 0;
  fuzz::expect(is_printable(process->command), "a terminal can show what is read");
  fuzz::expect(process->devices.size() <= 64, "no process has more than 64 devices");
  for (const auto& use : process->devices) {
    fuzz::expect(is_printable(use.name) && is_printable(use.uuid),
                 "a terminal can show what is read");
    fuzz::expect(use.allocated <= use.reserved, "what is in use is held");
  }
  return 0;
}
