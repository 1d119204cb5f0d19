// The steps by which CUDA_VISIBLE_DEVICES becomes devices, on whatever machine there is.
#include "ember/runtime/visible.h"

#include <cstdlib>

#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// Sets CUDA_VISIBLE_DEVICES for as long as it lives.
class Visible {
 public:
  explicit Visible(const char* text) {
    if (const char* before = std::getenv(kName)) before_ = before;
    if (text != nullptr)
      setenv(kName, text, 1);
    else
      unsetenv(kName);
  }
  ~Visible() {
    if (before_)
      setenv(kName, before_->c_str(), 1);
    else
      unsetenv(kName);
  }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

 private:
  static constexpr const char* kName = "CUDA_VISIBLE_DEVICES";
  std::optional<std::string> before_;
};

TEST(VisibleDevices, AreReadAnew) {
  const Visible all(nullptr);
  EXPECT_EQ(parse_visible_devices().numbers.size(), 64U);
  const Visible some("2, 1gpu");
  EXPECT_EQ(parse_visible_devices().numbers, (std::vector<std::int64_t>{2, 1}));
}

TEST(VisibleDevices, AreCountedAmongTheMachines) {
  const int count = machine_device_count();
  if (count < 1) GTEST_SKIP() << "needs a machine whose devices can be asked for";
  const auto uuids = machine_uuids();
  ASSERT_TRUE(uuids.has_value());
  ASSERT_EQ(static_cast<int>(uuids->size()), count);
  EXPECT_EQ(uuids->front().substr(0, 4), "GPU-");
  {
    const Visible all(nullptr);
    EXPECT_EQ(visible_device_count(), count);
    EXPECT_EQ(machine_device_index(0), 0);
    EXPECT_ERROR((void)machine_device_index(count), Error, "is not visible (CUDA_VISIBLE_DEVICES=");
    EXPECT_ERROR((void)machine_device_index(-1), Error, "device -1 is not visible");
  }
  const std::string last = std::to_string(count - 1);
  {
    // With one device there is no other one to come after the end.
    const Visible turned((last + "," + std::to_string(count) + (count > 1 ? ",0" : "")).c_str());
    EXPECT_EQ(visible_device_count(), 1) << "a number that does not exist ends the list";
    EXPECT_EQ(machine_device_index(0), count - 1);
    EXPECT_ERROR((void)machine_device_index(1), Error,
                 "device 1 is not visible (CUDA_VISIBLE_DEVICES=[" + last + "])");
  }
  {
    const Visible by_uuid(uuids->back().c_str());
    EXPECT_EQ(visible_device_count(), 1);
    EXPECT_EQ(machine_device_index(0), count - 1);
  }
  const std::pair<const char*, int> lists[] = {{"", 0},       {"-1", 0},       {"0,0", 0},
                                               {"MIG-1", -1}, {"GPU-none", 0}, {"x", 0}};
  for (const auto& [text, expected] : lists) {
    const Visible list(text);
    EXPECT_EQ(visible_device_count(), expected) << text;
  }
}

TEST(VisibleDevices, UuidsBecomeNumbers) {
  EXPECT_EQ(transform_uuid_to_ordinals({"GPU-2"}, {"GPU-1", "GPU-2"}), std::vector<int>{1});
}

}  // namespace
}  // namespace ember::cuda
