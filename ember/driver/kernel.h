// One row of work, one column per kind of machine.
//
// A Kernel says what to do on a simulated device (`host`) and on a real one (`cuda`). Its arguments
// travel in a Params block of fixed size, so that a launch allocates nothing, a capture copies
// arguments exactly as CUDA does, and a graph can be replayed any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ember/base/status.h"

struct CUstream_st;  // what a cudaStream_t and a CUstream point to; no CUDA header is needed here

namespace ember::driver {

/// Arguments of one launch: a copy of any trivially copyable struct of at most 256 bytes.
class Params {
 public:
  static constexpr std::size_t kCapacity = 256;

  Params() = default;
  template <class T>
  explicit Params(const T& value) : size_(sizeof(T)) {
    static_assert(std::is_trivially_copyable_v<T>,
                  "kernel arguments are copied byte by byte: make the struct (or the lambda's "
                  "captures) trivially copyable");
    static_assert(sizeof(T) <= kCapacity,
                  "kernel arguments are limited to 256 bytes: put larger data in device memory");
    static_assert(alignof(T) <= alignof(std::max_align_t));
    std::memcpy(bytes_, &value, sizeof(T));
  }
  Params(const Params& other) noexcept : size_(other.size_) {
    std::memcpy(bytes_, other.bytes_, size_);
  }
  Params& operator=(const Params& other) noexcept {
    size_ = other.size_;
    std::memmove(bytes_, other.bytes_, size_);
    return *this;
  }
  ~Params() = default;

  /// The struct that went in. T must be the type that the launch was given.
  template <class T>
  const T& as() const noexcept {
    return *reinterpret_cast<const T*>(bytes_);
  }
  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_ = 0;
  // Only the first size_ bytes are ever read.
  alignas(std::max_align_t) std::byte bytes_[kCapacity];
};

/// Where the host column of a kernel runs: on the CPU itself, or on a simulated device, whose
/// memory lies at addresses that only its own work may touch.
class HostLaunch {
 public:
  /// The place at which this kernel can read or write `count` elements that the caller knows as
  /// `pointer`. On a simulated device it is checked like an access on hardware: memory that is not
  /// allocated, belongs to a device without peer access, or is host memory that is not pinned makes
  /// the kernel fault with Code::illegal_address, and the kernel must return that at once:
  /// `T* p = on.at(args.data, args.n); if (p == nullptr) return on.fault();`
  /// A count of zero gives a pointer that must not be used.
  template <class T>
  T* at(T* pointer, std::size_t count) const noexcept {
    using Plain = std::remove_cv_t<T>;
    // A count that overflows is larger than any allocation, and must not look like a small one.
    const std::size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    return static_cast<T*>(resolve(const_cast<Plain*>(pointer), bytes));
  }
  /// Why the last at() gave null.
  virtual Status fault() const { return Status(); }
  /// The simulated device, or -1 on the CPU.
  int device() const noexcept { return device_; }

 protected:
  explicit HostLaunch(int device) noexcept : device_(device) {}
  ~HostLaunch() = default;

 private:
  virtual void* resolve(void* pointer, std::size_t bytes) const noexcept = 0;
  int device_;
};

/// Where the CUDA column of a kernel puts its work: the device is current, the column enqueues on
/// `stream` (it converts to cudaStream_t) and returns without waiting.
struct CudaLaunch {
  CUstream_st* stream = nullptr;
  int device = 0;
};

using HostColumn = Status (*)(const Params&, const HostLaunch&);
using CudaColumn = Status (*)(const Params&, const CudaLaunch&);

/// One row. A launch copies the row, but not its name, which must live as long as the program (a
/// literal does). A null column means that the kernel does not exist on that kind of machine;
/// launching it there is refused with Code::not_supported.
struct Kernel {
  const char* name;           ///< shown in errors, observers and timelines
  HostColumn host = nullptr;  ///< runs on a worker of the simulated device; must not throw
  CudaColumn cuda = nullptr;  ///< enqueues on a real stream; must not throw
};

}  // namespace ember::driver
