// New tensors.
#include "python.h"

namespace ember::python {
namespace {

using MaybeDtype = std::optional<Dtype>;

/// One function that takes its sizes as `f(2, 3)` or `f((2, 3))`.
template <class Make>
void define_sized(nb::module_& m, const char* name, Make make, const char* doc) {
  m.def(
      name,
      [make](const Sizes& size, MaybeDtype dtype, const DeviceLike& device, bool pin_memory) {
        const Shape shape = size.shape();
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(shape, options); });
      },
      nb::arg("size"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false, doc);
  m.def(
      name,
      [make](const nb::args& size, MaybeDtype dtype, const DeviceLike& device, bool pin_memory) {
        const Shape shape = shape_of(size);
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(shape, options); });
      },
      nb::arg("size"), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false);
}

/// A method new_<name>, with sizes in both ways.
template <class Make>
void define_new(nb::class_<Tensor>& tensor, const char* name, Make make, const char* doc) {
  tensor.def(
      name,
      [make](const Tensor& self, const Sizes& size, MaybeDtype dtype, const DeviceLike& device,
             bool pin_memory) {
        const Shape shape = size.shape();
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(self, shape, options); });
      },
      nb::arg("size"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false, doc);
  tensor.def(
      name,
      [make](const Tensor& self, const nb::args& size, MaybeDtype dtype, const DeviceLike& device,
             bool pin_memory) {
        const Shape shape = shape_of(size);
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(self, shape, options); });
      },
      nb::arg("size"), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false);
}

template <class Make>
void define_like(nb::module_& m, const char* name, Make make, const char* doc) {
  m.def(
      name,
      [make](const Tensor& input, MaybeDtype dtype, const DeviceLike& device, bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(input, options); });
      },
      nb::arg("input"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false, doc);
}

}  // namespace

void bind_factories(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_sized(
      m, "empty", [](const Shape& s, const Options& o) { return empty(s, o); },
      "A tensor with undefined contents: float32 on the CPU unless given.");
  define_sized(
      m, "zeros", [](const Shape& s, const Options& o) { return zeros(s, o); }, "Zeros.");
  define_sized(
      m, "ones", [](const Shape& s, const Options& o) { return ones(s, o); }, "Ones.");
  define_new(
      tensor, "new_empty",
      [](const Tensor& t, const Shape& s, const Options& o) { return t.new_empty(s, o); },
      "Undefined contents, with this tensor's dtype and device unless given.");
  define_new(
      tensor, "new_zeros",
      [](const Tensor& t, const Shape& s, const Options& o) { return t.new_zeros(s, o); },
      "Zeros, with this tensor's dtype and device unless given.");
  define_new(
      tensor, "new_ones",
      [](const Tensor& t, const Shape& s, const Options& o) { return t.new_ones(s, o); },
      "Ones, with this tensor's dtype and device unless given.");
  define_like(
      m, "empty_like", [](const Tensor& t, const Options& o) { return empty_like(t, o); },
      "Undefined contents, with another tensor's sizes, dtype and device unless given.");
  define_like(
      m, "zeros_like", [](const Tensor& t, const Options& o) { return zeros_like(t, o); },
      "Zeros, with another tensor's sizes, dtype and device unless given.");
  define_like(
      m, "ones_like", [](const Tensor& t, const Options& o) { return ones_like(t, o); },
      "Ones, with another tensor's sizes, dtype and device unless given.");

  m.def(
      "full",
      [](const Sizes& size, const NumberLike& fill_value, MaybeDtype dtype,
         const DeviceLike& device, bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar number = fill_value.number(dtype);
        return unlocked([&] { return full(size.shape(), number, options); });
      },
      nb::arg("size"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "One number everywhere; without a dtype its kind: bool, int64, float32 or complex64.");
  m.def(
      "full_like",
      [](const Tensor& input, const NumberLike& fill_value, MaybeDtype dtype,
         const DeviceLike& device, bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar number = fill_value.number(dtype.value_or(input.dtype()));
        return unlocked([&] { return full_like(input, number, options); });
      },
      nb::arg("input"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "One number everywhere, with another tensor's sizes, dtype and device unless given.");
  tensor.def(
      "new_full",
      [](const Tensor& self, const Sizes& size, const NumberLike& fill_value, MaybeDtype dtype,
         const DeviceLike& device, bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar number = fill_value.number(dtype.value_or(self.dtype()));
        return unlocked([&] { return self.new_full(size.shape(), number, options); });
      },
      nb::arg("size"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "One number everywhere, with this tensor's dtype and device unless given.");
  m.def(
      "empty_strided",
      [](const Sizes& size, const Sizes& stride, MaybeDtype dtype, const DeviceLike& device,
         bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return empty_strided(size.shape(), stride.shape(), options); });
      },
      nb::arg("size"), nb::arg("stride"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "Undefined contents, with sizes and strides in elements.");

  m.def(
      "arange",
      [](const NumberLike& end, MaybeDtype dtype, const DeviceLike& device, bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar to = end.number();
        return unlocked([&] { return arange(to, options); });
      },
      nb::arg("end"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false,
      "start, start + step, ... below (or above) end. Without a dtype int64 if all numbers are "
      "integers, else float32.");
  m.def(
      "arange",
      [](const NumberLike& start, const NumberLike& end, const NumberLike& step, MaybeDtype dtype,
         const DeviceLike& device, bool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar from = start.number();
        const Scalar to = end.number();
        const Scalar by = step.number();
        return unlocked([&] { return arange(from, to, by, options); });
      },
      nb::arg("start"), nb::arg("end"), nb::arg("step") = 1, nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false);
}

}  // namespace ember::python
