// New tensors.
#include "define.h"

namespace ember::python {
namespace {

using MaybeDtype = std::optional<Dtype>;

/// One function that takes its sizes as `f(2, 3)` or `f((2, 3))`.
template <class Make, class Into>
void define_sized(nb::module_& m, const char* name, Make make, Into into, const char* doc) {
  const auto run = [make, into](const Shape& shape, Tensor* out, MaybeDtype dtype,
                                const DeviceLike& device, MaybeBool pin_memory) {
    const Options options = new_options(dtype, device, pin_memory);
    return made_or_into(
        out, options, [&] { return make(shape, options); },
        [&](Tensor& output) { static_cast<void>(into(output, shape)); });
  };
  define_factory(
      m, name,
      [run](const Sizes& size, Tensor* out, MaybeDtype dtype, const DeviceLike& device,
            MaybeBool pin_memory) { return run(size.shape(), out, dtype, device, pin_memory); },
      nb::arg("size"), nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false, doc);
  define_factory(
      m, name,
      [run](const nb::args& size, Tensor* out, MaybeDtype dtype, const DeviceLike& device,
            MaybeBool pin_memory) { return run(shape_of(size), out, dtype, device, pin_memory); },
      nb::arg("size"), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false);
}

/// A method new_<name>, with sizes in both ways.
template <class Make>
void define_new(nb::class_<Tensor>& tensor, const char* name, Make make, const char* doc) {
  define_factory(
      tensor, name,
      [make](const Tensor& self, const Sizes& size, MaybeDtype dtype, const DeviceLike& device,
             MaybeBool pin_memory) {
        const Shape shape = size.shape();
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(self, shape, options); });
      },
      nb::arg("size"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false, doc);
  define_factory(
      tensor, name,
      [make](const Tensor& self, const nb::args& size, MaybeDtype dtype, const DeviceLike& device,
             MaybeBool pin_memory) {
        const Shape shape = shape_of(size);
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(self, shape, options); });
      },
      nb::arg("size"), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false);
}

/// One end of linspace: a number, or a tensor without dimensions.
void require_end(const NumberLike& end, const char* name) {
  if (end.plain || !nb::isinstance<Tensor>(end.given)) return;
  const int dims = nb::cast<const Tensor&>(end.given).dim();
  if (dims != 0)
    throw Error(
        std::string("linspace only supports 0-dimensional start and end tensors, but got ") + name +
        " with " + std::to_string(dims) + " dimension(s).");
}

template <class Make>
void define_like(nb::module_& m, const char* name, Make make, const char* doc) {
  define_factory(
      m, name,
      [make](const Tensor& input, MaybeDtype dtype, const DeviceLike& device,
             MaybeBool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        return unlocked([&] { return make(input, options); });
      },
      nb::arg("input"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false, doc);
}

}  // namespace

void bind_factories(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_sized(m, "empty", EMBER_CALL(empty), EMBER_CALL(empty_out),
               "A tensor with undefined contents: float32 on the CPU unless given.");
  define_sized(m, "zeros", EMBER_CALL(zeros), EMBER_CALL(zeros_out), "Zeros.");
  define_sized(m, "ones", EMBER_CALL(ones), EMBER_CALL(ones_out), "Ones.");
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

  define_factory(
      m, "full",
      [](const Sizes& size, const NumberLike& fill_value, Tensor* out, MaybeDtype dtype,
         const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = new_options(dtype, device, pin_memory);
        const Shape shape = size.shape();
        const Scalar number = fill_value.number(out != nullptr ? out->dtype() : dtype);
        return made_or_into(
            out, options, [&] { return full(shape, number, options); },
            [&](Tensor& into) { full_out(into, shape, number); });
      },
      nb::arg("size"), nb::arg("fill_value"), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "One number everywhere; without a dtype its kind: bool, int64, float32 or complex64.");
  define_factory(
      m, "full_like",
      [](const Tensor& input, const NumberLike& fill_value, MaybeDtype dtype,
         const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar number = fill_value.number(dtype.value_or(input.dtype()));
        return unlocked([&] { return full_like(input, number, options); });
      },
      nb::arg("input"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "One number everywhere, with another tensor's sizes, dtype and device unless given.");
  define_factory(
      tensor, "new_full",
      [](const Tensor& self, const Sizes& size, const NumberLike& fill_value, MaybeDtype dtype,
         const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = options_of(dtype, device, pin_memory);
        const Scalar number = fill_value.number(dtype.value_or(self.dtype()));
        return unlocked([&] { return self.new_full(size.shape(), number, options); });
      },
      nb::arg("size"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "One number everywhere, with this tensor's dtype and device unless given.");
  define_factory(
      m, "empty_strided",
      [](const Sizes& size, const Sizes& stride, MaybeDtype dtype, const DeviceLike& device,
         MaybeBool pin_memory) {
        const Options options = new_options(dtype, device, pin_memory);
        return unlocked([&] { return empty_strided(size.shape(), stride.shape(), options); });
      },
      nb::arg("size"), nb::arg("stride"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "Undefined contents, with sizes and strides in elements.");

  define_factory(
      m, "linspace",
      [](const NumberLike& start, const NumberLike& end, std::int64_t steps, Tensor* out,
         MaybeDtype dtype, const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = new_options(dtype, device, pin_memory);
        require_end(start, "start");
        require_end(end, "end");
        const Scalar first = start.number();
        const Scalar last = end.number();
        return made_or_into(
            out, options, [&] { return linspace(first, last, steps, options); },
            [&](Tensor& into) { linspace_out(into, first, last, steps); });
      },
      nb::arg("start"), nb::arg("end"), nb::arg("steps"), nb::kw_only(),
      nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false,
      "So many numbers at equal distances, start and end among them.");
  const auto ones_on_diagonal = [](std::int64_t n, std::optional<std::int64_t> columns, Tensor* out,
                                   const Options& options) {
    return made_or_into(
        out, options, [&] { return eye(n, columns, options); },
        [&](Tensor& into) { eye_out(into, n, columns); });
  };
  define_factory(
      m, "eye",
      [ones_on_diagonal](std::int64_t n, Tensor* out, MaybeDtype dtype, const DeviceLike& device,
                         MaybeBool pin_memory) {
        return ones_on_diagonal(n, {}, out, new_options(dtype, device, pin_memory));
      },
      nb::arg("n"), nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "A matrix of zeros with ones on the main diagonal: n rows, and as many columns or m.");
  define_factory(
      m, "eye",
      [ones_on_diagonal](std::int64_t n, std::int64_t columns, Tensor* out, MaybeDtype dtype,
                         const DeviceLike& device, MaybeBool pin_memory) {
        return ones_on_diagonal(n, columns, out, new_options(dtype, device, pin_memory));
      },
      nb::arg("n"), nb::arg("m"), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false);

  const auto range = [](const Scalar& start, const Scalar& end, const Scalar& step, Tensor* out,
                        const Options& options) {
    return made_or_into(
        out, options, [&] { return arange(start, end, step, options); },
        [&](Tensor& into) { arange_out(into, start, end, step); });
  };
  define_factory(
      m, "arange",
      [range](const NumberLike& end, Tensor* out, MaybeDtype dtype, const DeviceLike& device,
              MaybeBool pin_memory) {
        return range(0, end.number(), 1, out, new_options(dtype, device, pin_memory));
      },
      nb::arg("end"), nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "start, start + step, ... below (or above) end. Without a dtype int64 if all numbers are "
      "integers, else float32.");
  define_factory(
      m, "arange",
      [range](const NumberLike& start, const NumberLike& end, const NumberLike& step, Tensor* out,
              MaybeDtype dtype, const DeviceLike& device, MaybeBool pin_memory) {
        return range(start.number(), end.number(), step.number(), out,
                     new_options(dtype, device, pin_memory));
      },
      nb::arg("start"), nb::arg("end"), nb::arg("step") = 1, nb::kw_only(),
      nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false);
}

}  // namespace ember::python
