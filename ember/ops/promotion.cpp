#include "ember/ops/promotion.h"

#include <array>
#include <optional>

#include "ember/ops/elementwise.h"

namespace ember::inline v0 {
namespace {

using ops::kind;

struct Promotion {
  std::optional<Dtype> dims;     ///< of tensors with dimensions
  std::optional<Dtype> points;   ///< of tensors without
  std::optional<Dtype> numbers;  ///< of numbers

  static void join(std::optional<Dtype>& into, Dtype dtype) {
    into = into ? promote_types(*into, dtype) : dtype;
  }
  void add(const Operand& operand) {
    if (const Tensor* tensor = operand.tensor()) {
      join(tensor->dim() > 0 ? dims : points, tensor->dtype());
      return;
    }
    const Dtype dtype = operand.number().dtype();
    join(numbers, dtype == Dtype::float64      ? default_dtype()
                  : dtype == Dtype::complex128 ? complex_dtype(default_dtype())
                                               : dtype);
  }
  static std::optional<Dtype> combine(std::optional<Dtype> higher, std::optional<Dtype> lower) {
    if (!higher) return lower;
    if (!lower || kind(*lower) <= kind(*higher)) return higher;
    // A complex number beside floating-point elements: their width stays.
    if (is_complex_dtype(*lower) && ember::is_floating_point(*higher))
      return complex_dtype(*higher);
    if (is_complex_dtype(*lower) && is_unsigned_wide(*higher)) return lower;
    return promote_types(*higher, *lower);
  }
  Dtype result() const { return combine(combine(dims, points), numbers).value_or(default_dtype()); }
};

}  // namespace

Dtype result_type(std::span<const Operand* const> inputs) {
  Promotion promotion;
  for (const Operand* input : inputs) promotion.add(*input);
  return promotion.result();
}

Dtype result_type(const Operand& x, const Operand& y) {
  return result_type(std::array<const Operand*, 2>{&x, &y});
}

}  // namespace ember::inline v0
