// What operations on the CPU tell of the memory that they touch, beside what the same ones tell on
// a device: pinned memory may have copies in flight, of which observers can only know by that.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/runtime/observer.h"
#include "tests/support/devices.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

/// Which memory of some tensors was read or written, by whomever.
class Touches final : public cuda::Observer {
 public:
  explicit Touches(const Tensors& tensors) {
    for (const Tensor& each : tensors)
      ranges_.push_back({number(each.storage()->data()), each.storage()->bytes()});
    cuda::add_observer(*this);
  }
  ~Touches() override { cuda::remove_observer(*this); }
  Touches(const Touches&) = delete;
  Touches& operator=(const Touches&) = delete;

  void notice(const cuda::Activity& activity) noexcept override {
    for (const cuda::Access& each : activity.accesses) touch(each.address, each.bytes, each.writes);
    if (activity.kind != cuda::Activity::Kind::copied || !activity.accesses.empty()) return;
    touch(activity.address, activity.bytes, true);
    touch(activity.source, activity.bytes, false);
  }

  bool touched(std::size_t i) const { return ranges_[i].read || ranges_[i].written; }
  bool written(std::size_t i) const { return ranges_[i].written; }

 private:
  struct Range {
    std::uintptr_t first;
    std::size_t bytes;
    bool read = false, written = false;
  };

  static std::uintptr_t number(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  void touch(const void* address, std::size_t bytes, bool writes) {
    for (Range& range : ranges_) {
      const std::uintptr_t first = number(address);
      if (first >= range.first + range.bytes || first + bytes <= range.first) continue;
      (writes ? range.written : range.read) = true;
    }
  }

  std::vector<Range> ranges_;
};

TEST(HostAccess, IsToldLikeThatOfDevices) {
  std::size_t seen = 0;
  for (const auto& [name, cases] : all_cases())
    for (std::size_t i = 0; i < cases.size(); i += every()) {
      const Case& of = cases[i];
      if (of.traits.device_only || name == "cpu") continue;  // which gives the CPU's tensor itself
      std::vector<std::pair<bool, bool>> told[2];
      for (const bool on_device : {false, true}) {
        const Device here(on_device ? "cuda:0" : "cpu");
        Tensors inputs;
        for (const Input& input : of.inputs)
          inputs.push_back(place(input.content, *strided(Layout::contiguous, input.content.sizes),
                                 input.home == Home::cpu ? Device("cpu") : here));
        case_seed() = 20;
        const Touches touches(inputs);
        try {
          (void)of.run(inputs, here);
        } catch (const Error&) {  // what was touched until then counts
        }
        for (std::size_t k = 0; k < inputs.size(); ++k)
          told[on_device ? 1 : 0].emplace_back(touches.touched(k), touches.written(k));
      }
      for (std::size_t k = 0; k < told[1].size(); ++k) {
        seen += told[1][k].first ? 1 : 0;
        EXPECT_TRUE(told[0][k].first || !told[1][k].first)
            << name << " of " << of.what << ": input " << k << " is touched";
        EXPECT_TRUE(told[0][k].second || !told[1][k].second)
            << name << " of " << of.what << ": input " << k << " is written";
      }
    }
  EXPECT_GT(seen, 1000U);
  cuda::synchronize(0);
}

}  // namespace
}  // namespace ember::test
