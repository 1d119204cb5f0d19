// What tests of fused functions share: whether bits are the same, and how many kernels ran.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/jit/support.h"

namespace ember::test {

/// The elements as bytes, NaN being NaN: which one it is depends on the order in which a compiler
/// takes the operands of a sum.
inline std::vector<std::uint8_t> bits(const Tensor& tensor) {
  Tensor here = tensor.cpu().contiguous();
  if (here.is_complex()) here = here.view_as_real();
  if (here.is_floating_point()) here = where(here.isnan(), full({}, kNaN, here.dtype()), here);
  std::vector<std::uint8_t> made(here.nbytes());
  if (!made.empty()) std::memcpy(made.data(), here.data_ptr(), made.size());
  return made;
}
inline void expect_same_bits(const Tensor& fused, const Tensor& eager, const std::string& what) {
  ASSERT_EQ(fused.dtype(), eager.dtype()) << what;
  ASSERT_EQ(fused.sizes().str(), eager.sizes().str()) << what;
  EXPECT_EQ(fused.strides().str(), eager.strides().str()) << what;
  EXPECT_EQ(fused.device(), eager.device()) << what;
  EXPECT_EQ(bits(fused), bits(eager))
      << what << "\nfused: " << fused.str() << "\neager: " << eager.str();
}

/// Of both signs, none of them zero but the first.
inline Tensor numbers(const Shape& sizes) {
  return (arange(element_count(sizes)).to(Dtype::float32).view(sizes) * 0.37).sin() * 4;
}

/// The names of the kernels that a device was given while it lives.
class Launches final : public cuda::Observer {
 public:
  Launches() { cuda::add_observer(*this); }
  ~Launches() override { cuda::remove_observer(*this); }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  void notice(const cuda::Activity& activity) noexcept override {
    if (activity.kind != cuda::Activity::Kind::kernel_launched) return;
    names.emplace_back(activity.name);
    written.push_back(std::count_if(activity.accesses.begin(), activity.accesses.end(),
                                    [](const cuda::Access& access) { return access.writes; }));
  }
  /// How many had this name since the last question.
  int count(const std::string& name) {
    const auto found = static_cast<int>(std::count(names.begin(), names.end(), name));
    names.clear();
    return found;
  }
  std::vector<std::string> names;
  std::vector<std::int64_t> written;  ///< how many operands each of them wrote
};

}  // namespace ember::test
