// Random draws: the number that an element takes depends on its index, not on strides.
#include <map>

#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

Generator seeded(const Tensor& tensor) { return case_generator(tensor.device()); }

using Fill = std::function<void(Tensor&, const Generator&)>;

void add_fill(Cases& cases, const std::string& op, const Input& x, const Fill& fill) {
  add_in_place(cases, op, {x}, [=](Tensors& t) { fill(t[0], seeded(t[0])); });
}

Input probabilities(Dtype dtype, const Shape& sizes) {
  return {elements(dtype, sizes, {0.5, 0, 1, 0.25, 0.75}), false, false, Home::here};
}

void add_fills(Cases& cases, Dtype dtype, const Shape& sizes) {
  const Input x = target(dtype, sizes);
  const bool whole = is_integral(dtype);
  if (!whole) {
    add_fill(cases, "uniform_", x, [](Tensor& t, const Generator& g) { t.uniform_(-1, 2, g); });
    add_fill(cases, "normal_", x, [](Tensor& t, const Generator& g) { t.normal_(1, 2, g); });
  }
  if (is_complex_dtype(dtype)) return;
  if (!whole)
    add_fill(cases, "exponential_", x, [](Tensor& t, const Generator& g) { t.exponential_(2, g); });
  add_fill(cases, "bernoulli_", x, [](Tensor& t, const Generator& g) { t.bernoulli_(0.25, g); });
  add_fill(cases, "random_", x, [](Tensor& t, const Generator& g) { t.random_(g); });
  add_fill(cases, "random_", x, [](Tensor& t, const Generator& g) { t.random_(1, 2, g); });
  for (const Shape& of_p : {sizes, Shape{}})
    add_in_place(cases, "bernoulli_", {x, probabilities(Dtype::float32, of_p)},
                 [](Tensors& t) { t[0].bernoulli_(t[1], seeded(t[0])); });
}

}  // namespace

std::uint64_t& case_seed() {
  static std::uint64_t seed = 20;
  return seed;
}

Generator case_generator(Device device) {
  static std::map<int, Generator> all;
  Generator& own = all.try_emplace(device.is_cuda() ? device.index() : -1, device).first->second;
  if (!device.is_cuda() || !cuda::is_current_stream_capturing()) own.manual_seed(case_seed());
  return own;
}

void add_random_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::int64,
                            Dtype::uint8, Dtype::complex64})
    for (const Shape& sizes :
         {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 3, 5}, Shape{1, 4, 1}, Shape{0, 3}})
      add_fills(cases, dtype, sizes);
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16})
    for (const Shape& sizes : {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 3, 5}, Shape{0, 3}}) {
      const Input p = probabilities(dtype, sizes);
      add(cases, "bernoulli", {p}, [](Tensors& t) { return bernoulli(t[0], seeded(t[0])); });
      add(cases, "bernoulli", {p}, [](Tensors& t) { return bernoulli(t[0], 0.5, seeded(t[0])); });
      add(cases, "rand_like", {p}, [](Tensors& t) { return rand_like(t[0], {}, seeded(t[0])); });
      add(cases, "randn_like", {p}, [](Tensors& t) { return randn_like(t[0], {}, seeded(t[0])); });
      add(cases, "randint_like", {p},
          [](Tensors& t) { return randint_like(t[0], 3, 9, {}, seeded(t[0])); });
    }
  for (const Shape& sizes : {Shape{5}, Shape{1, 5}, Shape{3, 5}})
    for (const bool replacement : {false, true})
      add(
          cases, "multinomial",
          {{elements(Dtype::float32, sizes, {1, 2, 0.5, 4, 3}), false, false, Home::here}},
          [=](Tensors& t) { return multinomial(t[0], 4, replacement, seeded(t[0])); }, {},
          replacement ? "with replacement" : "");
}

}  // namespace ember::test
