// The host column of element-wise kernels: for the CPU and for simulated devices.
#pragma once

#include <utility>

#include "ember/ops/functors.h"

namespace ember::ops::host {

using driver::HostLaunch;

/// One input along a row: elements at a stride, or the same value throughout.
template <class F, int k>
struct Input {
  using Stored = typename F::template Input<k>;
  using Computed = typename F::template Computed<k>;
  const Stored* data;
  std::ptrdiff_t stride;  ///< 0: `value` throughout
  Computed value;

  Computed at(std::int64_t i) const {
    return stride == 0 ? value : convert<Computed>(data[i * stride]);
  }
};

template <class F, unsigned fixed, int k>
EMBER_HD typename F::template Computed<k> adjacent(const Input<F, k>& in,
                                                   const typename F::template Computed<k>& value,
                                                   std::int64_t i) {
  if constexpr (((fixed >> k) & 1U) != 0)
    return value;
  else
    return convert<typename F::template Computed<k>>(in.data[i]);
}

template <class F, class Order>
struct Rows;

template <class F, std::size_t... k>
struct Rows<F, std::index_sequence<k...>> {
  using Output = typename F::Output;

  /// A row of adjacent elements in which the inputs of the mask are the same throughout and the
  /// others adjacent: loops that the compiler makes vectors of. An output may lie exactly on an
  /// input (in place), but never beside it.
  template <unsigned fixed>
  static void adjacent_rows(Output* out, std::int64_t count,
                            const Input<F, static_cast<int>(k)>&... in) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = F::call(adjacent<F, fixed, static_cast<int>(k)>(in, in.value, i)...);
  }

  static void row(Output* out, std::ptrdiff_t out_stride, std::int64_t count,
                  const Input<F, static_cast<int>(k)>&... in) {
    constexpr unsigned kMasks = 1U << sizeof...(k);
    if (out_stride == 1 && ((in.stride == 0 || in.stride == 1) && ...)) {
      const unsigned fixed = (((in.stride == 0 ? 1U : 0U) << k) | ...);
      const bool done = [&]<std::size_t... mask>(std::index_sequence<mask...>) {
        return ((fixed == mask && (adjacent_rows<mask>(out, count, in...), true)) || ...);
      }
      (std::make_index_sequence<kMasks>());
      if (done) return;
    }
    for (std::int64_t i = 0; i < count; ++i) out[i * out_stride] = F::call(in.at(i)...);
  }

  static Status run(const Loop& loop, const HostLaunch& on) {
    Output* out = on.at(static_cast<Output*>(loop.data[0]), loop.span(0));
    if (out == nullptr) return on.fault();
    bool found = true;
    const auto open = [&]<int n>() {
      Input<F, n> in{nullptr, loop.stride[n + 1][0], {}};
      if (loop.number[n + 1] >= 0) {
        in.stride = 0;
        in.value = loop.number_as<typename F::template Computed<n>>(n + 1);
        return in;
      }
      using Stored = typename F::template Input<n>;
      in.data = on.at(static_cast<const Stored*>(loop.data[n + 1]), loop.span(n + 1));
      if (in.data == nullptr) found = false;
      return in;
    };
    return each_row(loop, out, found, on, open.template operator()<static_cast<int>(k)>()...);
  }

  static Status each_row(const Loop& loop, Output* out, const bool& found, const HostLaunch& on,
                         Input<F, static_cast<int>(k)>... in) {
    if (!found) return on.fault();
    const auto load = [](auto& input) {
      using Computed = typename std::remove_cvref_t<decltype(input)>::Computed;
      if (input.stride == 0 && input.data != nullptr) input.value = convert<Computed>(*input.data);
    };
    if (loop.flat()) {
      (load(in), ...);
      row(out, 1, loop.count, in...);
      return {};
    }
    std::uint32_t index[kLoopDims] = {};
    for (;;) {
      (load(in), ...);
      row(out, loop.stride[0][0], loop.size[0], in...);
      int d = 1;
      for (; d < loop.dims; ++d) {
        const bool carry = ++index[d] == loop.size[d];
        if (carry) index[d] = 0;
        const std::ptrdiff_t steps = carry ? 1 - static_cast<std::ptrdiff_t>(loop.size[d]) : 1;
        out += steps * loop.stride[0][d];
        ((in.data = in.data == nullptr ? nullptr : in.data + steps * loop.stride[k + 1][d]), ...);
        if (!carry) break;
      }
      if (d >= loop.dims) return {};
    }
  }
};

template <class F>
Status column(const driver::Params& params, const HostLaunch& on) {
  return Rows<F, std::make_index_sequence<F::kInputs>>::run(params.as<Loop>(), on);
}

}  // namespace ember::ops::host
