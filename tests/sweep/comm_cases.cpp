// Tensors between devices: two of them where the machine has two, else one.
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

constexpr Traits kDevices{.device_only = true};

cuda::comm::Devices devices() {
  return cuda::device_count() > 1 ? cuda::comm::Devices{0, 1} : cuda::comm::Devices{0};
}

Tensors together(const std::vector<std::vector<Tensor>>& lists) {
  Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void add_case(Cases& cases, const std::string& op, std::vector<Input> inputs,
              const std::function<Tensors(Tensors&)>& run) {
  const std::string what = text_of(inputs);
  cases.push_back(
      {op, what, std::move(inputs), [=](Tensors& t, Device) { return run(t); }, kDevices});
}

void add_for(Cases& cases, Dtype dtype, const Shape& sizes) {
  const Input x = input(dtype, sizes);
  const Input y = elsewhere(input(dtype, sizes, 1), Home::other);
  const Input from_cpu = elsewhere(x, Home::cpu);
  for (const Input& source : {x, from_cpu}) {
    add_case(cases, "broadcast", {source},
             [](Tensors& t) { return cuda::comm::broadcast(t[0], devices()); });
    add_case(cases, "broadcast",
             {target(dtype, sizes), elsewhere(target(dtype, sizes), Home::other), source},
             [](Tensors& t) {
               cuda::comm::broadcast(t[2], {}, std::vector<Tensor>{t[0], t[1]});
               return Tensors{};
             });
  }
  add_case(cases, "broadcast_coalesced", {x, input(dtype, {2}, 2)}, [](Tensors& t) {
    return together(cuda::comm::broadcast_coalesced({t[0], t[1]}, devices()));
  });
  add_case(cases, "reduce_add", {x, y}, [](Tensors& t) {
    return Tensors{cuda::comm::reduce_add({t[0], t[1]}, 0)};
  });
  add_case(cases, "reduce_add_coalesced",
           {x, y, input(dtype, {2}, 2), elsewhere(input(dtype, {2}, 3), Home::other)},
           [](Tensors& t) {
             return cuda::comm::reduce_add_coalesced({{t[0], t[2]}, {t[1], t[3]}}, 0);
           });
  for (int dim = 0; dim < sizes.size(); ++dim) {
    for (const Input& source : {x, from_cpu})
      add_case(cases, "scatter", {source},
               [=](Tensors& t) { return cuda::comm::scatter(t[0], devices(), {}, dim); });
    Shape half = sizes;
    half[dim] = sizes[dim] / 2;
    Shape rest = sizes;
    rest[dim] -= half[dim];
    add_case(cases, "scatter",
             {target(dtype, half), elsewhere(target(dtype, rest), Home::other), from_cpu},
             [=](Tensors& t) {
               cuda::comm::scatter(t[2], {}, {}, dim, {}, std::vector<Tensor>{t[0], t[1]});
               return Tensors{};
             });
    add_case(cases, "gather", {x, y}, [=](Tensors& t) {
      return Tensors{cuda::comm::gather({t[0], t[1]}, dim, 0)};
    });
    Shape twice = sizes;
    twice[dim] *= 2;
    for (const Home home : {Home::cpu, Home::here})
      add_case(cases, "gather", {elsewhere(target(dtype, twice), home), x, y}, [=](Tensors& t) {
        (void)cuda::comm::gather({t[1], t[2]}, dim, {}, t[0]);
        return Tensors{};
      });
  }
}

}  // namespace

void add_comm_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::int8})
    for (const Shape& sizes : {Shape{4}, Shape{4, 6}, Shape{2, 2, 4, 4}})
      add_for(cases, dtype, sizes);
}

}  // namespace ember::test
