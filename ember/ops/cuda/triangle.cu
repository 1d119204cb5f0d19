// The CUDA implementations of the kernels that copy one side of a diagonal. The output is written
// in the order of its addresses, 16 bytes at once where it is aligned; what becomes zero is not
// read, and in place what is kept is not written.
#include <cstring>
#include <type_traits>

#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/divider.cuh"
#include "ember/ops/cuda/units.cuh"
#include "ember/ops/triangle_kernels.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Grid;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;
using driver::cuda::start;

constexpr std::uint32_t kThreads = 256;

/// How a thread moves what it stores at once.
enum class Move : std::uint8_t {
  packs,       ///< 16 bytes, which are adjacent and aligned in the input too
  into_packs,  ///< 16 bytes, element by element from the input
  single_elements
};

/// complex128 from elsewhere may be aligned as its parts are.
struct Halves {
  uint2 half[2];
};
template <int bytes>
using Element = std::conditional_t<bytes == 16, Halves, Unit<bytes>>;

struct Matrices {
  Divider rows;
  Divider columns;
  std::int32_t edge;
  bool lower;
  bool in_place;
  int dims;
  Divider size[kTriangleDims];
  std::int64_t stride[kTriangleDims];
  std::int64_t row_stride;

  static constexpr driver::AddressPlaces kAddresses = driver::kNoAddress;

  explicit Matrices(const TriangleArgs& args)
      : rows(static_cast<std::uint32_t>(args.rows)),
        columns(static_cast<std::uint32_t>(args.columns)),
        edge(static_cast<std::int32_t>(args.edge)),
        lower(args.lower),
        in_place(args.out == args.in),
        dims(args.dims),
        row_stride(args.row_stride) {
    for (int d = 0; d < dims; ++d) {
      size[d] = Divider(static_cast<std::uint32_t>(args.size[d]));
      stride[d] = args.stride[d];
    }
  }

  /// Where a row of the input begins.
  __device__ __forceinline__ std::int64_t offset(std::uint32_t matrix, std::uint32_t row) const {
    std::int64_t sum = row * row_stride;
#pragma unroll 1
    for (int d = 0; d < dims; ++d) {
      // The slowest dimension has no further one to be divided among.
      const std::uint32_t rest = d + 1 == dims ? 0 : size[d].quotient(matrix);
      sum += static_cast<std::int64_t>(matrix - rest * size[d].divisor) * stride[d];
      matrix = rest;
    }
    return sum;
  }
};

/// An element of the output, and those after it.
struct Place {
  std::uint32_t matrix;
  std::uint32_t row;
  std::uint32_t column;

  __device__ __forceinline__ Place(const Matrices& of, std::uint32_t n) {
    const std::uint32_t line = of.columns.quotient(n);
    column = n - line * of.columns.divisor;
    matrix = of.rows.quotient(line);
    row = line - matrix * of.rows.divisor;
  }
  __device__ __forceinline__ void next_row(const Matrices& of) {
    column = 0;
    if (++row < of.rows.divisor) return;
    row = 0;
    ++matrix;
  }

  /// Which of so many elements from here on are kept, one bit each.
  template <std::uint32_t kCount>
  __device__ __forceinline__ std::uint32_t kept(const Matrices& of) const {
    Place place = *this;
    std::uint32_t bits = 0;
    for (std::uint32_t begin = 0;;) {
      const std::uint32_t count = min(kCount - begin, of.columns.divisor - place.column);
      // A matrix has less than 2^31 elements, and so at most 2^31 rows and columns together.
      const int before = of.edge - static_cast<int>(place.column - place.row);
      const std::uint32_t low = (1U << min(max(before, 0), static_cast<int>(count))) - 1;
      bits |= (of.lower ? low : low ^ ((1U << count) - 1)) << begin;
      begin += count;
      if (begin == kCount) return bits;
      place.next_row(of);
    }
  }
};

/// Of a word of a pack, the bytes that are kept.
template <int bytes>
__device__ __forceinline__ std::uint32_t word_mask(std::uint32_t kept, int word) {
  if constexpr (bytes >= 4) return (kept >> (word * 4 / bytes) & 1) != 0 ? ~0U : 0;
  constexpr int kOfWord = bytes >= 4 ? 1 : 4 / bytes;
  constexpr std::uint32_t kOne = (std::uint32_t{1} << (8 * bytes % 32)) - 1;
  std::uint32_t mask = 0;
#pragma unroll
  for (int i = 0; i < kOfWord; ++i)
    if ((kept >> (word * kOfWord + i) & 1) != 0) mask |= kOne << (8 * bytes * i % 32);
  return mask;
}

/// Elements of an input one by one, as one pack; `kept` says which.
template <int bytes>
__device__ __forceinline__ uint4 gather(const Matrices& of, const Element<bytes>* in, Place place,
                                        std::uint32_t kept) {
  using T = Element<bytes>;
  constexpr int kCount = 16 / bytes;
  T elements[kCount];
  const T* line = in + of.offset(place.matrix, place.row);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    elements[i] = (kept >> i & 1) != 0 ? line[place.column] : T{};
    if (++place.column < of.columns.divisor || i + 1 == kCount) continue;
    place.next_row(of);
    line = in + of.offset(place.matrix, place.row);
  }
  uint4 pack;
  memcpy(&pack, elements, sizeof pack);
  return pack;
}

/// One element, which needs no alignment.
template <class T>
__device__ __forceinline__ void move_element(const Matrices& of, T* out, const T* in,
                                             std::uint32_t n) {
  const Place place(of, n);
  if (place.kept<1>(of) == 0)
    out[n] = {};
  else if (!of.in_place)
    out[n] = in[of.offset(place.matrix, place.row) + place.column];
}

/// Packs, or single elements, of one thread.
template <Move move>
constexpr std::uint32_t of_thread = move == Move::packs ? 4 : 1;

template <int bytes, Move move>
__global__ void __launch_bounds__(kThreads)
    triangle_kernel(const __grid_constant__ Matrices of, Element<bytes>* out,
                    const Element<bytes>* in, std::uint32_t count) {
  constexpr std::uint32_t kEach = of_thread<move>;
  const std::uint32_t first = blockIdx.x * (kEach * kThreads) + threadIdx.x;
  if constexpr (move == Move::single_elements) {
    if (first < count) move_element(of, out, in, first);
  } else {
    constexpr std::uint32_t kPack = 16 / bytes;
    constexpr std::uint32_t kAll = (1U << kPack) - 1;
    const std::uint32_t packs = count / kPack;
    // All loads come before the first store, so that they are on their way together.
    uint4 value[kEach];
    std::uint32_t kept[kEach];
#pragma unroll
    for (std::uint32_t e = 0; e < kEach; ++e) {
      const std::uint32_t n = first + e * kThreads;
      value[e] = {};
      kept[e] = 0;
      if (n >= packs) continue;
      const Place place(of, n * kPack);
      kept[e] = place.kept<kPack>(of);
      if (kept[e] == 0 || (kept[e] == kAll && of.in_place)) continue;
      if constexpr (move == Move::packs)
        value[e] =
            *reinterpret_cast<const uint4*>(in + of.offset(place.matrix, place.row) + place.column);
      else
        value[e] = gather<bytes>(of, in, place, kept[e]);
    }
#pragma unroll
    for (std::uint32_t e = 0; e < kEach; ++e) {
      const std::uint32_t n = first + e * kThreads;
      if (n >= packs || (kept[e] == kAll && of.in_place)) continue;
      if (kept[e] != kAll && kept[e] != 0) {
        value[e].x &= word_mask<bytes>(kept[e], 0);
        value[e].y &= word_mask<bytes>(kept[e], 1);
        value[e].z &= word_mask<bytes>(kept[e], 2);
        value[e].w &= word_mask<bytes>(kept[e], 3);
      }
      reinterpret_cast<uint4*>(out)[n] = value[e];
    }
    // The last elements are less than a pack.
    const std::uint32_t rest = packs * kPack + first;
    if (rest < count) move_element(of, out, in, rest);
  }
}

template <int bytes, Move move>
Status launch(const TriangleArgs& args, const driver::CudaLaunch& on) {
  using T = Element<bytes>;
  std::int64_t count = args.rows * args.columns;
  for (int d = 0; d < args.dims; ++d) count *= args.size[d];
  constexpr std::int64_t kOfBlock =
      std::int64_t{of_thread<move>} * kThreads * (move == Move::single_elements ? 1 : 16 / bytes);
  const Grid grid{static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock), kThreads};
  return start<&triangle_kernel<bytes, move>>(on, grid, Matrices(args), static_cast<T*>(args.out),
                                              static_cast<const T*>(args.in),
                                              static_cast<std::uint32_t>(count));
}

/// Whether each pack of the output is a pack of the input.
bool moves_packs(const TriangleArgs& args, std::int64_t pack) {
  if (!driver::cuda::is_aligned(args.in)) return false;
  // Where all lies together, packs may go beyond the ends of rows.
  bool together = args.rows == 1 || args.row_stride == args.columns;
  bool in_rows = args.columns % pack == 0 && (args.rows == 1 || args.row_stride % pack == 0);
  std::int64_t next = args.rows * args.columns;
  for (int d = 0; d < args.dims; ++d) {
    together = together && args.stride[d] == next;
    in_rows = in_rows && args.stride[d] % pack == 0;
    next *= args.size[d];
  }
  return together || in_rows;
}

template <int bytes>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<TriangleArgs>();
  if (!driver::cuda::is_aligned(args.out)) return launch<bytes, Move::single_elements>(args, on);
  if (!moves_packs(args, 16 / bytes)) return launch<bytes, Move::into_packs>(args, on);
  return launch<bytes, Move::packs>(args, on);
}

constexpr NamedImplementation implementations[] = {
    {"triangle.1", &implementation<1>},   {"triangle.2", &implementation<2>},
    {"triangle.4", &implementation<4>},   {"triangle.8", &implementation<8>},
    {"triangle.16", &implementation<16>},
};
const Implementations table(implementations, driver::arguments<TriangleArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
