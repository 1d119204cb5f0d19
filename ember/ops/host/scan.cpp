// The host implementations of cumsum and cumprod.
#include <algorithm>

#include "ember/ops/host/parts.h"
#include "ember/ops/host/vector.h"
#include "ember/ops/scan_args.h"
#include "ember/ops/scan_kernels.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops {
namespace {

struct Sum {
  template <class A>
  static A first() {
    return A(0);
  }
  template <class A>
  static A join(A x, A y) {
    return m::add(x, y);
  }
};
struct Product {
  template <class A>
  static A first() {
    return A(1);
  }
  template <class A>
  static A join(A x, A y) {
    return m::mul(x, y);
  }
};

/// What sums of T are kept in: one after the other, float would soon lose all that comes.
template <class T>
using Accumulated = std::conditional_t<
    std::is_same_v<T, float>, double,
    std::conditional_t<std::is_same_v<T, Complex<float>>, Complex<double>, Compute<T>>>;

/// As many columns at a time as lie in a cache line or two.
constexpr std::int64_t kColumns = 16;

/// Tiles [first, last): a row each, or some columns.
template <class Op, class T>
EMBER_HD void scan_tiles(const ScanArgs& args, const T* in, T* out, std::int64_t first,
                         std::int64_t last) {
  using A = Accumulated<T>;
  if (args.inner == 1) {
    for (std::int64_t row = first; row < last; ++row) {
      A sum = Op::template first<A>();
      for (std::int64_t at = row * args.n; at < (row + 1) * args.n; ++at) {
        sum = Op::join(sum, convert<A>(in[at]));
        out[at] = convert<T>(sum);
      }
    }
    return;
  }
  const std::int64_t across = (args.inner + kColumns - 1) / kColumns;
  for (std::int64_t tile = first; tile < last; ++tile) {
    const std::int64_t column = tile % across * kColumns;
    const std::int64_t start = tile / across * args.n * args.inner + column;
    const std::int64_t width = std::min(kColumns, args.inner - column);
    A sums[kColumns];
    for (A& sum : sums) sum = Op::template first<A>();
    for (std::int64_t i = 0; i < args.n; ++i) {
      const T* const x = in + start + i * args.inner;
      T* const y = out + start + i * args.inner;
      EMBER_NO_ALIAS
      for (std::int64_t c = 0; c < width; ++c) {
        sums[c] = Op::join(sums[c], convert<A>(x[c]));
        y[c] = convert<T>(sums[c]);
      }
    }
  }
}
template <class Op, class T>
EMBER_VECTOR_CODE void vector_tiles(const ScanArgs& args, const T* in, T* out, std::int64_t first,
                                    std::int64_t last) {
  scan_tiles<Op>(args, in, out, first, last);
}

template <class Op, class T>
Status implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<ScanArgs>();
  const auto count = static_cast<std::size_t>(args.outer * args.n * args.inner);
  const T* in = on.at(static_cast<const T*>(args.in), count);
  if (in == nullptr) return on.fault();
  T* out = on.at(static_cast<T*>(args.out), count);
  if (out == nullptr) return on.fault();
  const std::int64_t width = std::min(kColumns, args.inner);
  const std::int64_t tiles = args.outer * ((args.inner + kColumns - 1) / kColumns);
  on.in_pieces(tiles, host::least_steps(args.n * width),
               [&](std::int64_t first, std::int64_t last) {
                 if (host::has_avx2) return vector_tiles<Op>(args, in, out, first, last);
#if EMBER_HOST_AVX2
                 scan_tiles<Op>(args, in, out, first, last);
#endif
               });
  return {};
}

template <class Op, class T>
constexpr driver::HostImplementation implementation_of() {
  if constexpr (contains(dtypes::floating_complex | only(Dtype::int64), dtype_of<T>))
    return &implementation<Op, T>;
  else
    return nullptr;
}

constinit driver::Kernel sums[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"cumsum." name, implementation_of<Sum, type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
constinit driver::Kernel products[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"cumprod." name, implementation_of<Product, type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const driver::kernels::Table sums_table(sums, driver::arguments<ScanArgs>());
const driver::kernels::Table products_table(products, driver::arguments<ScanArgs>());

}  // namespace

const driver::Kernel* scan_kernel(ScanOp op, Dtype dtype) noexcept {
  const driver::Kernel& kernel = (op == ScanOp::cumsum ? sums : products)[static_cast<int>(dtype)];
  return kernel.host == nullptr ? nullptr : &kernel;
}

}  // namespace ember::inline v0::ops
