// Running out of memory on a device without a device: verdicts that public tests cannot construct
// on every kind of device, and random states, in each of which the verdict is acted on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "tests/memory/fake_source.h"
#include "tests/memory/operations.h"

namespace ember::test {
namespace {

using Report = cuda::OutOfMemoryReport;
using Verdict = cuda::OutOfMemoryVerdict;

std::shared_ptr<const Report> failure(CachingAllocator& allocator, std::size_t bytes,
                                      void* stream = nullptr, std::string* text = nullptr) {
  try {
    (void)allocator.allocate(bytes, stream);
  } catch (const OutOfMemoryError& error) {
    if (text != nullptr) *text = error.what();
    return error.report();
  }
  return nullptr;
}

TEST(Exhaustion, HeldElsewhere) {
  FakeDevice device(256 * kMiB);
  CachingAllocator allocator(0, device);
  void* others = nullptr;
  ASSERT_TRUE(device.obtain(180 * kMiB, others).ok());
  void* const ours = allocator.allocate(40 * kMiB, nullptr).address;
  std::string text;
  auto report = failure(allocator, 100 * kMiB, nullptr, &text);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, Verdict::elsewhere);
  EXPECT_EQ(report->elsewhere, 180 * kMiB);
  EXPECT_EQ(report->verdict_bytes, 64 * kMiB);  // 36 MiB are free
  EXPECT_FALSE(report->context.has_value());
  EXPECT_NE(text.find("64.00 MiB more have to be free of what others hold of the device, which is "
                      "180.00 MiB, CUDA's context of this process among it"),
            std::string::npos)
      << text;
  // With processes known, what this one holds beside the allocator is not elsewhere.
  device.set_processes({{.pid = static_cast<std::uint32_t>(getpid()), .bytes = 60 * kMiB},
                        {.pid = 7, .bytes = 160 * kMiB}});
  report = failure(allocator, 100 * kMiB, nullptr, &text);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->elsewhere, 160 * kMiB);
  EXPECT_EQ(report->context, 20 * kMiB);
  EXPECT_NE(text.find("which is 160.00 MiB, and of what this process holds beside ember's memory "
                      "(CUDA's context, other libraries), which is 20.00 MiB."),
            std::string::npos)
      << text;
  // What the process itself holds beside it may go, too: the device is not too small.
  device.set_processes({{.pid = static_cast<std::uint32_t>(getpid()), .bytes = 220 * kMiB}});
  report = failure(allocator, 100 * kMiB, nullptr, &text);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->context, 180 * kMiB);
  EXPECT_EQ(report->verdict, Verdict::elsewhere);
  EXPECT_TRUE(device.give_back(others).ok());
  EXPECT_TRUE(allocator.free(allocator.allocate(100 * kMiB, nullptr).address));
  EXPECT_TRUE(allocator.free(ours));
}

TEST(Exhaustion, InUse) {
  FakeDevice device(256 * kMiB);
  CachingAllocator allocator(0, device);
  void* const ours = allocator.allocate(200 * kMiB, nullptr).address;
  std::string text;
  const auto report = failure(allocator, 100 * kMiB, nullptr, &text);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, Verdict::in_use);
  EXPECT_EQ(report->verdict_bytes, 44 * kMiB);
  EXPECT_NE(text.find("44.00 MiB of the memory in use have to be freed."), std::string::npos);
  EXPECT_TRUE(allocator.free(ours));
  EXPECT_NE(allocator.allocate(100 * kMiB, nullptr).address, nullptr);
}

TEST(Exhaustion, PendingOnAStreamThatCannotBeWaitedFor) {
  FakeDevice device(256 * kMiB);
  CachingAllocator allocator(0, device);
  const driver::StreamHandle lost = stream_handle(5, 1);
  void* const ours = allocator.allocate(200 * kMiB, nullptr).address;
  EXPECT_TRUE(allocator.record_stream(ours, lost));
  EXPECT_TRUE(allocator.free(ours));
  device.fault(1, Code::launch_failure);
  std::string text;
  const auto report = failure(allocator, 100 * kMiB, nullptr, &text);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, Verdict::pending);
  EXPECT_EQ(report->verdict_bytes, 200 * kMiB);
  EXPECT_EQ(report->pending, 200 * kMiB);
  EXPECT_NE(text.find("work still uses them that could not be waited for"), std::string::npos)
      << text;
  device.reset(1);
  EXPECT_NE(allocator.allocate(100 * kMiB, nullptr).address, nullptr);
}

// Replays use what is free in their graph's pool, and again what was freed in their capture.
TEST(Exhaustion, NothingIsBorrowedFromGraphsNorForThem) {
  FakeDevice device(256 * kMiB);
  CachingAllocator allocator(0, device);
  memory::Pool* const lends = allocator.make_pool({.use_on_oom = true});
  const auto allocate = [&](std::size_t bytes, memory::Pool* pool) {
    return allocator.allocate(bytes, nullptr, pool).address;
  };
  void* const first = allocate(100 * kMiB, lends);
  EXPECT_TRUE(allocator.free(first));
  void* const most = allocate(150 * kMiB, nullptr);
  void* const borrowed = allocate(90 * kMiB, nullptr);
  EXPECT_EQ(borrowed, first);
  EXPECT_TRUE(allocator.free(borrowed));

  memory::Pool* const of_graph = allocator.retain_for_graph({0, 77});
  EXPECT_THROW((void)allocate(90 * kMiB, of_graph), OutOfMemoryError);
  EXPECT_TRUE(allocator.release_pool(cuda::MemPoolId{0, 77}));

  EXPECT_EQ(allocator.retain_for_graph(lends->id), lends);
  EXPECT_THROW((void)allocate(90 * kMiB, nullptr), OutOfMemoryError);
  EXPECT_TRUE(allocator.release_pool(lends->id));
  EXPECT_EQ(allocate(90 * kMiB, nullptr), first);
  EXPECT_TRUE(allocator.free(first));
  EXPECT_TRUE(allocator.free(most));
  allocator.release_pool(lends);
}

// What another process let go of is given back a moment later.
TEST(Exhaustion, LeasesOnTheirWayAreWaitedFor) {
  FakeDevice device(256 * kMiB);
  static CachingAllocator* of_test;
  static void* leased;
  static int asked;
  CachingAllocator allocator(0, device);
  of_test = &allocator;
  leased = allocator.allocate(200 * kMiB, nullptr).address;
  asked = 0;
  memory::set_leases(
      [](int) -> std::vector<memory::LeasedBlock> {
        if (leased == nullptr) return {};
        return {{reinterpret_cast<std::uintptr_t>(leased), 77}};
      },
      [](std::uint64_t& seen, int milliseconds) {
        EXPECT_EQ(seen == 0, asked == 0);
        EXPECT_GT(milliseconds, 0);
        seen = 1;
        if (++asked == 3) of_test->free(std::exchange(leased, nullptr));
        return true;
      });
  EXPECT_NE(allocator.allocate(100 * kMiB, nullptr).address, nullptr);
  EXPECT_EQ(asked, 3);
  // What would not help is not waited for, nor what a pool lends.
  leased = allocator.allocate(kMiB, nullptr).address;
  memory::Pool* const lends = allocator.make_pool({.use_on_oom = true});
  EXPECT_TRUE(allocator.free(allocator.allocate(40 * kMiB, nullptr, lends).address));
  void* const most = allocator.allocate(80 * kMiB, nullptr).address;
  asked = 0;
  memory::set_leases(
      [](int) -> std::vector<memory::LeasedBlock> {
        return {{reinterpret_cast<std::uintptr_t>(leased), 77}};
      },
      [](std::uint64_t& seen, int) {
        EXPECT_LT(++asked, 3);
        seen = 1;
        return true;
      });
  void* const borrowed = allocator.allocate(40 * kMiB, nullptr).address;
  EXPECT_NE(borrowed, nullptr);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(failure(allocator, 200 * kMiB, nullptr)->verdict, Verdict::in_use);
  EXPECT_EQ(asked, 2);  // to see what has come, and once more that it is in the free lists
  for (void* const each : {borrowed, most, leased}) EXPECT_TRUE(allocator.free(each));
  allocator.release_pool(lends);
  EXPECT_TRUE(allocator.empty_cache().ok());
  // One that does not come is not waited for longer than a moment.
  leased = allocator.allocate(100 * kMiB, nullptr).address;
  ASSERT_NE(leased, nullptr);
  asked = 0;
  memory::set_leases(
      [](int) -> std::vector<memory::LeasedBlock> {
        return {{reinterpret_cast<std::uintptr_t>(leased), 77}};
      },
      [](std::uint64_t& seen, int) { return seen++ == 0; });
  const auto report = failure(allocator, 100 * kMiB, nullptr);
  memory::set_leases(nullptr, nullptr);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, Verdict::leased);
}

TEST(Exhaustion, LeasedToProcesses) {
  FakeDevice device(256 * kMiB);
  CachingAllocator allocator(0, device);
  static void* leased[2];
  leased[0] = allocator.allocate(150 * kMiB, nullptr).address;
  leased[1] = allocator.allocate(50 * kMiB, nullptr).address;
  memory::set_leases(
      [](int) -> std::vector<memory::LeasedBlock> {
        return {{reinterpret_cast<std::uintptr_t>(leased[1]), 78},
                {reinterpret_cast<std::uintptr_t>(leased[0]), 77},
                {12345, 79}};  // not of this device any more
      },
      nullptr);
  std::string text;
  const auto report = failure(allocator, 100 * kMiB, nullptr, &text);
  memory::set_leases(nullptr, nullptr);
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, Verdict::leased);
  EXPECT_EQ(report->verdict_bytes, 200 * kMiB);
  EXPECT_NE(text.find("200.00 MiB are in use only by processes that they were sent to (77, 78)"),
            std::string::npos)
      << text;
  EXPECT_TRUE(allocator.free(leased[0]));
  EXPECT_TRUE(allocator.free(leased[1]));
  EXPECT_NE(allocator.allocate(100 * kMiB, nullptr).address, nullptr);
}

// ---- Random states

/// Random memory of the ordinary pool and two private ones, on streams of this device and of one
/// that has a fault, beside memory that somebody else has, under a limit or not.
class State {
 public:
  explicit State(unsigned seed) : random_(seed) {
    if (random_() % 2 == 0) set_limit(kMiB * (40 + random_() % 160));
    if (random_() % 2 == 0) (void)device_.obtain(kMiB * (1 + random_() % 79), others_);
    for (memory::Pool*& pool : pools_) pool = allocator_.make_pool();
    for (int i = 0; i < 60; ++i) step();
    device_.fault(1, Code::launch_failure);
    if (random_() % 2 == 0)
      while (live_.size() > 4) free_one();
    wanted_ = kMiB * (1 + random_() % 300);
    stream_ = stream_handle(random_() % 2).native;
  }
  ~State() {
    for (memory::Pool* pool : pools_) allocator_.release_pool(pool);
  }

  /// Null: it did not fail.
  std::shared_ptr<const Report> fail() { return failure(allocator_, wanted_, stream_); }
  bool succeeds() {
    try {
      return allocator_.allocate(wanted_, stream_).address != nullptr;
    } catch (const OutOfMemoryError&) {
      return false;
    }
  }

  void act(const Report& report) {
    switch (report.verdict) {
      case Verdict::larger_than_device: return all();
      case Verdict::over_limit:
        set_limit(*report.limit + report.verdict_bytes);
        return report.segment > report.free ? all() : void();
      case Verdict::private_pool:
        for (const auto& pool : report.pools)
          if (pool.releasable > 0) {
            EXPECT_TRUE(allocator_.empty_cache(pool.id).ok());
          }
        return;
      case Verdict::pending: return device_.reset(1);
      case Verdict::fragmented: return free_pins();
      case Verdict::elsewhere: EXPECT_TRUE(device_.give_back(others_).ok()); return;
      case Verdict::leased: FAIL() << "nothing is leased"; return;
      case Verdict::in_use: return all();
    }
  }
  /// Each sum again, from a snapshot.
  void check(const Report& report) {
    std::size_t reserved = 0, allocated = 0, pending = 0, fragmented = 0, in_pools = 0, cached = 0;
    for (const auto& segment : allocator_.snapshot()) {
      std::size_t free = 0;
      for (const auto& block : segment.blocks) {
        if (block.state == memory::Block::free) free += block.size;
        if (block.state == memory::Block::parked) pending += block.size;
        if (block.state == memory::Block::allocated) allocated += block.size;
      }
      reserved += segment.size;
      (segment.pool != cuda::MemPoolId() ? in_pools
       : free == segment.size            ? cached
                                         : fragmented) += free;
    }
    EXPECT_EQ(report.reserved, reserved);
    EXPECT_EQ(report.allocated, allocated);
    EXPECT_EQ(report.pending, pending);
    EXPECT_EQ(report.fragmented, fragmented);
    EXPECT_EQ(report.private_pools, in_pools);
    EXPECT_EQ(report.cached, cached);
    EXPECT_EQ(cached, 0U) << "that would have been given back";
    EXPECT_EQ(report.elsewhere, device_.bytes_held() - reserved);
  }

 private:
  static constexpr std::size_t kCapacity = 256 * kMiB;

  void step() {
    if (random_() % 5 < 2 && !live_.empty()) return free_one();
    const std::size_t bytes =
        random_() % 3 == 0 ? kMiB * (1 + random_() % 40) : 512 * (1 + random_() % 8192);
    memory::Pool* const pool = random_() % 4 == 0 ? pools_[random_() % 2] : nullptr;
    try {
      void* const address =
          allocator_.allocate(bytes, stream_handle(random_() % 2).native, pool).address;
      live_.push_back(address);
      if (random_() % 6 == 0) {
        EXPECT_TRUE(allocator_.record_stream(address, stream_handle(5, 1)));
      }
    } catch (const OutOfMemoryError&) {
    }
  }
  void free_one() {
    std::swap(live_[random_() % live_.size()], live_.back());
    EXPECT_TRUE(allocator_.free(live_.back()));
    live_.pop_back();
  }
  void set_limit(std::size_t bytes) { allocator_.set_limit(bytes); }
  /// What lies in segments of the ordinary pool beside free memory.
  void free_pins() {
    for (const auto& segment : allocator_.snapshot()) {
      const bool any_free =
          std::any_of(segment.blocks.begin(), segment.blocks.end(),
                      [](const auto& block) { return block.state == memory::Block::free; });
      if (!any_free || segment.pool != cuda::MemPoolId()) continue;
      for (const auto& block : segment.blocks)
        if (block.state == memory::Block::allocated) {
          EXPECT_TRUE(allocator_.free(reinterpret_cast<void*>(block.address)));
        }
    }
    device_.reset(1);  // what is freed here may be used there
  }
  /// All that can be done.
  void all() {
    for (void* address : std::exchange(live_, {})) EXPECT_TRUE(allocator_.free(address));
    device_.reset(1);
    for (const memory::Pool* pool : pools_) EXPECT_TRUE(allocator_.empty_cache(pool->id).ok());
    if (others_ != nullptr) {
      EXPECT_TRUE(device_.give_back(others_).ok());
    }
  }

  std::mt19937 random_;
  FakeDevice device_{kCapacity};
  CachingAllocator allocator_{0, device_};
  memory::Pool* pools_[2] = {};
  void* others_ = nullptr;
  std::vector<void*> live_;
  std::size_t wanted_ = 0;
  void* stream_ = nullptr;
};

TEST(Exhaustion, RandomVerdictsAreActedOn) {
  std::map<Verdict, int> seen;
  constexpr int kStates = fewer_if_sanitized(10'000);
  int failed = 0;
  for (unsigned seed = 0; failed < kStates; ++seed) {
    State state(seed);
    const auto report = state.fail();
    if (report == nullptr) continue;
    ++failed;
    ++seen[report->verdict];
    state.check(*report);
    state.act(*report);
    EXPECT_EQ(state.succeeds(), report->verdict != Verdict::larger_than_device)
        << "seed " << seed << ", " << cuda::to_string(report->verdict);
    // What a later verdict implies: that none of these would have been enough.
    for (const Verdict earlier : {Verdict::over_limit, Verdict::private_pool, Verdict::pending}) {
      if (failed % 10 != 0 || report->verdict <= earlier || !report->limit) continue;
      if (earlier == Verdict::over_limit && report->verdict < Verdict::elsewhere) continue;
      State again(seed);
      ASSERT_NE(again.fail(), nullptr);
      Report only = *report;
      only.verdict = earlier;
      only.verdict_bytes = only.missing;
      only.free = only.segment;  // only the limit, not what else it may take
      again.act(only);
      EXPECT_FALSE(again.succeeds()) << "seed " << seed << ", " << cuda::to_string(earlier)
                                     << " is enough, not only " << cuda::to_string(report->verdict);
    }
    if (HasFailure()) return;
  }
  for (const Verdict verdict :
       {Verdict::larger_than_device, Verdict::over_limit, Verdict::private_pool, Verdict::pending,
        Verdict::fragmented, Verdict::elsewhere, Verdict::in_use})
    EXPECT_GT(seen[verdict], kStates / 500) << cuda::to_string(verdict);
}

}  // namespace
}  // namespace ember::test
