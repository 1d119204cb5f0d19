// What random programs are made of.
#include <algorithm>

#include "ember/ops/elementwise_kernels.h"
#include "tests/sweep/program.h"

namespace ember::test {
namespace {

using ops::OpId;
using Side = Program::Side;

/// One of a list.
template <class T>
const T& one_of(Program& p, const std::vector<T>& list) {
  return list[static_cast<std::size_t>(p.number(0, static_cast<std::int64_t>(list.size()) - 1))];
}

std::string str(std::int64_t number) { return std::to_string(number); }

bool is_real(const Tensor& x) { return !x.is_complex(); }
bool has_dims(const Tensor& x) { return x.dim() >= 1 && x.numel() > 0; }

int any_dim(Program& p, const Tensor& x) { return static_cast<int>(p.number(0, x.dim() - 1)); }

// ---- Views

void transpose_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 2; });
  if (!v) return;
  const int a = any_dim(p, p.at(*v));
  const int b = any_dim(p, p.at(*v));
  p.make(p.name(*v) + ".transpose(" + str(a) + ", " + str(b) + ")",
         [&](Side s) { return p.at(*v, s).transpose(a, b); });
}

void permute_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 3; });
  if (!v) return;
  Shape dims;
  for (int i = 0; i < p.at(*v).dim(); ++i) dims.insert(static_cast<int>(p.number(0, i)), i);
  p.make(p.name(*v) + ".permute(" + dims.str() + ")",
         [&](Side s) { return p.at(*v, s).permute(dims); });
}

void slice_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 1; });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const std::int64_t size = p.at(*v).sizes()[dim];
  const std::int64_t start = p.number(0, size);
  const std::int64_t end = p.number(start, size + 1);
  const std::int64_t step = p.number(1, 3);
  p.make(p.name(*v) + ".slice(" + str(dim) + ", " + str(start) + ", " + str(end) + ", " +
             str(step) + ")",
         [&](Side s) { return p.at(*v, s).slice(dim, start, end, step); });
}

void select_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 2 && x.numel() > 0; });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const std::int64_t index = p.number(0, p.at(*v).sizes()[dim] - 1);
  p.make(p.name(*v) + ".select(" + str(dim) + ", " + str(index) + ")",
         [&](Side s) { return p.at(*v, s).select(dim, index); });
}

void diagonal_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 2; });
  if (!v) return;
  const std::int64_t offset = p.number(-1, 1);
  p.make(p.name(*v) + ".diagonal(" + str(offset) + ")",
         [&](Side s) { return p.at(*v, s).diagonal(offset); });
}

void expand_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() <= 3; });
  if (!v) return;
  Shape sizes = p.at(*v).sizes();
  for (int i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 1) sizes[i] = p.number(1, 3);
  sizes.insert(0, p.number(1, 3));
  p.make(p.name(*v) + ".expand(" + sizes.str() + ")",
         [&](Side s) { return p.at(*v, s).expand(sizes); });
}

void squeeze_step(Program& p) {
  const auto v = p.pick();
  if (p.chance(50)) {
    p.make(p.name(*v) + ".squeeze()", [&](Side s) { return p.at(*v, s).squeeze(); });
    return;
  }
  const std::int64_t dim = p.number(0, p.at(*v).dim());
  p.make(p.name(*v) + ".unsqueeze(" + str(dim) + ")",
         [&](Side s) { return p.at(*v, s).unsqueeze(dim); });
}

void reshape_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.numel() > 0; });
  if (!v) return;
  std::vector<Shape> shapes{{-1}, {1, -1}, {-1, 1}};
  for (const std::int64_t factor : {2, 3, 4})
    if (p.at(*v).numel() % factor == 0) {
      shapes.push_back({factor, -1});
      shapes.push_back({-1, factor});
    }
  const Shape sizes = one_of(p, shapes);
  p.make(p.name(*v) + ".reshape(" + sizes.str() + ")",
         [&](Side s) { return p.at(*v, s).reshape(sizes); });
}

void piece_step(Program& p) {
  const auto v = p.pick(has_dims);
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const std::int64_t count = p.number(1, 3);
  p.make(p.name(*v) + ".chunk(" + str(count) + ", " + str(dim) + ").back()",
         [&](Side s) { return p.at(*v, s).chunk(count, dim).back(); });
}

void parts_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.is_complex() && x.dim() <= 4; });
  if (!v) return;
  if (p.chance(50))
    p.make(p.name(*v) + ".view_as_real()", [&](Side s) { return p.at(*v, s).view_as_real(); });
  else
    p.make(p.name(*v) + ".imag()", [&](Side s) { return p.at(*v, s).imag(); });
}

// ---- Element-wise operations

/// Whether the machine's own arithmetic gives the same bits everywhere.
bool is_exact(const Program& p, const OpInfo& info, Dtype dtype) {
  if (!p.real_device()) return true;
  return info.ulp == 0 || (is_integral(dtype) && contains(info.dtypes, dtype));
}

std::optional<OpId> any_op(Program& p, int operands, Dtype dtype) {
  std::vector<OpId> fit;
  for (int i = 0; i < static_cast<int>(OpId::where); ++i) {
    const auto op = static_cast<OpId>(i);
    const OpInfo& info = ops::op_info(op);
    if (info.operands == operands && contains(info.dtypes, dtype) && is_exact(p, info, dtype))
      fit.push_back(op);
  }
  if (fit.empty()) return {};
  return one_of(p, fit);
}

Tensor call(OpId op, const std::vector<Operand>& operands) {
  std::vector<const Operand*> list;
  for (const Operand& operand : operands) list.push_back(&operand);
  return ops::elementwise(op, list);
}

void call_into(Tensor target, OpId op, const std::vector<Operand>& operands) {
  std::vector<const Operand*> list;
  for (const Operand& operand : operands) list.push_back(&operand);
  ops::elementwise_into(target, op, list);
}

bool broadcasts(const Shape& a, const Shape& b) {
  for (int i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const std::int64_t x = a[a.size() - i];
    const std::int64_t y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

/// Whether a tensor of shape `a` becomes one of shape `b`.
bool broadcasts_to(const Shape& a, const Shape& b) {
  return broadcasts(a, b) && broadcast_shapes(a, b) == b;
}

void unary_step(Program& p) {
  const auto v = p.pick();
  const auto op = any_op(p, 1, p.at(*v).dtype());
  if (!op) return;
  p.make(std::string(ops::op_info(*op).name) + "(" + p.name(*v) + ")",
         [&](Side s) { return call(*op, {p.at(*v, s)}); });
}

void binary_step(Program& p) {
  const auto v = p.pick();
  const auto w = p.pick([&](const Tensor& x) { return broadcasts(x.sizes(), p.at(*v).sizes()); });
  const Dtype dtype = ember::result_type(p.at(*v), p.at(*w));
  const auto op = any_op(p, 2, dtype);
  if (!op) return;
  p.make(std::string(ops::op_info(*op).name) + "(" + p.name(*v) + ", " + p.name(*w) + ")",
         [&](Side s) {
           return call(*op, {p.at(*v, s), p.at(*w, s)});
         });
}

void number_step(Program& p) {
  const auto v = p.pick();
  const auto op = any_op(p, 2, p.at(*v).dtype());
  if (!op) return;
  const bool whole = is_integral(p.at(*v).dtype());
  const Scalar number = p.at(*v).dtype() == Dtype::bool_ ? Scalar(p.chance(50))
                        : whole                          ? Scalar(p.number(0, 5))
                                : Scalar(static_cast<double>(p.number(-20, 20)) / 8);
  p.make(std::string(ops::op_info(*op).name) + "(" + p.name(*v) + ", a number)", [&](Side s) {
    return call(*op, {p.at(*v, s), number});
  });
}

void ternary_step(Program& p) {
  const auto v = p.pick();
  const Shape& sizes = p.at(*v).sizes();
  const auto w = p.pick([&](const Tensor& x) {
    return broadcasts_to(x.sizes(), sizes) && x.dtype() == p.at(*v).dtype();
  });
  if (p.chance(50)) {
    const Program::Fresh mask = p.fresh(Dtype::bool_, sizes);
    p.make("where(a mask, " + p.name(*v) + ", " + p.name(*w) + ")",
           [&](Side s) { return where(mask[s], p.at(*v, s), p.at(*w, s)); });
    return;
  }
  const auto op = any_op(p, 3, p.at(*v).dtype());
  if (!op) return;
  p.make(std::string(ops::op_info(*op).name) + "(" + p.name(*v) + ", " + p.name(*w) + ", " +
             p.name(*v) + ")",
         [&](Side s) {
           return call(*op, {p.at(*v, s), p.at(*w, s), p.at(*v, s)});
         });
}

void unary_in_place_step(Program& p) {
  const auto v = p.pick();
  const auto op = any_op(p, 1, p.at(*v).dtype());
  if (!op) return;
  p.change(*v, std::string(".") + ops::op_info(*op).name + "_()",
           [&](Side s) { call_into(p.at(*v, s), *op, {p.at(*v, s)}); });
}

void binary_in_place_step(Program& p) {
  const auto v = p.pick();
  const auto w =
      p.pick([&](const Tensor& x) { return broadcasts_to(x.sizes(), p.at(*v).sizes()); });
  const auto op = any_op(p, 2, ember::result_type(p.at(*v), p.at(*w)));
  if (!op) return;
  p.change(*v, std::string(".") + ops::op_info(*op).name + "_(" + p.name(*w) + ")", [&](Side s) {
    call_into(p.at(*v, s), *op, {p.at(*v, s), p.apart(*w, *v, s)});
  });
}

void binary_out_step(Program& p) {
  const auto v = p.pick();
  const auto to_v = [&](const Tensor& x) { return broadcasts_to(x.sizes(), p.at(*v).sizes()); };
  const auto a = p.pick(to_v);
  const auto b = p.pick(to_v);
  if (broadcast_shapes(p.at(*a).sizes(), p.at(*b).sizes()) != p.at(*v).sizes()) return;
  const auto op = any_op(p, 2, ember::result_type(p.at(*a), p.at(*b)));
  if (!op) return;
  p.change(
      *v, std::string(" <- ") + ops::op_info(*op).name + "(" + p.name(*a) + ", " + p.name(*b) + ")",
      [&](Side s) {
        call_into(p.at(*v, s), *op, {p.apart(*a, *v, s), p.apart(*b, *v, s)});
      });
}

// ---- Reductions, sorting, running sums

void reduce_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.numel() > 0; });
  const Tensor& x = p.at(*v);
  DimList dims;
  if (x.dim() > 0 && p.chance(70)) dims = any_dim(p, x);
  const bool keep = p.chance(30);
  using Reduce = std::function<Tensor(const Tensor&)>;
  std::vector<std::pair<const char*, Reduce>> list{
      {"any", [&](const Tensor& t) { return t.any(dims, keep); }},
      {"all", [&](const Tensor& t) { return t.all(dims, keep); }},
      {"count_nonzero", [&](const Tensor& t) { return t.count_nonzero(dims); }}};
  // Sums of floating-point numbers are added in another order on real devices.
  const bool whole = is_integral(x.dtype());
  if (whole || !p.real_device()) {
    list.emplace_back("sum", [&](const Tensor& t) { return t.sum(dims, keep); });
    list.emplace_back("prod", [&](const Tensor& t) { return t.prod(dims, keep); });
  }
  if (!whole && !p.real_device()) {
    list.emplace_back("mean", [&](const Tensor& t) { return t.mean(dims, keep); });
    list.emplace_back("var", [&](const Tensor& t) { return t.var(dims, 1, keep); });
    list.emplace_back("norm", [&](const Tensor& t) { return t.norm(2, dims, keep); });
  }
  if (is_real(x)) {
    list.emplace_back("amax", [&](const Tensor& t) { return t.amax(dims, keep); });
    list.emplace_back("amin", [&](const Tensor& t) { return t.amin(dims, keep); });
    if (!dims.all()) {
      const std::int64_t dim = dims.list()[0];
      list.emplace_back("max indices", [=](const Tensor& t) { return t.max(dim, keep).indices; });
      list.emplace_back("min values", [=](const Tensor& t) { return t.min(dim, keep).values; });
    }
  }
  const auto& [name, reduce] = one_of(p, list);
  p.make(std::string(name) + "(" + p.name(*v) + ", " + dims.list().str() + ")",
         [&, &reduce = reduce](Side s) { return reduce(p.at(*v, s)); });
}

void sort_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return is_real(x) && x.dim() > 0; });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const bool down = p.chance(50);
  const bool places = p.chance(50);
  const std::int64_t k = p.number(0, p.at(*v).sizes()[dim]);
  const std::string arguments =
      "(" + p.name(*v) + ", dim " + str(dim) + (down ? ", down)" : ", up)");
  if (p.chance(50))
    p.make((places ? "argsort" : "sort") + arguments, [&](Side s) {
      return places ? argsort(p.at(*v, s), dim, down) : sort(p.at(*v, s), dim, down).values;
    });
  else
    p.make("topk " + str(k) + " " + (places ? "indices" : "values") + arguments, [&](Side s) {
      const auto both = topk(p.at(*v, s), k, dim, down);
      return places ? both.indices : both.values;
    });
}

void scan_step(Program& p) {
  const auto v = p.pick(
      [&](const Tensor& x) { return x.dim() > 0 && (is_integral(x.dtype()) || !p.real_device()); });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  if (p.chance(50))
    p.make("cumsum(" + p.name(*v) + ", " + str(dim) + ")",
           [&](Side s) { return cumsum(p.at(*v, s), dim); });
  else
    p.make("cumprod(" + p.name(*v) + ", " + str(dim) + ")",
           [&](Side s) { return cumprod(p.at(*v, s), dim); });
}

// ---- Indexing

void index_select_step(Program& p) {
  const auto v = p.pick(has_dims);
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const std::int64_t size = p.at(*v).sizes()[dim];
  const auto index = p.indices({p.number(0, 2 * size)}, size);
  p.make("index_select(" + p.name(*v) + ", " + str(dim) + ", indices)",
         [&](Side s) { return index_select(p.at(*v, s), dim, index[s]); });
}

void gather_step(Program& p) {
  const auto v = p.pick(has_dims);
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const auto index = p.indices(p.at(*v).sizes(), p.at(*v).sizes()[dim]);
  p.make("gather(" + p.name(*v) + ", " + str(dim) + ", indices)",
         [&](Side s) { return gather(p.at(*v, s), dim, index[s]); });
}

void take_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.numel() > 0; });
  const auto index = p.indices({p.number(0, 3), 2}, p.at(*v).numel());
  p.make("take(" + p.name(*v) + ", indices)", [&](Side s) { return take(p.at(*v, s), index[s]); });
}

void mask_step(Program& p) {
  const auto v = p.pick();
  const auto mask = p.fresh(Dtype::bool_, p.at(*v).sizes());
  if (p.chance(30))
    p.make("masked_select(" + p.name(*v) + ", a mask)",
           [&](Side s) { return masked_select(p.at(*v, s), mask[s]); });
  else if (p.chance(30))
    p.make("nonzero(" + p.name(*v) + ")", [&](Side s) { return nonzero(p.at(*v, s)); });
  else
    p.change(*v, ".masked_fill_(a mask, 1)", [&](Side s) {
      Tensor x = p.at(*v, s);
      x.masked_fill_(mask[s], 1);
    });
}

void index_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 2 && x.numel() > 0; });
  if (!v) return;
  const Shape sizes = p.at(*v).sizes();
  const auto first = p.indices({2, 1}, sizes[0]);
  const auto second = p.indices({p.number(0, 3)}, sizes[1]);
  p.make(p.name(*v) + "[indices, indices]", [&](Side s) {
    return p.at(*v, s).index({first[s], second[s]});
  });
}

/// Places that are written are named once: of several writes to one, any may count on a GPU.
void write_step(Program& p) {
  const auto v = p.pick(has_dims);
  if (!v) return;
  const Tensor& x = p.at(*v);
  const int dim = any_dim(p, x);
  const std::int64_t size = x.sizes()[dim];
  const std::int64_t some = p.number(0, size);
  Shape part = x.sizes();
  part[dim] = some;
  const auto index = p.indices({some}, size);
  const auto source = p.fresh(x.dtype(), part);
  const std::string arguments = "_(" + str(dim) + ", " + str(some) + " indices)";
  switch (p.number(0, 4)) {
    case 0:
      return p.change(*v, ".index_copy" + arguments, [&](Side s) {
        Tensor target = p.at(*v, s);
        target.index_copy_(dim, index[s], source[s]);
      });
    case 1:
      return p.change(*v, ".index_add" + arguments, [&](Side s) {
        Tensor target = p.at(*v, s);
        target.index_add_(dim, index[s], source[s]);
      });
    case 2:
      return p.change(*v, ".index_fill" + arguments, [&](Side s) {
        Tensor target = p.at(*v, s);
        target.index_fill_(dim, index[s], 1);
      });
    case 3: {
      const auto rows = p.indices({p.number(0, x.sizes()[0])}, x.sizes()[0]);
      return p.change(*v, "[indices] = 1", [&](Side s) {
        Tensor target = p.at(*v, s);
        target.index_put_({rows[s]}, 1);
      });
    }
    default: {
      // One row of places each, all different.
      const auto places = p.indices({std::min<std::int64_t>(3, x.numel())}, x.numel());
      const auto put = p.fresh(x.dtype(), places[Program::cpu].sizes());
      return p.change(*v, ".put_(indices)", [&](Side s) {
        Tensor target = p.at(*v, s);
        target.put_(places[s], put[s]);
      });
    }
  }
}

void scatter_step(Program& p) {
  const auto v = p.pick(has_dims);
  if (!v) return;
  const Tensor& x = p.at(*v);
  // An index whose other sizes are one names each place once.
  const int dim = any_dim(p, x);
  Shape sizes = Shape::repeat(x.dim(), 1);
  sizes[dim] = p.number(0, x.sizes()[dim]);
  const auto index = p.indices(sizes, x.sizes()[dim]);
  const auto source = p.fresh(x.dtype(), sizes);
  const std::int64_t how = p.number(0, 2);
  static constexpr const char* kNames[] = {".scatter_(", ".scatter_add_(", ".scatter_(multiply, "};
  p.change(*v, kNames[how] + str(dim) + ", indices)", [&](Side s) {
    Tensor target = p.at(*v, s);
    if (how == 0)
      target.scatter_(dim, index[s], source[s]);
    else if (how == 1)
      target.scatter_add_(dim, index[s], source[s]);
    else
      target.scatter_(dim, index[s], source[s], "multiply");
  });
}

// ---- New tensors of old elements

void cat_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() > 0; });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const auto w = p.pick([&](const Tensor& x) {
    if (x.dim() != p.at(*v).dim()) return false;
    for (int i = 0; i < x.dim(); ++i)
      if (i != dim && x.sizes()[i] != p.at(*v).sizes()[i]) return false;
    return true;
  });
  p.make("cat({" + p.name(*v) + ", " + p.name(*w) + ", " + p.name(*v) + "}, " + str(dim) + ")",
         [&](Side s) {
           return cat({p.at(*v, s), p.at(*w, s), p.at(*v, s)}, dim);
         });
}

void stack_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() <= 3; });
  if (!v) return;
  const auto w = p.pick([&](const Tensor& x) { return x.sizes() == p.at(*v).sizes(); });
  const std::int64_t dim = p.number(0, p.at(*v).dim());
  p.make("stack({" + p.name(*v) + ", " + p.name(*w) + "}, " + str(dim) + ")", [&](Side s) {
    return stack({p.at(*v, s), p.at(*w, s)}, dim);
  });
}

void rearrange_step(Program& p) {
  const auto v = p.pick([](const Tensor& x) { return x.dim() >= 2; });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  const std::int64_t number = p.number(-2, 2);
  Shape twice = Shape::repeat(p.at(*v).dim(), 1);
  twice[dim] = 2;
  using Change = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<const char*, Change>> list{
      {"flip", [&](const Tensor& x) { return flip(x, {dim}); }},
      {"roll", [&](const Tensor& x) { return roll(x, {number}, {dim}); }},
      {"repeat", [&](const Tensor& x) { return repeat(x, twice); }},
      {"tril", [&](const Tensor& x) { return tril(x, number); }},
      {"triu", [&](const Tensor& x) { return triu(x, number); }}};
  const auto& [name, change] = one_of(p, list);
  p.make(std::string(name) + "(" + p.name(*v) + ", " + str(dim) + ", " + str(number) + ")",
         [&, &change = change](Side s) { return change(p.at(*v, s)); });
}

// ---- Copies and casts

/// Floating-point numbers that every integer dtype holds: casting others is undefined.
Tensor bounded(const Tensor& x) {
  if (is_integral(x.dtype())) return x;
  if (x.is_complex()) return bounded(x.real());
  return fmin(fmax(x, 0), 100);
}

void cast_step(Program& p) {
  const auto v = p.pick();
  const auto to = static_cast<Dtype>(p.number(0, static_cast<int>(Dtype::complex128)));
  const bool safe = is_integral(to) && to != Dtype::bool_;
  p.make(p.name(*v) + (safe ? ".clamp(0, 100)" : "") + ".to(" + dtype_name(to) + ")",
         [&](Side s) { return (safe ? bounded(p.at(*v, s)) : p.at(*v, s)).to(to); });
}

void copy_step(Program& p) {
  const auto v = p.pick();
  const auto w =
      p.pick([&](const Tensor& x) { return broadcasts_to(x.sizes(), p.at(*v).sizes()); });
  const Dtype to = p.at(*v).dtype();
  const bool safe = is_integral(to) && to != Dtype::bool_;
  p.change(*v, ".copy_(" + p.name(*w) + ")", [&](Side s) {
    Tensor target = p.at(*v, s);
    const Tensor source = p.apart(*w, *v, s);
    target.copy_(safe ? bounded(source) : source);
  });
}

void journey_step(Program& p) {
  const auto v = p.pick();
  const bool by_device = cuda::device_count() > 1 && p.chance(50);
  p.make(p.name(*v) + (by_device ? ", by way of the other device" : ", by way of the host"),
         [&](Side s) {
           const Tensor& x = p.at(*v, s);
           if (s == Program::cpu) return x.clone();
           const Device other = by_device ? Device("cuda:1") : Device("cpu");
           return x.to(other).to(x.device());
         });
}

void clone_step(Program& p) {
  const auto v = p.pick();
  if (p.chance(50))
    p.make(p.name(*v) + ".clone()", [&](Side s) { return p.at(*v, s).clone(); });
  else
    p.make(p.name(*v) + ".contiguous()", [&](Side s) { return p.at(*v, s).contiguous(); });
}

void fill_step(Program& p) {
  const auto v = p.pick();
  const auto w = p.pick([](const Tensor& x) { return x.numel() > 0; });
  const Dtype to = p.at(*v).dtype();
  p.change(*v, ".fill_(an element of " + p.name(*w) + ")", [&](Side s) {
    Tensor target = p.at(*v, s);
    target.fill_(bounded(p.at(*w, s).flatten()[0]).to(to).item());
  });
}

// ---- Random numbers

void draw_step(Program& p) {
  const auto v = p.pick(is_real);
  const bool whole = is_integral(p.at(*v).dtype());
  using Draw = std::function<void(Tensor, const Generator&)>;
  std::vector<std::pair<const char*, Draw>> list{
      {".random_(0, 2)", [](Tensor x, const Generator& g) { x.random_(0, 2, g); }},
      {".bernoulli_(0.5)", [](Tensor x, const Generator& g) { x.bernoulli_(0.5, g); }}};
  if (!whole) {
    list.emplace_back(".uniform_()", [](Tensor x, const Generator& g) { x.uniform_(0, 1, g); });
    list.emplace_back(".normal_()", [](Tensor x, const Generator& g) { x.normal_(0, 1, g); });
  }
  const auto& [name, draw] = one_of(p, list);
  p.change(*v, name, [&, &draw = draw](Side s) { draw(p.at(*v, s), p.generator(s)); });
}

void new_draw_step(Program& p) {
  const std::int64_t n = p.number(0, 12);
  const auto here = [&](Side s) { return Options(p.at(0, s).device()); };
  if (p.chance(50))
    p.make("randperm(" + str(n) + ")",
           [&](Side s) { return randperm(n, here(s), p.generator(s)); });
  else
    p.make("randint(-9, 9, [" + str(n) + ", 3])", [&](Side s) {
      return randint(-9, 9, {n, 3}, here(s), p.generator(s));
    });
}

// ---- Products

void product_step(Program& p) {
  if (p.real_device()) return;  // sums in another order
  const auto v = p.pick([](const Tensor& x) {
    return x.dim() == 2 && (x.dtype() == Dtype::float32 || x.dtype() == Dtype::float64);
  });
  if (!v) return;
  p.make("mm(" + p.name(*v) + ", its transpose)",
         [&](Side s) { return mm(p.at(*v, s), p.at(*v, s).t()); });
}

void softmax_step(Program& p) {
  if (p.real_device()) return;
  const auto v = p.pick([](const Tensor& x) { return x.is_floating_point() && x.dim() > 0; });
  if (!v) return;
  const int dim = any_dim(p, p.at(*v));
  p.make("softmax(" + p.name(*v) + ", " + str(dim) + ")",
         [&](Side s) { return softmax(p.at(*v, s), dim); });
}

}  // namespace

const std::vector<ProgramStep>& program_steps() {
  static const auto* const kSteps = new std::vector<ProgramStep>{transpose_step,
                                                                 permute_step,
                                                                 slice_step,
                                                                 slice_step,
                                                                 select_step,
                                                                 diagonal_step,
                                                                 expand_step,
                                                                 squeeze_step,
                                                                 reshape_step,
                                                                 piece_step,
                                                                 parts_step,
                                                                 unary_step,
                                                                 binary_step,
                                                                 binary_step,
                                                                 number_step,
                                                                 ternary_step,
                                                                 unary_in_place_step,
                                                                 binary_in_place_step,
                                                                 binary_in_place_step,
                                                                 binary_out_step,
                                                                 reduce_step,
                                                                 reduce_step,
                                                                 sort_step,
                                                                 scan_step,
                                                                 index_select_step,
                                                                 gather_step,
                                                                 take_step,
                                                                 mask_step,
                                                                 index_step,
                                                                 write_step,
                                                                 write_step,
                                                                 scatter_step,
                                                                 cat_step,
                                                                 stack_step,
                                                                 rearrange_step,
                                                                 cast_step,
                                                                 copy_step,
                                                                 copy_step,
                                                                 journey_step,
                                                                 clone_step,
                                                                 fill_step,
                                                                 draw_step,
                                                                 new_draw_step,
                                                                 product_step,
                                                                 softmax_step};
  return *kSteps;
}

}  // namespace ember::test
