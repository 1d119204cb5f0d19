// Transforms of float16: as float32, between copies without gaps.
#include <memory>
#include <new>

#include "ember/fft/host/transform.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::fft::host {
namespace {

using driver::FftArgs;
using driver::FftGeometry;
using driver::FftKind;

/// One side of a transform: its elements as they lie, the batch before the signal.
struct Side {
  static constexpr int kMostDims = driver::kFftDims + driver::kFftBatchDims;
  std::int64_t sizes[kMostDims];
  std::int64_t strides[kMostDims];
  int dims = 0;
  bool is_real;

  Side(const FftGeometry& g, bool input)
      : is_real(g.kind == (input ? FftKind::r2c : FftKind::c2r)) {
    const bool is_halved = g.kind == (input ? FftKind::c2r : FftKind::r2c);
    for (int d = 0; d < g.batch_dims; ++d)
      add(g.batch_sizes[d], input ? g.in_batch_strides[d] : g.out_batch_strides[d]);
    for (int d = 0; d < g.dims; ++d)
      add(is_halved && d == g.dims - 1 ? g.sizes[d] / 2 + 1 : g.sizes[d],
          input ? g.in_strides[d] : g.out_strides[d]);
  }
  void add(std::int64_t size, std::int64_t stride) {
    sizes[dims] = size;
    strides[dims] = stride;
    ++dims;
  }

  std::int64_t count() const {
    std::int64_t product = 1;
    for (int d = 0; d < dims; ++d) product *= sizes[d];
    return product;
  }

  /// Calls `use(offset, k)` with where element k lies, for all of them in order.
  template <class Use>
  void each(Use&& use) const {
    const std::int64_t length = sizes[dims - 1];
    const std::int64_t rows = count() / length;
    std::int64_t at[kMostDims] = {};
    std::int64_t offset = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < length; ++i)
        use(offset + i * strides[dims - 1], row * length + i);
      for (int d = dims - 2; d >= 0; --d) {
        offset += strides[d];
        if (++at[d] < sizes[d]) break;
        offset -= sizes[d] * strides[d];
        at[d] = 0;
      }
    }
  }

  /// Strides without gaps, of the same order.
  void pack(std::int64_t* batch_strides, std::int64_t* signal_strides, int batch_dims) const {
    std::int64_t step = 1;
    for (int d = dims - 1; d >= 0; --d) {
      (d < batch_dims ? batch_strides[d] : signal_strides[d - batch_dims]) = step;
      step *= sizes[d];
    }
  }
};

template <class From, class To>
void widen(const Side& side, const void* from, To* to) {
  side.each([from = static_cast<const From*>(from), to](std::int64_t offset, std::int64_t k) {
    to[k] = convert<To>(from[offset]);
  });
}
template <class From, class To>
void narrow(const Side& side, const From* from, void* to) {
  side.each([from, to = static_cast<To*>(to)](std::int64_t offset, std::int64_t k) {
    to[offset] = convert<To>(from[k]);
  });
}

/// Floats for all elements of a side; null if there is no memory.
std::unique_ptr<float[]> floats_for(const Side& side) {
  const auto count = static_cast<std::size_t>(side.count()) * (side.is_real ? 1 : 2);
  return std::unique_ptr<float[]>(new (std::nothrow) float[count]);
}

}  // namespace

template <>
Status transform<Half>(const FftArgs& args, int threads) noexcept {
  const Side from(args.geometry, true);
  const Side to(args.geometry, false);
  const std::unique_ptr<float[]> in = floats_for(from);
  const std::unique_ptr<float[]> out = floats_for(to);
  if (in == nullptr || out == nullptr)
    return Status(Code::out_of_memory, "no memory on the host for a transform of float16");

  FftArgs wide = args;
  FftGeometry& g = wide.geometry;
  wide.in = in.get();
  wide.out = out.get();
  wide.scale = 1;
  g.real_bytes = sizeof(float);
  from.pack(g.in_batch_strides, g.in_strides, g.batch_dims);
  to.pack(g.out_batch_strides, g.out_strides, g.batch_dims);

  auto* const complex_in = reinterpret_cast<Complex<float>*>(in.get());
  if (from.is_real)
    widen<Half>(from, args.in, in.get());
  else
    widen<Complex<Half>>(from, args.in, complex_in);
  EMBER_TRY(transform<float>(wide, threads));
  const auto* const complex_out = reinterpret_cast<const Complex<float>*>(out.get());
  if (to.is_real)
    narrow<float, Half>(to, out.get(), args.out);
  else
    narrow<Complex<float>, Complex<Half>>(to, complex_out, args.out);
  return {};
}

}  // namespace ember::inline v0::fft::host
