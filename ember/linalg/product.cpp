#include "ember/linalg/product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ember/base/error.h"
#include "ember/driver/extent.h"
#include "ember/driver/kernels.h"
#include "ember/linalg/host/blas.h"
#include "ember/linalg/host/gemm.h"
#include "ember/linalg/workspace.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"

namespace ember::inline v0::linalg {
namespace {

using driver::GemmArgs;

// ---- The host implementation

/// The elements of one operand of all products, column-major.
driver::Extent extent(std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t stride,
                      std::int64_t batch) {
  return driver::Extent().add(rows, 1).add(columns, ld).add(batch, stride);
}

template <class T>
Status host_implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  const auto place = [&](const void* data, bool transposed, std::int64_t rows, std::int64_t columns,
                         std::int64_t ld, std::int64_t stride) {
    if (transposed) std::swap(rows, columns);
    return extent(rows, columns, ld, stride, args.batch).place(on, static_cast<const T*>(data));
  };
  T* c = extent(args.m, args.n, args.ldc, args.stride_c, args.batch)
             .place(on, static_cast<T*>(args.c));
  if (c == nullptr) return on.fault();
  const T* a = place(args.a, args.transpose_a, args.m, args.k, args.lda, args.stride_a);
  if (a == nullptr) return on.fault();
  const T* b = place(args.b, args.transpose_b, args.k, args.n, args.ldb, args.stride_b);
  if (b == nullptr) return on.fault();

  const host::Blas* blas = nullptr;
  if constexpr (contains(dtypes::floating_wide | dtypes::complex_wide, dtype_of<T>))
    EMBER_TRY(host::find_blas(blas));
  for (std::int64_t i = 0; i < args.batch; ++i) {
    if constexpr (contains(dtypes::floating_wide | dtypes::complex_wide, dtype_of<T>))
      if (blas != nullptr && host::blas_gemm(*blas, args, a + i * args.stride_a,
                                             b + i * args.stride_b, c + i * args.stride_c))
        continue;
    EMBER_TRY(
        host::own_gemm(args, a + i * args.stride_a, b + i * args.stride_b, c + i * args.stride_c));
  }
  return {};
}

/// A library that was asked for by name and cannot be used is said before anything is launched.
Status host_needs(const driver::Params&, driver::KernelNeeds&) {
  const host::Blas* blas = nullptr;
  return host::find_blas(blas);
}

template <class T>
constexpr driver::HostImplementation implementation_of() {
  if constexpr (contains(dtypes::any_number, dtype_of<T>))
    return {&host_implementation<T>, &host_needs};
  else
    return nullptr;
}

constinit driver::Kernel kernels[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"matmul." name, implementation_of<type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const driver::kernels::Table table(kernels, driver::arguments<driver::GemmArgs>());

// ---- Strides that a BLAS understands

/// A batch of matrices.
struct Matrices {
  void* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;
  std::int64_t batch_stride = 0;
  bool transposed = false;  ///< by columns, not by rows
  std::int64_t ld = 1;

  explicit Matrices(const Tensor& tensor)
      : data(tensor.address()),
        rows(tensor.sizes()[tensor.dim() - 2]),
        columns(tensor.sizes()[tensor.dim() - 1]),
        row_stride(tensor.strides()[tensor.dim() - 2]),
        column_stride(tensor.strides()[tensor.dim() - 1]) {}

  /// Finds out how the matrices lie. False if neither rows nor columns are without gaps.
  bool classify() noexcept {
    if ((columns == 1 || column_stride == 1) && (rows == 1 || row_stride >= columns)) {
      transposed = false;
      ld = rows == 1 ? columns : row_stride;
      return true;
    }
    if ((rows == 1 || row_stride == 1) && (columns == 1 || column_stride >= rows)) {
      transposed = true;
      ld = columns == 1 ? rows : column_stride;
      return true;
    }
    return false;
  }
  /// The same matrices with rows and columns exchanged.
  void exchange() noexcept {
    std::swap(rows, columns);
    std::swap(row_stride, column_stride);
    transposed = !transposed;
  }
};

/// The dimensions before the last two, those that can be walked as one made one.
struct Batch {
  int dims = 0;
  std::array<std::int64_t, kMaxDims> size{};
  std::array<std::array<std::int64_t, kMaxDims>, 3> stride{};  ///< of out, a and b

  Batch(const Tensor& out, const Tensor& a, const Tensor& b) {
    const std::array<const Tensor*, 3> tensors{&out, &a, &b};
    for (int i = out.dim() - 3; i >= 0; --i) {
      if (out.sizes()[i] == 1) continue;
      const auto d = static_cast<std::size_t>(dims);
      bool continues = dims > 0;
      for (std::size_t t = 0; t < 3 && continues; ++t)
        continues = tensors[t]->strides()[i] == stride[t][d - 1] * size[d - 1];
      if (continues) {
        size[d - 1] *= out.sizes()[i];
        continue;
      }
      size[d] = out.sizes()[i];
      for (std::size_t t = 0; t < 3; ++t) stride[t][d] = tensors[t]->strides()[i];
      ++dims;
    }
  }
  /// How many calls it takes if one dimension is walked within a call.
  std::int64_t calls(std::size_t inner) const noexcept {
    std::int64_t product = 1;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d)
      if (d != inner) product *= size[d];
    return product;
  }
};

void put(const Scalar& number, double (&parts)[2], std::int64_t& integer) {
  const auto value = number.to<Complex<double>>();
  parts[0] = value.re;
  parts[1] = value.im;
  integer = number.to<std::int64_t>();
}

/// One call for one dimension of the batch.
class Call {
 public:
  Call(const Tensor& out, const Tensor& a, const Tensor& b, const Factors& factors,
       const ProductNames& names)
      : out_(out), a_(a), b_(b), names_(names) {
    put(factors.alpha, args_.alpha, args_.integer_alpha);
    put(factors.beta, args_.beta, args_.integer_beta);
    adds_ = factors.beta.to<Complex<double>>() != Complex<double>(0);
  }

  void operator()(Matrices c, Matrices a, Matrices b, std::int64_t batch) {
    if (batch > 1) {
      // A matrix that meets many others from the right: their rows are those of one tall matrix.
      if (a.rows == 1 && !a.transposed && a.batch_stride >= a.columns) a.ld = a.batch_stride;
      if (c.rows == 1 && !c.transposed && c.batch_stride >= c.columns) c.ld = c.batch_stride;
      if (b.batch_stride == 0 && !a.transposed && !c.transposed &&
          a.batch_stride == a.rows * a.ld && c.batch_stride == c.rows * c.ld) {
        a.rows *= batch;
        c.rows *= batch;
        batch = 1;
      }
    }
    // By rows, C is the transposed matrix of a BLAS: C' = B' A'. By columns it is C = A B.
    if (!c.transposed) {
      c.exchange();
      a.exchange();
      b.exchange();
      std::swap(a, b);
    }
    args_.m = c.rows;
    args_.n = c.columns;
    args_.k = a.columns;
    args_.batch = batch;
    args_.a = a.data;
    args_.b = b.data;
    args_.c = c.data;
    args_.transpose_a = !a.transposed;  // by rows
    args_.transpose_b = !b.transposed;
    args_.lda = a.ld;
    args_.ldb = b.ld;
    args_.ldc = c.ld;
    args_.stride_a = a.batch_stride;
    args_.stride_b = b.batch_stride;
    args_.stride_c = c.batch_stride;
    args_.math = precision_bits();
    const driver::Kernel& kernel = product_kernel(out_.dtype());
    if (ops::needs_of(out_.device(), kernel, driver::Params(args_)).scratch != 0) {
      const Workspace space = workspace(out_.device());
      args_.workspace = space.data;
      args_.workspace_bytes = space.bytes;
    }
    const ops::Site site = ops::at(out_, a_, b_);
    if (!cuda::accesses_wanted()) [[likely]] {
      ops::run(site, kernel, args_);
      return;
    }
    const std::array<cuda::Access, 4> accesses{
        ops::writes(out_, names_.out), ops::reads(a_, names_.left), ops::reads(b_, names_.right),
        ops::reads(out_, names_.out)};
    ops::run(site, kernel, args_, std::span(accesses).first(adds_ ? 4 : 3));
  }

 private:
  const Tensor& out_;
  const Tensor& a_;
  const Tensor& b_;
  const ProductNames& names_;
  GemmArgs args_;
  bool adds_ = false;  // to what is there, so it is read
};

/// beta * out.
void scale(const Tensor& out, const Factors& factors) {
  if (factors.beta.to<Complex<double>>() == Complex<double>(0))
    out.zero_();
  else
    out.mul_(factors.beta);
}

/// More calls than this for one batch, and copying the inputs is cheaper.
constexpr std::int64_t kMostCalls = 16;

}  // namespace

const driver::Kernel& product_kernel(Dtype dtype) noexcept {
  return kernels[static_cast<int>(dtype)];
}

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Factors& factors,
              const ProductNames& names) {
  if (out.numel() == 0) return;
  // As every BLAS has it: a factor of zero leaves no NaN of the product.
  if (a.numel() == 0 || factors.alpha.to<Complex<double>>() == Complex<double>(0)) {
    scale(out, factors);
    return;
  }
  if (!contains(dtypes::any_number, out.dtype()))
    ops::throw_not_implemented(names.on(out), out.dtype());
  Matrices c(out);
  if (!c.classify()) {
    // Strides that no BLAS can write to.
    Tensor made = empty(out.sizes(), {out.dtype(), out.device()});
    if (factors.beta.to<Complex<double>>() != Complex<double>(0)) made.copy_(out);
    multiply(made, a, b, factors, names);
    Tensor(out).copy_(made);
    return;
  }
  Matrices left(a);
  Matrices right(b);
  if (!left.classify()) return multiply(out, a.contiguous(), b, factors, names);
  if (!right.classify()) return multiply(out, a, b.contiguous(), factors, names);

  Call call(out, a, b, factors, names);
  if (out.dim() == 2) {
    call(c, left, right, 1);
    return;
  }
  const Batch batch(out, a, b);
  if (batch.dims == 0) {
    call(c, left, right, 1);
    return;
  }
  // The longest dimension within a call, the others one index at a time.
  std::size_t inner = 0;
  for (std::size_t d = 1; d < static_cast<std::size_t>(batch.dims); ++d)
    if (batch.size[d] > batch.size[inner]) inner = d;
  const std::int64_t calls = batch.calls(inner);
  if (calls > kMostCalls && out.is_contiguous() && !(a.is_contiguous() && b.is_contiguous()))
    return multiply(out, a.contiguous(), b.contiguous(), factors, names);
  const auto item = static_cast<std::int64_t>(out.element_size());
  c.batch_stride = batch.stride[0][inner];
  left.batch_stride = batch.stride[1][inner];
  right.batch_stride = batch.stride[2][inner];
  for (std::int64_t i = 0; i < calls; ++i) {
    std::array<std::int64_t, 3> offset{};
    std::int64_t rest = i;
    for (std::size_t d = 0; d < static_cast<std::size_t>(batch.dims); ++d) {
      if (d == inner) continue;
      const std::int64_t index = rest % batch.size[d];
      rest /= batch.size[d];
      for (std::size_t t = 0; t < 3; ++t) offset[t] += index * batch.stride[t][d];
    }
    const auto moved = [&](Matrices matrices, std::size_t t) {
      matrices.data = static_cast<std::byte*>(matrices.data) + offset[t] * item;
      return matrices;
    };
    call(moved(c, 0), moved(left, 1), moved(right, 2), batch.size[inner]);
  }
}

}  // namespace ember::inline v0::linalg
