// The host implementations of the kernels that copy with strides of any sign.
#include <bit>
#include <cstring>

#include "ember/driver/extent.h"
#include "ember/driver/kernels.h"
#include "ember/ops/flip_kernels.h"
#include "ember/ops/host/indexed_loop.h"
#include "ember/ops/host/parts.h"

namespace ember::inline v0::ops {
namespace {

using driver::HostLaunch;

template <class T>
EMBER_VECTOR_CODE void reverse_line(T* out, const T* in, std::int64_t count) {
  EMBER_NO_ALIAS
  for (std::int64_t i = 0; i < count; ++i) out[i] = in[-i];
}
template <class T>
void move_line(const FlipArgs& args, T* out, const T* in) {
  const std::int64_t out_stride = args.out_stride[0];
  const std::int64_t in_stride = args.in_stride[0];
  if (out_stride == 1 && in_stride == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(args.size[0]) * sizeof(T));
    return;
  }
  if (out_stride == 1 && in_stride == -1 && host::has_avx2)
    return reverse_line(out, in, args.size[0]);
  for (std::int64_t i = 0; i < args.size[0]; ++i) out[i * out_stride] = in[i * in_stride];
}

template <class T>
void move_all(const FlipArgs& args, T* out, const T* in) {
  std::int64_t at[kFlipDims] = {};
  for (;;) {
    move_line(args, out, in);
    int d = 1;
    for (; d < args.dims; ++d) {
      const bool carry = ++at[d] == args.size[d];
      if (carry) at[d] = 0;
      const std::int64_t steps = carry ? 1 - args.size[d] : 1;
      out += steps * args.out_stride[d];
      in += steps * args.in_stride[d];
      if (!carry) break;
    }
    if (d >= args.dims) return;
  }
}

template <int unit>
Status host_implementation(const driver::Params& params, const HostLaunch& on) {
  using T = host::Unit<unit>;
  const auto& args = params.as<FlipArgs>();
  const T* in = driver::Extent()
                    .add(args.dims, args.size, args.in_stride)
                    .place(on, static_cast<const T*>(args.in));
  if (in == nullptr) return on.fault();
  T* out = driver::Extent()
               .add(args.dims, args.size, args.out_stride)
               .place(on, static_cast<T*>(args.out));
  if (out == nullptr) return on.fault();
  const int along = host::longest_dim(args.size, args.dims);
  std::int64_t count = 1;
  for (int d = 0; d < args.dims; ++d) count *= args.size[d];
  on.in_pieces(args.size[along], host::least_steps(count / args.size[along]),
               [&](std::int64_t first, std::int64_t last) {
                 FlipArgs part = args;
                 part.size[along] = last - first;
                 move_all(part, out + first * args.out_stride[along],
                          in + first * args.in_stride[along]);
               });
  return {};
}

constinit driver::Kernel kernels[] = {
    {"flip.1", &host_implementation<1>, nullptr},   {"flip.2", &host_implementation<2>, nullptr},
    {"flip.4", &host_implementation<4>, nullptr},   {"flip.8", &host_implementation<8>, nullptr},
    {"flip.16", &host_implementation<16>, nullptr},
};
const driver::kernels::Table table(kernels, driver::arguments<FlipArgs>());

}  // namespace

const driver::Kernel& flip_kernel(std::size_t unit) noexcept {
  return kernels[std::countr_zero(unit)];
}

}  // namespace ember::inline v0::ops
