// The CUDA driver on the fake libcuda.so.1: the fixture of the tests of its host code.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>

#include "ember/base/env.h"
#include "ember/driver/open.h"
#include "fake_libcuda.h"

namespace ember::driver {

inline constexpr StreamHandle kDefault{};  // the default stream

class OnFakeCuda : public testing::Test {
 protected:
  /// Every test has a driver of its own, on devices that nobody has used.
  void SetUp() override {
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    fake_ = static_cast<FakeCuda*>(dlsym(library_, kFakeCuda));
    ASSERT_NE(fake_, nullptr) << "this is not the fake libcuda.so.1";
    fake() = FakeCuda();
    for (int device = 0; device < FakeCuda::kDevices; ++device)
      foreign<int(int)>("cuDevicePrimaryCtxReset_v2")(device);
    Choice choice;
    ASSERT_TRUE(parse_choice(env::get("EMBER_DEVICES"), choice).ok());
    std::unique_ptr<Driver> made;
    const Status status = open(choice, made);
    ASSERT_TRUE(status.ok()) << status.text();
    driver_ = made.release();  // like the real one, it lives until the process ends
  }

  static Driver& cuda() { return *driver_; }
  static FakeCuda& fake() { return *fake_; }

  /// A function of the fake, called as another library in the process would.
  template <class Function>
  static Function* foreign(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  static void* current_context() {
    void* current = nullptr;
    foreign<int(void**)>("cuCtxGetCurrent")(&current);
    return current;
  }
  static void* context_of(int device) {
    void* context = nullptr;
    foreign<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    return context;
  }

  static StreamHandle stream_on(int device) {
    StreamHandle stream;
    EXPECT_TRUE(cuda().stream_create(device, 0, stream).ok());
    return stream;
  }
  static EventHandle event_on(int device, EventOptions options = {}) {
    EventHandle event;
    EXPECT_TRUE(cuda().event_create(device, options, event).ok());
    return event;
  }
  static void* memory_on(int device, std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_TRUE(cuda().malloc(device, bytes, pointer).ok());
    return pointer;
  }

  inline static Driver* driver_ = nullptr;
  inline static FakeCuda* fake_ = nullptr;
  inline static void* library_ = nullptr;
};

inline void expect(const Status& status, Code code, const std::string& detail) {
  EXPECT_EQ(status.code(), code) << status.text();
  EXPECT_EQ(status.detail(), detail);
}

}  // namespace ember::driver
