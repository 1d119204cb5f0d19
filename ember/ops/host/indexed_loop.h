// The host implementation of kernels that look places up in an index. All indices are checked
// before anything is moved, so that a bad one leaves everything as it was. Positions are gone
// through so that of two that meet in one place the later one (in the order of the index) comes
// later.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "ember/driver/extent.h"
#include "ember/driver/kernel.h"
#include "ember/ops/host/parts.h"
#include "ember/ops/host/vector.h"
#include "ember/ops/indexed_args.h"

namespace ember::inline v0::ops::host {

using driver::HostLaunch;

inline Status out_of_bounds(std::int64_t index, int dim, std::int64_t limit) {
  return Status(Code::device_assert, "index " + std::to_string(index) +
                                         " is out of bounds for dimension " + std::to_string(dim) +
                                         " with size " + std::to_string(limit));
}

/// The place that an index means, which is a bad one unless 0 <= place < limit.
inline std::int64_t place_of(std::int64_t index, std::int64_t limit, bool wrap) {
  return wrap && index < 0 ? index + limit : index;
}

/// Whether all of adjacent indices are good, without saying which is not.
[[gnu::always_inline]] inline bool all_within_body(const std::int64_t* index, std::int64_t count,
                                                   std::int64_t limit, bool wrap) {
  const std::int64_t below = wrap ? -limit : 0;
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i)
    bad |=
        static_cast<std::int64_t>(index[i] < below) | static_cast<std::int64_t>(index[i] >= limit);
  return bad == 0;
}
EMBER_VECTOR_CODE inline bool all_within_vector(const std::int64_t* index, std::int64_t count,
                                                std::int64_t limit, bool wrap) {
  return all_within_body(index, count, limit, wrap);
}
inline bool all_within(const std::int64_t* index, std::int64_t count, const IndexedArgs& args) {
  if (has_avx2) return all_within_vector(index, count, args.limit, args.wrap);
#if EMBER_HOST_AVX2
  return all_within_body(index, count, args.limit, args.wrap);
#endif
}

/// Calls `row(target, source, index)` with the offsets of every row of dimension 0.
template <class Row>
void each_row(const IndexedArgs& args, const Row& row) {
  std::int64_t target = 0;
  std::int64_t source = 0;
  std::int64_t index = 0;
  std::int64_t at[kIndexedDims] = {};
  for (;;) {
    row(target, source, index);
    int d = 1;
    for (; d < args.dims; ++d) {
      const bool carry = ++at[d] == args.size[d];
      if (carry) at[d] = 0;
      const std::int64_t steps = carry ? 1 - args.size[d] : 1;
      target += steps * args.target_stride[d];
      source += steps * args.source_stride[d];
      index += steps * args.index_stride[d];
      if (!carry) break;
    }
    if (d >= args.dims) return;
  }
}

/// Where this kernel finds a target or source, `indexed` for the one that the index decides about.
template <class T>
T* elements_of(const IndexedArgs& args, const HostLaunch& on, T* first, const std::int64_t* strides,
               bool indexed) {
  // Several indices that became one count elements from the first, whatever lies between.
  if (indexed && args.step == 1 && !args.wrap) {
    std::int64_t last = args.limit - 1;
    for (int d = 0; d < args.dims; ++d) last += (args.size[d] - 1) * strides[d];
    return on.at(first, static_cast<std::size_t>(last + 1));
  }
  driver::Extent extent;
  extent.add(args.dims, args.size, strides);
  if (indexed) extent.add(args.limit, args.step);
  return extent.place(on, first);
}

/// The index where this kernel may read it, all of it within bounds.
inline Status checked_index(const IndexedArgs& args, const HostLaunch& on,
                            const std::int64_t*& out) {
  out = driver::Extent().add(args.dims, args.size, args.index_stride).place(on, args.index);
  if (out == nullptr) return on.fault();
  // Each number once, however many positions share it.
  IndexedArgs grid = args;
  for (int d = 0; d < args.dims; ++d)
    if (args.index_stride[d] == 0) grid.size[d] = 1;
  const std::int64_t* bad = nullptr;
  each_row(grid, [&](std::int64_t, std::int64_t, std::int64_t first) {
    if (bad != nullptr) return;
    if (grid.index_stride[0] == 1 && all_within(out + first, grid.size[0], args)) return;
    for (std::int64_t i = 0; i < grid.size[0]; ++i) {
      const std::int64_t& index = out[first + i * grid.index_stride[0]];
      const std::int64_t place = place_of(index, args.limit, args.wrap);
      if (place < 0 || place >= args.limit) {
        bad = &index;
        return;
      }
    }
  });
  return bad == nullptr ? Status() : out_of_bounds(*bad, args.dim, args.limit);
}

/// Goes through every position with the elements that meet there, whose memory is resolved.
/// `reads`: the index says where the source is; otherwise where the target is.
template <bool reads, class T, class Move>
void move_pairs(const IndexedArgs& args, T* target, const T* source, const std::int64_t* index,
                const Move& move) {
  const std::int64_t count = args.size[0];
  const std::int64_t target_stride = args.target_stride[0];
  const std::int64_t source_stride = args.source_stride[0];
  const std::int64_t index_stride = args.index_stride[0];
  each_row(args, [&](std::int64_t t, std::int64_t s, std::int64_t i) {
    const auto offset = [&](std::int64_t at) {
      return place_of(index[at], args.limit, args.wrap) * args.step;
    };
    if (index_stride == 0) {
      (reads ? s : t) += offset(i);
      move.row(target + t, target_stride, source + s, source_stride, count);
    } else if constexpr (reads) {
      if (target_stride == 1 && index_stride == 1 && source_stride == 0 && args.step == 1) {
        const std::int64_t* at = index + i;
        const T* from = source + s;
        T* to = target + t;
        const std::int64_t wrap = args.wrap ? args.limit : 0;
        for (std::int64_t n = 0; n < count; ++n)
          move.one(to[n], from[at[n] + (at[n] < 0 ? wrap : 0)]);
        return;
      }
      for (std::int64_t n = 0; n < count; ++n)
        move.one(target[t + n * target_stride],
                 source[s + n * source_stride + offset(i + n * index_stride)]);
    } else {
      for (std::int64_t n = 0; n < count; ++n)
        move.one(target[t + n * target_stride + offset(i + n * index_stride)],
                 source[s + n * source_stride]);
    }
  });
}

template <bool reads, class T, class Move>
Status each_pair(const driver::Params& params, const HostLaunch& on, const Move& move) {
  const auto& args = params.as<IndexedArgs>();
  const std::int64_t* index = nullptr;
  EMBER_TRY(checked_index(args, on, index));
  T* target = elements_of(args, on, static_cast<T*>(args.target), args.target_stride, !reads);
  if (target == nullptr) return on.fault();
  const T* source =
      elements_of(args, on, static_cast<const T*>(args.source), args.source_stride, reads);
  if (source == nullptr) return on.fault();
  // In order where several may meet in a place: that is along the dimensions in which only the
  // index says where the target is. No two elements of a target share memory.
  const int along =
      longest_dim(args.size, args.dims, [&](int d) { return reads || args.target_stride[d] != 0; });
  std::int64_t count = 1;
  for (int d = 0; d < args.dims; ++d) count *= args.size[d];
  if (along < 0) {
    move_pairs<reads>(args, target, source, index, move);
    return {};
  }
  on.in_pieces(args.size[along], least_steps(count / args.size[along]),
               [&](std::int64_t first, std::int64_t last) {
                 IndexedArgs part = args;
                 part.size[along] = last - first;
                 move_pairs<reads>(part, target + first * args.target_stride[along],
                                   source + first * args.source_stride[along],
                                   index + first * args.index_stride[along], move);
               });
  return {};
}

struct alignas(16) Sixteen {
  std::uint64_t value[2];
};
template <int bytes>
using Unit = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t,
                                          std::conditional_t<bytes == 8, std::uint64_t, Sixteen>>>>;

/// Copies units.
template <class T>
struct Assign {
  static void one(T& target, const T& source) { target = source; }
  static void row(T* target, std::int64_t target_stride, const T* source,
                  std::int64_t source_stride, std::int64_t count) {
    if (target_stride == 1 && source_stride == 1) {
      std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
      return;
    }
    for (std::int64_t n = 0; n < count; ++n) target[n * target_stride] = source[n * source_stride];
  }
};

/// Adds or multiplies elements.
template <class How, class T>
struct Combine {
  static void one(T& target, const T& source) { target = combined<How>(target, source); }
  static void row(T* target, std::int64_t target_stride, const T* source,
                  std::int64_t source_stride, std::int64_t count) {
    if (target_stride == 1 && source_stride == 1) return adjacent(target, source, count);
    for (std::int64_t n = 0; n < count; ++n)
      one(target[n * target_stride], source[n * source_stride]);
  }

 private:
  static EMBER_HD void loop(T* target, const T* source, std::int64_t count) {
    EMBER_NO_ALIAS
    for (std::int64_t n = 0; n < count; ++n) one(target[n], source[n]);
  }
  static EMBER_VECTOR_CODE void vector_loop(T* target, const T* source, std::int64_t count) {
    loop(target, source, count);
  }
  static void adjacent(T* target, const T* source, std::int64_t count) {
    if (has_avx2) return vector_loop(target, source, count);
#if EMBER_HOST_AVX2
    loop(target, source, count);
#endif
  }
};

template <int unit>
Status read_implementation(const driver::Params& params, const HostLaunch& on) {
  return each_pair<true, Unit<unit>>(params, on, Assign<Unit<unit>>());
}
template <int unit>
Status write_implementation(const driver::Params& params, const HostLaunch& on) {
  return each_pair<false, Unit<unit>>(params, on, Assign<Unit<unit>>());
}
template <class How, class T>
Status combine_implementation(const driver::Params& params, const HostLaunch& on) {
  return each_pair<false, T>(params, on, Combine<How, T>());
}

}  // namespace ember::inline v0::ops::host
