// Somebody's tests, some of which fail: seeds_test.cpp runs them one by one.
#include <cstdio>
#include <stdexcept>

#include "ember/memory/memory.h"
#include "ember/runtime/work.h"
#include "ember/testing/gtest.h"

namespace {

using namespace ember::cuda;  // NOLINT
using ember::sim::for_each_seed;

void affine(const Stream& stream, std::uint32_t* x, std::uint32_t factor, std::uint32_t summand) {
  launch(stream, "affine", {writes(x, 1)}, [=](const HostLaunch& on) {
    std::uint32_t* const at = on.at(x, 1);
    if (at == nullptr) return on.fault();
    *at = *at * factor + summand;
    return ember::Status();
  });
}

/// 420 if one stream waits for the other.
std::uint32_t product(bool with_wait) {
  const Stream adds(0), multiplies(0);
  const DeviceBuffer data = allocate(sizeof(std::uint32_t), adds);
  auto* const x = data.as<std::uint32_t>();
  fill_async(x, 0, sizeof *x, adds);
  multiplies.wait_stream(adds);
  affine(adds, x, 1, 42);
  if (with_wait) multiplies.wait_stream(adds);
  affine(multiplies, x, 10, 0);
  synchronize(0);
  std::uint32_t result = 0;
  copy(&result, x, sizeof result, adds);
  return result;
}

TEST(Probe, Fixed) {
  int runs = 0;
  for_each_seed(20, [&] {
    ++runs;
    EXPECT_EQ(product(true), 420U);
  });
  std::printf("%d runs\n", runs);
}
TEST(Probe, Bug) {
  for_each_seed(20, [] { EXPECT_EQ(product(false), 420U); }, {.sanitizer = false});
}
/// Shows in which orders a test runs.
void show(const char* kind) {
  for_each_seed(16, [] { std::printf("%s\n", ember::sim::replay_line().c_str()); },
                {.schedule = kind});
}
TEST(Probe, Pct) { show("pct"); }
TEST(Probe, DeepPct) { show("pct:5"); }
TEST(Probe, Swarm) { show("swarm"); }
TEST(Probe, Model) { show("model"); }
TEST(Probe, H100) { show("model:h100"); }
TEST(Probe, Sorted) { show("sorted"); }
TEST(Probe, Threads) { show("threads"); }
TEST(Probe, BugBySwarm) {
  for_each_seed(40, [] { EXPECT_EQ(product(false), 420U); },
                {.sanitizer = false, .schedule = "swarm"});
}
TEST(Probe, Race) {
  for_each_seed(20, [] { (void)product(false); });
}
TEST(Probe, Asserts) {
  for_each_seed(3, [] { ASSERT_EQ(1, 2) << "as it must"; });
}
TEST(Probe, Throws) {
  for_each_seed(3, [] { throw std::runtime_error("thrown"); });
}
TEST(Probe, Skips) {
  int runs = 0;
  for_each_seed(3, [&] {
    ++runs;
    GTEST_SKIP() << "after the first";
  });
  std::printf("%d runs\n", runs);
}
TEST(Probe, ThreeDevices) {
  for_each_seed(1, [] { std::printf("%d devices\n", device_count()); }, {.devices = 3});
}
TEST(Probe, DevicesInUse) {
  synchronize(0);
  for_each_seed(1, [] {});
}
TEST(Probe, NoSeeds) {
  for_each_seed(0, [] {});
}

}  // namespace
