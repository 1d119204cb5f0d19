// What an out-of-memory error says would help, and that it does; callbacks that free.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/memory.h"
#include "ember/memory/out_of_memory_report.h"
#include "ember/memory/pools.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using Verdict = OutOfMemoryVerdict;

/// The tests allow themselves 256 MiB, as those of out_of_memory_test.cpp.
class Verdicts : public testing::Test {
 protected:
  Verdicts() {
    synchronize(0);
    empty_cache();
    allow(256 * kMiB);
  }
  ~Verdicts() override {
    set_per_process_memory_fraction(1, 0);
    synchronize(0);
    empty_cache();
    EXPECT_EQ(memory_allocated(0), 0U);
  }
  static void allow(std::size_t bytes) {
    const auto total = static_cast<double>(get_device_properties(0).total_memory);
    set_per_process_memory_fraction((static_cast<double>(bytes) + 0.5) / total, 0);
  }
  OutOfMemoryReport failure(std::size_t bytes, const std::string& text) {
    try {
      (void)allocate(bytes, stream_);
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      if (error.report() == nullptr) {
        ADD_FAILURE() << "no report";
        return {};
      }
      const OutOfMemoryReport& report = *error.report();
      EXPECT_EQ(report.device, 0);
      EXPECT_EQ(report.requested, bytes);
      EXPECT_EQ(report.stream, stream_.native());
      EXPECT_EQ(report.total, mem_get_info(0).second);
      EXPECT_EQ(report.reserved, memory_reserved(0));
      EXPECT_EQ(report.allocated, memory_allocated(0));
      EXPECT_EQ(report.allocated + report.pending + report.fragmented + report.private_pools +
                    report.cached,
                report.reserved)
          << "every byte has a reason";
      return report;
    }
    ADD_FAILURE() << "expected OutOfMemoryError for " << bytes;
    return {};
  }
  const Stream stream_{0};
};

// What others give back, or get, while the report is made is somebody's, too.
TEST_F(Verdicts, EveryByteHasAReasonBesideOtherThreads) {
  std::atomic<int> reports{0};
  std::atomic<int> wrong{0};
  std::atomic<int> elsewhere{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i)
    threads.emplace_back([&] {
      const Stream stream(0);
      std::vector<DeviceBuffer> live;
      while (reports.load() < 3000) {
        try {
          live.push_back(allocate(5 * kMiB, stream));
        } catch (const OutOfMemoryError& error) {
          const OutOfMemoryReport& report = *error.report();
          reports.fetch_add(1);
          if (report.allocated + report.pending + report.fragmented + report.private_pools +
                  report.cached !=
              report.reserved)
            wrong.fetch_add(1);
          if (report.verdict == Verdict::elsewhere) elsewhere.fetch_add(1);
          live.clear();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0) << "of " << reports.load();
  EXPECT_EQ(elsewhere.load(), 0) << "of " << reports.load();
}

TEST_F(Verdicts, LargerThanTheDevice) {
  set_per_process_memory_fraction(1, 0);
  const std::size_t total = mem_get_info(0).second;
  const OutOfMemoryReport report = failure(total + 1, "The device is too small");
  EXPECT_EQ(report.verdict, Verdict::larger_than_device);
  EXPECT_GE(report.verdict_bytes, total + 1);
  EXPECT_EQ(report.segment, report.verdict_bytes);
  try {
    (void)allocate(std::size_t{1} << 60, stream_);
    ADD_FAILURE();
  } catch (const OutOfMemoryError& error) {
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report()->verdict, Verdict::larger_than_device);
    EXPECT_EQ(error.report()->requested, std::size_t{1} << 60);
  }
}

TEST_F(Verdicts, OverTheLimit) {
  const DeviceBuffer held = allocate(200 * kMiB, stream_);
  const OutOfMemoryReport report = failure(100 * kMiB, "The limit is too low by 44.00 MiB");
  EXPECT_EQ(report.verdict, Verdict::over_limit);
  EXPECT_EQ(report.verdict_bytes, 44 * kMiB);
  EXPECT_EQ(report.missing, 44 * kMiB);
  EXPECT_EQ(report.limit, 256 * kMiB);
  allow(300 * kMiB);
  EXPECT_NE(allocate(100 * kMiB, stream_).data(), nullptr);
}

TEST_F(Verdicts, AllOfTheLimitIsNotEnough) {
  const OutOfMemoryReport report = failure(300 * kMiB, "The limit is too low by 44.00 MiB");
  EXPECT_EQ(report.verdict, Verdict::over_limit);
  allow(300 * kMiB);
  EXPECT_NE(allocate(300 * kMiB, stream_).data(), nullptr);
}

TEST_F(Verdicts, HeldByAPrivatePool) {
  MemPool pool, other;
  {
    const MemPoolGuard guard(pool);
    (void)allocate(200 * kMiB, stream_);
    const MemPoolGuard of_other(other);
    (void)allocate(10 * kMiB, stream_);
  }
  const OutOfMemoryReport report =
      failure(100 * kMiB,
              "210.00 MiB that nobody uses are held by private pools, most by the "
              "pool (0, " +
                  std::to_string(pool.id().second) + ")");
  EXPECT_EQ(report.verdict, Verdict::private_pool);
  EXPECT_EQ(report.verdict_bytes, 210 * kMiB);
  EXPECT_EQ(report.verdict_pool, pool.id());
  EXPECT_EQ(report.private_pools, 210 * kMiB);
  ASSERT_EQ(report.pools.size(), 2U);
  EXPECT_EQ(report.pools[0].releasable, 200 * kMiB);
  empty_cache(report.verdict_pool);
  EXPECT_NE(allocate(100 * kMiB, stream_).data(), nullptr);
}

TEST_F(Verdicts, FitsAfterDefragmentation) {
  // Five segments of 40 MiB, each kept by a small part of it.
  std::vector<DeviceBuffer> pins, rest;
  for (int i = 0; i < 5; ++i) rest.push_back(allocate(40 * kMiB, stream_));
  rest.clear();
  for (int i = 0; i < 5; ++i) {
    rest.push_back(allocate(38 * kMiB, stream_));
    pins.push_back(allocate(2 * kMiB, stream_));
  }
  rest.clear();
  ASSERT_EQ(memory_reserved(0), 200 * kMiB);
  const DeviceBuffer fits = allocate(30 * kMiB, stream_);  // in the rest of one
  const OutOfMemoryReport report = failure(100 * kMiB, "It would fit after defragmentation: ");
  EXPECT_EQ(report.verdict, Verdict::fragmented);
  EXPECT_EQ(report.verdict_bytes, report.fragmented);
  EXPECT_EQ(report.fragmented, 160 * kMiB);
  EXPECT_GE(report.largest_free_block, 30 * kMiB);
  for (DeviceBuffer& pin : pins) pin.reset();
  EXPECT_NE(allocate(100 * kMiB, stream_).data(), nullptr);
}

TEST_F(Verdicts, PendingInAHostFunction) {
  DeviceBuffer cached = allocate(200 * kMiB, Stream(0));
  cached.reset();
  std::shared_ptr<const OutOfMemoryReport> report;
  std::string text;
  host_function(
      [&] {
        try {
          (void)allocate(100 * kMiB, stream_);
        } catch (const OutOfMemoryError& error) {
          text = error.what();
          report = error.report();
        }
      },
      stream_, no_accesses());
  stream_.synchronize();
  ASSERT_NE(report, nullptr);
  EXPECT_NE(text.find("the same request succeeds outside of the host function"), std::string::npos)
      << text;
  EXPECT_EQ(report->verdict, Verdict::pending);
  EXPECT_EQ(report->verdict_bytes, 200 * kMiB);
  EXPECT_TRUE(report->could_not_wait);
  EXPECT_NE(allocate(100 * kMiB, stream_).data(), nullptr);
}

// ---- Pools that lend

TEST_F(Verdicts, APoolThatLendsServesAtLast) {
  MemPool lends({.use_on_oom = true}), keeps;
  void* lent = nullptr;
  for (const MemPool* pool : {&keeps, &lends}) {
    const MemPoolGuard guard(*pool);
    lent = allocate(100 * kMiB, stream_).data();
  }
  {
    const DeviceBuffer fits = allocate(50 * kMiB, stream_);
    EXPECT_NE(fits.data(), lent);
  }
  DeviceBuffer borrowed = allocate(90 * kMiB, stream_);
  EXPECT_EQ(borrowed.data(), lent);
  EXPECT_EQ(failure(90 * kMiB, "private pools").verdict_pool, keeps.id());
  borrowed.reset();
  EXPECT_EQ(lends.snapshot()[0].active_size, 0U) << "it went back to its pool";
  EXPECT_EQ(failure(101 * kMiB, "private pools").verdict, Verdict::private_pool);
}

// ---- Callbacks

class Callback {
 public:
  explicit Callback(OutOfMemoryCallback function)
      : number_(add_out_of_memory_callback(std::move(function))) {}
  ~Callback() { EXPECT_TRUE(remove_out_of_memory_callback(number_)); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

 private:
  std::uint64_t number_;
};

TEST_F(Verdicts, ACallbackThatFreesHelps) {
  DeviceBuffer held = allocate(200 * kMiB, stream_);
  const auto before = memory_counters(0);
  std::vector<std::string> asked;
  const Callback no([&](const OutOfMemoryReport& report) {
    asked.push_back("no " + std::string(to_string(report.verdict)));
    return false;
  });
  const Callback in_vain([&](const OutOfMemoryReport&) {
    asked.emplace_back("in vain");
    return true;
  });
  const Callback frees([&](const OutOfMemoryReport& report) {
    asked.emplace_back("frees");
    EXPECT_EQ(report.requested, 100 * kMiB);
    EXPECT_EQ(report.allocated, memory_allocated(0));  // takes the lock
    held.reset();
    return true;
  });
  const Callback unneeded([&](const OutOfMemoryReport&) {
    asked.emplace_back("unneeded");
    return true;
  });
  const DeviceBuffer buffer = allocate(100 * kMiB, stream_);
  EXPECT_NE(buffer.data(), nullptr);
  EXPECT_EQ(asked, (std::vector<std::string>{"no over_limit", "in vain", "frees"}));
  EXPECT_EQ(memory_counters(0).num_ooms, before.num_ooms) << "it did not fail";
  asked.clear();
  (void)allocate(kMiB, stream_);
  EXPECT_TRUE(asked.empty());
}

TEST_F(Verdicts, EachIsAskedOnceForAnAllocation) {
  int asked = 0;
  const Callback always([&](const OutOfMemoryReport&) {
    ++asked;
    return true;
  });
  (void)failure(300 * kMiB, "The limit is too low");
  EXPECT_EQ(asked, 1);
  (void)failure(300 * kMiB, "The limit is too low");
  EXPECT_EQ(asked, 2);
}

TEST_F(Verdicts, ACallbackMayAllocateAndIsNotAskedForThat) {
  int asked = 0;
  const Callback allocates([&](const OutOfMemoryReport&) {
    ++asked;
    EXPECT_NE(allocate(kMiB, stream_).data(), nullptr);
    EXPECT_THROW((void)allocate(300 * kMiB, stream_), OutOfMemoryError);
    return true;
  });
  (void)failure(300 * kMiB, "The limit is too low");
  EXPECT_EQ(asked, 1);
}

TEST_F(Verdicts, WhatACallbackThrowsIsThrown) {
  const auto before = memory_counters(0);
  {
    const Callback fails([](const OutOfMemoryReport&) -> bool { throw Error("of the callback"); });
    EXPECT_ERROR((void)allocate(300 * kMiB, stream_), Error, "of the callback");
  }
  const auto after = memory_counters(0);
  EXPECT_EQ(after.active, before.active);
  EXPECT_EQ(after.segment.all.current, before.segment.all.current);
  int asked = 0;
  const Callback counts([&](const OutOfMemoryReport&) {
    ++asked;
    return false;
  });
  (void)failure(300 * kMiB, "The limit is too low");
  EXPECT_EQ(asked, 1) << "one that threw is no hindrance for the next ones";
}

TEST_F(Verdicts, CallbacksThatAreNone) {
  EXPECT_ERROR((void)add_out_of_memory_callback({}), ValueError, "callback: expected a function");
  EXPECT_FALSE(remove_out_of_memory_callback(0));
}

TEST_F(Verdicts, EightThreadsRunOutAtOnce) {
  const Callback none([](const OutOfMemoryReport&) { return false; });
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        std::vector<DeviceBuffer> held;
        try {
          for (;;) held.push_back(allocate(20 * kMiB, stream_));
        } catch (const OutOfMemoryError& error) {
          EXPECT_NE(error.report(), nullptr);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ember::cuda
