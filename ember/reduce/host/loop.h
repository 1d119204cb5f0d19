// The host implementation of reductions: row by row (rows.h, extreme_rows.h), or many columns at
// once (columns.h); in parts.h on several threads.
#pragma once

#include "ember/driver/extent.h"
#include "ember/reduce/host/columns.h"
#include "ember/reduce/host/extreme_rows.h"
#include "ember/reduce/host/parts.h"

namespace ember::inline v0::reduce::host {

/// Calls `use(offset in the input, offset in the output)` for every output, without the dimensions
/// before `from`.
template <class Use>
void each_output(const ReduceArgs& args, int from, const Use& use) {
  std::int64_t index[kReduceDims] = {};
  std::int64_t in = 0;
  std::int64_t out = 0;
  for (;;) {
    use(in, out);
    int d = from;
    for (; d < args.kept_dims; ++d) {
      in += args.kept_stride[d];
      out += args.kept_out[d];
      if (++index[d] < args.kept_size[d]) break;
      in -= index[d] * args.kept_stride[d];
      out -= index[d] * args.kept_out[d];
      index[d] = 0;
    }
    if (d >= args.kept_dims) return;
  }
}

/// A reduction whose memory is resolved.
template <class F>
void reduce_part(const ReduceArgs& args, const HostLaunch& on) {
  using In = typename F::In;
  const In* const in = static_cast<const In*>(args.in);
  const F f(args);
  if (by_columns(args)) {
    typename F::Acc accs[kColumns<F>];
    each_output(args, 1, [&](std::int64_t at, std::int64_t out) {
      for (std::int64_t c = 0; c < args.kept_size[0]; c += kColumns<F>) {
        const auto width =
            static_cast<int>(std::min<std::int64_t>(kColumns<F>, args.kept_size[0] - c));
        tile(f, args, in + at + c, width, accs);
        for (int k = 0; k < width; ++k) f.store(args, out + (c + k) * args.kept_out[0], accs[k]);
      }
    });
    return;
  }
  each_output(args, 0, [&](std::int64_t at, std::int64_t out) {
    f.store(args, out, row(f, args, in != nullptr ? in + at : nullptr, on));
  });
}

template <class F>
Status reduce_implementation(const driver::Params& params, const HostLaunch& on) {
  using In = typename F::In;
  ReduceArgs args = params.as<ReduceArgs>();
  // Nothing to read is no reason to write nothing.
  if (args.outputs > 0 && args.reduced > 0) {
    args.in = driver::Extent()
                  .add(args.kept_dims, args.kept_size, args.kept_stride)
                  .add(args.reduced_dims, args.size, args.stride)
                  .place(on, static_cast<const In*>(args.in));
    if (args.in == nullptr) return on.fault();
  } else {
    args.in = nullptr;
  }
  const auto outputs = static_cast<std::size_t>(args.outputs);
  if (args.out != nullptr) {
    args.out = on.at(static_cast<std::byte*>(args.out), outputs * args.out_item);
    if (args.out == nullptr) return on.fault();
  }
  if (args.indices != nullptr) {
    args.indices = on.at(args.indices, outputs);
    if (args.indices == nullptr) return on.fault();
  }
  reduce_in_parts(args, sizeof(In), on, &reduce_part<F>);
  return {};
}

}  // namespace ember::inline v0::reduce::host

#define EMBER_REDUCE_KERNEL(functor, type, name) \
  {name, &host::reduce_implementation<reduce::functor<type>>, nullptr},
