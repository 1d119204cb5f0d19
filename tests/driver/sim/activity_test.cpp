// The share of the last second in which something happened.
#include "ember/driver/sim/activity.h"

#include <gtest/gtest.h>

namespace ember::driver::sim {
namespace {

using std::chrono::milliseconds;

class MeterAt : public testing::Test {
 protected:
  Meter::Clock::time_point at(int ms) const { return start_ + milliseconds(ms); }
  double share(int ms) { return meter_.share(at(ms)); }

  Meter meter_;
  // From here on the meter is older than a second.
  const Meter::Clock::time_point start_ = Meter::Clock::now() + std::chrono::seconds(10);
};

// What began or ended within the oldest of 64 pieces is placed in it evenly.
constexpr double kError = 1.0 / 64;

TEST_F(MeterAt, NothingHappened) { EXPECT_EQ(share(0), 0); }

TEST_F(MeterAt, CountsWhatIsInTheWindow) {
  meter_.begin(at(0));
  meter_.end(at(300));
  EXPECT_NEAR(share(300), 0.3, 1e-6);
  EXPECT_NEAR(share(900), 0.3, 1e-6);
  EXPECT_NEAR(share(1100), 0.2, kError);
  EXPECT_NEAR(share(1250), 0.05, kError);
  EXPECT_NEAR(share(1400), 0, 1e-6);
}

TEST_F(MeterAt, CountsWhatIsInProgress) {
  meter_.begin(at(0));
  EXPECT_NEAR(share(250), 0.25, 1e-6);
  EXPECT_NEAR(share(500), 0.5, 1e-6);
  EXPECT_NEAR(share(5000), 1, 1e-6);
  meter_.end(at(6000));
  EXPECT_NEAR(share(6500), 0.5, kError);
}

TEST_F(MeterAt, CountsTimeAndNotWorkers) {
  meter_.begin(at(0));
  meter_.begin(at(100));
  meter_.end(at(200));
  meter_.begin(at(250));
  meter_.end(at(300));
  meter_.end(at(400));
  EXPECT_NEAR(share(1000), 0.4, kError);
}

TEST_F(MeterAt, AddsUpShortTimes) {
  for (int ms = 0; ms < 3000; ++ms) {
    meter_.begin(at(ms));
    meter_.end(at(ms) + std::chrono::microseconds(400));
  }
  EXPECT_NEAR(share(3000), 0.4, kError);
  EXPECT_NEAR(share(3500), 0.2, kError);
}

TEST(Meter, IsYoungerThanTheWindow) {
  Meter meter;
  const auto start = Meter::Clock::now();
  meter.begin(start);
  EXPECT_GT(meter.share(start + milliseconds(100)), 0.9);
  meter.end(start + milliseconds(100));
  EXPECT_NEAR(meter.share(start + milliseconds(200)), 0.5, 0.05);
}

}  // namespace
}  // namespace ember::driver::sim
