#include "ember/ops/select.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ember/base/error.h"
#include "ember/driver/kernels.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/ops/select_args.h"

namespace ember::inline v0 {
namespace {

static_assert(ops::kMaxCoordinates >= kMaxDims);

std::size_t unsign(std::int64_t count) { return static_cast<std::size_t>(count); }

std::int64_t tiles_of(std::int64_t count) {
  return (count + ops::kSelectTile - 1) / ops::kSelectTile;
}

// Masks are read as bytes, each of which is true unless it is zero: memory that others share, or
// that nobody has written yet, holds any. And they may change between the counting and the moving,
// so that neither the mask nor the output may be left behind, whatever was counted.
using Byte = std::uint8_t;

const Byte* mask_at(const driver::HostLaunch& on, const bool* mask, std::int64_t count) {
  return on.at(reinterpret_cast<const Byte*>(mask), unsign(count));
}

/// Eight at a time: each byte of a word counts for itself, as long as it cannot overflow.
std::int64_t count_true(const Byte* mask, std::int64_t count) {
  constexpr std::int64_t kWord = sizeof(std::uint64_t);
  constexpr std::uint64_t kOdd = 0x00ff00ff00ff00ff;
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  std::int64_t sum = 0;
  while (count >= kWord) {
    const std::int64_t words = std::min<std::int64_t>(count / kWord, 255);
    std::uint64_t bytes = 0;
    for (std::int64_t i = 0; i < words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, mask + i * kWord, sizeof word);
      // The highest bit of each byte says whether it is zero, and moves to the lowest place.
      bytes += (((word & kLow) + kLow) | word) >> 7 & ~kLow >> 7;
    }
    const std::uint64_t pairs = (bytes & kOdd) + (bytes >> 8 & kOdd);
    sum += static_cast<std::int64_t>(pairs * 0x0001000100010001 >> 48);
    mask += words * kWord;
    count -= words * kWord;
  }
  for (std::int64_t i = 0; i < count; ++i) sum += mask[i] != 0 ? 1 : 0;
  return sum;
}

Status count_implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<ops::CountArgs>();
  const Byte* mask = mask_at(on, args.mask, args.count);
  if (mask == nullptr) return on.fault();
  std::int64_t* before = on.at(args.before, unsign(tiles_of(args.count) + 1));
  if (before == nullptr) return on.fault();
  std::int64_t sum = 0;
  for (std::int64_t first = 0; first < args.count; first += ops::kSelectTile) {
    *before++ = sum;
    const std::int64_t end = std::min(first + ops::kSelectTile, args.count);
    sum += count_true(mask + first, end - first);
  }
  *before = sum;
  return {};
}

/// Calls `write(k, i)` for every element i of a mask, where k is how many were chosen before: each
/// is written, and the next one on it unless it was chosen. Masks are rarely such that a branch
/// could be foreseen.
template <class Write>
void write_chosen(const ops::SelectArgs& args, const Byte* mask, const Write& write) {
  std::int64_t i = 0;
  std::int64_t k = 0;
  while (i < args.count && k < args.chosen) {
    // So many steps lead beyond the end of neither.
    const std::int64_t end = i + std::min(args.count - i, args.chosen - k);
    for (; i < end; ++i) {
      write(k, i);
      k += mask[i] != 0 ? 1 : 0;
    }
  }
}

template <class T>
void move_chosen(const ops::SelectArgs& args, const Byte* mask, const std::byte* in,
                 std::byte* out) {
  constexpr auto kItem = static_cast<std::int64_t>(sizeof(T));
  write_chosen(args, mask, [&](std::int64_t k, std::int64_t i) {
    std::memcpy(out + k * kItem, in + i * kItem, sizeof(T));
  });
}

Status select_implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<ops::SelectArgs>();
  const Byte* mask = mask_at(on, args.mask, args.count);
  if (mask == nullptr) return on.fault();
  const auto item = static_cast<std::size_t>(args.item);
  const std::byte* in = on.at(static_cast<const std::byte*>(args.in), unsign(args.count) * item);
  if (in == nullptr) return on.fault();
  std::byte* out = on.at(static_cast<std::byte*>(args.out), unsign(args.chosen) * item);
  if (out == nullptr) return on.fault();
  switch (args.item) {
    case 1: move_chosen<std::uint8_t>(args, mask, in, out); break;
    case 2: move_chosen<std::uint16_t>(args, mask, in, out); break;
    case 4: move_chosen<std::uint32_t>(args, mask, in, out); break;
    case 8: move_chosen<std::uint64_t>(args, mask, in, out); break;
    default: move_chosen<Complex<double>>(args, mask, in, out); break;
  }
  return {};
}

Status nonzero_implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<ops::SelectArgs>();
  const Byte* mask = mask_at(on, args.mask, args.count);
  if (mask == nullptr) return on.fault();
  auto* out = on.at(static_cast<std::int64_t*>(args.out), unsign(args.chosen * args.dims));
  if (out == nullptr) return on.fault();
  if (args.chosen == 0 || args.dims == 0) return {};
  if (args.dims == 1) {
    write_chosen(args, mask, [&](std::int64_t k, std::int64_t i) { out[k] = i; });
    return {};
  }
  const std::int64_t* const stop = out + args.chosen * args.dims;
  // Line by line: the places in it of some elements, and then all coordinates of the chosen ones.
  constexpr std::int64_t kPiece = 256;
  const int last = args.dims - 1;
  const std::int64_t width = args.sizes[last];
  std::int64_t line[ops::kMaxCoordinates] = {};
  for (std::int64_t first = 0; first < args.count; first += width) {
    for (std::int64_t begin = 0; begin < width; begin += kPiece) {
      std::int64_t places[kPiece + 1];
      std::int64_t found = 0;
      const std::int64_t end = std::min(begin + kPiece, width);
      for (std::int64_t i = begin; i < end; ++i) {
        places[found] = i;
        found += mask[first + i] != 0 ? 1 : 0;
      }
      found = std::min(found, (stop - out) / args.dims);
      for (std::int64_t k = 0; k < found; ++k, out += args.dims) {
        for (int d = 0; d < last; ++d) out[d] = line[d];
        out[last] = places[k];
      }
    }
    for (int d = last - 1; d >= 0 && ++line[d] == args.sizes[d]; --d) line[d] = 0;
  }
  return {};
}

constinit driver::Kernel select_kernels[] = {
    {"count_chosen", &count_implementation, nullptr},
    {"masked_select", &select_implementation, nullptr},
    {"nonzero", &nonzero_implementation, nullptr},
};
const driver::kernels::Table select_table(select_kernels,
                                          driver::arguments<ops::CountArgs, ops::SelectArgs>());

/// How many elements of a mask are chosen, and where in the order those of each tile begin.
struct Chosen {
  Tensor before;
  std::int64_t count = 0;
};

/// Waits for the device.
Chosen count_chosen(const Tensor& mask) {
  if (mask.numel() == 0) return {};
  const std::int64_t tiles = tiles_of(mask.numel());
  Chosen made;
  made.before = empty({tiles + 1}, {Dtype::int64, mask.device()});
  const ops::CountArgs args{mask.address<bool>(), mask.numel(),
                            made.before.address<std::int64_t>()};
  const std::array<cuda::Access, 2> accesses{ops::reads(mask, "mask"), ops::writes(made.before)};
  ops::run(ops::at(mask, made.before), select_kernels[0], args, accesses);
  made.count = made.before.select(0, tiles).item<std::int64_t>();
  return made;
}

/// A new tensor, or the one given, made ready.
Tensor output(Tensor* out, const Shape& sizes, Dtype dtype, Device device) {
  if (out == nullptr) return empty(sizes, {dtype, device});
  ops::prepare_output(*out, device, sizes, dtype);
  ops::require_no_internal_overlap(*out);
  return *out;
}

/// Where the kernel writes: the output itself, or a tensor that is copied there afterwards.
Tensor place_for(const Tensor& out, const Tensor& x, const Tensor& mask) {
  if (out.is_contiguous() && out.storage() != x.storage() && out.storage() != mask.storage())
    return out;
  return empty(out.sizes(), {out.dtype(), out.device()});
}

Tensor nonzero_into(Tensor* out, const Tensor& x) {
  if (out != nullptr) {
    ops::require_dtype(*out, Dtype::int64);
    ops::require_same_device(x.device(), out->device());
    ops::require_no_overlap(*out, x);
  }
  const Tensor mask = x.to(Dtype::bool_).contiguous();
  const Chosen chosen = count_chosen(mask);
  Tensor result = output(out, {chosen.count, x.dim()}, Dtype::int64, x.device());
  if (result.numel() == 0) return result;
  const Tensor place = place_for(result, x, mask);
  ops::SelectArgs args{mask.address<bool>(),
                       chosen.before.address<std::int64_t>(),
                       nullptr,
                       place.address(),
                       mask.numel(),
                       chosen.count,
                       0,
                       x.dim(),
                       {}};
  std::copy(x.sizes().begin(), x.sizes().end(), args.sizes);
  const std::array<cuda::Access, 3> accesses{ops::reads(mask, "self"), ops::reads(chosen.before),
                                             ops::writes_output(place)};
  ops::run(ops::at(mask, chosen.before, place), select_kernels[2], args, accesses);
  if (!place.is(result)) result.copy_(place);
  return result;
}

Tensor masked_select_into(Tensor* out, const Tensor& x, const Tensor& mask) {
  if (mask.dtype() != Dtype::bool_) throw Error("masked_select: expected BoolTensor for mask");
  ops::require_same_device(x.device(), mask.device());
  if (out != nullptr) {
    ops::require_dtype(*out, x.dtype());
    ops::require_same_device(x.device(), out->device());
    ops::require_no_overlap(*out, x);
    ops::require_no_overlap(*out, mask);
  }
  const Shape sizes = broadcast_shapes(x.sizes(), mask.sizes());
  const Tensor where = mask.expand(sizes).contiguous();
  const Chosen chosen = count_chosen(where);
  Tensor result = output(out, {chosen.count}, x.dtype(), x.device());
  if (chosen.count == 0) return result;
  const Tensor in = x.expand(sizes).contiguous();
  const Tensor place = place_for(result, x, mask);
  const ops::SelectArgs args{where.address<bool>(),
                             chosen.before.address<std::int64_t>(),
                             in.address(),
                             place.address(),
                             where.numel(),
                             chosen.count,
                             static_cast<int>(x.element_size()),
                             1,
                             {}};
  const std::array<cuda::Access, 4> accesses{ops::reads(where, "mask"), ops::reads(chosen.before),
                                             ops::reads(in, "self"), ops::writes_output(place)};
  ops::run(ops::at(where, chosen.before, in, place), select_kernels[1], args, accesses);
  if (!place.is(result)) result.copy_(place);
  return result;
}

}  // namespace

Tensor nonzero(const Tensor& x) { return nonzero_into(nullptr, x); }
Tensor& nonzero_out(Tensor& out, const Tensor& x) {
  (void)nonzero_into(&out, x);
  return out;
}
Tensor masked_select(const Tensor& x, const Tensor& mask) {
  return masked_select_into(nullptr, x, mask);
}
Tensor& masked_select_out(Tensor& out, const Tensor& x, const Tensor& mask) {
  (void)masked_select_into(&out, x, mask);
  return out;
}
Tensor Tensor::nonzero() const { return nonzero_into(nullptr, *this); }
Tensor Tensor::masked_select(const Tensor& mask) const {
  return masked_select_into(nullptr, *this, mask);
}

}  // namespace ember::inline v0
