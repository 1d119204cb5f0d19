// A vector in device memory, for those who count in elements rather than bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "ember/runtime/work.h"

namespace ember::inline v0::cuda {

/// Elements of a trivially copyable type in memory of a device, for work on a stream; they are not
/// initialised. Addresses are the device's: the host must not follow them. Movable, not copyable
/// (clone()). Empty without a device until it gets a size. What needs memory throws as allocate()
/// does; what needs the elements, as DeviceBuffer::data() does after a reset of the device. Members
/// may be called from any thread, but not beside one that changes the vector itself.
template <class T>
class [[nodiscard]] DeviceVector {
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied byte by byte");
  static_assert(!std::is_const_v<T>, "elements have to be written");

 public:
  using value_type = T;
  using size_type = std::size_t;
  using iterator = T*;
  using const_iterator = const T*;

  DeviceVector() noexcept = default;
  /// So many elements, contents undefined.
  [[nodiscard]] explicit DeviceVector(std::size_t size, const Stream& stream = current_stream())
      : buffer_(allocate(bytes_of(size), stream)), size_(size) {}
  /// A copy of elements of the host. Blocks until they are read, unless they are pinned.
  [[nodiscard]] explicit DeviceVector(std::span<const T> elements,
                                      const Stream& stream = current_stream())
      : DeviceVector(elements.size(), stream) {
    copy_from(elements);
  }
  /// The same for elements in braces: `DeviceVector<float>{1, 2.5F}`, so that
  /// `DeviceVector<int>{5}` has one element, as a std::vector has.
  [[nodiscard]] DeviceVector(std::initializer_list<T> elements,
                             const Stream& stream = current_stream())
      : DeviceVector(std::span<const T>(elements.begin(), elements.size()), stream) {}
  DeviceVector(DeviceVector&& other) noexcept
      : buffer_(std::move(other.buffer_)), size_(std::exchange(other.size_, 0)) {}
  DeviceVector& operator=(DeviceVector&& other) noexcept {
    buffer_ = std::move(other.buffer_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~DeviceVector() = default;

  T* data() const { return buffer_.template as<T>(); }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  const T* cbegin() const { return begin(); }
  const T* cend() const { return end(); }
  std::size_t size() const noexcept { return size_; }
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }
  /// For how many elements there is memory.
  std::size_t capacity() const noexcept { return buffer_.size() / sizeof(T); }
  /// `cuda` without an index, and nothing, as long as no size was given.
  Device device() const noexcept { return buffer_.device(); }
  const std::optional<Stream>& stream() const noexcept { return buffer_.stream(); }
  const DeviceBuffer& buffer() const noexcept { return buffer_; }

  /// Another size; the first elements stay, new ones are undefined. Where there is no memory for so
  /// many, they move: enqueued on the vector's stream, or on the current one if it has none yet.
  /// Does not block.
  void resize(std::size_t size) {
    if (size > capacity()) move_to(size);
    size_ = size;
  }
  /// Memory for at least so many elements, which moves them as resize() does.
  void reserve(std::size_t elements) {
    if (elements > capacity()) move_to(elements);
  }
  /// Memory for no more than there are.
  void shrink_to_fit() {
    if (size_ != capacity()) move_to(size_);
  }
  /// A copy, for work on `stream`, which is noted with the elements.
  DeviceVector clone(const Stream& stream = current_stream()) const {
    const T* const from = data();
    DeviceVector made(size_, stream);
    if (empty()) return made;
    record_stream(from, stream);
    copy_async(made.data(), from, size_bytes(), stream);
    return made;
  }

  /// All elements from the host's. ValueError unless there are as many. Enqueued on the vector's
  /// stream; blocks until they are read, unless they are pinned.
  void copy_from(std::span<const T> elements) {
    require_size("copy_from", elements.size());
    if (!empty()) copy_async(data(), elements.data(), size_bytes(), *stream());
  }
  /// All elements to the host's. ValueError unless there are as many. Blocks until the vector's
  /// stream has done what it holds.
  void copy_to(std::span<T> elements) const {
    require_size("copy_to", elements.size());
    if (!empty()) copy(elements.data(), data(), size_bytes(), *stream());
  }
  std::vector<T> to_host() const requires(!std::is_same_v<T, bool>) {
    std::vector<T> elements(size_);
    copy_to(elements);
    return elements;
  }

  /// One element. IndexError beyond the end. They block as copy_to() and copy_from() do.
  T element(std::size_t index) const {
    require_index(index);
    T value;
    copy(&value, data() + index, sizeof(T), *stream());
    return value;
  }
  void set_element(std::size_t index, const T& value) {
    require_index(index);
    copy_async(data() + index, &value, sizeof(T), *stream());
  }

  /// The memory, without the vector.
  DeviceBuffer release() noexcept {
    size_ = 0;
    return std::move(buffer_);
  }

 private:
  // A product beyond 64 bits is beyond every device, which allocate() says.
  static std::size_t bytes_of(std::size_t size) noexcept {
    return size > SIZE_MAX / sizeof(T) ? SIZE_MAX : size * sizeof(T);
  }
  /// The elements, of which there is room for all, in new memory for `capacity` of them.
  void move_to(std::size_t capacity) {
    const Stream& on = stream() ? *stream() : current_stream();
    DeviceBuffer next = allocate(bytes_of(capacity), on);
    if (size_ != 0) copy_async(next.data(), data(), size_bytes(), on);
    buffer_ = std::move(next);
  }
  void require_size(const char* what, std::size_t size) const {
    if (size != size_)
      throw ValueError(std::string(what) + ": got " + std::to_string(size) +
                       " elements, expected as many as the vector has: " + std::to_string(size_));
  }
  void require_index(std::size_t index) const {
    if (index >= size_)
      throw IndexError("index " + std::to_string(index) + " is out of bounds for a vector of " +
                       std::to_string(size_) + " elements");
  }

  DeviceBuffer buffer_;
  std::size_t size_ = 0;
};

}  // namespace ember::inline v0::cuda
