#include "examples/support/arguments.h"

#include <charconv>

namespace example {

std::uint64_t parse_count(const std::string& option, const std::string& value, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 1 || number > most)
    throw UsageError(option, value, "expected a whole number from 1 to " + std::to_string(most));
  return number;
}

bool Arguments::next() {
  if (attached_) throw UsageError("option", name_ + "=" + value_, "expected no value");
  if (next_ < words_.size() && !only_words_ && words_[next_] == "--") {
    only_words_ = true;
    ++next_;
  }
  if (next_ == words_.size()) return false;
  name_ = words_[next_++];
  option_ = !only_words_ && name_.size() > 1 && name_[0] == '-';
  const std::size_t equals = option_ ? name_.find('=') : std::string::npos;
  attached_ = equals != std::string::npos;
  if (attached_) {
    value_ = name_.substr(equals + 1);
    name_.erase(equals);
  }
  return true;
}

std::string Arguments::value() {
  if (attached_) {
    attached_ = false;
    return value_;
  }
  if (next_ == words_.size()) throw UsageError("option", name_, "expected a value after it");
  return words_[next_++];
}

}  // namespace example
