// Everyday code, as users of torch, libtorch, c10 and RMM type it. Each function returns what the
// test expects. It includes what a program includes, and nothing of the tests.
#pragma once

#include <ember/ember.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory_resource>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace everyday {

using ember::Tensor;

/// Assignment to a view writes into the tensor.
inline Tensor assign_to_views(ember::Device device) {
  Tensor x = ember::zeros({2, 3}, device);
  x[0] = 1;
  x[1][2] = 2.5;
  x.select(1, 1) = ember::tensor({7, 8}, device);
  x.narrow(1, 0, 1) = x.narrow(1, 1, 1);
  x[0] += 1;
  return x;
}

/// A variable is another matter: assigning names another tensor.
inline Tensor assign_to_variables(ember::Device device) {
  const Tensor x = ember::zeros(3, device);
  Tensor y = x;
  y = ember::ones(3, device);
  std::vector<Tensor> list(2);
  list[0] = y;
  std::swap(list[0], list[1]);
  Tensor sorted;
  Tensor order;
  std::tie(sorted, order) = list[1].sort();
  return x + sorted;
}

/// One size needs no braces.
inline ember::Shape sizes_without_braces() {
  const Tensor x = ember::ones(6).view(-1).reshape(6).expand(6);
  return ember::full(x.size(0), 2).sum(0, true).sizes();
}

/// Sizes from whatever holds integers, and as a span.
inline std::vector<ember::Shape> sizes_of_any_kind() {
  const std::vector<int> ints{2, 3};
  const std::array<std::int64_t, 2> array{3, 2};
  const std::vector<std::size_t> counts{1, 6};
  const Tensor x = ember::zeros(ints);
  ember::Shape sizes = x.view(array).sizes();
  const std::span<const std::int64_t> span = sizes;
  return {x.sizes(), span, x.reshape(counts).sizes(), x.permute(std::array{1, 0}).sizes()};
}

/// One of two results.
inline std::vector<Tensor> one_of_two_results() {
  const Tensor x = ember::tensor({2, 7, 5});
  Tensor values;
  Tensor indices;
  std::tie(values, std::ignore) = x.sort();
  std::tie(std::ignore, indices) = x.max(0);
  return {values, indices};
}

/// Numbers of 16 bits beside tensors.
inline std::vector<Tensor> numbers_of_16_bits() {
  const Tensor x = ember::tensor({1, 2});
  Tensor y = ember::Half(1.5F) * x;
  y += ember::BFloat16(1.0F);
  return {x * ember::Half(2.0F), y, x == ember::BFloat16(2.0F)};
}

/// Numbers in braces, nested and mixed.
inline std::vector<Tensor> numbers_in_braces() {
  return {
      ember::tensor({{1, 2.5}, {3, 4}}),
      ember::tensor({1, 2, 3}),
      ember::tensor({0.5, 1.5}),
      ember::tensor({true, false}),
      ember::tensor({std::complex<float>(0, 1)}),
      ember::tensor(5),
      ember::tensor({{{1}, {2}}, {{3}, {4}}}, ember::int8),
      ember::tensor<double>({1, 2}),
      ember::tensor(std::vector<double>{1, 2}),
      ember::tensor({}),
  };
}

/// Options in either order, and those of another tensor.
inline std::vector<Tensor> options(const char* device) {
  const Tensor x = ember::zeros({2, 2}, {device, ember::float64});
  return {x, ember::ones(3, {ember::float64, device}), ember::empty(3, x.options())};
}

/// Elements on the host.
inline double by_accessor(const Tensor& x) {
  const auto a = x.accessor<float, 2>();
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(0); ++i)
    for (std::int64_t j = 0; j < a.size(1); ++j) sum += static_cast<double>(a[i][j]);
  a[0][0] = 0;
  return sum + static_cast<double>(*x.data_ptr<float>());
}

/// What is handed on by const reference can be changed in place.
inline void in_place(const Tensor& x) { x.add_(1).mul_(2).clamp_(0, 100); }

/// The right column of "Other names" in docs/tensors.md.
inline std::vector<Tensor> other_names() {
  const Tensor x = ember::tensor({{3.5, 1.0}, {2.0, 4.0}});
  const auto [values, indices] = x.max(0);
  const ember::Shape sizes = x.sizes();
  const ember::Scalar number = x[0][0].item();
  const ember::Options pinned{ember::float32, "cpu", true};
  float mine[] = {1, 2};
  int released = 0;
  (void)ember::from_blob(mine, {2}, ember::float32, [&] { ++released; });
  return {
      values,
      indices,
      x.max(0).values,
      x.index({ember::Ellipsis, 0}),
      x.index({ember::None, ember::Slice(0, 1), 0}),
      x.sum({}, false, ember::float64),
      ember::div(x, 2, ember::Rounding::floor).to(ember::int32),
      ember::full(sizes, number.to<float>() + x[0][0].item<float>() + *x.data_ptr<const float>()),
      ember::tensor({(x == x).all().item<bool>(), x.is(x), pinned.pinned, released == 1}),
  };
}

/// Everything prints.
inline std::string printed(ember::Device device) {
  std::ostringstream out;
  const Tensor x = ember::ones({2, 3}, {ember::float64, ember::Device("cpu")});
  out << x.sizes() << ' ' << x.dtype() << ' ' << device << ' ' << x[0];
  return out.str();
}

/// Numbers, too.
inline std::string printed_numbers() {
  std::ostringstream out;
  out << ember::tensor(true).item() << ' ' << ember::Scalar(-7) << ' ' << ember::tensor(2.5).item()
      << ' ' << ember::Scalar(std::complex<float>(1, -2)) << ' '
      << ember::tensor({255}, ember::uint8)[0].item();
  return out.str();
}

/// Views are functions, as well as methods.
inline std::vector<Tensor> views_as_functions(const Tensor& x) {
  return {
      ember::squeeze(x),
      ember::squeeze(x, 1),
      ember::squeeze(x, {0, 1}),
      ember::unsqueeze(x, 0),
      ember::transpose(x, 0, 3),
      ember::permute(x, {3, 2, 0, 1}),
      ember::select(x, 0, 1),
      ember::narrow(x, 2, 0, 2),
      ember::chunk(x, 2, 3)[1],
      ember::split(x, 1, 2)[2],
      ember::split(x, {1, 2}, -2)[0],
      ember::unbind(x, -1)[3],
      ember::flatten(x),
      ember::reshape(x, {-1, 4}),
      ember::t(x[0][0]),
      ember::adjoint(x[0][0]),
      ember::as_strided(x, {2, 1, 3}, {12, 12, 4}, 1),
      ember::diagonal(x[0][0]),
      ember::view_as_real(ember::view_as_complex(x.view({-1, 2}))).select(1, 0),
  };
}

/// Options behind two numbers, and the larger and the smaller of two tensors.
inline std::vector<Tensor> ranges_and_extremes() {
  const Tensor x = ember::tensor({1, 2});
  const Tensor y = ember::tensor({3, 2});
  return {
      ember::arange(1, 3, ember::int32),
      ember::arange(0, 3, {ember::float64, "cpu"}),
      ember::arange(0, 4, 2),
      ember::arange(0, 1, 0.5),
      ember::max(x, y),
      ember::min(x, y),
      x.max(y),
      x.min(y),
  };
}

/// Devices as keys.
inline int by_device(ember::Device device) {
  std::unordered_map<ember::Device, int> count;
  ++count[device];
  ++count[ember::Device("cpu")];
  ++count[device];
  return count[device];
}

/// A vector on a device, as RMM's.
inline std::vector<float> vector_on_device() {
  const std::vector<float> host{1, 2, 3};
  ember::cuda::DeviceVector<float> x(host);
  x.resize(5);
  x.set_element(3, 4.0F);
  x.set_element(4, x.element(0) + 4.0F);
  const ember::cuda::DeviceVector<float> copy = x.clone();
  return copy.to_host();
}

/// Memory resources, as those of std::pmr.
inline std::size_t resources() {
  ember::cuda::PinnedResource pinned;
  std::pmr::vector<double> staging(100, 1.5, &pinned);
  ember::cuda::DeviceResource there;
  std::pmr::memory_resource& any = there;
  void* const memory = any.allocate(staging.size() * sizeof(double));
  ember::cuda::copy_async(memory, staging.data(), staging.size() * sizeof(double));
  std::vector<double> back(staging.size());
  ember::cuda::copy(back.data(), memory, back.size() * sizeof(double));
  any.deallocate(memory, staging.size() * sizeof(double));
  std::size_t same = 0;
  for (const double element : back) same += element > 1.25 && element < 1.75 ? 1 : 0;
  return same;
}

/// Memory of one's own, page-locked for a while.
inline bool is_pinned_for_a_while(std::vector<float>& mine) {
  const ember::cuda::HostRegistration lock(mine.data(), mine.size() * sizeof(float));
  return ember::from_blob(mine.data(), 4).is_pinned();
}

/// Streams that are only handed on.
inline bool hand_on(ember::cuda::StreamRef stream) {
  const ember::cuda::DeviceBuffer buffer = ember::cuda::allocate(1024, stream);
  ember::cuda::fill_async(buffer.data(), 1, buffer.size(), stream);
  stream.synchronize();
  return stream.query() && buffer.stream() == stream;
}

/// Ordered containers of devices.
inline std::string by_device() {
  const std::map<ember::Device, int> load{{"cuda:1", 1}, {"cpu", 2}, {"cuda:0", 3}};
  std::set<ember::Device> seen;
  for (const auto& [device, count] : load) seen.insert(device);
  std::ostringstream text;
  for (const ember::Device& device : seen) text << device << ' ';
  return text.str();
}

/// A host function that owns what cannot be copied.
inline int move_only_host_function() {
  std::promise<int> promise;
  std::future<int> answer = promise.get_future();
  ember::cuda::host_function([p = std::move(promise)]() mutable { p.set_value(42); });
  return answer.get();
}

/// New tensors, bounds and comparisons.
inline bool made_and_compared(ember::Device device) {
  const Tensor x = ember::linspace(-1, 1, 5, device);
  const Tensor matrix = ember::eye(5, device).matmul(x.unsqueeze(1)).ravel();
  const auto [elements, inverse, counts] = ember::unique(x.clamp_min(0), true, true);
  return ember::allclose(matrix, x) && ember::equal(x.clamp(0), x.clamp(0, {})) &&
         elements.numel() == 3 && counts[0].item<int>() == 3 && inverse[4].item<int>() == 2 &&
         ember::outer(x, x).sizes() == ember::Shape({5, 5}) && !x.detach().requires_grad();
}

}  // namespace everyday
