#include "ember/memory/pickle.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "ember/base/json_text.h"

namespace ember::inline v0::memory {
namespace {

using Index = Pickled::Index;
using Kind = Pickled::Kind;
using Value = Pickled::Value;

struct OpcodeName {
  unsigned char code;
  const char* name;
};
/// Those that are not read.
constexpr OpcodeName kRefused[] = {{'2', "DUP"},
                                   {'B', "BINBYTES"},
                                   {'C', "SHORT_BINBYTES"},
                                   {'F', "FLOAT"},
                                   {'I', "INT"},
                                   {'L', "LONG"},
                                   {'P', "PERSID"},
                                   {'Q', "BINPERSID"},
                                   {'R', "REDUCE"},
                                   {'S', "STRING"},
                                   {'T', "BINSTRING"},
                                   {'U', "SHORT_BINSTRING"},
                                   {'V', "UNICODE"},
                                   {'b', "BUILD"},
                                   {'c', "GLOBAL"},
                                   {'d', "DICT"},
                                   {'g', "GET"},
                                   {'i', "INST"},
                                   {'l', "LIST"},
                                   {'o', "OBJ"},
                                   {'p', "PUT"},
                                   {0x81, "NEWOBJ"},
                                   {0x82, "EXT1"},
                                   {0x83, "EXT2"},
                                   {0x84, "EXT4"},
                                   {0x8b, "LONG4"},
                                   {0x8e, "BINBYTES8"},
                                   {0x8f, "EMPTY_SET"},
                                   {0x90, "ADDITEMS"},
                                   {0x91, "FROZENSET"},
                                   {0x92, "NEWOBJ_EX"},
                                   {0x93, "STACK_GLOBAL"},
                                   {0x96, "BYTEARRAY8"},
                                   {0x97, "NEXT_BUFFER"},
                                   {0x98, "READONLY_BUFFER"}};

std::string opcode_name(unsigned char code) {
  for (const OpcodeName& refused : kRefused)
    if (refused.code == code) return refused.name;
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", code);
  return text;
}

/// The machine that a pickle is a program for: a stack of values, and a memo.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Status run() {
    if (bytes_.size() < 2 || bytes_[0] != '\x80')
      return fail("expected a pickle of protocol 2 to 5");
    if (bytes_.size() >= std::numeric_limits<Index>::max())
      return fail("a pickle of 4 GiB or more");
    while (!stopped_) {
      start_ = at_;
      if (at_ == bytes_.size()) return fail("the pickle ends before STOP");
      EMBER_TRY(step(static_cast<unsigned char>(bytes_[at_++])));
    }
    return check_keys();
  }
  Pickled result() && { return std::move(made_); }

 private:
  static constexpr Index kNothing = std::numeric_limits<Index>::max();

  Status fail(const std::string& what) const {
    return {Code::invalid_value,
            "not a snapshot that can be read: " + what + ", at byte " + std::to_string(start_)};
  }
  Status push(Value value) {
    stack_.push_back(static_cast<Index>(made_.values.size()));
    made_.values.push_back(std::move(value));
    return {};
  }
  Status push_whole(std::int64_t whole) { return push({.kind = Kind::integer, .whole = whole}); }
  Status push_bool(bool value) { return push({.kind = Kind::boolean, .whole = value ? 1 : 0}); }

  Status take(std::uint64_t count, std::string_view& out) {
    if (count > bytes_.size() - at_) return fail("the pickle ends within an argument");
    out = bytes_.substr(at_, count);
    at_ += count;
    return {};
  }
  /// An unsigned argument of up to eight bytes, the lowest first.
  Status number(std::size_t width, std::uint64_t& out) {
    std::string_view text;
    EMBER_TRY(take(width, text));
    out = 0;
    for (std::size_t i = width; i-- > 0;) out = out << 8 | static_cast<unsigned char>(text[i]);
    return {};
  }

  /// How many values lie above the last mark, which is taken away.
  Status above_mark(std::size_t& count) {
    if (marks_.empty()) return fail("there is no mark");
    count = stack_.size() - marks_.back();
    marks_.pop_back();
    return {};
  }
  /// What may be taken from the stack: no value below a mark.
  std::size_t height() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Status tuple(std::size_t count) {
    if (count > height()) return fail("there are too few values");
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
    Value value{.kind = Kind::tuple, .items = {from, stack_.end()}};
    stack_.erase(from, stack_.end());
    return push(std::move(value));
  }
  /// The uppermost `count` values go into the container below them.
  Status add(Kind kind, std::size_t count) {
    if (count >= height()) return fail("there are too few values");
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
    Value& container = made_.values[*(from - 1)];
    if (container.kind != kind)
      return fail(kind == Kind::list ? "items for what is no list" : "items for what is no dict");
    if (kind == Kind::dict && count % 2 != 0) return fail("a key without a value");
    container.items.insert(container.items.end(), from, stack_.end());
    stack_.erase(from, stack_.end());
    return {};
  }

  Status text(std::size_t width) {
    std::uint64_t size = 0;
    Value value{.kind = Kind::text};
    EMBER_TRY(number(width, size));
    EMBER_TRY(take(size, value.text));
    if (!is_utf8(value.text)) return fail("text that is not UTF-8");
    return push(std::move(value));
  }
  /// Two's complement, the lowest byte first; one byte more than eight for the largest unsigned.
  Status long_integer() {
    std::uint64_t size = 0;
    std::string_view text;
    EMBER_TRY(number(1, size));
    EMBER_TRY(take(size, text));
    Value value{.kind = Kind::integer};
    if (size == 9 && text[8] == 0)
      value.is_unsigned = (static_cast<unsigned char>(text[7]) & 0x80) != 0;
    else if (size > 8)
      return fail("an integer of more than 64 bits");
    const bool negative = !text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0;
    std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = std::min<std::size_t>(size, 8); i-- > 0;)
      bits = bits << 8 | static_cast<unsigned char>(text[i]);
    value.whole = static_cast<std::int64_t>(bits);
    return push(std::move(value));
  }
  Status real() {
    std::string_view text;
    EMBER_TRY(take(8, text));
    std::uint64_t bits = 0;
    for (const char c : text) bits = bits << 8 | static_cast<unsigned char>(c);
    return push({.kind = Kind::number, .number = std::bit_cast<double>(bits)});
  }

  Status memoize(std::uint64_t at) {
    if (height() == 0) return fail("there is nothing to memoize");
    if (at >= bytes_.size()) return fail("a memo that is larger than the pickle");
    if (at >= memo_.size()) memo_.resize(at + 1, kNothing);
    if (memo_[at] == kNothing) ++memoized_;
    memo_[at] = stack_.back();
    return {};
  }
  Status recall(std::size_t width) {
    std::uint64_t at = 0;
    EMBER_TRY(number(width, at));
    if (at >= memo_.size() || memo_[at] == kNothing)
      return fail("the memo has nothing under " + std::to_string(at));
    stack_.push_back(memo_[at]);
    return {};
  }
  Status put(std::size_t width) {
    std::uint64_t at = 0;
    EMBER_TRY(number(width, at));
    return memoize(at);
  }
  Status small_integer(std::size_t width) {
    std::uint64_t bits = 0;
    EMBER_TRY(number(width, bits));
    return push_whole(width == 4 ? static_cast<std::int32_t>(bits)
                                 : static_cast<std::int64_t>(bits));
  }
  Status protocol() {
    std::uint64_t version = 0;
    EMBER_TRY(number(1, version));
    if (version >= 2 && version <= 5) return {};
    return fail("protocol " + std::to_string(version) + ", expected 2 to 5");
  }
  Status frame() {
    std::uint64_t bytes = 0;
    EMBER_TRY(number(8, bytes));
    return bytes <= bytes_.size() - at_ ? Status() : fail("a frame that is larger than the pickle");
  }
  Status pop() {
    if (height() > 0)
      stack_.pop_back();
    else if (!marks_.empty())
      marks_.pop_back();
    else
      return fail("there is nothing to pop");
    return {};
  }
  Status stop() {
    if (stack_.size() != 1 || !marks_.empty()) return fail("STOP without exactly one value");
    made_.root = stack_.back();
    stopped_ = true;
    return {};
  }

  Status step(unsigned char opcode) {
    std::size_t count = 0;
    switch (opcode) {
      case 0x80: return protocol();
      case 0x95: return frame();
      case '.': return stop();
      case '(': marks_.push_back(stack_.size()); return {};
      case '0': return pop();
      case '1':
        EMBER_TRY(above_mark(count));
        stack_.resize(stack_.size() - count);
        return {};
      case 'N': return push({});
      case 0x88: return push_bool(true);
      case 0x89: return push_bool(false);
      case 'K': return small_integer(1);
      case 'M': return small_integer(2);
      case 'J': return small_integer(4);
      case 0x8a: return long_integer();
      case 'G': return real();
      case 0x8c: return text(1);
      case 'X': return text(4);
      case 0x8d: return text(8);
      case ']': return push({.kind = Kind::list});
      case '}': return push({.kind = Kind::dict});
      case ')': return push({.kind = Kind::tuple});
      case 0x85: return tuple(1);
      case 0x86: return tuple(2);
      case 0x87: return tuple(3);
      case 't': EMBER_TRY(above_mark(count)); return tuple(count);
      case 'a': return add(Kind::list, 1);
      case 's': return add(Kind::dict, 2);
      case 'e': EMBER_TRY(above_mark(count)); return add(Kind::list, count);
      case 'u': EMBER_TRY(above_mark(count)); return add(Kind::dict, count);
      case 'q': return put(1);
      case 'r': return put(4);
      case 0x94: return memoize(memoized_);
      case 'h': return recall(1);
      case 'j': return recall(4);
      default: return fail("opcode " + opcode_name(opcode) + ", which is not read");
    }
  }

  // Python keeps the last of equal keys. No writer makes them, so they need no meaning here.
  Status check_keys() {
    std::vector<std::string_view> keys;
    for (const Value& value : made_.values) {
      if (value.kind != Kind::dict) continue;
      keys.clear();
      for (std::size_t i = 0; i < value.items.size(); i += 2) {
        const Value& key = made_.at(value.items[i]);
        if (key.kind != Kind::text) return fail("a dict has a key that is no text");
        keys.push_back(key.text);
      }
      std::sort(keys.begin(), keys.end());
      if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
        return fail("a dict has the key '" + std::string(*twice) + "' twice");
    }
    return {};
  }

  std::string_view bytes_;
  std::size_t at_ = 0, start_ = 0;
  bool stopped_ = false;
  Pickled made_;
  std::vector<Index> stack_, memo_;
  std::vector<std::size_t> marks_;
  std::size_t memoized_ = 0;  // MEMOIZE counts what is in the memo
};

Status fail_too_deep() {
  return {Code::invalid_value, "not a snapshot: values lie more than 64 deep in each other"};
}
Status fail_too_long(std::size_t most) {
  return {Code::invalid_value,
          "the snapshot as JSON would have more than " + std::to_string(most) + " bytes"};
}

/// At least how many bytes values have as JSON. Sixty lists of which each holds the one before
/// twice are a hundred bytes of a pickle: that is seen here, before the text is written.
class Lengths {
 public:
  Lengths(const Pickled& pickled, std::size_t most)
      : pickled_(pickled), most_(most), known_(pickled.values.size(), 0) {}

  Status find(Index index, int depth, std::size_t& out) {
    out = known_[index];
    if (out != 0) return {};
    if (depth > 64) return fail_too_deep();
    const Value& value = pickled_.at(index);
    std::size_t length = 1 + value.text.size();
    for (const Index item : value.items) {
      std::size_t of_item = 0;
      EMBER_TRY(find(item, depth + 1, of_item));
      length += of_item;
      if (length > most_) return fail_too_long(most_);
    }
    out = known_[index] = length;
    return {};
  }

 private:
  const Pickled& pickled_;
  const std::size_t most_;
  std::vector<std::size_t> known_;  // 0: not yet
};

class Json {
 public:
  Json(const Pickled& pickled, std::size_t most) : pickled_(pickled), most_(most) {}

  Status write(Index index, int depth) {
    const Value& value = pickled_.at(index);
    if (depth > 64) return fail_too_deep();
    if (text_.size() > most_) return fail_too_long(most_);
    switch (value.kind) {
      case Kind::none: text_ += "null"; break;
      case Kind::boolean: text_ += value.whole != 0 ? "true" : "false"; break;
      case Kind::integer:
        text_ += value.is_unsigned ? std::to_string(static_cast<std::uint64_t>(value.whole))
                                   : std::to_string(value.whole);
        break;
      case Kind::number: number(value.number); break;
      case Kind::text: append_json_text(text_, value.text); break;
      case Kind::list:
      case Kind::tuple: return items(value, '[', ']', depth);
      case Kind::dict: return items(value, '{', '}', depth);
    }
    return {};
  }
  std::string text() && { return std::move(text_); }

 private:
  void number(double number) {
    if (!std::isfinite(number)) {
      text_ += "null";
      return;
    }
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, number).ptr;
    text_.append(text, end);
  }
  Status items(const Value& value, char open, char close, int depth) {
    text_ += open;
    const bool dict = value.kind == Kind::dict;
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      if (i > 0) text_ += dict && i % 2 != 0 ? ": " : ", ";
      EMBER_TRY(write(value.items[i], depth + 1));
    }
    text_ += close;
    return {};
  }

  const Pickled& pickled_;
  const std::size_t most_;
  std::string text_;
};

}  // namespace

Status read_pickle(std::string_view bytes, Pickled& out) {
  Machine machine(bytes);
  EMBER_TRY(machine.run());
  out = std::move(machine).result();
  return {};
}

Status write_json(const Pickled& pickled, std::size_t most, std::string& out) {
  std::size_t least = 0;
  EMBER_TRY(Lengths(pickled, most).find(pickled.root, 0, least));
  Json json(pickled, most);
  EMBER_TRY(json.write(pickled.root, 0));
  out = std::move(json).text();
  return {};
}

}  // namespace ember::inline v0::memory
