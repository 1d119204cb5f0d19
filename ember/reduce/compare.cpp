#include "ember/reduce/compare.h"

#include <string>

#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/reduce/reduce.h"

namespace ember::inline v0 {
namespace {

void require_tolerance(const char* name, double value) {
  if (!(value >= 0))
    throw Error(std::string(name) + " must be greater than or equal to zero, but got " +
                number_text(value));
}

}  // namespace

Tensor isclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  if (x.dtype() != y.dtype())
    throw Error(std::string(legacy_name(x.dtype())) + " did not match " + legacy_name(y.dtype()));
  require_tolerance("rtol", rtol);
  require_tolerance("atol", atol);
  Tensor close = eq(x, y);
  if (equal_nan && !is_integral(x.dtype())) close.logical_or_(x.isnan().logical_and(y.isnan()));
  if (rtol == 0 && atol == 0) return close;
  // Differences of integers may be beyond their dtype.
  const Dtype computed = is_integral(y.dtype()) ? default_dtype() : y.dtype();
  const Tensor other = y.to(computed);
  const Tensor apart = sub(x.to(computed), other).abs();
  const Tensor allowed = mul(other, rtol).abs().add_(atol);
  // An infinite tolerance makes an infinite distance no smaller.
  return close.logical_or_(apart.isfinite().logical_and(apart.le(allowed)));
}

bool allclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  return isclose(x, y, rtol, atol, equal_nan).all().item<bool>();
}

bool equal(const Tensor& x, const Tensor& y) {
  ops::require_same_device(x.device(), y.device());
  if (x.sizes() != y.sizes()) return false;
  return x.numel() == 0 || eq(x, y).all().item<bool>();
}

Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return ember::isclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return ember::allclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::equal(const Tensor& other) const { return ember::equal(*this, other); }

}  // namespace ember::inline v0
