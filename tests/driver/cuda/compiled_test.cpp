// Kernels from a text on real devices without one: NVRTC compiles, the fake libcuda launches. What
// the kernel computes is left to tests on GPUs; here is what it is started with.
#include "ember/driver/compiled.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "ember/base/error.h"
#include "ember/jit/jiterator.h"
#include "ember/jit/source.h"
#include "ember/runtime/batch.h"
#include "ember/runtime/runtime.h"
#include "fake_libcuda.h"
#include "tests/ops/support.h"
#include "tests/support/child.h"

namespace ember::test {
namespace {

struct Launch {
  const void* code;
  unsigned blocks, threads;
  void* stream;
  std::array<std::byte, driver::Params::kCapacity> arguments;

  template <class T>
  T at(std::size_t place) const {
    T value;
    std::memcpy(&value, arguments.data() + place, sizeof value);
    return value;
  }
};

std::vector<Launch> launches;
std::size_t argument_bytes = 0;

void note(const void* code, unsigned blocks, unsigned threads, void* stream,
          const void* arguments) {
  launches.push_back({code, blocks, threads, stream, {}});
  std::memcpy(launches.back().arguments.data(), arguments, argument_bytes);
}

FakeCuda& fake_cuda() {
  auto* found =
      static_cast<FakeCuda*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), kFakeCuda));
  if (found == nullptr) throw Error("libcuda.so.1 is not the fake one");
  found->largest_allocation = std::size_t{1} << 30;
  return *found;
}

class CompiledOnFakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    std::string identity;
    if (const Status status = driver::cuda_compiler(identity); !status.ok())
      GTEST_SKIP() << "needs NVRTC: " << status.detail();
    fake_ = &fake_cuda();
    fake_->libraries = 0;
    fake_->kernel = driver::kCompiledEntry;
    fake_->run = &note;
    launches.clear();
    setenv("USE_PYTORCH_KERNEL_CACHE", "0", 1);
  }
  FakeCuda* fake_ = nullptr;
};

TEST_F(CompiledOnFakeCuda, LaunchesWhatNvrtcMade) {
  const auto f = cuda::jiterator::create_jit_fn(
      "template <typename T> T f(T x, T y, T a, bool b) { return b ? x + a * y : x; }",
      {{"a", 2.5}, {"b", true}});
  jit::Instance instance;
  instance.inputs = {Dtype::float32, Dtype::float32};
  instance.numbers = {Dtype::float64, Dtype::bool_};
  const jit::ArgumentPlaces places(instance);
  argument_bytes = places.end;

  const Tensor x = zeros({1000, 3}).to("cuda:0");
  const cuda::Stream stream(0);
  const cuda::StreamGuard guard(stream);
  const Tensor z = f({x, x})[0];
  (void)f({x, x});
  ASSERT_EQ(launches.size(), 2U);
  EXPECT_EQ(fake_->libraries, 1);
  const Launch& launch = launches[0];
  // The fake's capability is a number that no NVRTC knows, so that it is PTX.
  EXPECT_NE(std::strstr(static_cast<const char*>(launch.code), ".entry ember_jit_run"), nullptr);
  EXPECT_EQ(launch.stream, stream.native());
  EXPECT_EQ(launch.threads, driver::kCompiledThreads);
  const auto header = launch.at<driver::CompiledHeader>(0);
  EXPECT_EQ(header.count, 3000);
  EXPECT_EQ(header.per_block, driver::kCompiledThreads * jit::pack_of(instance));
  EXPECT_EQ(launch.blocks, (3000 + header.per_block - 1) / header.per_block);
  EXPECT_EQ(header.dims, 0);
  EXPECT_EQ(header.packed, 1);
  EXPECT_EQ(launch.at<void*>(places.data), z.data_ptr());
  EXPECT_EQ(launch.at<void*>(places.data + sizeof(void*)), x.data_ptr());
  EXPECT_EQ(launch.at<double>(places.numbers), 2.5);
  EXPECT_TRUE(launch.at<bool>(places.numbers + jit::ArgumentPlaces::kNumberBytes));
}

/// A thread of a large tensor has several packs, up to four, and the blocks are as many fewer.
TEST_F(CompiledOnFakeCuda, ThreadsOfLargeTensorsHaveSeveralPacks) {
  const auto f = cuda::jiterator::create_jit_fn("template <typename T> T f(T x) { return x; }");
  jit::Instance instance;
  instance.dtype = Dtype::uint8;
  instance.inputs = {Dtype::uint8};
  argument_bytes = jit::ArgumentPlaces(instance).end;
  constexpr std::int64_t kPack = 8;  // the most, and 16 bytes at most
  ASSERT_EQ(jit::pack_of(instance), static_cast<std::size_t>(kPack));
  constexpr std::int64_t kBlock = driver::kCompiledThreads * kPack;
  const Tensor all = empty({8192 * 5 * kBlock + 5}, {Dtype::uint8, "cuda:0"});
  struct Case {
    std::int64_t count, packs;
  };
  for (const Case each : {Case{5, 1}, Case{kBlock * 8192 * 2 - 1, 1}, Case{kBlock * 8192 * 2, 2},
                          Case{kBlock * 8192 * 4 - 1, 3}, Case{kBlock * 8192 * 4, 4},
                          Case{kBlock * 8192 * 5 + 5, 4}}) {
    launches.clear();
    (void)f({all.narrow(0, 0, each.count)});
    ASSERT_EQ(launches.size(), 1U);
    const auto header = launches[0].at<driver::CompiledHeader>(0);
    EXPECT_EQ(header.count, each.count);
    EXPECT_EQ(header.per_block, kBlock * each.packs) << each.count;
    EXPECT_EQ(launches[0].blocks, (each.count + header.per_block - 1) / header.per_block);
  }
}

TEST_F(CompiledOnFakeCuda, InABatchTheyAreGraphs) {
  const auto f =
      cuda::jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x + 3 * y; }");
  jit::Instance instance;
  instance.inputs = {Dtype::float32, Dtype::float32};
  argument_bytes = fake_->argument_bytes = jit::ArgumentPlaces(instance).end;
  fake_->graphs_made = fake_->graphs_updated = fake_->graphs_launched = 0;
  const Tensor x = zeros({1000}).to("cuda:0");
  for (int turn = 0; turn < 4; ++turn) {
    const cuda::Batch batch;
    for (int i = 0; i < 8; ++i) (void)f({x, x});
  }
  ASSERT_EQ(launches.size(), 32U);
  for (const Launch& launch : launches) {
    EXPECT_EQ(launch.stream, nullptr);
    EXPECT_EQ(launch.at<driver::CompiledHeader>(0).count, 1000);
  }
  EXPECT_EQ(fake_->graphs_made, 1);
  EXPECT_EQ(fake_->graphs_launched, 3);
  EXPECT_EQ(fake_->graphs_updated, 0) << "the results take turns in the same memory";
}

TEST_F(CompiledOnFakeCuda, SizesAndStridesOfOtherLayouts) {
  const auto f =
      cuda::jiterator::create_jit_fn("template <typename T> T f(T x, T y) { return x - y; }");
  jit::Instance instance;
  instance.layout = jit::Layout::narrow;
  instance.inputs = {Dtype::float32, Dtype::float32};
  const jit::ArgumentPlaces places(instance);
  argument_bytes = places.end;
  const Tensor x = zeros({4, 5}).to("cuda:1");
  (void)f({x, x.t().view({5, 4}).as_strided({4, 5}, {1, 4})});
  ASSERT_EQ(launches.size(), 1U);
  const Launch& launch = launches[0];
  EXPECT_EQ(launch.at<driver::CompiledHeader>(0).dims, 2);
  EXPECT_EQ(launch.blocks, 1U);
  EXPECT_EQ(launch.at<std::int32_t>(places.sizes), 5);
  EXPECT_EQ(launch.at<std::int32_t>(places.sizes + 4), 4);
  const auto stride = [&](std::size_t operand, std::size_t d) {
    return launch.at<std::int32_t>(places.strides + (operand * ops::kLoopDims + d) * 4);
  };
  EXPECT_EQ(stride(0, 0), 1);
  EXPECT_EQ(stride(0, 1), 5);
  EXPECT_EQ(stride(2, 0), 4);
  EXPECT_EQ(stride(2, 1), 1);
}

TEST_F(CompiledOnFakeCuda, CodeStaysOverResets) {
  const auto f = cuda::jiterator::create_jit_fn("template <typename T> T f(T x) { return x + 3; }");
  jit::Instance instance;
  instance.inputs = {Dtype::float32};
  argument_bytes = jit::ArgumentPlaces(instance).end;
  for (const char* device : {"cuda:0", "cuda:1", "cuda:0"}) {
    const Tensor x = zeros({4}).to(device);
    (void)f({x});
    cuda::reset_device(x.device().index());
  }
  EXPECT_EQ(launches.size(), 3U);
  EXPECT_EQ(fake_->libraries, 1);
}

bool is_open(const char* library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

TEST_F(CompiledOnFakeCuda, WhatIsOnDiskNeedsNoCompiler) {
  setenv("USE_PYTORCH_KERNEL_CACHE", "1", 1);
  const std::string folder = std::getenv("EMBER_KERNEL_CACHE_PATH");
  if (!in_child()) std::filesystem::remove_all(folder);
  jit::Instance instance;
  instance.inputs = {Dtype::float32};
  argument_bytes = jit::ArgumentPlaces(instance).end;
  for (const bool first : {true, false})
    IN_CHILD({
      const Tensor x = zeros({4}).to("cuda:0");
      (void)cuda::jiterator::create_jit_fn("template <typename T> T f(T x) { return x + 4; }")({x});
      EXPECT_EQ(launches.size(), 1U);
      EXPECT_EQ(is_open("libnvrtc"), first);
    });
  std::filesystem::remove_all(folder);
}

TEST_F(CompiledOnFakeCuda, LinesOfNvrtcAreTheUsers) {
  const auto f =
      cuda::jiterator::create_jit_fn("template <typename T> T f(T x) {\n  return nowhere(x);\n}");
  EXPECT_ERROR(f({zeros({4}).to("cuda:0")}), Error,
               "code_string(2): error: identifier \"nowhere\"");
  EXPECT_TRUE(launches.empty());
}

TEST(CompiledWithoutLibrary, NamesIt) {
  (void)fake_cuda();
  const auto f = cuda::jiterator::create_jit_fn("template <typename T> T f(T x) { return x; }");
  EXPECT_ERROR(f({zeros({4}).to("cuda:0")}), Error,
               "kernels from a text need NVRTC (libnvrtc.so.13 or .12), which could not be opened");
}

}  // namespace
}  // namespace ember::test
