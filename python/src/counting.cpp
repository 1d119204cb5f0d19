// Comparisons of whole tensors, and how often elements occur or are to occur.
#include "define.h"

namespace ember::python {
namespace {

using MaybeInt = std::optional<std::int64_t>;

/// The elements alone, or with those of the other two tensors that were asked for.
nb::object asked_for(std::tuple<Tensor, Tensor, Tensor> found, bool inverse, bool counts) {
  auto& [elements, places, numbers] = found;
  if (!inverse && !counts) return nb::cast(std::move(elements));
  std::vector<Tensor> all{std::move(elements)};
  if (inverse) all.push_back(std::move(places));
  if (counts) all.push_back(std::move(numbers));
  return tuple_of(std::move(all));
}

void define_close(nb::class_<Tensor>& tensor, nb::module_& m) {
  both(
      tensor, m, "isclose",
      [](const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
        return unlocked([&] { return isclose(self, other, rtol, atol, equal_nan); });
      },
      "Where |x - other| <= atol + rtol * |other|, or the two are equal.", nb::arg("other"),
      nb::arg("rtol") = 1e-5, nb::arg("atol") = 1e-8, nb::arg("equal_nan") = false);
  both(
      tensor, m, "allclose",
      [](const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
        return unlocked([&] { return allclose(self, other, rtol, atol, equal_nan); });
      },
      "Whether all elements are close. Waits for a device.", nb::arg("other"),
      nb::arg("rtol") = 1e-5, nb::arg("atol") = 1e-8, nb::arg("equal_nan") = false);
  both(
      tensor, m, "equal",
      [](const Tensor& self, const Tensor& other) {
        return unlocked([&] { return equal(self, other); });
      },
      "Whether both have the same sizes and equal elements. Waits for a device.", nb::arg("other"));
}

void define_unique(nb::class_<Tensor>& tensor, nb::module_& m) {
  both_as(
      tensor, m, "unique",
      "sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | "
      "None = None) -> Tensor | tuple[Tensor, ...]",
      [](const Tensor& self, bool /*sorted*/, bool inverse, bool counts, MaybeInt dim) {
        return asked_for(unlocked([&] { return unique(self, inverse, counts, dim); }), inverse,
                         counts);
      },
      "The elements that occur, or the slices along a dimension, each once, in ascending order "
      "whatever `sorted` says; where each is among them; how often each occurs. Waits for a "
      "device.",
      nb::arg("sorted") = true, nb::arg("return_inverse") = false, nb::arg("return_counts") = false,
      nb::arg("dim") = nb::none());
  both_as(
      tensor, m, "unique_consecutive",
      "return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> "
      "Tensor | tuple[Tensor, ...]",
      [](const Tensor& self, bool inverse, bool counts, MaybeInt dim) {
        return asked_for(unlocked([&] { return unique_consecutive(self, inverse, counts, dim); }),
                         inverse, counts);
      },
      "One of each row of equal elements, or slices along a dimension; in which row each is; how "
      "long they are. Waits for a device.",
      nb::arg("return_inverse") = false, nb::arg("return_counts") = false,
      nb::arg("dim") = nb::none());
}

void define_repeat(nb::class_<Tensor>& tensor, nb::module_& m) {
  constexpr const char* kDoc =
      "Each element, or each slice along a dimension, so many times in a row. With a tensor of "
      "numbers it waits for a device.";
  both(
      tensor, m, "repeat_interleave",
      [](const Tensor& self, std::int64_t repeats, MaybeInt dim, MaybeInt output_size) {
        return unlocked([&] { return repeat_interleave(self, repeats, dim, output_size); });
      },
      kDoc, nb::arg("repeats"), nb::arg("dim") = nb::none(), nb::kw_only(),
      nb::arg("output_size") = nb::none());
  both(
      tensor, m, "repeat_interleave",
      [](const Tensor& self, const Tensor& repeats, MaybeInt dim, MaybeInt output_size) {
        return unlocked([&] { return repeat_interleave(self, repeats, dim, output_size); });
      },
      kDoc, nb::arg("repeats"), nb::arg("dim") = nb::none(), nb::kw_only(),
      nb::arg("output_size") = nb::none());
  m.def(
      "repeat_interleave",
      [](const Tensor& repeats, MaybeInt output_size) {
        return unlocked([&] { return repeat_interleave(repeats, output_size); });
      },
      nb::arg("repeats"), nb::kw_only(), nb::arg("output_size") = nb::none());
}

}  // namespace

void bind_counting(nb::class_<Tensor>& tensor, nb::module_& m) {
  m.def(
      "_assert_async",
      [](const Tensor& input, const std::string& assert_msg) {
        unlocked([&] { assert_async(input, assert_msg); });
      },
      nb::arg("input"), nb::arg("assert_msg") = "",
      "Asserts that the only element is not zero. On a device this waits for nothing: a zero is a "
      "fault, which a later call reports. The message is kept until the process ends.");
  define_close(tensor, m);
  define_unique(tensor, m);
  define_repeat(tensor, m);
  both(
      tensor, m, "bincount",
      [](const Tensor& self, const Tensor* weights, std::int64_t minlength) {
        return unlocked(
            [&] { return bincount(self, weights != nullptr ? *weights : Tensor(), minlength); });
      },
      "How often each number from zero on occurs, or the sum of the weights where it does. Waits "
      "for a device.",
      nb::arg("weights") = nb::none(), nb::arg("minlength") = 0);
}

}  // namespace ember::python
