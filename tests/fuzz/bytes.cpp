// Sizes: parse_bytes.

#include "ember/base/bytes.h"

#include <optional>
#include <string>

#include "fuzz.h"

namespace {

constexpr std::string_view kExamples[] = {"",
                                          "0",
                                          "4096",
                                          "512KiB",
                                          "2GiB",
                                          "1TiB",
                                          "20 MB",
                                          "1.5GB",
                                          "18446744073709551615",
                                          "18014398509481983K"};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  const std::optional<std::uint64_t> bytes = ember::parse_bytes(text);
  if (!bytes) return 0;
  fuzz::expect(text[0] >= '0' && text[0] <= '9', "a size starts with a digit");
  fuzz::expect(ember::parse_bytes(std::to_string(*bytes)) == bytes, "plain bytes mean the same");
  fuzz::expect(!ember::format_bytes(*bytes).empty(), "every size can be formatted");
  return 0;
}
