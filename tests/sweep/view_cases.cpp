// Views of views.
#include "ember/tensor/views.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

using Call = std::function<Tensor(const Tensor&)>;

void add_view(Cases& cases, const std::string& op, const Input& x, const Call& call,
              const std::string& note = "", bool may_refuse = false) {
  add(
      cases, op, {x}, [=](Tensors& t) { return call(t[0]); },
      {.may_refuse = may_refuse, .shares = true}, note);
}

void add_list(Cases& cases, const std::string& op, const Input& x,
              const std::function<Tensors(const Tensor&)>& call) {
  cases.push_back(
      {op, text_of({x}), {x}, [=](Tensors& t, Device) { return call(t[0]); }, {.shares = true}});
}

/// What there is for any number of dimensions.
void add_any(Cases& cases, const Input& x) {
  const Shape& sizes = x.content.sizes;
  const std::int64_t count = element_count(sizes);
  add_view(cases, "alias", x, [](const Tensor& t) { return t.alias(); });
  add_view(cases, "detach", x, [](const Tensor& t) { return t.detach(); });
  add_view(cases, "squeeze", x, [](const Tensor& t) { return t.squeeze(); });
  add_view(cases, "unsqueeze", x, [](const Tensor& t) { return t.unsqueeze(0); });
  add_view(cases, "unsqueeze", x, [](const Tensor& t) { return t.unsqueeze(-1); });
  add_view(
      cases, "view", x, [=](const Tensor& t) { return t.view({count}); }, "one row", true);
  add_view(
      cases, "view", x, [=](const Tensor& t) { return t.view(sizes); }, "itself");
  add(cases, "reshape", {x}, [=](Tensors& t) { return t[0].reshape({count}); });
  add(cases, "flatten", {x}, [](Tensors& t) { return t[0].flatten(); });
  add(cases, "ravel", {x}, [](Tensors& t) { return t[0].ravel(); });
  using One = Tensor (*)(const Tensor&);
  for (const auto& [name, call] : {std::pair<const char*, One>{"atleast_1d", atleast_1d},
                                   {"atleast_2d", atleast_2d},
                                   {"atleast_3d", atleast_3d}})
    add_view(cases, name, x, call);
  add_list(cases, "broadcast_tensors", x, [](const Tensor& t) {
    return broadcast_tensors({t, t.unsqueeze(0)});
  });
  for (int dim = 0; dim < sizes.size(); ++dim) {
    add_view(cases, "movedim", x, [=](const Tensor& t) { return t.movedim(dim, -1); });
    add_view(cases, "unflatten", x, [=](const Tensor& t) {
      return t.unflatten(dim, {1, t.size(dim), 1});
    });
  }
  if (count > 0)
    add(cases, "reshape", {x}, [=](Tensors& t) { return t[0].reshape({-1, count, 1}); });
  add_view(cases, "real", x, [](const Tensor& t) { return t.real(); });
  Shape larger = sizes;
  larger.insert(0, 2);
  add_view(cases, "expand", x, [=](const Tensor& t) { return t.expand(larger); });
  add_view(cases, "broadcast_to", x, [=](const Tensor& t) { return t.broadcast_to(larger); });
  cases.push_back({"expand_as",
                   text_of({x}),
                   {x, input(Dtype::uint8, larger)},
                   [](Tensors& t, Device) { return Tensors{t[0].expand_as(t[1])}; },
                   {.shares = true}});
  if (x.content.dtype == Dtype::float32) {
    add_view(
        cases, "view", x, [](const Tensor& t) { return t.view(Dtype::int32); }, "int32");
    if (!sizes.empty()) {
      add_view(
          cases, "view", x, [](const Tensor& t) { return t.view(Dtype::int16); }, "int16", true);
      add_view(
          cases, "view", x, [](const Tensor& t) { return t.view(Dtype::complex64); }, "complex64",
          true);
    }
  }
  if (is_complex_dtype(x.content.dtype)) {
    add_view(cases, "view_as_real", x, [](const Tensor& t) { return t.view_as_real(); });
    add_view(cases, "imag", x, [](const Tensor& t) { return t.imag(); });
  }
}

void add_along(Cases& cases, const Input& x, int dim) {
  const std::int64_t size = x.content.sizes[dim];
  add_view(cases, "squeeze", x, [=](const Tensor& t) { return t.squeeze(dim); });
  add_view(cases, "narrow", x, [=](const Tensor& t) { return t.narrow(dim, size / 2, size / 2); });
  add_view(cases, "slice", x, [=](const Tensor& t) { return t.slice(dim, 1, {}, 2); });
  add_view(cases, "slice", x, [=](const Tensor& t) { return t.slice(dim, {}, -1); });
  add_list(cases, "chunk", x, [=](const Tensor& t) { return t.chunk(2, dim); });
  add_list(cases, "split", x, [=](const Tensor& t) { return t.split(2, dim); });
  add_list(cases, "split", x, [=](const Tensor& t) {
    return t.split(std::vector<std::int64_t>{size / 2, 0, size - size / 2}, dim);
  });
  add_list(cases, "unbind", x, [=](const Tensor& t) { return t.unbind(dim); });
  add_list(cases, "tensor_split", x, [=](const Tensor& t) { return tensor_split(t, 3, dim); });
  add_list(cases, "tensor_split", x, [=](const Tensor& t) {
    return tensor_split(t, std::vector<std::int64_t>{1, -1}, dim);
  });
  add_view(cases, "unfold", x, [=](const Tensor& t) { return unfold(t, dim, size / 2, 2); });
  if (size == 0) return;
  add_view(cases, "select", x, [=](const Tensor& t) { return t.select(dim, -1); });
  add_view(cases, "select", x, [=](const Tensor& t) { return t.select(dim, 0); });
}

void add_matrix(Cases& cases, const Input& x) {
  const int dims = x.content.sizes.size();
  add_view(cases, "transpose", x, [](const Tensor& t) { return t.transpose(0, -1); });
  Shape backwards;
  for (int i = 0; i < dims; ++i) backwards.push_back(dims - 1 - i);
  add_view(cases, "permute", x, [=](const Tensor& t) { return t.permute(backwards); });
  if (dims == 2) {
    add_view(cases, "t", x, [](const Tensor& t) { return t.t(); });
    add(cases, "H", {x}, [](Tensors& t) { return t[0].H(); });
  }
  add_view(cases, "numpy_T", x, [](const Tensor& t) { return t.numpy_T(); });
  if (dims >= 2) {
    add_view(cases, "mT", x, [](const Tensor& t) { return t.mT(); });
    add(cases, "mH", {x}, [](Tensors& t) { return t[0].mH(); });
    add(cases, "adjoint", {x}, [](Tensors& t) { return t[0].adjoint(); });
  }
  for (const int offset : {0, 1, -1})
    add_view(cases, "diagonal", x, [=](const Tensor& t) { return t.diagonal(offset); });
  add_view(cases, "diagonal", x, [](const Tensor& t) { return t.diagonal(0, -1, 0); });
  add_list(cases, "hsplit", x, [](const Tensor& t) { return hsplit(t, 1); });
  if (dims >= 2) add_list(cases, "vsplit", x, [](const Tensor& t) { return vsplit(t, {1}); });
  if (dims >= 3) add_list(cases, "dsplit", x, [](const Tensor& t) { return dsplit(t, {1, 2}); });
  add(cases, "flatten", {x}, [](Tensors& t) { return t[0].flatten(0, 1); });
  add_view(cases, "squeeze", x, [](const Tensor& t) { return t.squeeze(Shape{0, 1}); });
}

}  // namespace

void add_view_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::complex128}) {
    for (const Shape& sizes :
         {Shape{}, Shape{1}, Shape{6}, Shape{3, 4}, Shape{2, 3, 4}, Shape{1, 4, 1}, Shape{0, 3}}) {
      const Input x = input(dtype, sizes);
      add_any(cases, x);
      for (int dim = 0; dim < sizes.size(); ++dim) add_along(cases, x, dim);
      if (sizes.size() >= 2) add_matrix(cases, x);
    }
  }
  for (const Shape& sizes : {Shape{2}, Shape{3, 2}, Shape{2, 3, 2}, Shape{0, 2}})
    add_view(
        cases, "view_as_complex", input(Dtype::float32, sizes),
        [](const Tensor& t) { return t.view_as_complex(); }, "", true);
}

}  // namespace ember::test
