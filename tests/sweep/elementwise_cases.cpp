// Element-wise operations: made from their list, so that a new one is covered by its line there.
#include "ember/ops/elementwise_kernels.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

struct Forms {
  const char* name;
  std::function<Tensor(Tensors&)> call;
  std::function<void(Tensor&, Tensors&)> call_out;
  std::function<void(Tensors&)> call_in_place;  // empty for `where`, which has none
};

const std::vector<Forms>& all_forms() {
  static const auto* const kForms = new std::vector<Forms>{
#define EMBER_UNARY(name, ...)                                    \
  {#name, [](Tensors& t) { return ember::name(t[0]); },           \
   [](Tensor& out, Tensors& t) { ember::name##_out(out, t[0]); }, \
   [](Tensors& t) { t[0].name##_(); }},
#define EMBER_BINARY(name, ...)                                         \
  {#name, [](Tensors& t) { return ember::name(t[0], t[1]); },           \
   [](Tensor& out, Tensors& t) { ember::name##_out(out, t[0], t[1]); }, \
   [](Tensors& t) { t[0].name##_(t[1]); }},
#define EMBER_TERNARY(name, ...)                                              \
  {#name, [](Tensors& t) { return ember::name(t[0], t[1], t[2]); },           \
   [](Tensor& out, Tensors& t) { ember::name##_out(out, t[0], t[1], t[2]); }, \
   [](Tensors& t) { t[0].name##_(t[1], t[2]); }},
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
      {"where",
       [](Tensors& t) { return where(t[0], t[1], t[2]); },
       [](Tensor& out, Tensors& t) { where_out(out, t[0], t[1], t[2]); },
       {}},
  };
  return *kForms;
}

/// Shapes of the inputs of an operation; the first one is the result's.
const std::vector<std::vector<Shape>>& shapes() {
  static const auto* const kShapes = new std::vector<std::vector<Shape>>{
      {{3, 4}, {3, 4}, {3, 4}},       {{37}, {37}, {1}}, {{2, 3, 5}, {3, 1}, {5}},
      {{1, 4, 1}, {1, 4, 1}, {4, 1}}, {{}, {}, {}},      {{0, 3}, {0, 3}, {1, 3}},
  };
  return *kShapes;
}

void add_forms(Cases& cases, const Forms& forms, const OpInfo& info, Dtype dtype, bool every_form) {
  // lgamma crosses zero where its own terms are as large as one.
  const Traits traits{.ulp = info.ulp, .floor = std::string(info.name) == "lgamma" ? 1.0 : 0.0};
  for (const std::vector<Shape>& sizes : shapes()) {
    std::vector<Input> inputs;
    for (int k = 0; k < info.operands; ++k) {
      const bool condition = std::string(info.name) == "where" && k == 0;
      inputs.push_back(
          input(condition ? Dtype::bool_ : dtype, sizes[static_cast<std::size_t>(k)], k));
    }
    if (!every_form) {
      add(cases, forms.name, inputs, forms.call, traits);
      continue;
    }
    add_with_out(cases, forms.name, inputs, forms.call, forms.call_out, traits);
    if (forms.call_in_place && (info.result != Result::real || !is_complex_dtype(dtype)))
      add_in_place(cases, std::string(forms.name) + "_", inputs, forms.call_in_place, traits);
  }
}

/// Inputs and outputs that are converted on the way.
void add_conversions(Cases& cases) {
  const auto call = [](Tensors& t) { return add(t[0], t[1]); };
  const auto call_out = [](Tensors& t) { add_out(t[0], t[1], t[2]); };
  const auto in_place = [](Tensors& t) { t[0].add_(t[1]); };
  for (const Shape& sizes : {Shape{3, 4}, Shape{2, 3, 4}}) {
    add(cases, "add", {input(Dtype::int32, sizes), input(Dtype::float32, {4})}, call);
    add(cases, "add", {input(Dtype::bool_, sizes), input(Dtype::int8, sizes)}, call);
    add(cases, "add", {input(Dtype::float16, sizes), input(Dtype::complex128, {4})}, call);
    add(cases, "add", {input(Dtype::int64, sizes), input(Dtype::float64, {})}, call);
    add_in_place(cases, "add_", {target(Dtype::float64, sizes), input(Dtype::int8, sizes)},
                 in_place);
    add_in_place(cases, "add_", {target(Dtype::int16, sizes), input(Dtype::int64, {4})}, in_place);
    add_in_place(
        cases, "add_out",
        {target(Dtype::float64, sizes), input(Dtype::int32, sizes), input(Dtype::float32, {4})},
        call_out);
    add_in_place(cases, "add_out",
                 {target(Dtype::int8, sizes), input(Dtype::int64, sizes), input(Dtype::uint8, {4})},
                 call_out);
    add_in_place(
        cases, "lt_out",
        {target(Dtype::float32, sizes), input(Dtype::int64, sizes), input(Dtype::float32, {4})},
        [](Tensors& t) { lt_out(t[0], t[1], t[2]); });
    add(cases, "where",
        {input(Dtype::bool_, {4}), input(Dtype::int8, sizes), input(Dtype::float64, sizes)},
        [](Tensors& t) { return where(t[0], t[1], t[2]); });
  }
  // A tensor of the CPU without dimensions counts as a number.
  add(cases, "mul",
      {input(Dtype::float32, {3, 4}), elsewhere(input(Dtype::float64, {}, 1), Home::cpu)},
      [](Tensors& t) { return mul(t[0], t[1]); }, {.ulp = 2});
}

/// Bounds that may be missing, and closeness.
void add_bounds(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::int16}) {
    const std::vector<Input> inputs{input(dtype, {3, 4}), input(dtype, {4}, 1)};
    add_with_out(
        cases, "clamp", inputs, [](Tensors& t) { return clamp(t[0], t[1]); },
        [](Tensor& out, Tensors& t) { clamp_out(out, t[0], std::nullopt, t[1]); }, {}, "one bound");
    add_with_out(
        cases, "clamp_min", inputs, [](Tensors& t) { return clamp_min(t[0], t[1]); },
        [](Tensor& out, Tensors& t) { clamp_min_out(out, t[0], t[1]); });
    add_with_out(
        cases, "clamp_max", inputs, [](Tensors& t) { return clamp_max(t[0], t[1]); },
        [](Tensor& out, Tensors& t) { clamp_max_out(out, t[0], t[1]); });
    add_in_place(cases, "clamp_min_", inputs, [](Tensors& t) { t[0].clamp_min_(t[1]); });
    add_in_place(cases, "clamp_max_", inputs, [](Tensors& t) { t[0].clamp_max_(t[1]); });
    add(cases, "isclose", inputs, [](Tensors& t) { return isclose(t[0], t[1], 0.5, 1); });
  }
}

/// The forms with one argument more.
void add_arithmetic(Cases& cases) {
  const Shape sizes{3, 4};
  const auto with_alpha = [&](Dtype dtype, const Scalar& alpha) {
    const std::vector<Input> inputs{input(dtype, sizes), input(dtype, {4}, 1)};
    add_with_out(
        cases, "add", inputs, [=](Tensors& t) { return add(t[0], t[1], alpha); },
        [=](Tensor& out, Tensors& t) { add_out(out, t[0], t[1], alpha); }, {}, "alpha");
    add_in_place(
        cases, "add_", inputs, [=](Tensors& t) { t[0].add_(t[1], alpha); }, {}, "alpha");
    if (dtype == Dtype::bool_) return;
    add_with_out(
        cases, "sub", inputs, [=](Tensors& t) { return sub(t[0], t[1], alpha); },
        [=](Tensor& out, Tensors& t) { sub_out(out, t[0], t[1], alpha); }, {}, "alpha");
    add_in_place(
        cases, "sub_", inputs, [=](Tensors& t) { t[0].sub_(t[1], alpha); }, {}, "alpha");
  };
  with_alpha(Dtype::float32, 2);
  with_alpha(Dtype::int16, -3);
  with_alpha(Dtype::complex64, 2);
  with_alpha(Dtype::bool_, true);
  with_alpha(Dtype::bool_, false);

  for (const Rounding rounding : {Rounding::none, Rounding::trunc, Rounding::floor}) {
    for (const Dtype dtype : {Dtype::float32, Dtype::int32}) {
      const std::vector<Input> inputs{input(dtype, sizes), input(dtype, {4}, 1)};
      add_with_out(
          cases, "div", inputs, [=](Tensors& t) { return div(t[0], t[1], rounding); },
          [=](Tensor& out, Tensors& t) { div_out(out, t[0], t[1], rounding); }, {.ulp = 4},
          "rounding");
      if (rounding != Rounding::none || dtype == Dtype::float32)
        add_in_place(
            cases, "div_", inputs, [=](Tensors& t) { t[0].div_(t[1], rounding); }, {.ulp = 4},
            "rounding");
    }
  }
  const std::vector<Input> three{input(Dtype::float32, sizes), input(Dtype::float32, sizes, 1),
                                 input(Dtype::float32, {4}, 2)};
  add_with_out(
      cases, "addcmul", three, [](Tensors& t) { return addcmul(t[0], t[1], t[2], 2); },
      [](Tensor& out, Tensors& t) { addcmul_out(out, t[0], t[1], t[2], 2); }, {.ulp = 4}, "value");
  add_with_out(
      cases, "addcdiv", three, [](Tensors& t) { return addcdiv(t[0], t[1], t[2], 2); },
      [](Tensor& out, Tensors& t) { addcdiv_out(out, t[0], t[1], t[2], 2); }, {.ulp = 4}, "value");
  add_with_out(
      cases, "round", {input(Dtype::float32, sizes)}, [](Tensors& t) { return round(t[0], 1); },
      [](Tensor& out, Tensors& t) { round_out(out, t[0], 1); }, {.ulp = 4}, "decimals");
}

}  // namespace

void add_elementwise_cases(Cases& cases) {
  std::size_t place = 0;
  for (const OpInfo& info : ops::all_ops()) {
    const Forms& forms = all_forms().at(place++);
    std::vector<Dtype> dtypes;
    for (int i = 0; i < kDtypes; ++i)
      if (contains(info.dtypes, static_cast<Dtype>(i))) dtypes.push_back(static_cast<Dtype>(i));
    // Every form for one dtype, and the function for another one: all sizes of elements have their
    // turn among the operations.
    const bool floating = contains(info.dtypes, Dtype::float32);
    const Dtype first = floating ? Dtype::float32 : dtypes.back();
    add_forms(cases, forms, info, first, true);
    const Dtype second = dtypes[place % dtypes.size()];
    if (second != first) add_forms(cases, forms, info, second, false);
  }
  add_conversions(cases);
  add_bounds(cases);
  add_arithmetic(cases);
}

}  // namespace ember::test
