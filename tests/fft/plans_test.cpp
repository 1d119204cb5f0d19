// The plan cache: by itself, and what programs see of it on each device.
#include "ember/fft/plans.h"

#include <atomic>
#include <thread>

#include "ember/base/error.h"
#include "tests/fft/support.h"

namespace ember::test {
namespace {

using fft::Plan;
using fft::PlanCache;
using fft::PlanLease;

driver::FftGeometry geometry(std::int64_t size) {
  driver::FftGeometry made;
  made.dims = 1;
  made.sizes[0] = size;
  made.in_strides[0] = made.out_strides[0] = 1;
  return made;
}
Ref<Plan> plan(std::int64_t size, std::size_t bytes = 100, std::uint32_t epoch = 0) {
  Ref<Plan> made = make_ref<Plan>(geometry(size), epoch);
  made->state.table_bytes = bytes;
  return made;
}
std::vector<std::int64_t> sizes_of(const PlanCache::Plans& plans) {
  std::vector<std::int64_t> sizes;
  for (const Ref<Plan>& gone : plans) sizes.push_back(gone->geometry.sizes[0]);
  return sizes;
}

TEST(PlanCache, DropsWhatWasLeastRecentlyUsed) {
  PlanCache cache;
  PlanCache::Plans gone;
  EXPECT_EQ(cache.max_size(), 4096);
  cache.set_max_size(3, gone);
  for (const std::int64_t size : {1, 2, 3}) (void)cache.keep(plan(size), gone);
  EXPECT_TRUE(gone.empty());
  EXPECT_TRUE(cache.find(geometry(1), 0));
  (void)cache.keep(plan(4), gone);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{2}));
  EXPECT_FALSE(cache.find(geometry(2), 0));
  gone.clear();
  cache.set_max_size(1, gone);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(cache.size(), 1);
  EXPECT_EQ(cache.bytes(), 100U);
  gone.clear();
  cache.clear(gone);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(cache.size(), 0);
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(PlanCache, KeepsNothingOfSizeZero) {
  PlanCache cache;
  PlanCache::Plans gone;
  cache.set_max_size(0, gone);
  const PlanLease lease = cache.keep(plan(5), gone);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->geometry.sizes[0], 5);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(gone[0]->users.load(), 1);
  EXPECT_EQ(cache.size(), 0);
}

TEST(PlanCache, IsBoundedByBytes) {
  PlanCache cache;
  PlanCache::Plans gone;
  cache.set_max_bytes(250, gone);
  for (const std::int64_t size : {1, 2, 3}) (void)cache.keep(plan(size), gone);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(cache.bytes(), 200U);
  gone.clear();
  (void)cache.keep(plan(4, 1000), gone);  // larger than all there may be
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{2, 3, 4}));
  gone.clear();
  cache.set_max_bytes(0, gone);
  (void)cache.keep(plan(4, 1000), gone);
  EXPECT_TRUE(gone.empty());
}

TEST(PlanCache, KeepsOneOfTwoThatWereMadeAtOnce) {
  PlanCache cache;
  PlanCache::Plans gone;
  const PlanLease first = cache.keep(plan(1), gone);
  const PlanLease second = cache.keep(plan(1), gone);
  EXPECT_EQ(first.plan(), second.plan());
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_FALSE(gone[0] == first.plan());
  EXPECT_EQ(gone[0]->users.load(), 0);
  EXPECT_EQ(first->users.load(), 2);
}

TEST(PlanCache, KnowsEpochs) {
  PlanCache cache;
  PlanCache::Plans gone;
  (void)cache.keep(plan(1, 100, 0), gone);
  EXPECT_FALSE(cache.find(geometry(1), 1));
  (void)cache.keep(plan(1, 100, 1), gone);
  EXPECT_EQ(gone.size(), 1U);
  EXPECT_TRUE(cache.find(geometry(1), 1));
  (void)cache.keep(plan(2, 100, 2), gone);
  gone.clear();
  cache.renew(2, gone);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(cache.size(), 1);
}

TEST(PlanCache, ShedsHalf) {
  PlanCache cache;
  PlanCache::Plans gone;
  cache.shed(gone);
  for (const std::int64_t size : {1, 2, 3}) (void)cache.keep(plan(size), gone);
  cache.shed(gone);
  EXPECT_EQ(sizes_of(gone), (std::vector<std::int64_t>{1, 2}));
}

/// What a plan does for which there is no memory.
TEST(PlanCache, MakesRoomWherePlansFindNone) {
  const Status none(Code::out_of_memory, "none");
  for (const int enough_after : {0, 1, 2}) {
    std::string steps;
    const int made = fft::with_room(
        "",
        [&] {
          steps += "m";
          if (static_cast<int>(std::count(steps.begin(), steps.end(), 'm')) <= enough_after)
            throw AcceleratorError(none);
          return 7;
        },
        [&] { steps += "a"; }, [&] { steps += "b"; });
    EXPECT_EQ(made, 7);
    EXPECT_EQ(steps,
              std::string("mambm").substr(0, 1 + 2 * static_cast<std::size_t>(enough_after)));
  }
  const auto never = [&]() -> int { throw AcceleratorError(none); };
  EXPECT_ERROR(fft::with_room("What for.", never, [] {}), OutOfMemoryError,
               "CUDA out of memory. What for.");
  const auto broken = []() -> int { throw AcceleratorError(Status(Code::invalid_value)); };
  EXPECT_ERROR(fft::with_room("", broken, [] { FAIL(); }), AcceleratorError, "invalid");
}

// ---- Of devices

class DevicePlans : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_HOST_FFT();
    NEEDS_DEVICES(1);
    cache_.emplace(0);
    cache_->clear();
  }
  void TearDown() override {
    if (!cache_) return;
    cache_->set_max_size(PlanCache::kDefaultMaxSize);
    cache_->set_max_bytes(0);
    cache_->clear();
  }
  std::optional<cuda::FftPlanCache> cache_;
};

TEST_F(DevicePlans, AreKeptByKindTypeSizeAndStrides) {
  EXPECT_EQ(cache_->max_size(), 4096);
  const Tensor x = signal(Dtype::complex64, {4, 6}).to(kDevice);
  (void)fft::fft(x);
  EXPECT_EQ(cache_->size(), 1);
  (void)fft::fft(x + 1);
  (void)fft::fft(x.clone(), {}, -1, "ortho");
  EXPECT_EQ(cache_->size(), 1);
  (void)fft::ifft(x);
  EXPECT_EQ(cache_->size(), 1);
  (void)fft::fft(x.to(Dtype::complex128));
  (void)fft::fft(x, {}, 0);
  (void)fft::fft(x.narrow(0, 0, 3));
  (void)fft::rfft(x.real().contiguous());
  (void)fft::irfft(x);
  EXPECT_EQ(cache_->size(), 6);
  EXPECT_GT(cache_->bytes(), 0);
  cache_->clear();
  EXPECT_EQ(cache_->size(), 0);
}

TEST_F(DevicePlans, AreBounded) {
  const Tensor x = signal(Dtype::complex64, {64}).to(kDevice);
  cache_->set_max_size(2);
  for (const std::int64_t n : {10, 11, 12, 13}) (void)fft::fft(x, n);
  EXPECT_EQ(cache_->size(), 2);
  cache_->set_max_size(1);
  EXPECT_EQ(cache_->size(), 1);
  cache_->set_max_size(0);
  EXPECT_EQ(cache_->size(), 0);
  for (int i = 0; i < 40; ++i) EXPECT_LE(error_of(fft::fft(x), wide(fft::fft(x.cpu()))), 16) << i;
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_ERROR(cache_->set_max_size(-1), Error,
               "cuFFT plan cache size must be non-negative, but got -1");
  EXPECT_EQ(cache_->max_size(), 0);
  cache_->set_max_size(INT64_MAX);
  (void)fft::fft(x);
  EXPECT_EQ(cache_->size(), 1);
  EXPECT_ERROR(cache_->set_max_bytes(-5), Error, "must be non-negative, but got -5");
}

TEST_F(DevicePlans, BelongToOneDevice) {
  EXPECT_ERROR(cuda::FftPlanCache(-1), Error,
               "cufft_plan_cache: expected 0 <= device index < " +
                   std::to_string(cuda::device_count()) + ", but got device with index -1");
  EXPECT_ERROR((void)cuda::FftPlanCache(cuda::device_count()), Error, "expected 0 <= device index");
  NEEDS_DEVICES(2);
  const cuda::FftPlanCache second(1);
  second.clear();
  (void)fft::fft(ones({8}, "cuda:1"));
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(second.size(), 1);
  const cuda::DeviceGuard guard(1);
  EXPECT_EQ(cuda::FftPlanCache().size(), 1);
  second.clear();
}

/// Work that the cache no longer knows is done all the same.
TEST_F(DevicePlans, LiveAsLongAsTheirWork) {
  const Tensor x = signal(Dtype::complex64, {3, 1000}).to(kDevice);
  const auto expected = wide(fft::fft(x));
  cache_->set_max_size(1);
  std::vector<Tensor> results;
  for (int i = 0; i < 50; ++i) {
    results.push_back(fft::fft(x));
    (void)fft::fft(x, 500 + i);  // drops that plan
  }
  for (const Tensor& result : results) EXPECT_EQ(error_of(result, expected), 0);
}

TEST_F(DevicePlans, AreSharedByThreadsAndStreams) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 30;
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
  for (const std::int64_t n : {256, 1000, 1021, 64}) {
    inputs.push_back(signal(Dtype::complex64, {8, n}).to(kDevice));
    expected.push_back(fft::fft(inputs.back()).cpu());
  }
  cuda::synchronize(0);
  for (const std::int64_t most : {4096, 2, 0}) {
    cache_->set_max_size(most);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const cuda::Stream stream(0);
        const cuda::StreamGuard guard(stream);
        for (int i = 0; i < kRounds; ++i) {
          const auto which = static_cast<std::size_t>(i + t) % inputs.size();
          const Tensor got = fft::fft(inputs[which]).cpu();
          if (std::memcmp(got.contiguous().data_ptr(), expected[which].contiguous().data_ptr(),
                          got.nbytes()) != 0)
            ++wrong;
          if (t == 0 && i % 10 == 9) cache_->clear();
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0) << most;
  }
}

}  // namespace
}  // namespace ember::test
