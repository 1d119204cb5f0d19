// What conformance tests say about the machine they need, and small helpers that many of them use.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/work.h"
#include "tests/support/gate.h"
#include "tests/support/launch.h"

/// Skips the test, with the reason, when the machine has fewer devices.
#define NEEDS_DEVICES(n)                                                             \
  do {                                                                               \
    if (const int there_are = ember::cuda::device_count(); there_are < (n))          \
      GTEST_SKIP() << "needs " << (n) << " devices; this machine has " << there_are; \
  } while (false)

#define NEEDS_PEERS()                                                                             \
  do {                                                                                            \
    NEEDS_DEVICES(2);                                                                             \
    if (!ember::cuda::can_device_access_peer(0, 1) || !ember::cuda::can_device_access_peer(1, 0)) \
      GTEST_SKIP() << "needs devices 0 and 1 to be peers";                                        \
  } while (false)

/// For tests of work that runs at the same time as other work or as the test itself, or that takes
/// its time by the machine's clock: where a seed decides the order, nothing does.
#define NEEDS_CONCURRENCY()                                                       \
  do {                                                                            \
    if (ember::sim::seeded())                                                     \
      GTEST_SKIP() << "needs work that runs at the same time, and a seed decides" \
                      " the order here (EMBER_SIM_SCHEDULE)";                     \
  } while (false)

/// For tests of what the caching allocator does: what is counted and observed of it, and memory
/// that is freed while its device is held, which without caching waits for the device.
#define NEEDS_CACHING()                                                           \
  do {                                                                            \
    if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr)                 \
      GTEST_SKIP() << "needs caching, and PYTORCH_NO_CUDA_MEMORY_CACHING is set"; \
  } while (false)

/// Expects `statement` to throw exactly an `Exception` whose text contains `text`.
#define EXPECT_ERROR(statement, Exception, text)                                          \
  do {                                                                                    \
    try {                                                                                 \
      _Pragma("GCC diagnostic push");                                                     \
      _Pragma("GCC diagnostic ignored \"-Wunused-result\"");                              \
      _Pragma("GCC diagnostic ignored \"-Wunused-value\"");                               \
      statement;                                                                          \
      _Pragma("GCC diagnostic pop");                                                      \
      ADD_FAILURE() << "expected " #Exception " from " #statement;                        \
    } catch (const std::exception& error) {                                               \
      EXPECT_EQ(typeid(error), typeid(Exception)) << error.what();                        \
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what(); \
    }                                                                                     \
  } while (false)

namespace ember::test {

inline driver::Driver& machine() { return cuda::active_driver(); }

/// Raw device memory, zeroed, for tests below the allocator.
template <class T>
class Words {
 public:
  explicit Words(std::size_t count, int device = 0) : device_(device), count_(count) {
    void* memory = nullptr;
    check(machine().malloc(device, count * sizeof(T), memory));
    data_.reset(static_cast<T*>(memory));
    data_.get_deleter().device = device;
    const cuda::Stream stream(device);
    cuda::fill_async(data_.get(), 0, count * sizeof(T), stream);
    stream.synchronize();
  }
  T* get() const { return data_.get(); }
  /// Waits for the device and reads everything.
  std::vector<T> read() const {
    cuda::synchronize(device_);
    std::vector<T> values(count_);
    cuda::copy(values.data(), data_.get(), count_ * sizeof(T), cuda::default_stream(device_));
    return values;
  }

 private:
  struct Free {
    int device = 0;
    void operator()(T* memory) const {
      // Once more, for drivers that are made to fail.
      if (!machine().free(device, memory).ok()) (void)machine().free(device, memory);
    }
  };
  int device_;
  std::size_t count_;
  std::unique_ptr<T, Free> data_;
};

/// Page-locked host memory, zeroed.
template <class T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) : count_(count) {
    void* memory = nullptr;
    check(machine().pinned_malloc(count * sizeof(T), memory));
    data_ = static_cast<T*>(memory);
    for (std::size_t i = 0; i < count; ++i) data_[i] = T{};
  }
  ~Pinned() { (void)machine().pinned_free(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* get() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

}  // namespace ember::test
