// A row of plain values that is nearly always short, such as the operands of a call: the first few
// lie in the object itself, so that only longer rows ask the heap for memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace ember::inline v0 {

/// Up to `kPlaces` values without the heap, more with it. New ones of resize() are undefined.
template <class T, std::size_t kPlaces>
requires(std::is_trivially_copyable_v<T>) class ShortVector {
 public:
  ShortVector() noexcept = default;
  ShortVector(std::initializer_list<T> values) { assign({values.begin(), values.size()}); }
  explicit ShortVector(std::span<const T> values) { assign(values); }
  ShortVector(const ShortVector& other) { assign(other); }
  ShortVector& operator=(const ShortVector& other) {
    if (this != &other) assign(other);
    return *this;
  }
  ~ShortVector() = default;

  void assign(std::span<const T> values) {
    resize(values.size());
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  void push_back(const T& value) {
    const T kept = value;  // it may be one of ours
    resize(size_ + 1);
    data()[size_ - 1] = kept;
  }
  void resize(std::size_t size) {
    if (size > room_) [[unlikely]]
      grow(size);
    size_ = size;
  }
  void clear() noexcept { size_ = 0; }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return reinterpret_cast<T*>(heap_ == nullptr ? here_ : heap_.get()); }
  const T* data() const noexcept { return const_cast<ShortVector*>(this)->data(); }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  operator std::span<const T>() const noexcept { return {data(), size_}; }
  friend bool operator==(const ShortVector& a, const ShortVector& b) noexcept {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  // NOLINTBEGIN(bugprone-sizeof-expression): T may be a pointer
  [[gnu::noinline]] void grow(std::size_t size) {
    const std::size_t room = 2 * size;
    std::unique_ptr<std::byte[]> more(new std::byte[room * sizeof(T)]);
    if (size_ != 0) std::memcpy(more.get(), data(), size_ * sizeof(T));
    heap_ = std::move(more);
    room_ = room;
  }

  std::size_t size_ = 0, room_ = kPlaces;
  std::unique_ptr<std::byte[]> heap_;
  alignas(T) std::byte here_[kPlaces * sizeof(T)];
  // NOLINTEND(bugprone-sizeof-expression)
};

}  // namespace ember::inline v0
