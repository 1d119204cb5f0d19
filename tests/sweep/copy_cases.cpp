// Copies and conversions, within a device and between devices; new tensors that take after others.
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

Tensor text_tensor(std::string text, Device here) {
  // Printed with its device, and in lines that are filled up: all but that is the same everywhere.
  std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\n'; });
  const std::string suffix = ",device='" + here.str() + "'";
  if (const std::size_t at = text.find(suffix); at != std::string::npos)
    text.erase(at, suffix.size());
  return tensor(std::vector<std::uint8_t>(text.begin(), text.end()));
}

/// copy_ of every layout to every layout.
void add_copies(Cases& cases) {
  struct Between {
    Home target;
    Home source;
  };
  const std::vector<Between> ways{{Home::here, Home::here},
                                  {Home::cpu, Home::here},
                                  {Home::here, Home::cpu},
                                  {Home::other, Home::here},
                                  {Home::here, Home::other}};
  struct Types {
    Dtype to;
    Dtype from;
  };
  const std::vector<Types> types{{Dtype::float32, Dtype::float32},
                                 {Dtype::int8, Dtype::int8},
                                 {Dtype::complex128, Dtype::complex128},
                                 {Dtype::float64, Dtype::int16},
                                 {Dtype::uint8, Dtype::bool_}};
  for (const Between& way : ways)
    for (const Types& type : types)
      for (const Shape& sizes : {Shape{3, 4}, Shape{2, 3, 5}, Shape{1, 4, 1}, Shape{}, Shape{7}})
        add_in_place(cases, "copy_",
                     {elsewhere(target(type.to, sizes), way.target),
                      elsewhere(input(type.from, sizes), way.source)},
                     [](Tensors& t) { t[0].copy_(t[1]); }, {.all_pairs = true});
  add_in_place(
      cases, "copy_", {target(Dtype::float32, {2, 3, 4}), input(Dtype::float32, {3, 1})},
      [](Tensors& t) { t[0].copy_(t[1]); }, {.all_pairs = true}, "broadcast");
  add_in_place(
      cases, "copy_",
      {target(Dtype::float32, {3, 4}), elsewhere(input(Dtype::float32, {4}), Home::cpu)},
      [](Tensors& t) { t[0].copy_(t[1], true); }, {.all_pairs = true}, "non_blocking");
}

void add_conversions(Cases& cases, const Input& x) {
  const Dtype dtype = x.content.dtype;
  const bool complex = is_complex_dtype(dtype);
  add(cases, "clone", {x}, [](Tensors& t) { return t[0].clone(); });
  add(cases, "contiguous", {x}, [](Tensors& t) { return t[0].contiguous(); });
  add(cases, "cpu", {x}, [](Tensors& t) { return t[0].cpu(); });
  add(cases, "cuda", {x}, [](Tensors& t) { return t[0].cuda(); }, {.device_only = true});
  add(
      cases, "cuda", {elsewhere(x, Home::cpu)}, [](Tensors& t) { return t[0].cuda(); },
      {.device_only = true}, "from the CPU");
  add(cases, "pin_memory", {elsewhere(x, Home::cpu)}, [](Tensors& t) { return t[0].pin_memory(); },
      {.device_only = true});
  add(cases, "to", {x}, [=](Tensors& t) { return t[0].to(dtype, false, true); });
  add(cases, "type_as", {x}, [=](Tensors& t) {
    return t[0].type_as(empty({0}, {dtype, t[0].device()}));
  });
  add(cases, "to", {x},
      [=](Tensors& t) { return t[0].to(complex ? Dtype::complex64 : Dtype::float64); });
  add(cases, "to", {x, input(Dtype::float16, {2})}, [=](Tensors& t) {
    return complex ? t[0].to(Device("cpu"), dtype, false, true) : t[0].to(t[1]);
  });
  cases.push_back({"str", text_of({x}), {x}, [](Tensors& t, Device here) {
                     return Tensors{text_tensor(t[0].str(), here)};
                   }});
}

/// New tensors of a tensor's shape, dtype and device.
void add_likes(Cases& cases, const Input& x) {
  add(cases, "empty_like", {x}, [](Tensors& t) { return empty_like(t[0]).zero_(); });
  add(cases, "zeros_like", {x}, [](Tensors& t) { return zeros_like(t[0]); });
  add(cases, "ones_like", {x}, [](Tensors& t) { return ones_like(t[0]); });
  add(cases, "full_like", {x}, [](Tensors& t) { return full_like(t[0], 3); });
  add(cases, "new_empty", {x}, [](Tensors& t) { return t[0].new_empty({2, 3}).zero_(); });
  add(cases, "new_zeros", {x}, [](Tensors& t) { return t[0].new_zeros({2, 3}); });
  add(cases, "new_ones", {x}, [](Tensors& t) { return t[0].new_ones({2, 3}); });
  add(cases, "new_full", {x}, [](Tensors& t) { return t[0].new_full({2, 3}, 3); });
}

}  // namespace

void add_copy_cases(Cases& cases) {
  add_copies(cases);
  for (const Dtype dtype : {Dtype::float32, Dtype::bool_, Dtype::bfloat16, Dtype::complex128}) {
    for (const Shape& sizes :
         {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 3, 5}, Shape{1, 4, 1}, Shape{0, 3}}) {
      const Input x = input(dtype, sizes);
      add_conversions(cases, x);
      add_likes(cases, x);
      add_in_place(cases, "fill_", {target(dtype, sizes)}, [](Tensors& t) { t[0].fill_(1); },
                   {.fills = true});
      add_in_place(cases, "zero_", {target(dtype, sizes)}, [](Tensors& t) { t[0].zero_(); },
                   {.fills = true});
    }
  }
  for (const Shape& sizes : {Shape{}, Shape{1}, Shape{1, 1}})
    for (const Dtype dtype : {Dtype::float64, Dtype::int64})
      add(cases, "item", {input(dtype, sizes)},
          [=](Tensors& t) { return scalar_tensor(t[0].item(), dtype); });
}

}  // namespace ember::test
