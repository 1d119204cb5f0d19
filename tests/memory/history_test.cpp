// The history of device memory, snapshots, scopes: chapter 10.
#include "ember/memory/history.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "ember/memory/scope.h"
#include "ember/memory/snapshot.h"
#include "ember/memory/snapshot_file.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "tests/memory/callers.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using Action = MemoryEvent::Action;
using State = MemorySnapshot::State;

MemoryHistoryOptions with_context(const char* context) {
  MemoryHistoryOptions options;
  options.context = context == nullptr ? std::optional<std::string>() : context;
  return options;
}

/// Leaves nothing recorded and nothing cached.
class MemoryHistory : public testing::Test {
 protected:
  MemoryHistory() { clean(); }
  ~MemoryHistory() override { clean(); }
  static void clean() {
    record_memory_history({.enabled = {}});
    synchronize(0);
    empty_cache();
  }
  static std::vector<MemoryEvent> events() { return memory_snapshot().device_traces.at(0); }
  static std::vector<std::string> actions() {
    std::vector<std::string> names;
    for (const MemoryEvent& event : events()) names.emplace_back(action_name(event.action()));
    return names;
  }
  static const Stream stream() { return default_stream(0); }
};

std::string names_of(std::uint32_t stack) {
  std::string names;
  for (const StackFrame& frame : memory_frames(stack)) names += frame.name + "\n";
  return names;
}

TEST_F(MemoryHistory, TellsWhatComesAndGoes) {
  record_memory_history();
  DeviceBuffer buffer = allocate(1000, stream());
  const auto address = reinterpret_cast<std::uint64_t>(buffer.data());
  buffer.reset();
  empty_cache();
  const std::vector<MemoryEvent> seen = events();
  const std::vector<std::pair<Action, std::uint64_t>> expected = {{Action::segment_alloc, 2 * kMiB},
                                                                  {Action::alloc, 1000},
                                                                  {Action::free_requested, 1000},
                                                                  {Action::free_completed, 1000},
                                                                  {Action::segment_free, 2 * kMiB}};
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].action(), expected[i].first) << i;
    EXPECT_EQ(seen[i].size, expected[i].second) << i;
    EXPECT_EQ(seen[i].address, address) << i;
    EXPECT_EQ(seen[i].tag, 0) << i;
    if (i > 0) {
      EXPECT_EQ(seen[i].sequence, seen[i - 1].sequence + 1);
      EXPECT_GE(seen[i].time_us, seen[i - 1].time_us);
    }
  }
  // A snapshot has the entries of those before it.
  EXPECT_EQ(events().back().action(), Action::snapshot);
  EXPECT_EQ(events().back().size, 0U);
  EXPECT_EQ(events().back().address, 0U);
  // Later than this was written, in microseconds.
  EXPECT_GT(seen[0].time_us, std::uint64_t{1'700'000'000'000'000});
}

TEST_F(MemoryHistory, AFreeIsCompletedWhenOtherStreamsAreDone) {
  record_memory_history();
  const Stream other(0);
  DeviceBuffer buffer = allocate(kMiB, stream());
  record_stream(buffer, other);
  const auto address = reinterpret_cast<std::uint64_t>(buffer.data());
  {
    const test::Gate gate(other);
    buffer.reset();
    MemorySnapshot snapshot = memory_snapshot();
    ASSERT_EQ(snapshot.segments.size(), 1U);
    EXPECT_EQ(snapshot.segments[0].blocks[0].state, State::active_pending_free);
    EXPECT_EQ(snapshot.segments[0].blocks[0].address, address);
    EXPECT_EQ(snapshot.segments[0].allocated_size, 0U);
    EXPECT_EQ(snapshot.segments[0].active_size, kMiB);
    EXPECT_EQ(snapshot.segments[0].requested_size, kMiB);
    EXPECT_EQ(events().back().size, kMiB) << "the snapshot's active bytes";
  }
  synchronize(0);
  empty_cache();
  EXPECT_EQ(actions(),
            (std::vector<std::string>{"segment_alloc", "alloc", "free_requested", "snapshot",
                                      "snapshot", "free_completed", "segment_free"}));
}

TEST_F(MemoryHistory, KeepsTheLastEntries) {
  record_memory_history({.max_entries = 5});
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 1; i <= 3000; ++i) (void)allocate(i, stream());
  const std::vector<MemoryEvent> seen = events();
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen[0].action(), Action::free_requested);
  for (const MemoryEvent& event : seen) sizes.push_back(event.size);
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{2999, 2999, 3000, 3000, 3000}));
  EXPECT_EQ(seen[0].sequence + 4, seen[4].sequence);
  // What is there stays, as much as may be kept; what stops it, forgets.
  record_memory_history({.max_entries = 3});
  EXPECT_EQ(events().size(), 3U);
  record_memory_history({.clear_history = true});
  EXPECT_EQ(actions(), std::vector<std::string>{});
  (void)allocate(1, stream());
  EXPECT_EQ(events().size(), 4U);
  record_memory_history({.enabled = {}});
  EXPECT_EQ(events().size(), 0U);
}

TEST_F(MemoryHistory, LeavesOutWhatIsToBeSkipped) {
  record_memory_history({.skip_actions = {"free_requested", "snapshot", "segment_alloc"}});
  (void)allocate(1, stream());
  EXPECT_EQ(actions(), (std::vector<std::string>{"alloc", "free_completed"}));
}

TEST_F(MemoryHistory, RefusesWhatIsNoOption) {
  record_memory_history();
  EXPECT_ERROR(record_memory_history({.enabled = "on"}), Error,
               "expected state to be 'state', 'all', or None");
  EXPECT_ERROR(record_memory_history({.context = "some"}), Error,
               "expected context to be 'state', 'alloc', 'all', or None");
  EXPECT_ERROR(record_memory_history({.stacks = "c++"}), Error,
               "expected stacks to be 'python', or 'all'");
  EXPECT_ERROR(record_memory_history({.skip_actions = {"alloc", "sleep"}}), ValueError,
               "skip_actions: got 'sleep', expected one of alloc free_requested");
  (void)actions();
  EXPECT_EQ(actions(), std::vector<std::string>{"snapshot"}) << "it goes on as it was";
}

TEST_F(MemoryHistory, RunningOutIsAnEntry) {
  const auto total = static_cast<double>(get_device_properties(0).total_memory);
  set_per_process_memory_fraction(64.0 * kMiB / total, 0);
  record_memory_history();
  EXPECT_THROW((void)allocate(100 * kMiB + 1, stream()), OutOfMemoryError);
  set_per_process_memory_fraction(1, 0);
  const std::vector<MemoryEvent> seen = events();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].action(), Action::oom);
  EXPECT_EQ(seen[0].size, 102 * kMiB) << "the segment that it would have taken";
  EXPECT_GT(seen[0].address, 0U) << "the device's free bytes";
  EXPECT_LE(seen[0].address, static_cast<std::uint64_t>(total));
  EXPECT_NE(seen[0].stack, 0U);
}

// ---- Stacks

TEST_F(MemoryHistory, ShowsTheTrueCallersOfAnOptimisedProgram) {
  record_memory_history();
  for (int i = 0; i < 3; ++i) {  // once it is unwound, and then known again
    DeviceBuffer* const buffer = callers_outer(1);
    const MemorySnapshot snapshot = memory_snapshot();
    callers_free(buffer);
    const std::string names = names_of(snapshot.segments.at(0).blocks.at(0).stack);
    const std::size_t inner = names.find("\ncallers_inner\n"),
                      middle = names.find("\ncallers_middle\n"),
                      outer = names.find("\ncallers_outer\n");
    ASSERT_NE(inner, std::string::npos) << names;
    EXPECT_EQ(middle, inner + 14) << names;
    EXPECT_EQ(outer, middle + 15) << names;
    EXPECT_LT(names.find("ember::v0::cuda::allocate"), inner) << names;
  }
}

TEST_F(MemoryHistory, StacksAreTakenOfWhatIsWanted) {
  struct Case {
    const char* context;
    bool block, alloc, own_free;
  };
  for (const Case& each : {Case{nullptr, false, false, false}, Case{"state", true, false, false},
                           Case{"alloc", true, true, false}, Case{"all", true, true, true}}) {
    SCOPED_TRACE(each.context == nullptr ? "None" : each.context);
    clean();
    record_memory_history(with_context(each.context));
    DeviceBuffer* const buffer = callers_outer(1);
    const std::uint32_t block = memory_snapshot().segments.at(0).blocks.at(0).stack;
    EXPECT_EQ(block != 0, each.block);
    callers_free(buffer);
    std::map<Action, std::uint32_t> stacks;
    for (const MemoryEvent& event : events()) stacks[event.action()] = event.stack;
    EXPECT_EQ(stacks.at(Action::alloc), each.alloc ? block : 0);
    EXPECT_EQ(stacks.at(Action::segment_alloc), each.alloc ? block : 0);
    const std::string of_free = names_of(stacks.at(Action::free_requested));
    EXPECT_EQ(of_free.find("callers_free") != std::string::npos, each.own_free) << of_free;
    if (!each.own_free) {
      EXPECT_EQ(stacks.at(Action::free_requested), each.alloc ? block : 0);
    }
  }
}

TEST_F(MemoryHistory, StateKeepsOnlyWhereMemoryInUseComesFrom) {
  record_memory_history({.enabled = "state"});
  DeviceBuffer* const buffer = callers_outer(1);
  const MemorySnapshot snapshot = memory_snapshot();
  callers_free(buffer);
  EXPECT_NE(names_of(snapshot.segments.at(0).blocks.at(0).stack).find("callers_outer"),
            std::string::npos);
  EXPECT_EQ(actions(), std::vector<std::string>{"free_completed"}) << "the last one";
}

TEST_F(MemoryHistory, ABlockThatIsUsedAgainUnrecordedHasNoStackOfBefore) {
  record_memory_history();
  (void)allocate(1000, stream());
  record_memory_history({.enabled = {}});
  const DeviceBuffer again = allocate(1000, stream());
  EXPECT_EQ(memory_snapshot().segments.at(0).blocks.at(0).stack, 0U);
}

TEST_F(MemoryHistory, ManyEventsNeedNoMoreMemory) {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t whole = 0, pages = 0;
    file >> whole >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  };
  record_memory_history({.max_entries = 10'000});
  const auto work = [](int times) {
    for (int i = 0; i < times; ++i) (void)allocate(1000, default_stream(0));
  };
  work(20'000);
  const std::size_t before = resident();
  work(200'000);
  EXPECT_LT(resident(), before + 2 * kMiB);
  EXPECT_EQ(events().size(), 10'000U);
}

// ---- Snapshots

TEST_F(MemoryHistory, ASnapshotAddsUp) {
  std::vector<DeviceBuffer> kept;
  for (const std::size_t bytes : {std::size_t{1}, 5 * kMiB, 30 * kMiB, std::size_t{600}, kMiB})
    kept.push_back(allocate(bytes, stream()));
  kept.erase(kept.begin());
  const MemorySnapshot snapshot = memory_snapshot();
  std::uint64_t reserved = 0, allocated = 0, requested = 0, last_end = 0;
  for (const MemorySnapshot::Segment& segment : snapshot.segments) {
    EXPECT_GE(segment.address, last_end);
    last_end = segment.address + segment.total_size;
    reserved += segment.total_size;
    allocated += segment.allocated_size;
    requested += segment.requested_size;
    EXPECT_EQ(segment.small, segment.total_size == 2 * kMiB);
    EXPECT_EQ(segment.pool, MemPoolId());
    EXPECT_FALSE(segment.is_expandable);
    EXPECT_EQ(segment.stream, reinterpret_cast<std::uint64_t>(stream().native()));
    std::uint64_t next = segment.address;
    for (const MemorySnapshot::Block& block : segment.blocks) {
      EXPECT_EQ(block.address, next);
      next += block.size;
      if (block.state == State::inactive) {
        EXPECT_EQ(block.requested_size, 0U);
      }
    }
    EXPECT_EQ(next, last_end);
  }
  EXPECT_EQ(reserved, memory_reserved(0));
  EXPECT_EQ(allocated, memory_allocated(0));
  EXPECT_EQ(requested, 36 * kMiB + 600);
}

TEST_F(MemoryHistory, BothFormsSayTheSame) {
  record_memory_history();
  {
    const MemoryScope scope("a \"tag\"\n\xff");
    std::vector<DeviceBuffer> kept;
    for (std::size_t i = 0; i < 1500; ++i) kept.push_back(allocate(512 + i, stream()));
    const MemorySnapshot snapshot = memory_snapshot();
    const std::string pickle = snapshot_as_pickle(snapshot), json = snapshot_as_json(snapshot);
    EXPECT_EQ(snapshot_json(pickle), json);
    EXPECT_NE(json.find("\"tag\": \"a \\\"tag\\\"\\u000a?\""), std::string::npos);
  }
  const std::string folder = testing::TempDir();
  const std::string file = folder + "ember_history_test_" + std::to_string(getpid());
  for (const char* ending : {"", ".json"}) {
    dump_memory_snapshot(file + ending);
    std::ifstream in(file + ending, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const std::string as_json = *ending == '\0' ? snapshot_json(text) : text;
    EXPECT_EQ(as_json.find("{\"segments\": [{\"device\": 0, \"address\": "), 0U);
    EXPECT_EQ(unlink((file + ending).c_str()), 0);
  }
  EXPECT_ERROR(dump_memory_snapshot("/nowhere/at/all"), FileError,
               "could not be written to '/nowhere/at/all': No such file");
}

TEST_F(MemoryHistory, IsOfOneMomentWhateverThreadsDo) {
  record_memory_history(with_context(nullptr));
  std::atomic<bool> stop{false};
  // They are faster than the checks, so there is an end to what they do meanwhile.
  constexpr std::size_t kSteps = 2000;
  std::atomic<std::size_t> allowed{0}, done{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<DeviceBuffer> kept(16);
      for (std::size_t i = 0; !stop; ++i) {
        while (i >= allowed && !stop) std::this_thread::yield();
        kept[i % kept.size()] = allocate(512 * (1 + (i + t) % 7), default_stream(0));
        if (t == 0) done = i;
      }
    });
  for (int round = 0; round < 20; ++round) {
    allowed += kSteps;
    while (done < allowed - kSteps / 2) std::this_thread::yield();
    const MemorySnapshot snapshot = memory_snapshot();
    // What the entries say, one after the other.
    std::set<std::uint64_t> expected;
    std::uint64_t number = snapshot.device_traces[0].front().sequence;
    for (const MemoryEvent& event : snapshot.device_traces[0]) {
      ASSERT_EQ(event.sequence, number++);
      if (event.action() == Action::alloc) {
        ASSERT_TRUE(expected.insert(event.address).second);
      } else if (event.action() == Action::free_completed) {
        ASSERT_EQ(expected.erase(event.address), 1U);
      }
    }
    std::set<std::uint64_t> in_use;
    for (const MemorySnapshot::Segment& segment : snapshot.segments)
      for (const MemorySnapshot::Block& block : segment.blocks)
        if (block.state != State::inactive) in_use.insert(block.address);
    ASSERT_EQ(in_use, expected);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(MemoryHistoryProcess, NothingInitialises) {
  IN_CHILD({
    record_memory_history();
    {
      const MemoryScope scope("early");
      EXPECT_EQ(scope.tag(), "early");
    }
    EXPECT_TRUE(memory_snapshot().segments.empty());
    EXPECT_TRUE(memory_snapshot().device_traces.empty());
    EXPECT_TRUE(memory_holders().empty());
    EXPECT_FALSE(is_initialized());
    // What was wanted before holds.
    (void)allocate(1, default_stream(0));
    EXPECT_EQ(memory_snapshot().device_traces.at(0).size(), 4U);
  });
}

// ---- Scopes

TEST_F(MemoryHistory, AScopeKnowsItsMemoryAndItsPeak) {
  const DeviceBuffer outside = allocate(4 * kMiB, stream());
  reset_peak_memory_stats(0);
  (void)allocate(16 * kMiB, stream());
  const std::size_t peak = max_memory_allocated(0);
  DeviceBuffer kept;
  {
    const MemoryScope outer("train");
    EXPECT_EQ(outer.held(0), 0U);
    const DeviceBuffer own = allocate(kMiB, stream());
    {
      const MemoryScope inner("optimizer");
      EXPECT_EQ(inner.tag(), "train/optimizer");
      (void)allocate(8 * kMiB, stream());
      kept = allocate(2 * kMiB, stream());
      EXPECT_EQ(inner.held(0), 2 * kMiB);
      EXPECT_EQ(inner.peak(0), 8 * kMiB);
      EXPECT_EQ(outer.held(0), 3 * kMiB);
      EXPECT_EQ(outer.peak(0), 9 * kMiB);
      // Another thread has scopes of its own.
      std::thread([] {
        const DeviceBuffer elsewhere = allocate(32 * kMiB, default_stream(0));
      }).join();
      EXPECT_EQ(outer.peak(0), 9 * kMiB);
    }
    const MemoryScope again("optimizer");
    EXPECT_EQ(again.held(0), 2 * kMiB);
    EXPECT_EQ(again.peak(0), 2 * kMiB) << "since it began";
    kept.reset();
    EXPECT_EQ(again.held(0), 0U);
  }
  EXPECT_EQ(memory_allocated(0), 4 * kMiB);
  EXPECT_GE(max_memory_allocated(0), peak) << "nobody's peak was reset";
}

TEST_F(MemoryHistory, ScopesMayEndInAnyOrder) {
  auto* const first = new MemoryScope("first");
  MemoryScope second("second");
  delete first;
  {
    const DeviceBuffer inner = allocate(1, stream());
    EXPECT_EQ(second.held(0), 512U);
  }
  second.end();
  const std::size_t before = second.peak(0);
  const DeviceBuffer after = allocate(4096, stream());
  EXPECT_EQ(second.peak(0), before);
  const std::vector<MemoryHolder> holders = memory_holders(0);
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_EQ(holders[0].tag, "");
  EXPECT_ERROR(MemoryScope(""), ValueError, "expected a name");
}

TEST_F(MemoryHistory, ScopesHoldWhatASimpleModelSays) {
  std::mt19937 random(1);
  const std::string names[] = {"a", "b", "c"};
  std::vector<std::unique_ptr<MemoryScope>> open;
  std::vector<std::string> tags;  // of those that are open
  std::map<std::string, std::size_t> held;
  std::vector<std::size_t> peaks;
  std::map<std::size_t, std::pair<DeviceBuffer, std::string>> kept;
  const auto change = [&](const std::string& tag, std::ptrdiff_t bytes) {
    for (std::size_t end = tag.size(); !tag.empty();) {
      std::size_t& now = held[tag.substr(0, end)];
      now = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(now) + bytes);
      for (std::size_t i = 0; i < tags.size(); ++i)
        if (tags[i] == tag.substr(0, end)) peaks[i] = std::max(peaks[i], now);
      if (end == 1) break;
      end -= 2;  // names have one letter
    }
  };
  for (int step = 0; step < 20'000; ++step) {
    switch (random() % 6) {
      case 0:
        if (open.size() == 4) break;
        open.push_back(std::make_unique<MemoryScope>(names[random() % 3]));
        tags.push_back((tags.empty() ? "" : tags.back() + "/") + open.back()->tag().back());
        peaks.push_back(held[tags.back()]);
        ASSERT_EQ(open.back()->tag(), tags.back());
        break;
      case 1:
        if (open.empty()) break;
        ASSERT_EQ(open.back()->held(0), held[tags.back()]);
        ASSERT_EQ(open.back()->peak(0), peaks.back());
        open.pop_back(), tags.pop_back(), peaks.pop_back();
        break;
      default: {
        auto& [buffer, tag] = kept[random() % 50];
        if (buffer.size() != 0) {
          const auto bytes = static_cast<std::ptrdiff_t>(buffer.size());
          buffer.reset();
          change(tag, -bytes);
        } else {
          tag = tags.empty() ? "" : tags.back();
          buffer = allocate(512 * (1 + random() % 9), stream());
          change(tag, static_cast<std::ptrdiff_t>(buffer.size()));
        }
      }
    }
    for (std::size_t i = 0; i < open.size(); ++i) ASSERT_EQ(open[i]->held(0), held[tags[i]]);
  }
}

TEST(MemoryHistoryProcess, WithoutCachingThereIsTheSame) {
  IN_CHILD({
    ASSERT_EQ(setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1), 0);
    record_memory_history();
    const MemoryScope scope("direct");
    DeviceBuffer buffer = allocate(1000, default_stream(0));
    EXPECT_EQ(scope.held(0), 1000U);
    const MemorySnapshot snapshot = memory_snapshot();
    ASSERT_EQ(snapshot.segments.size(), 1U);
    EXPECT_EQ(snapshot.segments[0].total_size, 1000U);
    EXPECT_EQ(snapshot.segments[0].blocks.at(0).state, State::active_allocated);
    EXPECT_EQ(memory_tag_name(snapshot.segments[0].blocks[0].tag), "direct");
    buffer.reset();
    synchronize(0);
    empty_cache();
    EXPECT_EQ(scope.held(0), 0U);
    EXPECT_EQ(scope.peak(0), 1000U);
    const MemorySnapshot after = memory_snapshot();
    EXPECT_TRUE(after.segments.empty());
    std::vector<std::string> names;
    for (const MemoryEvent& event : after.device_traces.at(0))
      if (event.action() != Action::snapshot) names.emplace_back(action_name(event.action()));
    EXPECT_EQ(names, (std::vector<std::string>{"segment_alloc", "alloc", "free_requested",
                                               "free_completed", "segment_free"}));
  });
}

TEST(MemoryHistoryProcess, ThereIsAnEndToNames) {
  IN_CHILD({
    for (int i = 0; i < 65'535; ++i) MemoryScope(std::to_string(i)).end();
    EXPECT_ERROR(MemoryScope("more"), ValueError, "there are 65535 different tags, and 'more'");
    const MemoryScope known("7");
    const DeviceBuffer buffer = allocate(1, default_stream(0));
    EXPECT_EQ(known.held(0), 512U);
  });
}

TEST_F(MemoryHistory, HoldersAreNamed) {
  record_memory_history();
  DeviceBuffer* large = nullptr;
  std::vector<DeviceBuffer> small;
  {
    const MemoryScope scope("weights");
    large = callers_outer(3 * kMiB);
  }
  for (int i = 0; i < 3; ++i) small.push_back(allocate(1, stream()));
  const std::vector<MemoryHolder> holders = memory_holders(0, 5);
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_EQ(holders[0].tag, "weights");
  EXPECT_EQ(holders[0].bytes, 3 * kMiB + 512);
  EXPECT_EQ(holders[0].blocks, 1U);
  EXPECT_FALSE(holders[0].frames.empty());
  EXPECT_EQ(holders[1].bytes, 3 * 512U);
  EXPECT_EQ(holders[1].blocks, 3U);
  EXPECT_EQ(memory_holders(0, 1).size(), 1U);
  bool tagged = false;
  for (const MemoryEvent& event : events())
    if (event.action() == Action::alloc && event.size > kMiB)
      tagged = memory_tag_name(event.tag) == "weights";
  EXPECT_TRUE(tagged);
  callers_free(large);
}

TEST_F(MemoryHistory, AResetTakesWhatScopesHold) {
  IN_CHILD({
    const MemoryScope scope("gone");
    const DeviceBuffer buffer = allocate(kMiB, default_stream(0));
    EXPECT_EQ(scope.held(0), kMiB);
    reset_device(0);
    const DeviceBuffer next = allocate(512, default_stream(0));
    EXPECT_EQ(scope.held(0), 512U);
    EXPECT_EQ(scope.peak(0), kMiB);
  });
}

TEST_F(MemoryHistory, ComparingShowsWhatGrew) {
  record_memory_history();
  DeviceBuffer* const first = callers_outer(kMiB);
  const std::string before = snapshot_as_pickle(memory_snapshot());
  const MemoryScope scope("leak");
  std::vector<DeviceBuffer*> more;
  for (int i = 0; i < 3; ++i) more.push_back(callers_outer(2 * kMiB));
  callers_free(first);
  const std::string after = snapshot_as_pickle(memory_snapshot());
  const SnapshotComparison found = compare_snapshots(before, after);
  ASSERT_EQ(found.changed.size(), 2U);
  EXPECT_EQ(found.changed[0].tag, "leak");
  EXPECT_EQ(found.changed[0].before.blocks, 0U);
  EXPECT_EQ(found.changed[0].after.blocks, 3U);
  EXPECT_EQ(found.changed[0].after.bytes, 3 * (2 * kMiB + 512));
  EXPECT_EQ(found.changed[1].after.bytes, 0U);
  EXPECT_EQ(found.changed[1].before.bytes, kMiB + 512);
  EXPECT_EQ(found.after.active, (SnapshotComparison::Usage{3 * (2 * kMiB + 512), 3}));
  const std::string text = found.str();
  EXPECT_NE(text.find("grew\n  +6.00 MiB: 0 bytes in 0 blocks -> 6.00 MiB in 3 blocks, tag leak\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("shrank\n  -1.00 MiB: "), std::string::npos) << text;
  EXPECT_NE(text.find("callers_outer"), std::string::npos) << text;
  EXPECT_EQ(compare_snapshots(after, after).str().find("nothing has changed") == std::string::npos,
            false);
  EXPECT_ERROR((void)compare_snapshots(before, "\x80\x04]."), ValueError,
               "the second snapshot: not a snapshot of memory: expected a dict with 'segments'");
  EXPECT_ERROR((void)compare_snapshots("", after), ValueError,
               "the first snapshot: not a snapshot that can be read: expected a pickle");
  for (DeviceBuffer* buffer : more) callers_free(buffer);
}

}  // namespace
}  // namespace ember::cuda
