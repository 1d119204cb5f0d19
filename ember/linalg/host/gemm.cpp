#include "ember/linalg/host/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ember/base/thread_exit.h"
#include "ember/linalg/host/micro.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::linalg::host {
namespace {

// Note [Blocks]
// ~~~~~~~~~~~~~
// The result is computed in blocks that stay in the second-level cache. For each, slices of A and B
// are packed: converted to what is computed in, and laid out in the order in which the innermost
// loop (micro.h) reads them. The sums of a block are kept in that type until they are complete, so
// that 16-bit results are rounded once.

/// What elements of type T are computed in, and how many planes a number has.
template <class T>
struct Computed {
  using Number = Real<Compute<T>>;
  static constexpr int kPlanes = is_complex<T> ? 2 : 1;
};
template <class T>
requires(is_integer<T>) struct Computed<T> {
  // Unsigned, where wrapping around is defined; the low bits do not depend on the width.
  using Number = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kPlanes = 1;
};

constexpr std::int64_t kDepth = 256;

std::int64_t round_up(std::int64_t n, int unit) { return (n + unit - 1) / unit * unit; }

/// A matrix by its strides.
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column;
  T* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * column; }
};

/// Memory for packed panels, one per thread and kept: asking for megabytes anew in each product
/// would cost more than small products do.
struct Scratch {
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(memory); }

  void* memory = nullptr;
  std::size_t size = 0;
};

void* scratch(std::size_t bytes) noexcept {
  Scratch& kept = PerThread<Scratch>::get();
  if (kept.size < bytes) {
    std::free(kept.memory);
    constexpr std::size_t kLine = 64;
    kept.memory = std::aligned_alloc(kLine, (bytes + kLine - 1) / kLine * kLine);
    kept.size = kept.memory != nullptr ? bytes : 0;
  }
  return kept.memory;
}

/// Lines `first` to `first + lines` of a matrix whose lines lie `step` apart, over `depth` elements
/// that lie `along` apart, as panels of `unit` lines; what is missing to a full panel is zero.
template <class T, class R>
void pack(const T* from, std::int64_t step, std::int64_t along, std::int64_t lines,
          std::int64_t depth, int unit, R* to) {
  constexpr int kPlanes = Computed<T>::kPlanes;
  for (std::int64_t start = 0; start < lines; start += unit) {
    const T* panel = from + start * step;
    const auto width = static_cast<int>(std::min<std::int64_t>(unit, lines - start));
    const auto put = [&](std::int64_t p, int i) {
      R* place = to + p * unit * kPlanes + i;
      const T value = panel[i * step + p * along];
      if constexpr (kPlanes == 2) {
        place[0] = value.re;
        place[unit] = value.im;
      } else {
        *place = convert<R>(value);
      }
    };
    if (width < unit)
      std::memset(to, 0, sizeof(R) * static_cast<std::size_t>(depth * unit * kPlanes));
    if (step == 1) {
      for (std::int64_t p = 0; p < depth; ++p)
        for (int i = 0; i < width; ++i) put(p, i);
    } else {
      for (int i = 0; i < width; ++i)
        for (std::int64_t p = 0; p < depth; ++p) put(p, i);
    }
    to += depth * unit * kPlanes;
  }
}

/// What becomes of a sum: alpha * sum + beta * c.
template <class T>
class Scale {
 public:
  using R = typename Computed<T>::Number;

  explicit Scale(const driver::GemmArgs& args) : reads_(args.reads_c()) {
    if constexpr (is_integer<T>) {
      alpha_ = static_cast<R>(args.integer_alpha);
      beta_ = static_cast<R>(args.integer_beta);
      plain_ = args.integer_alpha == 1 && !reads_;
    } else if constexpr (is_complex<T>) {
      alpha_ = T(static_cast<R>(args.alpha[0]), static_cast<R>(args.alpha[1]));
      beta_ = T(static_cast<R>(args.beta[0]), static_cast<R>(args.beta[1]));
      plain_ = args.alpha[0] == 1 && args.alpha[1] == 0 && !reads_;
    } else {
      alpha_ = static_cast<R>(args.alpha[0]);
      beta_ = static_cast<R>(args.beta[0]);
      plain_ = args.alpha[0] == 1 && !reads_;
    }
  }

  void store(T& c, const R* sum, int rows) const {
    Number value;
    if constexpr (is_complex<T>)
      value = T(sum[0], sum[rows]);
    else
      value = *sum;
    if (!plain_) {
      value = alpha_ * value;
      if (reads_) value = value + beta_ * convert<Number>(c);
    }
    c = convert<T>(value);
  }

 private:
  using Number = std::conditional_t<is_complex<T>, T, R>;
  Number alpha_, beta_;
  bool reads_;
  bool plain_ = false;
};

/// The sum of the products of two lines of `count` elements, in lanes, and blocks of them, so that
/// rounding errors stay small; for real numbers.
template <class T>
typename Computed<T>::Number line_product(const T* x, std::int64_t x_step, const T* y,
                                          std::int64_t y_step, std::int64_t count) {
  using R = typename Computed<T>::Number;
  constexpr int kLanes = 32;
  constexpr std::int64_t kBlock = 4096;
  R sum = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, count);
    R lanes[kLanes] = {};
    std::int64_t i = first;
    if (x_step == 1 && y_step == 1)
      for (; i + kLanes <= last; i += kLanes)
        for (int k = 0; k < kLanes; ++k) lanes[k] += convert<R>(x[i + k]) * convert<R>(y[i + k]);
    for (; i < last; ++i) lanes[0] += convert<R>(x[i * x_step]) * convert<R>(y[i * y_step]);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    sum += lanes[0];
  }
  return sum;
}

}  // namespace

template <class T>
Status own_gemm(const driver::GemmArgs& args, const T* a_data, const T* b_data,
                T* c_data) noexcept {
  using R = typename Computed<T>::Number;
  constexpr int kPlanes = Computed<T>::kPlanes;
  const Micro<R>& inner = micro<R, kPlanes>();

  Matrix<const T> a{a_data, 1, args.lda};
  Matrix<const T> b{b_data, 1, args.ldb};
  Matrix<T> c{c_data, 1, args.ldc};
  if (args.transpose_a) std::swap(a.row, a.column);
  if (args.transpose_b) std::swap(b.row, b.column);
  std::int64_t m = args.m;
  std::int64_t n = args.n;
  if constexpr (kPlanes == 1) {
    if (m == 1 && n == 1) {
      const R sum = line_product(a_data, a.column, b_data, b.row, args.k);
      Scale<T>(args).store(*c_data, &sum, 1);
      return {};
    }
  }
  if (m < inner.rows && m < n) {
    // Few rows would leave most of a register unused: the transposed product has few columns.
    std::swap(m, n);
    std::swap(a, b);
    std::swap(a.row, a.column);
    std::swap(b.row, b.column);
    std::swap(c.row, c.column);
  }

  constexpr std::int64_t kBlock = sizeof(R) * kPlanes <= 4   ? 384
                                  : sizeof(R) * kPlanes <= 8 ? 240
                                                             : 144;
  const std::int64_t block_m = round_up(std::min(m, kBlock), inner.rows);
  const std::int64_t block_n = round_up(std::min(n, kBlock), inner.columns);
  const std::int64_t block_k = std::min(args.k, kDepth);
  const std::int64_t a_size = block_m * block_k * kPlanes;
  const std::int64_t b_size = round_up(block_n * block_k * kPlanes, 64);
  const std::int64_t tile_size = block_m * block_n * kPlanes;
  const auto a_room = round_up(a_size, 64);
  R* memory =
      static_cast<R*>(scratch(sizeof(R) * static_cast<std::size_t>(a_room + b_size + tile_size)));
  if (memory == nullptr) return Status(Code::out_of_memory, "no host memory for packed panels");
  R* const packed_a = memory;
  R* const packed_b = memory + a_room;
  R* const tile = packed_b + b_size;
  const int per_tile = inner.rows * inner.columns * kPlanes;
  const Scale<T> scale(args);

  for (std::int64_t jc = 0; jc < n; jc += block_n) {
    const std::int64_t columns = std::min(block_n, n - jc);
    for (std::int64_t ic = 0; ic < m; ic += block_m) {
      const std::int64_t rows = std::min(block_m, m - ic);
      const std::int64_t panels = (rows + inner.rows - 1) / inner.rows;
      std::fill_n(tile, panels * inner.rows * round_up(columns, inner.columns) * kPlanes, R(0));
      for (std::int64_t pc = 0; pc < args.k; pc += block_k) {
        const std::int64_t depth = std::min(block_k, args.k - pc);
        pack(a.at(ic, pc), a.row, a.column, rows, depth, inner.rows, packed_a);
        pack(b.at(pc, jc), b.column, b.row, columns, depth, inner.columns, packed_b);
        for (std::int64_t j = 0; j * inner.columns < columns; ++j)
          for (std::int64_t i = 0; i < panels; ++i)
            inner.run(depth, packed_a + i * depth * inner.rows * kPlanes,
                      packed_b + j * depth * inner.columns * kPlanes,
                      tile + (j * panels + i) * per_tile);
      }
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t panel = 0; panel < panels; ++panel) {
          const R* sums = tile + ((j / inner.columns) * panels + panel) * per_tile +
                          (j % inner.columns) * inner.rows * kPlanes;
          const std::int64_t first = panel * inner.rows;
          const std::int64_t last = std::min<std::int64_t>(first + inner.rows, rows);
          for (std::int64_t i = first; i < last; ++i)
            scale.store(*c.at(ic + i, jc + j), sums + (i - first), inner.rows);
        }
    }
  }
  return {};
}

#define EMBER_DTYPE(type) \
  template Status own_gemm(const driver::GemmArgs&, const type*, const type*, type*) noexcept;
EMBER_DTYPE(std::uint8_t)
EMBER_DTYPE(std::int8_t)
EMBER_DTYPE(std::int16_t)
EMBER_DTYPE(std::int32_t)
EMBER_DTYPE(std::int64_t)
EMBER_DTYPE(Half)
EMBER_DTYPE(BFloat16)
EMBER_DTYPE(float)
EMBER_DTYPE(double)
EMBER_DTYPE(Complex<float>)
EMBER_DTYPE(Complex<double>)
#undef EMBER_DTYPE

}  // namespace ember::inline v0::linalg::host
