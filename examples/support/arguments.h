// Arguments of a program, and what to say of wrong ones.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// Something wrong with what the user gave: which argument, which value, what was expected.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
  UsageError(const std::string& argument, const std::string& value, const std::string& trouble)
      : std::runtime_error(argument + " '" + value + "': " + trouble) {}
};

/// A whole number from 1 to `most`. UsageError.
std::uint64_t parse_count(const std::string& option, const std::string& value, std::uint64_t most);

/// The words of a command line, one after the other, as options, their values and the rest:
///
///     for (Arguments words(count, arguments); words.next();)
///       if (words.is("--help")) help = true;
///       else if (words.is("--devices")) devices = parse_count(words.word(), words.value(), 64);
///       else if (words.is_option()) throw UsageError(...);
///       else files.push_back(words.word());
class Arguments {
 public:
  Arguments(int count, const char* const* arguments) : words_(arguments + 1, arguments + count) {}

  /// Goes to the next word; false if there is none. UsageError if the last one had a value that
  /// nobody asked for (`--help=1`).
  bool next();
  /// Whether it is this option: `--devices`, or `--devices=...`.
  bool is(std::string_view option) const { return option_ && name_ == option; }
  bool is_option() const { return option_; }
  /// The word itself; of an option without its value.
  const std::string& word() const { return name_; }
  /// The option's value: what follows its `=`, or the next word. UsageError if there is neither.
  std::string value();

 private:
  const std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::string name_, value_;
  bool option_ = false;
  bool attached_ = false;    // value_ has not been asked for yet
  bool only_words_ = false;  // after "--"
};

}  // namespace example
