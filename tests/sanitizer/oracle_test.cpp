// Random programs, and an oracle that knows no clocks: it keeps every operation with what comes
// directly before it, and looks whether one can be reached from the other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/sanitizer/program.h"

namespace ember::test {
namespace {

constexpr int kHost = -1;

class Oracle {
 public:
  /// Something that `actor` does next, which also comes after `others`; its number.
  int add(int actor, const std::vector<int>& others = {}) {
    std::set<int> before;
    const auto behind = [&](int node) {
      if (node < 0) return;
      before.insert(node);
      before.insert(nodes_[static_cast<std::size_t>(node)].begin(),
                    nodes_[static_cast<std::size_t>(node)].end());
    };
    behind(last(actor));
    for (const int other : others) behind(other);
    nodes_.push_back(std::move(before));
    return last_[actor] = static_cast<int>(nodes_.size()) - 1;
  }
  int last(int actor) const {
    const auto at = last_.find(actor);
    return at == last_.end() ? -1 : at->second;
  }
  bool ordered(int earlier, int later) const {
    return nodes_[static_cast<std::size_t>(later)].contains(earlier);
  }

 private:
  std::vector<std::set<int>> nodes_;  // all that comes before
  std::map<int, int> last_;
};

struct Past {
  int node = 0;
  std::uint64_t serial = 0;
  Access access;
};

bool share(const Access& a, const Access& b) {
  const auto first = [](const Access& x) { return reinterpret_cast<std::uintptr_t>(x.address); };
  return first(a) < first(b) + b.bytes && first(b) < first(a) + a.bytes;
}

TEST(EngineOracle, RandomProgramsAreSeenAlike) {
  const char* const more = std::getenv("EMBER_TEST_PROGRAMS");
  const int programs = more != nullptr ? std::atoi(more) : 3000;
  int racy = 0;
  for (int seed = 0; seed < programs; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Program p;
    Oracle oracle;
    std::vector<Past> past;
    std::map<int, int> events;  // the node of the last record
    std::set<std::pair<std::uint64_t, std::uint64_t>> races;
    std::uint64_t serial = 0, first_race = 0;
    const bool allocated = below(2) != 0;
    if (allocated) p.allocate(1024, 64, 1);
    const int length = 5 + below(40);
    for (int step = 0; step < length; ++step) {
      const int stream = 1 + below(3), event = 1 + below(3);
      switch (below(9)) {
        case 0:
          p.record(event, stream);
          events[event] = oracle.add(stream, {oracle.last(kHost)});
          break;
        case 1:
        case 2:
          p.wait(stream, event);
          oracle.add(stream, {oracle.last(kHost), events.contains(event) ? events[event] : -1});
          break;
        case 3:
          if (below(3) != 0) break;
          p.synchronize(stream);
          oracle.add(kHost, {oracle.last(stream)});
          break;
        case 4:
          if (below(3) != 0) break;
          p.synchronize_event(event);
          oracle.add(kHost, {events.contains(event) ? events[event] : -1});
          break;
        case 5:
          if (below(6) != 0) break;
          p.synchronize_device();
          oracle.add(kHost, {oracle.last(1), oracle.last(2), oracle.last(3)});
          break;
        default: {
          std::vector<Access> accesses;
          for (int i = 1 + below(2); i > 0; --i) {
            const int start = below(8) * 8;
            const int bytes = below(3) == 0 ? 64 : 8 * (1 + below(8 - start / 8));
            accesses.push_back({at(1024 + static_cast<std::uintptr_t>(bytes == 64 ? 0 : start)),
                                static_cast<std::size_t>(bytes), below(2) != 0});
          }
          ++serial;
          const bool host = below(5) == 0;
          const int node = host ? oracle.add(kHost) : oracle.add(stream, {oracle.last(kHost)});
          p.tell({.kind = host ? Kind::host_accessed : Kind::kernel_launched,
                  .stream = host ? nullptr : Program::handle(stream),
                  .name = "k",
                  .accesses = accesses});
          for (const Access& access : accesses) {
            for (const Past& earlier : past)
              if ((access.writes || earlier.access.writes) && share(access, earlier.access) &&
                  !oracle.ordered(earlier.node, node) && earlier.node != node) {
                races.emplace(serial, earlier.serial);
                if (first_race == 0) first_race = serial;
              }
          }
          for (const Access& access : accesses) past.push_back({node, serial, access});
        }
      }
    }
    racy += first_race != 0;
    std::uint64_t first_found = 0;
    for (const Conflict& conflict : p.found) {
      const auto pair = std::pair(conflict.now.operation.serial, conflict.before.operation.serial);
      ASSERT_TRUE(races.contains(pair))
          << "seed " << seed << ": " << pair.first << " and " << pair.second << " are ordered";
      if (first_found == 0) first_found = pair.first;
    }
    // What an operation stands for is forgotten, so not every pair is told; but no operation is
    // passed over that is the first to run into another one.
    ASSERT_EQ(first_found, first_race) << "seed " << seed;
  }
  EXPECT_GT(racy, programs / 10);
  EXPECT_LT(racy, programs * 49 / 50);
}

}  // namespace
}  // namespace ember::test
