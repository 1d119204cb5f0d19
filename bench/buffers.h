// Memory below the allocator, for programs that measure the driver's copies and fills. Filled with
// something, so that all of it is there.
#pragma once

#include <cstddef>
#include <cstring>

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/work.h"

namespace ember::bench {

class DeviceBytes {
 public:
  DeviceBytes(int device, std::size_t bytes) : device_(device) {
    check(cuda::active_driver().malloc(device, bytes, data_));
    cuda::fill_async(data_, 1, bytes, cuda::default_stream(device));
    cuda::synchronize(device);
  }
  ~DeviceBytes() { (void)cuda::active_driver().free(device_, data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* get() const { return data_; }

 private:
  int device_;
  void* data_ = nullptr;
};

class PinnedBytes {
 public:
  explicit PinnedBytes(std::size_t bytes) {
    check(cuda::active_driver().pinned_malloc(bytes, data_));
    std::memset(data_, 1, bytes);
  }
  ~PinnedBytes() { (void)cuda::active_driver().pinned_free(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace ember::bench
