// Snapshots of memory as Python's pickles: a reader that makes plain values of them, and can do
// nothing else. Pickles can name code to be run; those opcodes are errors here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ember/base/status.h"

namespace ember::inline v0::memory {

/// What was in a pickle. Values refer to each other by their numbers: one that a pickle wrote once
/// and named again is one here, and containers may even contain themselves.
struct Pickled {
  enum class Kind : std::uint8_t { none, boolean, integer, number, text, list, tuple, dict };
  using Index = std::uint32_t;
  struct Value {
    Kind kind = Kind::none;
    bool is_unsigned = false;  ///< an integer above 2^63 - 1: `whole` is its bits
    std::int64_t whole = 0;    ///< integers, and booleans as 0 and 1
    double number = 0;
    std::string_view text = {};     ///< UTF-8; lies in the pickle
    std::vector<Index> items = {};  ///< of lists and tuples; of dicts keys and values by turns
  };
  std::vector<Value> values;
  Index root = 0;

  const Value& at(Index index) const { return values[index]; }
};

/// Reads a pickle of protocol 2 to 5 of None, bool, int (64 bits), float, str, list, dict with keys
/// of text, and tuple. `bytes` must outlive `out`. Failed: invalid_value, naming the opcode and its
/// offset; then `out` is as it was. Takes memory and time in proportion to the pickle.
Status read_pickle(std::string_view bytes, Pickled& out);

/// The value as JSON: tuples as lists, numbers that are not finite as null. Failed: invalid_value
/// if values lie more than 64 deep in each other (also where one contains itself), or the text
/// would have more than `most` bytes.
Status write_json(const Pickled& pickled, std::size_t most, std::string& out);

}  // namespace ember::inline v0::memory
