#include "tests/sweep/layouts.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace ember::test {
namespace {

constexpr auto kPattern = std::byte{0x6d};  // a large number in every dtype

std::size_t bytes_of(std::int64_t count, Dtype dtype) {
  return static_cast<std::size_t>(count) * item_size(dtype);
}

/// Calls `use(place)` with the place of every element in the storage, in the order of the
/// dimensions.
template <class Use>
void for_each_place(const Shape& sizes, const Shape& strides, std::int64_t offset, Use&& use) {
  const std::int64_t count = element_count(sizes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = offset;
    std::int64_t rest = i;
    for (int dim = sizes.size() - 1; dim >= 0; --dim) {
      at += rest % sizes[dim] * strides[dim];
      rest /= sizes[dim];
    }
    use(static_cast<std::size_t>(at));
  }
}

/// A tensor without gaps over exactly so many elements.
Tensor storage_with(const std::vector<std::byte>& bytes, std::int64_t count, Dtype dtype,
                    Device device) {
  if (device.is_cuda()) {
    const Tensor made = empty({count}, {dtype, device});
    if (!bytes.empty())
      cuda::copy(made.data_ptr(), bytes.data(), bytes.size(), cuda::current_stream(device));
    return made;
  }
  // malloc: the address sanitizer knows where it ends.
  void* const memory = bytes.empty() ? nullptr : std::malloc(bytes.size());
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return from_blob(memory, {count}, dtype, [memory] { std::free(memory); });
}

/// The strides of a tensor whose dimensions lie in memory in this order, outermost first; the
/// innermost has `padding` elements more than are seen.
Shape ordered(const Shape& sizes, const std::vector<int>& order, std::int64_t padding = 0) {
  Shape strides = sizes;
  std::int64_t next = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next *= sizes[order[i]] + (i + 1 == order.size() ? padding : 0);
  }
  return strides;
}

std::vector<int> counted(int dims, bool backwards) {
  std::vector<int> order;
  for (int i = 0; i < dims; ++i) order.push_back(backwards ? dims - 1 - i : i);
  return order;
}

bool has_size_one(const Shape& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size == 1; });
}

/// Strides and offset; the rest follows from them.
std::optional<Strided> strides_of(Layout layout, const Shape& sizes) {
  const int dims = sizes.size();
  Strided made;
  made.strides = contiguous_strides(sizes);
  const auto scale = [&](std::int64_t factor) {
    for (int i = 0; i < dims; ++i) made.strides[i] *= factor;
  };
  switch (layout) {
    case Layout::contiguous: return made;
    case Layout::offset: made.offset = 3; return made;
    case Layout::steps:
      if (dims == 0) return {};
      made.strides = sizes;
      for (int i = 0; i < dims; ++i) made.strides[i] *= 2;
      made.strides = contiguous_strides(made.strides);
      made.offset = 0;
      for (int i = 0; i < dims; ++i) made.offset += made.strides[i];
      scale(2);
      return made;
    case Layout::rows:
      if (dims < 2) return {};
      made.strides[0] *= 2;
      return made;
    case Layout::columns:
      if (dims < 2) return {};
      made.strides = ordered(sizes, counted(dims, false), 3);
      made.offset = 2;
      return made;
    case Layout::column:
      scale(3);
      made.offset = 1;
      return made;
    case Layout::reversed:
      if (dims < 2) return {};
      made.strides = ordered(sizes, counted(dims, true));
      return made;
    case Layout::columns_of_it:
      if (dims < 2) return {};
      made.strides = ordered(sizes, counted(dims, true), 2);
      made.offset = 1;
      return made;
    case Layout::rotated: {
      if (dims < 3) return {};
      std::vector<int> order = counted(dims, false);
      order.erase(order.begin());
      order.push_back(0);
      made.strides = ordered(sizes, order);
      return made;
    }
    case Layout::diagonal:
      if (dims == 0) return {};
      for (int i = 0; i < dims - 1; ++i) made.strides[i] *= sizes.back() + 1;
      made.strides[dims - 1] = sizes.back() + 2;
      return made;
    case Layout::loose:
      if (!has_size_one(sizes)) return {};
      for (int i = 0; i < dims; ++i)
        if (sizes[i] == 1) made.strides[i] = 1000 + i;
      made.offset = 5;
      return made;
    case Layout::expanded_first:
      if (dims == 0) return {};
      made.strides[0] = 0;
      return made;
    case Layout::expanded_last: {
      if (dims < 2) return {};
      Shape inner = sizes;
      inner[dims - 1] = 1;
      made.strides = contiguous_strides(inner);
      made.strides[dims - 1] = 0;
      made.offset = 1;
      return made;
    }
    case Layout::expanded_all:
      if (dims < 2) return {};
      scale(0);
      return made;
    case Layout::overlapping:
      if (dims < 2) return {};
      for (int i = 0; i < dims; ++i) made.strides[i] = 1;
      return made;
  }
  return {};
}

/// The same bits, or both NaN; for numbers that are no floating-point ones the same bits.
template <class T>
bool close(T a, T b, double ulp, double floor, double size_of_all) {
  if (std::memcmp(&a, &b, sizeof(T)) == 0) return true;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Half> ||
                std::is_same_v<T, BFloat16>) {
    const auto x = static_cast<double>(a);
    const auto y = static_cast<double>(b);
    if (std::isnan(x) && std::isnan(y)) return true;
    const double unit = std::is_same_v<T, double>  ? 0x1p-52
                        : std::is_same_v<T, float> ? 0x1p-23
                        : std::is_same_v<T, Half>  ? 0x1p-10
                                                   : 0x1p-7;
    if (ulp == 0) return false;
    // A 16-bit result is the rounding of a float's, and may fall to either side.
    const double units = sizeof(T) == 2 ? 1 : ulp;
    return std::abs(x - y) <= units * unit * std::max({std::abs(y), floor, size_of_all});
  } else {
    return false;
  }
}

template <class T>
std::string number_text(T number) {
  std::ostringstream text;
  text.precision(17);
  if constexpr (std::is_integral_v<T>) {
    text << +number;
  } else {
    text << static_cast<double>(number);
  }
  return text.str();
}

template <class T>
std::string difference_of(const Elements& got, const Elements& expected, double ulp, double floor,
                          std::size_t parts) {
  const std::size_t count = got.bytes.size() / sizeof(T);
  const auto at = [](const Elements& from, std::size_t i) {
    T number;
    std::memcpy(&number, from.bytes.data() + i * sizeof(T), sizeof(T));
    return number;
  };
  for (std::size_t i = 0; i < count; ++i) {
    double size = 0;
    if constexpr (!std::is_integral_v<T>)
      for (std::size_t j = i - i % parts; parts > 1 && j < i - i % parts + parts; ++j)
        size = std::max(size, std::abs(static_cast<double>(at(expected, j))));
    if (!close(at(got, i), at(expected, i), ulp, floor, size))
      return "element " + std::to_string(i / parts) + " is " + number_text(at(got, i)) +
             ", expected " + number_text(at(expected, i));
  }
  return "";
}

}  // namespace

Elements elements(Dtype dtype, const Shape& sizes, const std::vector<double>& numbers) {
  Elements made{dtype, sizes, std::vector<std::byte>(bytes_of(element_count(sizes), dtype))};
  with_type(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < made.bytes.size() / sizeof(T); ++i) {
      const T element = convert<T>(numbers[i % numbers.size()]);
      std::memcpy(made.bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return made;
}

Elements numbers(Dtype dtype, const Shape& sizes, int seed) {
  const std::int64_t count = element_count(sizes);
  const bool complex = is_complex_dtype(dtype);
  std::vector<double> list;
  for (std::int64_t i = 0; i < (complex ? 2 * count : count); ++i) {
    const auto number = static_cast<double>((i * 37 + i / 7 + seed * 11) % 61 - 30);
    if (dtype == Dtype::bool_)
      list.push_back(std::fmod(std::abs(number), 3) == 1 ? 1 : 0);
    else if (dtype == Dtype::uint8)
      list.push_back(std::abs(number));
    else
      list.push_back(is_integral(dtype) ? number : number / 8);
  }
  if (list.empty()) list.push_back(0);
  if (!complex) return elements(dtype, sizes, list);
  Shape parts = sizes;
  parts.push_back(2);
  Elements made = elements(real_dtype(dtype), parts, list);
  made.dtype = dtype;
  made.sizes = sizes;
  return made;
}

const char* layout_name(Layout layout) {
  static constexpr const char* kNames[] = {
      "contiguous", "offset",         "steps",         "rows",         "columns",
      "column",     "reversed",       "columns_of_it", "rotated",      "diagonal",
      "loose",      "expanded_first", "expanded_last", "expanded_all", "overlapping"};
  static_assert(std::size(kNames) == kLayouts);
  return kNames[static_cast<int>(layout)];
}

std::optional<Strided> strided(Layout layout, const Shape& sizes) {
  std::optional<Strided> made = strides_of(layout, sizes);
  if (!made) return {};
  const std::int64_t count = element_count(sizes);
  std::int64_t last = made->offset;
  for (int i = 0; i < sizes.size(); ++i) {
    last += (sizes[i] - 1) * made->strides[i];
    if (count > 0 && sizes[i] > 1 && made->strides[i] == 0) made->repeats = true;
  }
  made->total = count == 0 ? made->offset : last + 1;
  std::vector<char> seen(static_cast<std::size_t>(made->total));
  for_each_place(sizes, made->strides, made->offset, [&](std::size_t at) {
    made->shared = made->shared || seen[at] != 0;
    seen[at] = 1;
  });
  return made;
}

Tensor place(const Elements& content, const Strided& where, Device device, std::int64_t margin) {
  const std::size_t item = item_size(content.dtype);
  const std::int64_t total = where.total + 2 * margin;
  std::vector<std::byte> bytes(bytes_of(total, content.dtype), kPattern);
  if (content.dtype == Dtype::bool_) std::fill(bytes.begin(), bytes.end(), std::byte{1});
  const std::byte* next = content.bytes.data();
  for_each_place(content.sizes, where.strides, where.offset + margin, [&](std::size_t at) {
    std::memcpy(bytes.data() + at * item, next, item);
    next += item;
  });
  const Tensor whole = storage_with(bytes, total, content.dtype, device);
  return Tensor(whole.storage(), content.dtype, content.sizes, where.strides,
                where.offset + margin);
}

std::vector<std::byte> memory_of(const Tensor& tensor) {
  const Ref<Storage>& storage = tensor.storage();
  std::vector<std::byte> bytes(storage->bytes());
  if (bytes.empty()) return bytes;
  if (storage->device().is_cuda())
    cuda::copy(bytes.data(), storage->data(), bytes.size(),
               cuda::current_stream(storage->device()));
  else
    std::memcpy(bytes.data(), storage->data(), bytes.size());
  return bytes;
}

Elements read(const Tensor& tensor, const std::vector<std::byte>& memory) {
  const std::size_t item = tensor.element_size();
  Elements made{tensor.dtype(), tensor.sizes(), {}};
  made.bytes.resize(tensor.nbytes());
  std::byte* next = made.bytes.data();
  for_each_place(tensor.sizes(), tensor.strides(), tensor.storage_offset(), [&](std::size_t at) {
    std::memcpy(next, memory.data() + at * item, item);
    next += item;
  });
  return made;
}

bool same_outside(const Tensor& view, const std::vector<std::byte>& before,
                  const std::vector<std::byte>& after) {
  if (before.size() != after.size()) return false;
  std::vector<std::byte> expected = before;
  const std::size_t item = view.element_size();
  for_each_place(view.sizes(), view.strides(), view.storage_offset(), [&](std::size_t at) {
    std::memcpy(expected.data() + at * item, after.data() + at * item, item);
  });
  return expected == after;
}

/// Zeros of complex numbers may differ in their signs, which depend on what the first factor meets.
constexpr double kZeros = 1e-9;

std::string difference(const Elements& got, const Elements& expected, double ulp, double floor) {
  if (got.dtype != expected.dtype)
    return std::string("dtype ") + dtype_name(got.dtype) + ", expected " +
           dtype_name(expected.dtype);
  if (got.sizes != expected.sizes)
    return "shape " + got.sizes.str() + ", expected " + expected.sizes.str();
  return with_type(got.dtype, [&]<class T>() {
    if constexpr (is_complex<T>)
      return difference_of<Real<T>>(got, expected, std::max(ulp, kZeros), floor, 2);
    else
      return difference_of<T>(got, expected, ulp, floor, 1);
  });
}

}  // namespace ember::test
