// The host implementations of cumsum and cumprod.
#include <algorithm>

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

template <class Op, class T>
Status implementation(const driver::Params& params, const driver::HostLaunch& on) {
  using A = Accumulated<T>;
  const auto& args = params.as<ScanArgs>();
  const auto count = static_cast<std::size_t>(args.outer * args.n * args.inner);
  const T* in = on.at(static_cast<const T*>(args.in), count);
  if (in == nullptr) return on.fault();
  T* out = on.at(static_cast<T*>(args.out), count);
  if (out == nullptr) return on.fault();
  // As many columns at a time as lie in a cache line or two.
  constexpr std::int64_t kColumns = 16;
  for (std::int64_t o = 0; o < args.outer;
       ++o, in += args.n * args.inner, out += args.n * args.inner)
    for (std::int64_t first = 0; first < args.inner; first += kColumns) {
      const std::int64_t columns = std::min(kColumns, args.inner - first);
      A sums[kColumns];
      for (A& sum : sums) sum = Op::template first<A>();
      for (std::int64_t i = 0; i < args.n; ++i)
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t at = i * args.inner + first + c;
          sums[c] = Op::join(sums[c], convert<A>(in[at]));
          out[at] = convert<T>(sums[c]);
        }
    }
  return {};
}

template <class Op, class T>
constexpr driver::HostImplementation implementation_of() {
  if constexpr (is_floating<T> || is_complex<T> || std::is_same_v<T, std::int64_t>)
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
