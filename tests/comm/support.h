// Tensors whose elements say where they came from.
#pragma once

#include <array>
#include <atomic>
#include <numeric>

#include "ember/comm/comm.h"
#include "tests/ops/support.h"

namespace ember::test {

namespace comm = cuda::comm;

inline Device cuda_device(int index) { return Device(Device::Type::cuda, index); }

/// 0 to n - 1.
inline std::vector<int> first_devices(int count) {
  std::vector<int> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

/// Small integers that every dtype holds, different for each seed.
inline Tensor numbers(const Shape& sizes, Dtype dtype, Device device, int seed) {
  std::vector<std::int32_t> list(static_cast<std::size_t>(element_count(sizes)));
  for (std::size_t i = 0; i < list.size(); ++i)
    list[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(seed) * 5) % 31);
  return tensor(list).to(dtype).view(sizes).to(device);
}

inline void expect_equal(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes().str(), expected.sizes().str()) << what;
  ASSERT_EQ(got.dtype(), expected.dtype()) << what;
  const Tensor a = got.cpu().contiguous();
  const Tensor b = expected.cpu().contiguous();
  if (a.numel() > 0) {
    EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0) << what;
  }
}

/// Counts what happens while it lives.
class Counts : public cuda::Observer {
 public:
  using Kind = cuda::Activity::Kind;
  Counts() : before_(cuda::set_observer(this)) {}
  ~Counts() override { cuda::set_observer(before_); }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  void notice(const cuda::Activity& activity) noexcept override {
    ++of_kind_[static_cast<std::size_t>(activity.kind)];
  }
  int operator[](Kind kind) const { return of_kind_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<std::atomic<int>, 64> of_kind_{};
  cuda::Observer* before_;
};

/// Tests over numbers of devices; more than the machine has are skipped.
class OnDevices : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { NEEDS_DEVICES(GetParam()); }
  static int count() { return GetParam(); }
};

}  // namespace ember::test
