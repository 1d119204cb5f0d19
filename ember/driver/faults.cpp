#include "ember/driver/faults.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace ember::inline v0::driver {
namespace {

using What = Fault::What;

constexpr const char* kWords[Fault::kWhats] = {"alloc", "pinned", "stream", "event", "launch",
                                               "copy",  "peer",   "fill",   "host",  "kernel",
                                               "slow",  "late",   "lost",   "liar"};
constexpr std::size_t kMostItems = 64;
constexpr int kMostDevice = 63;

bool has_milliseconds(What what) noexcept { return what == What::slow || what == What::late; }

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Reads one item, from left to right.
class Item {
 public:
  explicit Item(std::string_view text) : rest_(text) {}

  bool take(char sign) noexcept {
    if (rest_.empty() || rest_.front() != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// A number in a range, without a sign or zeros before it.
  template <class Number>
  bool take(Number least, Number most, Number& out) noexcept {
    Number read{};
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), read);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    if (error != std::errc() || (digits > 1 && rest_.front() == '0') || read < least || read > most)
      return false;
    rest_.remove_prefix(digits);
    out = read;
    return true;
  }
  bool ended() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool read_number(Item& item, Fault& out) {
  return item.take<std::uint64_t>(1, Fault::kMostNumber, out.number);
}

/// What stands behind the colon; or what was expected.
const char* read_rest(std::string_view text, Fault& out) {
  Item item(text);
  bool good = false;
  const char* expected = "a number from 1 to 10^12, perhaps with '+' behind it";
  if (out.what == What::lost) {
    expected = "DEVICE@NUMBER, with a device from 0 to 63 and a number from 1 to 10^12";
    good = item.take(0, kMostDevice, out.device) && item.take('@') && read_number(item, out);
  } else if (out.what == What::liar) {
    expected = "DEVICE-DEVICE, with two devices from 0 to 63";
    good = item.take(0, kMostDevice, out.device) && item.take('-') &&
           item.take(0, kMostDevice, out.peer) && out.device != out.peer;
  } else {
    good = read_number(item, out);
    if (good) out.and_later = item.take('+');
    if (has_milliseconds(out.what)) {
      expected = "NUMBER@MILLISECONDS, with 1 to 10^12 and 1 to 60000";
      good = good && item.take('@') &&
             item.take<std::uint32_t>(1, Fault::kMostMilliseconds, out.milliseconds);
    }
  }
  return good && item.ended() ? nullptr : expected;
}

/// Empty, or what is wrong.
std::string read_item(std::string_view text, Fault& out) {
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  for (std::size_t i = 0; i < Fault::kWhats; ++i) {
    if (word != kWords[i]) continue;
    out.what = static_cast<What>(i);
    const char* const expected = read_rest(
        colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1), out);
    return expected == nullptr
               ? std::string()
               : in_quotes(text) + ": expected " + std::string(word) + ":" + expected;
  }
  return in_quotes(text) +
         ": expected one of alloc, pinned, stream, event, launch, copy, peer, fill, host, kernel, "
         "slow, late, lost and liar, and a colon";
}

}  // namespace

const char* fault_name(Fault::What what) noexcept { return kWords[static_cast<std::size_t>(what)]; }

Status parse_faults(const std::optional<std::string>& text, Faults& out) {
  Faults faults;
  if (text && !text->empty()) {
    const auto malformed = [&](const std::string& why) {
      return Status(Code::invalid_value, "EMBER_SIM_FAULTS='" + *text + "': " + why);
    };
    std::string_view rest = *text;
    for (bool more = true; more;) {
      const std::size_t comma = rest.find(',');
      Fault fault;
      if (std::string wrong = read_item(rest.substr(0, comma), fault); !wrong.empty())
        return malformed(wrong);
      if (faults.size() == kMostItems) return malformed("expected at most 64 items");
      faults.push_back(fault);
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
  }
  out = std::move(faults);
  return {};
}

std::string faults_text(const Faults& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    if (!text.empty()) text += ',';
    text.append(fault_name(fault.what)).append(":");
    if (fault.what == What::lost) {
      text.append(std::to_string(fault.device)).append("@").append(std::to_string(fault.number));
    } else if (fault.what == What::liar) {
      text.append(std::to_string(fault.device)).append("-").append(std::to_string(fault.peer));
    } else {
      text.append(std::to_string(fault.number)).append(fault.and_later ? "+" : "");
      if (has_milliseconds(fault.what)) text.append("@").append(std::to_string(fault.milliseconds));
    }
  }
  return text;
}

}  // namespace ember::inline v0::driver
