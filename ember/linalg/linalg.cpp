#include "ember/linalg/linalg.h"

#include <array>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/linalg/product.h"
#include "ember/ops/arithmetic.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"

namespace ember::inline v0 {
namespace {

using linalg::Factors;

/// How torch writes an element type where it means the C++ one.
const char* type_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_: return "bool";
    case Dtype::uint8: return "unsigned char";
    case Dtype::int8: return "signed char";
    case Dtype::int16: return "short int";
    case Dtype::int32: return "int";
    case Dtype::int64: return "long int";
    case Dtype::float16: return "c10::Half";
    case Dtype::bfloat16: return "c10::BFloat16";
    case Dtype::float32: return "float";
    case Dtype::float64: return "double";
    case Dtype::complex32: return "c10::complex<c10::Half>";
    case Dtype::complex64: return "c10::complex<float>";
    case Dtype::complex128: return "c10::complex<double>";
    case Dtype::uint16: return "unsigned short";
    case Dtype::uint32: return "unsigned int";
    case Dtype::uint64: return "unsigned long";
  }
  __builtin_unreachable();
}

std::string text(std::int64_t number) { return std::to_string(number); }

/// "2x3".
std::string extents(const Tensor& tensor) {
  std::string out;
  for (const std::int64_t size : tensor.sizes()) out += (out.empty() ? "" : "x") + text(size);
  return out;
}

void require(bool condition, const std::string& otherwise) {
  if (!condition) throw Error(otherwise);
}

void require_same_dtype(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) [[unlikely]]
    throw Error(std::string("expected m1 and m2 to have the same dtype, but got: ") +
                type_name(a.dtype()) + " != " + type_name(b.dtype()));
}

void require_multipliable(const Tensor& a, const Tensor& b) {
  if (a.sizes()[1] != b.sizes()[0]) [[unlikely]]
    throw Error("mat1 and mat2 shapes cannot be multiplied (" + extents(a) + " and " + extents(b) +
                ")");
}

/// The checks of a product of two batches.
void require_batches(const Tensor& a, const Tensor& b) {
  ops::require_same_device(a.device(), b.device());
  if (a.dim() != 3) throw Error("batch1 must be a 3D tensor");
  if (b.dim() != 3) throw Error("batch2 must be a 3D tensor");
  if (a.sizes()[0] != b.sizes()[0] || a.sizes()[2] != b.sizes()[1]) [[unlikely]]
    throw Error("Expected size for first two dimensions of batch2 tensor to be: [" +
                text(a.sizes()[0]) + ", " + text(a.sizes()[2]) + "] but got: [" +
                text(b.sizes()[0]) + ", " + text(b.sizes()[1]) + "].");
  if (a.dtype() != b.dtype()) [[unlikely]]
    throw Error(std::string("expected scalar type ") + legacy_name(a.dtype()) + " but found " +
                legacy_name(b.dtype()));
}

void require_factor(const char* argument, const Scalar& factor, Dtype dtype) {
  require(!is_integral(dtype) || is_integral(factor.dtype()),
          std::string("For integral input tensors, argument ") + argument +
              " must not be a floating point number.");
  require(is_complex_dtype(dtype) || !is_complex_dtype(factor.dtype()),
          std::string("For non-complex input tensors, argument ") + argument +
              " must not be a complex number.");
  // Products of 16-bit numbers are made in float, and so is what becomes of them.
  require_fits(factor, is_floating_point(dtype) && item_size(dtype) == 2 ? Dtype::float32 : dtype);
}

using Names = linalg::ProductNames;
/// What torch calls the kernels of products, and what these are called with.
constexpr Names matrix_names(const char* left, const char* right) {
  return {"addmm_impl_cpu_", "addmm_cuda", left, right};
}
constexpr Names batch_names(const char* left, const char* right) {
  return {"baddbmm", "baddbmm_cuda", left, right};
}

/// Whether two views may have memory in common.
bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  const auto end = [](const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.dim(); ++i) last += (tensor.sizes()[i] - 1) * tensor.strides()[i];
    return static_cast<const std::byte*>(tensor.address()) +
           static_cast<std::size_t>(last + 1) * tensor.element_size();
  };
  return static_cast<const std::byte*>(a.address()) < end(b) &&
         static_cast<const std::byte*>(b.address()) < end(a);
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.address() == b.address() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

/// Readies `out`, or makes a new tensor if it is null, for an operation that reads `like` and
/// `other`.
Tensor output(Tensor* out, const Tensor& like, const Tensor& other, const Shape& sizes) {
  if (out == nullptr) return empty(sizes, {like.dtype(), like.device()});
  if (out->dtype() != like.dtype())
    throw Error(std::string("Expected out tensor to have dtype ") + type_name(like.dtype()) +
                ", but got " + type_name(out->dtype()) + " instead");
  const std::array<const Tensor*, 2> inputs{&like, &other};
  ops::prepare_output(*out, like.device(), sizes, like.dtype(), inputs);
  ops::require_no_internal_overlap(*out);
  return *out;
}

/// Computes into `out`, or beside it if it shares memory with what is read. `shape` makes the view
/// that has the dimensions of a product.
template <class View>
void product(const Tensor& out, const Tensor& a, const Tensor& b, const Names& names,
             const View& view) {
  if (may_overlap(out, a) || may_overlap(out, b)) [[unlikely]] {
    const Tensor made = empty(out.sizes(), {out.dtype(), out.device()});
    linalg::multiply(view(made), a, b, {}, names);
    Tensor(out).copy_(made);
    return;
  }
  linalg::multiply(view(out), a, b, {}, names);
}
void product(const Tensor& out, const Tensor& a, const Tensor& b, const Names& names) {
  product(out, a, b, names, [](const Tensor& tensor) { return tensor; });
}

/// Refused before the output is touched.
void require_dtype(const Tensor& tensor, const Names& names) {
  if (!contains(dtypes::any_number, tensor.dtype()))
    ops::throw_not_implemented(names.on(tensor), tensor.dtype());
}
/// Where nothing is multiplied, torch takes bools, too.
void require_factors(const Tensor& a, const Tensor& b, const Names& names) {
  if (a.numel() != 0 && b.numel() != 0) require_dtype(a, names);
}

Tensor do_mm(Tensor* out, const Tensor& a, const Tensor& b, const char* right = "mat2") {
  const Names names = matrix_names("self", right);
  ops::require_same_device(a.device(), b.device());
  if (a.dim() != 2) throw Error("self must be a matrix");
  if (b.dim() != 2) throw Error("mat2 must be a matrix");
  require_multipliable(a, b);
  require_same_dtype(a, b);
  require_factors(a, b, names);
  Tensor made = output(out, a, b, {a.sizes()[0], b.sizes()[1]});
  product(made, a, b, names);
  return made;
}

Tensor do_bmm(Tensor* out, const Tensor& a, const Tensor& b) {
  const Names names = batch_names("self", "mat2");
  require_batches(a, b);
  require_factors(a, b, names);
  Tensor made = output(out, a, b, {a.sizes()[0], a.sizes()[1], b.sizes()[2]});
  product(made, a, b, names);
  return made;
}

/// beta * input + alpha * (a @ b), after the shapes were checked.
Tensor add_product(Tensor* out, const Tensor& input, const Tensor& a, const Tensor& b,
                   const Shape& sizes, const Factors& factors, const Names& names) {
  ops::require_same_device(a.device(), input.device());
  require_factor("beta", factors.beta, a.dtype());
  require_factor("alpha", factors.alpha, a.dtype());
  if (element_count(sizes) != 0) require_dtype(a, names);
  if (out != nullptr && out->is(input) && input.sizes() != sizes)
    throw Error("Bad in-place call: input tensor size " + input.sizes().str() +
                " and output tensor size " + sizes.str() + " should match");
  const Tensor added = input.expand(sizes);
  Tensor made = output(out, a, b, sizes);
  const bool in_place = out != nullptr && same_view(*out, added);
  Tensor target = made;
  if (out != nullptr &&
      (may_overlap(made, a) || may_overlap(made, b) || (!in_place && may_overlap(made, added))))
    target = empty(sizes, {a.dtype(), a.device()});
  if (factors.beta.to<Complex<double>>() != Complex<double>(0) && !(in_place && target.is(made)))
    target.copy_(added);
  Names named = names;
  if (out != nullptr && out->is(input)) named.out = "self";
  linalg::multiply(target, a, b, factors, named);
  if (!target.is(made)) made.copy_(target);
  return made;
}

Tensor do_addmm(Tensor* out, const Tensor& input, const Tensor& a, const Tensor& b,
                const Factors& factors) {
  ops::require_same_device(a.device(), b.device());
  require(a.dim() == 2, "mat1 must be a matrix, got " + text(a.dim()) + "-D tensor");
  require(b.dim() == 2, "mat2 must be a matrix, got " + text(b.dim()) + "-D tensor");
  require_multipliable(a, b);
  require_same_dtype(a, b);
  require(input.dtype() == b.dtype(),
          std::string("self and mat2 must have the same dtype, but got ") +
              legacy_name(input.dtype()) + " and " + legacy_name(b.dtype()));
  return add_product(out, input, a, b, {a.sizes()[0], b.sizes()[1]}, factors,
                     matrix_names("mat1", "mat2"));
}

Tensor do_baddbmm(Tensor* out, const Tensor& input, const Tensor& a, const Tensor& b,
                  const Factors& factors) {
  // torch looks for the sizes of the result first.
  if (a.dim() < 2 || b.dim() < 3)
    throw IndexError(
        "baddbmm(): Dimension out of range: expected batch1 and batch2 to be 3D "
        "tensors, but got " +
        text(a.dim()) + "D and " + text(b.dim()) + "D");
  require_batches(a, b);
  require(input.dtype() == a.dtype(),
          std::string("Input dtypes must be the same, got: input ") + type_name(input.dtype()) +
              ", batch1: " + type_name(a.dtype()) + ", batch2: " + type_name(b.dtype()));
  return add_product(out, input, a, b, {a.sizes()[0], a.sizes()[1], b.sizes()[2]}, factors,
                     batch_names("batch1", "batch2"));
}

/// Sums of bools are disjunctions, and their products conjunctions.
Tensor do_addr_of_bools(Tensor* out, const Tensor& added, const Tensor& x, const Tensor& y,
                        const Factors& factors) {
  const Tensor first = added.logical_and(factors.beta.to<bool>());
  const Tensor second = x.logical_and(y).logical_and(factors.alpha.to<bool>());
  return out == nullptr ? first.logical_or(second) : logical_or_out(*out, first, second);
}

Tensor do_addr(Tensor* out, const Tensor& input, const Tensor& vec1, const Tensor& vec2,
               const Factors& factors) {
  ops::require_same_device(vec1.device(), vec2.device());
  require(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got " + text(vec1.dim()) + "-D");
  require(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got " + text(vec2.dim()) + "-D");
  if (out != nullptr && out->is(input)) {
    require(input.dim() == 2,
            "2D tensor expected, got " + text(input.dim()) + "D tensor for input");
    require(input.sizes() == Shape{vec1.sizes()[0], vec2.sizes()[0]},
            "size mismatch, input: " + input.sizes().str() + ", v1: " + vec1.sizes().str() +
                ", v2: " + vec2.sizes().str());
  }
  const Dtype dtype = promote_types(input.dtype(), promote_types(vec1.dtype(), vec2.dtype()));
  for (const auto& [name, factor] :
       {std::pair("beta", factors.beta), std::pair("alpha", factors.alpha)}) {
    require(factor.dtype() != Dtype::bool_ || dtype == Dtype::bool_,
            std::string("Boolean ") + name + " only supported for Boolean results.");
    require_factor(name, factor, dtype);
    if (is_half(dtype)) require_fits(factor, dtype);  // here torch rounds them to the dtype
  }
  Tensor added = input.expand({vec1.sizes()[0], vec2.sizes()[0]});
  const Tensor column = vec1.unsqueeze(1);
  if (dtype == Dtype::bool_) return do_addr_of_bools(out, added, column, vec2, factors);
  const auto beta = factors.beta.to<Complex<double>>();
  if (beta == Complex<double>(0))
    added = zeros_like(added);
  else if (beta != Complex<double>(1))
    added = added.to(dtype).mul(factors.beta);
  if (out == nullptr) return addcmul(added, column, vec2, factors.alpha);
  return addcmul_out(*out, added, column, vec2, factors.alpha);
}

Tensor do_mv(Tensor* out, const Tensor& a, const Tensor& x, const char* right = "vec") {
  const Names names{"addmv_impl_cpu", "addmv_impl_cuda", "self", right};
  ops::require_same_device(a.device(), x.device());
  if (a.dim() == 0)
    throw IndexError(
        "mv(): Dimension specified as 0 but tensor has no dimensions: got a matrix "
        "of 0 dimensions, expected 2");
  require(a.dim() == 2 && x.dim() == 1,
          "vector + matrix @ vector expected, got 1, " + text(a.dim()) + ", " + text(x.dim()));
  require(a.sizes()[1] == x.sizes()[0], "size mismatch, got input (" + text(a.sizes()[0]) +
                                            "), mat (" + extents(a) + "), vec (" +
                                            text(x.sizes()[0]) + ")");
  require_same_dtype(a, x);
  require_factors(a, x, names);
  Tensor made = output(out, a, x, {a.sizes()[0]});
  product(made, a, x.unsqueeze(1), names, [](const Tensor& tensor) { return tensor.unsqueeze(1); });
  return made;
}

Tensor do_dot(Tensor* out, const Tensor& a, const Tensor& b, const char* right = "tensor") {
  const Names names{"dot", "dot", "self", right};
  ops::require_same_device(a.device(), b.device());
  require(a.dim() == 1 && b.dim() == 1,
          "1D tensors expected, but got " + text(a.dim()) + "D and " + text(b.dim()) + "D tensors");
  require(a.dtype() == b.dtype(),
          std::string("dot : expected both vectors to have same dtype, but found ") +
              legacy_name(a.dtype()) + " and " + legacy_name(b.dtype()));
  require(a.numel() == b.numel(),
          "inconsistent tensor size, expected tensor " + a.sizes().str() + " and src " +
              b.sizes().str() + " to have the same number of elements, but got " + text(a.numel()) +
              " and " + text(b.numel()) + " elements respectively");
  require_dtype(a, names);
  Tensor made = output(out, a, b, {});
  product(made, a.unsqueeze(0), b.unsqueeze(1), names,
          [](const Tensor& tensor) { return tensor.unsqueeze(0).unsqueeze(0); });
  return made;
}

Shape batch_of(const Tensor& tensor) {
  const std::span<const std::int64_t> sizes = tensor.sizes();
  return Shape(tensor.dim() > 2 ? sizes.first(sizes.size() - 2) : std::span<const std::int64_t>());
}

Tensor broadcast_batch(const Tensor& tensor, const Shape& batch) {
  Shape sizes = batch;
  sizes.push_back(tensor.size(-2));
  sizes.push_back(tensor.size(-1));
  return tensor.sizes() == sizes ? tensor : tensor.expand(sizes);
}

/// The words for a product in which the summed sizes differ: torch's, which depend on whether the
/// left operand's batch is made one tall matrix there.
[[noreturn]] void throw_mismatch(const Tensor& a, const Tensor& b, const Shape& batch) {
  if (b.dim() <= 2 || a.dim() <= 2) {
    const std::int64_t folded = element_count(batch);
    if (b.dim() == 1)
      throw Error("size mismatch, got input (" + text(folded * a.size(-2)) + "), mat (" +
                  text(folded * a.size(-2)) + "x" + text(a.size(-1)) + "), vec (" +
                  text(b.numel()) + ")");
    if (b.dim() == 2)
      throw Error("mat1 and mat2 shapes cannot be multiplied (" + text(folded * a.size(-2)) + "x" +
                  text(a.size(-1)) + " and " + extents(b) + ")");
  }
  const std::int64_t products = element_count(batch);
  throw Error("Expected size for first two dimensions of batch2 tensor to be: [" + text(products) +
              ", " + text(a.size(-1)) + "] but got: [" + text(products) + ", " +
              text(b.dim() == 1 ? b.numel() : b.size(-2)) + "].");
}

Tensor do_matmul(Tensor* out, const Tensor& a, const Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) return do_mm(out, a, b, "other");
  if (a.dim() == 0 || b.dim() == 0)
    throw Error("both arguments to matmul need to be at least 1D, but they are " + text(a.dim()) +
                "D and " + text(b.dim()) + "D");
  if (a.dim() == 1 && b.dim() == 1) return do_dot(out, a, b, "other");
  if (a.dim() == 2 && b.dim() == 1) return do_mv(out, a, b, "other");
  ops::require_same_device(a.device(), b.device());
  const Tensor left = a.dim() == 1 ? a.unsqueeze(0) : a;
  const Tensor right = b.dim() == 1 ? b.unsqueeze(1) : b;
  const Shape batch = broadcast_shapes(batch_of(left), batch_of(right));
  if (left.size(-1) != right.size(-2)) {
    if (a.dim() == 1 && b.dim() == 2) require_multipliable(left, right);
    throw_mismatch(a.dim() == 1 ? left : a, b, batch);
  }
  require_same_dtype(a, b);
  const bool batched = !batch.empty();
  const Names names =
      batched && b.dim() > 2 ? batch_names("self", "other") : matrix_names("self", "other");
  require_factors(a, b, names);
  Shape sizes = batch;
  if (a.dim() > 1) sizes.push_back(left.size(-2));
  if (b.dim() > 1) sizes.push_back(right.size(-1));
  Tensor made = output(out, a, b, sizes);
  product(made, broadcast_batch(left, batch), broadcast_batch(right, batch), names,
          [&](const Tensor& tensor) {
            Tensor view = tensor;
            if (b.dim() == 1) view = view.unsqueeze(-1);
            if (a.dim() == 1) view = view.unsqueeze(-2);
            return view;
          });
  return made;
}

}  // namespace

Tensor mm(const Tensor& self, const Tensor& mat2) { return do_mm(nullptr, self, mat2); }
Tensor& mm_out(Tensor& out, const Tensor& self, const Tensor& mat2) {
  (void)do_mm(&out, self, mat2);
  return out;
}
Tensor bmm(const Tensor& self, const Tensor& mat2) { return do_bmm(nullptr, self, mat2); }
Tensor& bmm_out(Tensor& out, const Tensor& self, const Tensor& mat2) {
  (void)do_bmm(&out, self, mat2);
  return out;
}
Tensor addmm(const Tensor& input, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
             const Scalar& alpha) {
  return do_addmm(nullptr, input, mat1, mat2, {beta, alpha});
}
Tensor& addmm_out(Tensor& out, const Tensor& input, const Tensor& mat1, const Tensor& mat2,
                  const Scalar& beta, const Scalar& alpha) {
  (void)do_addmm(&out, input, mat1, mat2, {beta, alpha});
  return out;
}
Tensor baddbmm(const Tensor& input, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha) {
  return do_baddbmm(nullptr, input, batch1, batch2, {beta, alpha});
}
Tensor& baddbmm_out(Tensor& out, const Tensor& input, const Tensor& batch1, const Tensor& batch2,
                    const Scalar& beta, const Scalar& alpha) {
  (void)do_baddbmm(&out, input, batch1, batch2, {beta, alpha});
  return out;
}
Tensor addr(const Tensor& input, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
            const Scalar& alpha) {
  return do_addr(nullptr, input, vec1, vec2, {beta, alpha});
}
Tensor& addr_out(Tensor& out, const Tensor& input, const Tensor& vec1, const Tensor& vec2,
                 const Scalar& beta, const Scalar& alpha) {
  (void)do_addr(&out, input, vec1, vec2, {beta, alpha});
  return out;
}
Tensor mv(const Tensor& self, const Tensor& vec) { return do_mv(nullptr, self, vec); }
Tensor& mv_out(Tensor& out, const Tensor& self, const Tensor& vec) {
  (void)do_mv(&out, self, vec);
  return out;
}
Tensor dot(const Tensor& self, const Tensor& other) { return do_dot(nullptr, self, other); }
Tensor& dot_out(Tensor& out, const Tensor& self, const Tensor& other) {
  (void)do_dot(&out, self, other);
  return out;
}
Tensor matmul(const Tensor& self, const Tensor& other) { return do_matmul(nullptr, self, other); }
Tensor& matmul_out(Tensor& out, const Tensor& self, const Tensor& other) {
  (void)do_matmul(&out, self, other);
  return out;
}

Tensor Tensor::mm(const Tensor& mat2) const { return do_mm(nullptr, *this, mat2); }
Tensor Tensor::bmm(const Tensor& mat2) const { return do_bmm(nullptr, *this, mat2); }
Tensor Tensor::mv(const Tensor& vec) const { return do_mv(nullptr, *this, vec); }
Tensor Tensor::dot(const Tensor& other) const { return do_dot(nullptr, *this, other); }
Tensor Tensor::matmul(const Tensor& other) const { return do_matmul(nullptr, *this, other); }
Tensor Tensor::addmm(const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha) const {
  return do_addmm(nullptr, *this, mat1, mat2, {beta, alpha});
}
Tensor& Tensor::addmm_(const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                       const Scalar& alpha) const {
  (void)do_addmm(&self(), *this, mat1, mat2, {beta, alpha});
  return self();
}
Tensor Tensor::baddbmm(const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                       const Scalar& alpha) const {
  return do_baddbmm(nullptr, *this, batch1, batch2, {beta, alpha});
}
Tensor& Tensor::baddbmm_(const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                         const Scalar& alpha) const {
  (void)do_baddbmm(&self(), *this, batch1, batch2, {beta, alpha});
  return self();
}
Tensor Tensor::addr(const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                    const Scalar& alpha) const {
  return do_addr(nullptr, *this, vec1, vec2, {beta, alpha});
}
Tensor& Tensor::addr_(const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                      const Scalar& alpha) const {
  (void)do_addr(&self(), *this, vec1, vec2, {beta, alpha});
  return self();
}

namespace {

/// The first vector as a column, so that multiplication has its product with every element.
Tensor column_of(const Tensor& x, const Tensor& y) {
  const auto require_vector = [](const char* name, const Tensor& vector) {
    if (vector.dim() != 1)
      throw Error(std::string("outer: Expected 1-D argument ") + name + ", but got " +
                  std::to_string(vector.dim()) + "-D");
  };
  require_vector("self", x);
  require_vector("vec2", y);
  return x.unsqueeze(1);
}

}  // namespace

Tensor outer(const Tensor& x, const Tensor& y) { return mul(column_of(x, y), y); }
Tensor& outer_out(Tensor& out, const Tensor& x, const Tensor& y) {
  return mul_out(out, column_of(x, y), y);
}
Tensor Tensor::outer(const Tensor& vec2) const { return ember::outer(*this, vec2); }

}  // namespace ember::inline v0
