// The entries of a history: what is kept, in which order, and in how much memory.
#include "ember/memory/event_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace ember::memory {
namespace {

using Action = cuda::MemoryEvent::Action;

/// Some logs of one store.
class EventLogs : public testing::Test {
 protected:
  explicit EventLogs(std::size_t logs = EventStore::kLogs) : logs_(logs) {
    for (std::size_t i = 0; i < logs; ++i) logs_[i].open(store_, i);
  }
  std::vector<cuda::MemoryEvent> kept() {
    EventStore::Runs runs;
    store_.collect(runs);
    for (const EventLog& log : logs_) log.collect(runs);
    std::vector<cuda::MemoryEvent> events;
    merge_runs(runs, store_.forgotten(), store_.most(), events);
    return events;
  }

  EventStore store_;
  std::vector<EventLog> logs_;
};

TEST_F(EventLogs, OneLogKeepsTheLastOnesWhateverTheirNumber) {
  constexpr std::size_t chunk = EventStore::kChunk;
  for (const std::size_t most :
       {std::size_t{0}, std::size_t{1}, chunk - 1, chunk, chunk + 1, 3 * chunk + 7}) {
    EventStore store;
    EventLog log;
    store.keep(most, 0);
    log.open(store, 3);
    for (std::size_t i = 0; i < 50 * chunk + 3; ++i) {
      (void)log.add(Action::alloc, {.size = i}, 1000);  // the clock stands still
      ASSERT_LE(store.chunks(), most / chunk + EventStore::kLogs + 2);
    }
    EventStore::Runs runs;
    store.collect(runs);
    log.collect(runs);
    std::vector<cuda::MemoryEvent> events;
    merge_runs(runs, 0, most, events);
    ASSERT_EQ(events.size(), most);
    for (std::size_t i = 0; i < most; ++i) ASSERT_EQ(events[i].size, 50 * chunk + 3 - most + i);
    EXPECT_EQ(log.total(), 50 * chunk + 3);
  }
}

// What a plain list of all entries, sorted, says.
TEST_F(EventLogs, ManyLogsAreOneOrder) {
  std::mt19937 random(7);
  for (const std::size_t most : {std::size_t{1}, std::size_t{1000}, std::size_t{20'000}}) {
    store_.keep(most, 0);
    std::vector<std::uint64_t> all;
    std::uint64_t now = logs_[0].last();
    for (int i = 0; i < 50'000; ++i) {
      now += random() % 3;
      // Some logs write all the time and some hardly ever.
      const std::size_t log = random() % 20 == 0 ? random() % logs_.size() : random() % 3;
      all.push_back(logs_[log].add(Action::alloc, {}, now));
    }
    std::sort(all.begin(), all.end());
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
    std::vector<std::uint64_t> seen;
    for (const cuda::MemoryEvent& event : kept()) seen.push_back(event.sequence);
    ASSERT_EQ(seen, all);
    for (EventLog& log : logs_) log.raise(now + 50'000);
    store_.forget(now + 50'000);
    EXPECT_TRUE(kept().empty());
  }
}

TEST_F(EventLogs, TenMillionEntriesNeedNoMoreThanTenThousand) {
  store_.keep(10'000, 0);
  std::size_t most = 0;
  for (std::size_t i = 0; i < 10'000'000; ++i) {
    (void)logs_[i % 7].add(Action::alloc, {}, i);
    if (i % 1000 == 0) most = std::max(most, store_.chunks());
  }
  EXPECT_LE(most, 10'000 / EventStore::kChunk + 2 * EventStore::kLogs + 1);
  EXPECT_EQ(kept().size(), 10'000U);
  EXPECT_EQ(kept().back().time_us, 9'999U);
}

TEST_F(EventLogs, KeepLessOrNothingWhenAsked) {
  store_.keep(5000, 0);
  for (std::uint64_t i = 0; i < 5000; ++i) (void)logs_[0].add(Action::alloc, {.size = i}, 0);
  store_.keep(10, 0);
  EXPECT_EQ(kept().front().size, 4990U);
  store_.forget(logs_[0].last() - 3);
  EXPECT_EQ(kept().size(), 3U);
  store_.keep(0, 0);
  EXPECT_TRUE(kept().empty());
  EXPECT_EQ(store_.chunks(), 0U);
  EXPECT_EQ(logs_[0].add(Action::alloc, {}, 0), 5001U);
  EXPECT_EQ(logs_[0].total(), 5001U);
}

TEST_F(EventLogs, AnEntryComesAfterWhatItFollows) {
  store_.keep(10, 1U << static_cast<unsigned>(Action::oom));
  EXPECT_EQ(logs_[0].add(Action::alloc, {}, 5000), 5000U);
  EXPECT_EQ(logs_[1].add(Action::free_requested, {}, 4000, 5000), 5001U);  // the clock went back
  EXPECT_EQ(logs_[1].add(Action::free_completed, {}, 4000), 5002U);
  EXPECT_EQ(logs_[1].add(Action::oom, {}, 6000), 0U);  // it gets none
  logs_[0].raise(logs_[1].last());
  EXPECT_EQ(logs_[0].add(Action::alloc, {}, 4000), 5003U);
  std::vector<Action> actions;
  for (const cuda::MemoryEvent& event : kept()) actions.push_back(event.action());
  EXPECT_EQ(actions, (std::vector{Action::alloc, Action::free_requested, Action::free_completed,
                                  Action::alloc}));
}

TEST_F(EventLogs, ThreadsFillTheirLogsAtOnce) {
  store_.keep(30'000, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (std::uint64_t i = 0; i < 100'000; ++i) (void)logs_[t].add(Action::alloc, {.size = i}, i);
    });
  for (std::thread& thread : threads) thread.join();
  const std::vector<cuda::MemoryEvent> events = kept();
  ASSERT_EQ(events.size(), 30'000U);
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].size, 92'500 + i / 4);
}

}  // namespace
}  // namespace ember::memory
