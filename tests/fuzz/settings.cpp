// PYTORCH_ALLOC_CONF: parse_settings.

#include "ember/memory/settings.h"

#include <algorithm>
#include <bit>
#include <string>

#include "fuzz.h"

namespace {

using ember::memory::parse_settings;
using ember::memory::Settings;

constexpr std::string_view kExamples[] = {
    "",
    "backend:native",
    "max_split_size_mb:40,garbage_collection_threshold:0.5",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "roundup_power2_divisions:16, expandable_segments : True",
    "per_process_memory_fraction:0.25,throw_on_cudamalloc_oom:True",
    "pinned_num_register_threads:8,pinned_max_cached_size_mb:1099511627776",
    "large_segment_size_mb:64,max_split_size_mb:64,max_non_split_rounding_mb:18446744073709551615",
    "backend:cudaMallocAsync",
    "roundup_power2_divisions:[1:4294967296,",
    ",,,:::[[]]"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text(data, size));
  Settings before;
  before.text = "before";
  before.max_split_size = std::size_t{1} << 59;
  Settings settings = before;
  const ember::Status status = parse_settings(text, settings);
  if (!status.ok()) {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(!status.detail().empty(), "an error says what is wrong");
    fuzz::expect(settings == before, "a failure leaves the settings untouched");
    return 0;
  }
  fuzz::expect(settings.text == text, "the text is kept");
  std::string blanks;
  for (const char c : text) blanks.append({c, ' '});
  Settings again = before;
  fuzz::expect(parse_settings(blanks, again).ok(), "blanks are ignored");
  again.text = text;
  fuzz::expect(again == settings, "blanks change nothing");
  fuzz::expect(settings.max_split_size >= settings.large_segment, "sizes go together");
  fuzz::expect(
      settings.garbage_collection_threshold >= 0 && settings.garbage_collection_threshold < 1 &&
          settings.per_process_memory_fraction >= 0 && settings.per_process_memory_fraction <= 1,
      "fractions are in their range");
  for (const std::uint32_t divisions : settings.roundup_divisions)
    fuzz::expect(divisions == 0 || std::has_single_bit(divisions), "divisions are powers of two");
  for (std::size_t request = 1; request < std::size_t{1} << 60; request += request / 2 + 1) {
    const std::size_t block = settings.block_bytes(request);
    fuzz::expect(block >= request && block % 512 == 0 && block - request < request + 512,
                 "a block holds its request, and wastes less than another one");
    fuzz::expect(settings.segment_bytes(block) >= block, "a segment holds its block");
  }
  return 0;
}
