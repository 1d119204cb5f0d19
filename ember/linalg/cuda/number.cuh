// What products are summed in, and how a sum becomes an element of the result.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ember/driver/gemm.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::linalg::cuda {

/// What sums are made in. Integers wrap around, which unsigned ones may; the low bits are the same.
template <class T>
struct SumOf {
  using type = Compute<T>;
};
template <class T>
requires is_integer<T>
struct SumOf<T> {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};

template <class Number>
__device__ Number factor(const double (&parts)[2], std::int64_t integer) {
  if constexpr (is_complex<Number>)
    return Number(static_cast<Real<Number>>(parts[0]), static_cast<Real<Number>>(parts[1]));
  else if constexpr (is_integer<Number>)
    return static_cast<Number>(integer);
  else
    return static_cast<Number>(parts[0]);
}

/// c = alpha * sum + beta * c, without reading c if beta is zero.
template <class T, class Number>
__device__ void write_product(const driver::GemmArgs& args, T& c, Number sum) {
  Number value = factor<Number>(args.alpha, args.integer_alpha) * sum;
  if (args.beta[0] != 0 || args.beta[1] != 0 || args.integer_beta != 0)
    value = value + factor<Number>(args.beta, args.integer_beta) * convert<Number>(c);
  c = convert<T>(value);
}

}  // namespace ember::inline v0::linalg::cuda
