// Ranges of addresses that do not overlap, each with a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace ember::inline v0::cuda::detail {

template <class Value>
class Ranges {
 public:
  bool empty() const noexcept { return ranges_.empty(); }
  std::size_t size() const noexcept { return ranges_.size(); }
  /// The value of a range of which some byte is in this one, or null.
  const Value* find(const void* address, std::size_t bytes) const noexcept {
    const std::uintptr_t first = number(address);
    auto at = ranges_.lower_bound(first + bytes);
    if (bytes == 0 || at == ranges_.begin()) return nullptr;
    --at;
    return at->second.last > first ? &at->second.value : nullptr;
  }
  /// From now on the range has this value, whatever its bytes had before.
  void set(const void* address, std::size_t bytes, const Value& value) {
    if (bytes == 0) return;
    clear(address, bytes);
    ranges_.insert_or_assign(number(address), Range{number(address) + bytes, value});
  }
  /// The bytes belong to no range any longer.
  void clear(const void* address, std::size_t bytes) {
    const std::uintptr_t first = number(address), last = first + bytes;
    auto at = ranges_.lower_bound(first);
    if (at != ranges_.begin() && std::prev(at)->second.last > first) --at;
    while (at != ranges_.end() && at->first < last) {
      const auto [begin, range] = *at;
      at = ranges_.erase(at);
      if (begin < first) ranges_.insert_or_assign(begin, Range{first, range.value});
      if (range.last > last) at = ranges_.insert_or_assign(last, range).first;
      if (range.last > last) break;
    }
  }
  void clear() noexcept { ranges_.clear(); }

 private:
  struct Range {
    std::uintptr_t last = 0;  // exclusive
    Value value{};
  };
  static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  std::map<std::uintptr_t, Range> ranges_;  // by their first byte
};

}  // namespace ember::inline v0::cuda::detail
