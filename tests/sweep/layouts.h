// How a tensor can lie in memory: every kind of view, in storage that ends with its last element.
// Elements are put there and read back byte by byte, without the library's own copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ember/ember.h"

namespace ember::test {

/// What a tensor holds, in the order of its dimensions.
struct Elements {
  Dtype dtype = Dtype::float32;
  Shape sizes;
  std::vector<std::byte> bytes;
};

/// These numbers as elements.
Elements elements(Dtype dtype, const Shape& sizes, const std::vector<double>& numbers);
/// Small numbers with both signs where the dtype has them: multiples of 1/8, so that their sums and
/// products are exact. Another seed, others.
Elements numbers(Dtype dtype, const Shape& sizes, int seed = 0);

enum class Layout {
  contiguous,
  offset,          ///< not at the beginning of the storage
  steps,           ///< x[1::2, 1::2, ...]
  rows,            ///< x[::2]: without gaps within a row
  columns,         ///< x[..., 2:-1]: gaps between rows
  column,          ///< x[..., 1] of one dimension more
  reversed,        ///< dimensions in memory the other way round: a transposed matrix
  columns_of_it,   ///< the same with gaps
  rotated,         ///< the first dimension is the innermost
  diagonal,        ///< the last dimension is a diagonal
  loose,           ///< dimensions of size one with strides that fit nothing
  expanded_first,  ///< the first dimension repeats one element
  expanded_last,
  expanded_all,
  overlapping,  ///< windows, each one element further
};
inline constexpr int kLayouts = static_cast<int>(Layout::overlapping) + 1;
const char* layout_name(Layout layout);

struct Strided {
  Shape strides;
  std::int64_t offset = 0;
  std::int64_t total = 0;  ///< elements of the storage, up to the last one of the view
  bool repeats = false;    ///< a stride is zero
  bool shared = false;     ///< several elements of the view are one in memory
};
/// Nothing where the layout is none of its own for these sizes.
std::optional<Strided> strided(Layout layout, const Shape& sizes);

/// A view of new memory with the elements, of elements that share memory the last. What lies
/// between them is filled with a pattern, and so are `margin` elements before and behind.
Tensor place(const Elements& content, const Strided& where, Device device, std::int64_t margin = 0);
/// The bytes of the whole storage, once the work of its device's current stream is done.
std::vector<std::byte> memory_of(const Tensor& tensor);
/// The elements, among the bytes of the storage.
Elements read(const Tensor& tensor, const std::vector<std::byte>& memory);
inline Elements read(const Tensor& tensor) { return read(tensor, memory_of(tensor)); }
/// Whether memory is the same but for the elements of the view.
bool same_outside(const Tensor& view, const std::vector<std::byte>& before,
                  const std::vector<std::byte>& after);

/// Empty if both are the same elements, else where they differ. NaN is NaN; floating-point numbers
/// may be `ulp` units of the last place apart, counted at numbers of at least `floor`.
std::string difference(const Elements& got, const Elements& expected, double ulp, double floor = 0);

}  // namespace ember::test
