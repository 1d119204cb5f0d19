// What the loops of both columns are instantiated with. A functor says what its inputs are stored
// as, what they are computed in, what comes out, and how.
#pragma once

#include "ember/ops/loop.h"
#include "ember/scalar/elementwise.h"

namespace ember::ops {

/// An element-wise operation on elements of type T.
template <class Op, class T>
struct Apply {
  static constexpr int kInputs = Op::info.operands;
  using Output =
      std::conditional_t<Op::info.result == Result::boolean, bool,
                         std::conditional_t<Op::info.result == Result::real, Real<T>, T>>;
  template <int k>
  using Input = T;
  template <int k>
  using Computed = Compute<T>;
  template <class... X>
  EMBER_HD static Output call(X... x) {
    return convert<Output>(Op::template apply<Compute<T>>(x...));
  }
};

/// Copies, and converts on the way.
template <class From, class To>
struct Cast {
  static constexpr int kInputs = 1;
  using Output = To;
  template <int k>
  using Input = From;
  template <int k>
  using Computed = From;
  EMBER_HD static Output call(From x) { return convert<To>(x); }
};

/// condition ? x : y. The elements are copied, not computed with.
template <class T>
struct Where {
  static constexpr int kInputs = 3;
  using Output = T;
  template <int k>
  using Input = std::conditional_t<k == 0, bool, T>;
  template <int k>
  using Computed = Input<k>;
  EMBER_HD static Output call(bool condition, T x, T y) { return condition ? x : y; }
};

}  // namespace ember::ops
