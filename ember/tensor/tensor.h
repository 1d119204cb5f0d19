// Tensors: strided views of memory on the CPU or on a CUDA device. Chapter 24 of the documents.
//
// A Tensor is a value that shares its memory: copies name the same tensor. A const one goes on
// naming it; its elements can be changed all the same, as in libtorch. Results live where their
// inputs live, whatever device is current, and work is enqueued on the current stream of that
// device. Nothing blocks unless its comment says so. A tensor may be used from several threads at
// once as long as none of them changes its elements or assigns to the same Tensor object.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/ref.h"
#include "ember/runtime/batch.h"
#include "ember/runtime/device.h"
#include "ember/runtime/stream.h"
#include "ember/tensor/accessor.h"
#include "ember/tensor/dtype.h"
#include "ember/tensor/number.h"
#include "ember/tensor/shape.h"
#include "ember/tensor/storage.h"

namespace ember::inline v0 {

/// Where a new tensor lives and what it holds. What is not given is the default: float32 on the
/// CPU, or for `*_like` and `new_*` as the tensor they start from. Converts from a dtype, a device
/// or a device string: `zeros({2, 3}, "cuda")`, `zeros({2, 3}, {float64, "cuda:1"})`, in either
/// order.
struct Options {
  std::optional<Dtype> dtype;
  std::optional<Device> device;
  bool pinned = false;

  Options() noexcept = default;
  Options(Dtype type) noexcept : dtype(type) {}
  Options(Device place) noexcept : device(place) {}
  Options(const char* place) : device(Device(place)) {}
  Options(std::string_view place) : device(Device(place)) {}
  Options(const std::string& place) : device(Device(place)) {}
  Options(Dtype type, Device place, bool pin = false) noexcept
      : dtype(type), device(place), pinned(pin) {}
  Options(Device place, Dtype type, bool pin = false) noexcept : Options(type, place, pin) {}
};

/// What the views of one tensor do not share. Internal: use Tensor.
struct EMBER_API TensorState : RefCounted {
  Ref<Storage> storage;
  void* data = nullptr;  ///< of the first element
  std::int64_t offset = 0;
  std::int64_t count = 0;
  Dtype dtype = Dtype::float32;
  bool contiguous = true;
  Shape sizes;
  Shape strides;

  static void dispose(TensorState* state) noexcept;
};

class Generator;
class Index;
class Operand;
struct StftOptions;
struct ValuesAndIndices;

/// What div does with a quotient: nothing, round it towards zero, or down.
enum class Rounding : std::uint8_t { none, trunc, floor };

class [[nodiscard]] EMBER_API Tensor {
 public:
  /// No tensor at all; only defined() and assignment work.
  Tensor() noexcept = default;
  Tensor(const Tensor&) noexcept = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// A variable names another tensor.
  Tensor& operator=(const Tensor&) & noexcept = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// What a view shows is overwritten: `x[0] = y`, `x.narrow(0, 1, 2) = 5`. Errors and blocking of
  /// copy_ and fill_.
  Tensor& operator=(const Tensor& value) &&;
  Tensor& operator=(const Scalar& value) &&;
  /// A strided view of a storage, from `offset` elements on. Error if it reaches beyond the storage
  /// or a stride is negative; ValueError for a null storage.
  Tensor(Ref<Storage> storage, Dtype dtype, const Shape& sizes, const Shape& strides,
         std::int64_t offset = 0);
  /// Internal: new memory on an existing device, contents undefined; strides leave no gaps, and are
  /// those of the order of the dimensions unless given. Errors of Storage::allocate; ValueError for
  /// sizes that are negative or too large.
  static Tensor make(Device device, Dtype dtype, const Shape& sizes,
                     const Shape* dense_strides = nullptr, bool pinned = false);

  bool defined() const noexcept { return static_cast<bool>(state_); }

  // ---- What it is
  Dtype dtype() const { return state().dtype; }
  Device device() const { return state().storage->device(); }
  /// For a new tensor like this one.
  Options options() const { return {dtype(), device()}; }
  bool is_cuda() const { return device().is_cuda(); }
  /// The device's index, -1 on the CPU.
  int get_device() const { return device().index(); }
  int dim() const { return state().sizes.size(); }
  std::int64_t numel() const { return state().count; }
  const Shape& sizes() const { return state().sizes; }
  const Shape& strides() const { return state().strides; }
  /// Of one dimension, which may be negative. IndexError outside the range.
  std::int64_t size(std::int64_t dim) const;
  std::int64_t stride(std::int64_t dim) const;
  std::int64_t storage_offset() const { return state().offset; }
  std::size_t element_size() const { return item_size(dtype()); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * element_size(); }
  bool is_floating_point() const { return ember::is_floating_point(dtype()); }
  bool is_complex() const { return is_complex_dtype(dtype()); }
  bool is_contiguous() const { return state().contiguous; }
  /// Whether the memory is page-locked, by whomever. False without initialised CUDA, which it never
  /// causes.
  bool is_pinned() const;
  const Ref<Storage>& storage() const { return state().storage; }
  /// False: there are no gradients.
  static constexpr bool requires_grad() noexcept { return false; }
  /// The address of the first element; null if there is none. On a CUDA device it is the device's.
  /// What a cuda::Batch keeps is handed over first. AcceleratorError if that device was reset since
  /// the tensor was made.
  /// Of pinned memory, observers are told of it: what the program does there they cannot see.
  void* data_ptr() const;
  /// The same, and a batch keeps what it keeps: for operations that are enqueued through ember, and
  /// to compare with another address.
  void* address() const {
    state().storage->require_alive();
    return state().data;
  }
  /// The same as elements. TypeError if T is not the element type; const types are allowed.
  template <class T>
  T* data() const {
    require_dtype(dtype_of<std::remove_const_t<T>>);
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  T* address() const {
    require_dtype(dtype_of<std::remove_const_t<T>>);
    return static_cast<T*>(address());
  }
  template <class T>
  T* data_ptr() const {
    return data<T>();
  }
  /// Elements by their indices: see TensorAccessor. Error unless the tensor is on the CPU and has N
  /// dimensions; TypeError as data().
  template <class T, int N>
  TensorAccessor<T, N> accessor() const& {
    static_assert(N > 0, "an accessor has one dimension or more; item() reads a single number");
    require_accessible(N);
    return {data<T>(), sizes().begin(), strides().begin()};
  }
  template <class T, int N>
  TensorAccessor<T, N> accessor() && = delete;  // it would outlive the tensor
  /// Whether both are the same tensor object.
  bool is(const Tensor& other) const noexcept { return state_ == other.state_; }

  /// Makes this tensor object, for all who share it, the view that `other` is. Error if that has
  /// another dtype or is on another device.
  Tensor& set_(const Tensor& other) const;
  /// The same whatever the dtype and the device of `other`, as libtorch has it. References to the
  /// dtype or the sizes that this object had before are not to be used any more.
  Tensor& set_data(const Tensor& other) const;

  // ---- Views: they share memory. (views.cpp)
  Tensor alias() const;  ///< a new tensor object with the same view
  /// The same, by torch's name: there are no gradients to cut off.
  Tensor detach() const { return alias(); }
  /// Any sizes and strides over the same storage. Error beyond its end; `offset` is the tensor's
  /// own by default.
  Tensor as_strided(const Shape& sizes, const Shape& strides,
                    std::optional<std::int64_t> offset = {}) const;
  /// One size may be -1. Error where no strides can express the view.
  Tensor view(const Shape& sizes) const;
  /// The same bytes as elements of another dtype. Where those have another size, the last dimension
  /// becomes longer or shorter: Error unless it has stride 1, and where they are larger, unless
  /// its size, the other strides and the offset are multiples. A template so that `view({})` is
  /// that of no sizes.
  template <std::same_as<Dtype> T>
  Tensor view(T dtype) const {
    return reinterpreted(dtype);
  }
  /// A view where possible, else a copy.
  Tensor reshape(const Shape& sizes) const;
  Tensor flatten(std::int64_t start = 0, std::int64_t end = -1) const;
  /// All dimensions as one, without gaps: a view where it has none, else a copy.
  Tensor ravel() const { return contiguous().flatten(); }
  /// One dimension as several, of which one size may be -1.
  Tensor unflatten(std::int64_t dim, const Shape& sizes) const;
  Tensor transpose(std::int64_t dim0, std::int64_t dim1) const;
  /// Up to two dimensions, exchanged.
  Tensor t() const;
  /// All dimensions, in reverse order (Python's `T`).
  Tensor numpy_T() const;
  /// The last two dimensions exchanged; a tensor without dimensions as it is. Error for one.
  Tensor mT() const;
  /// The same, conjugated: a view of real numbers, a copy of complex ones. H: Error unless there
  /// are two dimensions or none. Does not block.
  Tensor mH() const;
  Tensor H() const;
  Tensor adjoint() const { return mH(); }
  Tensor permute(const Shape& dims) const;
  /// Some dimensions to other places; the others keep their order.
  Tensor movedim(const Shape& source, const Shape& destination) const;
  /// Dimensions of size one become the given sizes, with stride zero; -1 keeps a size.
  Tensor expand(const Shape& sizes) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor broadcast_to(const Shape& sizes) const { return expand(sizes); }
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  /// Without those of the given dimensions that have size one. Error if one is given twice.
  Tensor squeeze(const Shape& dims) const;
  Tensor unsqueeze(std::int64_t dim) const;
  /// In place: this tensor object, for all who share it, becomes the view of those names. Errors
  /// are theirs.
  Tensor& transpose_(std::int64_t dim0, std::int64_t dim1) const;
  Tensor& t_() const;
  Tensor& squeeze_() const;
  Tensor& squeeze_(std::int64_t dim) const;
  Tensor& squeeze_(const Shape& dims) const;
  Tensor& unsqueeze_(std::int64_t dim) const;
  /// One index along a dimension, which goes. IndexError outside the range.
  Tensor select(std::int64_t dim, std::int64_t index) const;
  /// Elements start, start + step, ... below end along a dimension; bounds are moved into the range
  /// as Python does. ValueError unless step is positive.
  Tensor slice(std::int64_t dim, std::optional<std::int64_t> start = {},
               std::optional<std::int64_t> end = {}, std::int64_t step = 1) const;
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  /// At most `count` pieces along a dimension, all but the last of one size.
  [[nodiscard]] std::vector<Tensor> chunk(std::int64_t count, std::int64_t dim = 0) const;
  [[nodiscard]] std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  [[nodiscard]] std::vector<Tensor> split(const std::vector<std::int64_t>& sizes,
                                          std::int64_t dim = 0) const;
  [[nodiscard]] std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  /// Complex numbers as a last dimension of two, and back.
  Tensor view_as_real() const;
  Tensor view_as_complex() const;
  Tensor real() const;
  Tensor imag() const;
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim0 = 0, std::int64_t dim1 = 1) const;
  /// x[i] as in `select(0, i)`.
  Tensor operator[](std::int64_t index) const { return select(0, index); }

  // ---- Copies and conversions. (ops/copy.cpp has the rules; chapter 15)
  Tensor& copy_(const Tensor& source, bool non_blocking = false) const;
  /// Itself if nothing changes (unless `copy`), else a new tensor.
  Tensor to(const Options& options, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device device, Dtype dtype, bool non_blocking = false, bool copy = false) const {
    return to(Options(dtype, device), non_blocking, copy);
  }
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false) const {
    return to(Options(other.dtype(), other.device()), non_blocking, copy);
  }
  /// With the dtype and on the device of `other`.
  Tensor type_as(const Tensor& other) const { return to(other); }
  /// On a CUDA device: the current one unless given.
  Tensor cuda(cuda::DeviceArg device = {}, bool non_blocking = false) const;
  /// Blocks until the copy is done.
  Tensor cpu() const;
  /// A copy without gaps, in the order of the original's strides where it has no gaps itself.
  Tensor clone() const;
  Tensor contiguous() const;
  /// Itself if pinned already, else a pinned copy. Error unless it is on the CPU.
  Tensor pin_memory() const;
  /// The one element. Blocks until it is there. Error unless there is exactly one, and as
  /// require_fits() if T does not hold it: 300 is no int8_t, NaN no int, 1j no double.
  Scalar item() const;
  template <class T>
  T item() const {
    const Scalar number = item();
    require_fits(number, dtype_holding<T>);
    return number.template to<T>();
  }
  /// The memory, of a device or pinned, is used by work on a stream: see cuda::record_stream. Error
  /// for other memory, which nothing keeps for a stream.
  void record_stream(const cuda::Stream& stream) const;
  /// The same number everywhere; elements may share memory. Error if the dtype cannot hold it:
  /// fits() in number.h.
  Tensor& fill_(const Scalar& value) const;
  Tensor& zero_() const { return fill_(0); }

  // ---- New tensors with this one's dtype and device unless given. (ops/factories.h)
  Tensor new_empty(const Shape& sizes, const Options& options = {}) const;
  Tensor new_zeros(const Shape& sizes, const Options& options = {}) const;
  Tensor new_ones(const Shape& sizes, const Options& options = {}) const;
  Tensor new_full(const Shape& sizes, const Scalar& value, const Options& options = {}) const;

  // ---- Random numbers, from the default generator or from the one given. (random/distributions.h)
  Tensor& uniform_(double from = 0, double to = 1) const;
  Tensor& uniform_(double from, double to, const Generator& generator) const;
  Tensor& normal_(double mean = 0, double std = 1) const;
  Tensor& normal_(double mean, double std, const Generator& generator) const;
  Tensor& exponential_(double lambda = 1) const;
  Tensor& exponential_(double lambda, const Generator& generator) const;
  Tensor& bernoulli_(double p = 0.5) const;
  Tensor& bernoulli_(double p, const Generator& generator) const;
  Tensor& bernoulli_(const Tensor& p) const;
  Tensor& bernoulli_(const Tensor& p, const Generator& generator) const;
  Tensor& random_() const;
  Tensor& random_(const Generator& generator) const;
  Tensor& random_(std::int64_t to) const;
  Tensor& random_(std::int64_t to, const Generator& generator) const;
  Tensor& random_(std::int64_t from, std::int64_t to) const;
  Tensor& random_(std::int64_t from, std::int64_t to, const Generator& generator) const;
  Tensor bernoulli() const;
  Tensor bernoulli(const Generator& generator) const;

  // ---- Element-wise operations. (scalar/elementwise.inc)
#define EMBER_UNARY(name, ...) \
  Tensor name() const;         \
  Tensor& name##_() const;
#define EMBER_BINARY(name, ...)            \
  Tensor name(const Operand& other) const; \
  Tensor& name##_(const Operand& other) const;
#define EMBER_TERNARY(name, ...)                         \
  Tensor name(const Operand& y, const Operand& z) const; \
  Tensor& name##_(const Operand& y, const Operand& z) const;
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
  /// + alpha * other, and so on. (ops/arithmetic.h)
  Tensor add(const Operand& other, const Scalar& alpha) const;
  Tensor& add_(const Operand& other, const Scalar& alpha) const;
  Tensor sub(const Operand& other, const Scalar& alpha) const;
  Tensor& sub_(const Operand& other, const Scalar& alpha) const;
  Tensor div(const Operand& other, Rounding rounding) const;
  Tensor& div_(const Operand& other, Rounding rounding) const;
  /// Bounds that may be missing: `x.clamp(0)`, `x.clamp({}, 5)`. (ops/arithmetic.h) A template, so
  /// that two numbers are those of the list above.
  Tensor clamp(const std::optional<Operand>& min) const;
  Tensor& clamp_(const std::optional<Operand>& min) const;
  template <int = 0>
  Tensor clamp(const std::optional<Operand>& min, const std::optional<Operand>& max) const;
  template <int = 0>
  Tensor& clamp_(const std::optional<Operand>& min, const std::optional<Operand>& max) const;
  Tensor clamp_min(const Operand& min) const;
  Tensor& clamp_min_(const Operand& min) const;
  Tensor clamp_max(const Operand& max) const;
  Tensor& clamp_max_(const Operand& max) const;
  /// Comparisons with a tolerance, or of whole tensors; the last two block. (reduce/compare.h)
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  bool equal(const Tensor& other) const;
  Tensor& operator+=(const Operand& other);
  Tensor& operator-=(const Operand& other);
  Tensor& operator*=(const Operand& other);
  Tensor& operator/=(const Operand& other);

  // ---- Reductions: what the arguments mean stands in reduce/reduce.h.
  Tensor sum(const DimList& dims = {}, bool keepdim = false, std::optional<Dtype> dtype = {}) const;
  Tensor prod(const DimList& dims = {}, bool keepdim = false,
              std::optional<Dtype> dtype = {}) const;
  Tensor mean(const DimList& dims = {}, bool keepdim = false,
              std::optional<Dtype> dtype = {}) const;
  Tensor var(const DimList& dims = {}, double correction = 1, bool keepdim = false) const;
  Tensor std(const DimList& dims = {}, double correction = 1, bool keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Tensor max(const Tensor& other) const;  ///< of each pair of elements
  Tensor min(const Tensor& other) const;
  ValuesAndIndices max(std::int64_t dim, bool keepdim = false) const;
  ValuesAndIndices min(std::int64_t dim, bool keepdim = false) const;
  Tensor amax(const DimList& dims = {}, bool keepdim = false) const;
  Tensor amin(const DimList& dims = {}, bool keepdim = false) const;
  Tensor argmax(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<std::int64_t> dim = {}, bool keepdim = false) const;
  Tensor any(const DimList& dims = {}, bool keepdim = false) const;
  Tensor all(const DimList& dims = {}, bool keepdim = false) const;
  Tensor count_nonzero(const DimList& dims = {}) const;
  Tensor norm(double p = 2, const DimList& dims = {}, bool keepdim = false,
              std::optional<Dtype> dtype = {}) const;
  Tensor softmax(std::int64_t dim, std::optional<Dtype> dtype = {}) const;  ///< ops/softmax.h
  Tensor log_softmax(std::int64_t dim, std::optional<Dtype> dtype = {}) const;

  // ---- In order: sorted, running along a dimension, chosen by a mask. (ops/sort.h, scan.h,
  // select.h)
  ValuesAndIndices topk(std::int64_t k, std::int64_t dim = -1, bool largest = true,
                        bool sorted = true) const;
  ValuesAndIndices sort(std::int64_t dim = -1, bool descending = false, bool stable = false) const;
  Tensor argsort(std::int64_t dim = -1, bool descending = false, bool stable = false) const;
  Tensor cumsum(std::int64_t dim, std::optional<Dtype> dtype = {}) const;
  Tensor& cumsum_(std::int64_t dim, std::optional<Dtype> dtype = {}) const;
  Tensor cumprod(std::int64_t dim, std::optional<Dtype> dtype = {}) const;
  Tensor& cumprod_(std::int64_t dim, std::optional<Dtype> dtype = {}) const;
  /// Blocks until it is known how many there are, as does masked_select.
  Tensor nonzero() const;
  Tensor masked_select(const Tensor& mask) const;
  /// They block as well: what comes out depends on the elements. (reduce/count.h)
  Tensor bincount(const Tensor& weights = {}, std::int64_t minlength = 0) const;
  Tensor repeat_interleave(std::int64_t repeats, std::optional<std::int64_t> dim = {}) const;
  Tensor repeat_interleave(const Tensor& repeats, std::optional<std::int64_t> dim = {},
                           std::optional<std::int64_t> output_size = {}) const;

  // ---- Products. (linalg/linalg.h)
  Tensor mm(const Tensor& mat2) const;
  Tensor bmm(const Tensor& mat2) const;
  Tensor mv(const Tensor& vec) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& vec2) const;
  Tensor matmul(const Tensor& other) const;
  Tensor addmm(const Tensor& mat1, const Tensor& mat2, const Scalar& beta = 1,
               const Scalar& alpha = 1) const;
  Tensor& addmm_(const Tensor& mat1, const Tensor& mat2, const Scalar& beta = 1,
                 const Scalar& alpha = 1) const;
  Tensor baddbmm(const Tensor& batch1, const Tensor& batch2, const Scalar& beta = 1,
                 const Scalar& alpha = 1) const;
  Tensor& baddbmm_(const Tensor& batch1, const Tensor& batch2, const Scalar& beta = 1,
                   const Scalar& alpha = 1) const;
  Tensor addr(const Tensor& vec1, const Tensor& vec2, const Scalar& beta = 1,
              const Scalar& alpha = 1) const;
  Tensor& addr_(const Tensor& vec1, const Tensor& vec2, const Scalar& beta = 1,
                const Scalar& alpha = 1) const;

  // ---- Transforms of overlapping pieces. (fft/stft.h)
  Tensor stft(std::int64_t n_fft, const StftOptions& options) const;
  Tensor istft(std::int64_t n_fft, const StftOptions& options) const;

  // ---- Indexing with integers, slices, masks and tensors. (ops/indexing.h)
  Tensor index(std::initializer_list<Index> items) const;
  Tensor index(std::span<const Index> items) const;
  Tensor& index_put_(std::initializer_list<Index> items, const Operand& value,
                     bool accumulate = false) const;
  Tensor& index_put_(std::span<const Index> items, const Operand& value,
                     bool accumulate = false) const;

  // ---- The same elements in another order, or several times: new tensors. (ops/rearrange.h)
  Tensor flip(const Shape& dims) const;
  Tensor roll(const Shape& shifts, const Shape& dims = {}) const;
  Tensor repeat(const Shape& repeats) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  Tensor& tril_(std::int64_t diagonal = 0) const;
  Tensor& triu_(std::int64_t diagonal = 0) const;
  Tensor diag(std::int64_t diagonal = 0) const;

  // ---- Elements at places that an index names. (ops/index.h says what indices may be)
  Tensor index_select(std::int64_t dim, const Tensor& index) const;
  Tensor gather(std::int64_t dim, const Tensor& index) const;
  Tensor take(const Tensor& index) const;
  /// self[i][index[i][j][k]][k] = source[i][j][k] for dim = 1, and so on. `source` is a number, or
  /// a tensor of the same dtype at least as large as the index.
  Tensor& scatter_(std::int64_t dim, const Tensor& index, const Operand& source) const;
  Tensor scatter(std::int64_t dim, const Tensor& index, const Operand& source) const;
  /// The same with += or *=, in float for the 16-bit types. reduce: "add" or "multiply"; Error for
  /// others.
  Tensor& scatter_(std::int64_t dim, const Tensor& index, const Operand& source,
                   std::string_view reduce) const;
  Tensor scatter(std::int64_t dim, const Tensor& index, const Operand& source,
                 std::string_view reduce) const;
  /// scatter_ with "add", of a tensor.
  Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter_add(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  /// Slice index[i] along a dimension += alpha * slice i of the source, which has the same dtype.
  Tensor& index_add_(std::int64_t dim, const Tensor& index, const Tensor& source,
                     const Scalar& alpha = 1) const;
  /// Slice index[i] along a dimension = slice i of the source, which has the same dtype.
  Tensor& index_copy_(std::int64_t dim, const Tensor& index, const Tensor& source) const;
  /// The slices that the index names along a dimension = a number, or a tensor of one element.
  Tensor& index_fill_(std::int64_t dim, const Tensor& index, const Operand& value) const;
  /// Elements of the tensor as one row at these places = (or +=) those of the source.
  Tensor& put_(const Tensor& index, const Tensor& source, bool accumulate = false) const;
  /// Elements where the mask (bool, broadcast) is true = a number, or a tensor of one element.
  Tensor& masked_fill_(const Tensor& mask, const Operand& value) const;
  Tensor masked_fill(const Tensor& mask, const Operand& value) const;

  /// As torch prints: `tensor([1., 2.], device='cuda:0')`. Blocks until the elements are there.
  std::string str() const;

  /// Internal, for the layers above.
  const TensorState& state() const {
    if (!state_) [[unlikely]]
      throw_undefined();
    return *state_;
  }

  /// Internal, for what defers work: whether nothing else has these elements at this moment, be it
  /// a tensor, a view or whoever gave the memory.
  bool is_only() const noexcept {
    return state_.is_only() && state_->storage.is_only() && state_->storage->foreign() == nullptr;
  }

  /// Internal, for operations in place: the tensor that they return.
  Tensor& self() const noexcept { return const_cast<Tensor&>(*this); }

 private:
  explicit Tensor(Ref<TensorState> state) noexcept : state_(std::move(state)) {}
  [[noreturn]] static void throw_undefined();
  void require_dtype(Dtype expected) const;
  void require_accessible(int dims) const;
  Tensor reinterpreted(Dtype dtype) const;
  Tensor make_view(const Shape& sizes, const Shape& strides, std::int64_t offset) const;
  Ref<TensorState> copy_state() const;

  Ref<TensorState> state_;
};

/// What operations give that find elements, and say where they were.
struct [[nodiscard]] ValuesAndIndices {
  Tensor values;
  Tensor indices;  ///< int64

  using Ignored = decltype(std::ignore);
  /// For `std::tie(values, indices) = x.sort();`, also with std::ignore.
  operator std::tuple<Tensor&, Tensor&>() noexcept { return {values, indices}; }
  operator std::tuple<Tensor&, Ignored&>() noexcept { return {values, std::ignore}; }
  operator std::tuple<Ignored&, Tensor&>() noexcept { return {std::ignore, indices}; }
};

/// An input of an operation: a tensor, or a number. Lives as long as the call that it is made for.
class Operand {
 public:
  Operand(const Tensor& tensor) noexcept : tensor_(&tensor) {}
  Operand(const Scalar& number) noexcept : number_(number) {}
  Operand(Half number) noexcept : number_(number) {}
  Operand(BFloat16 number) noexcept : number_(number) {}
  template <class T>
  requires(std::is_arithmetic_v<T>) Operand(T number)
  noexcept : number_(number) {}
  template <class T>
  Operand(std::complex<T> number) noexcept : number_(number) {}

  /// Null if it is a number.
  const Tensor* tensor() const noexcept { return tensor_; }
  const Scalar& number() const noexcept { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar number_;
};

namespace ops {
EMBER_API Tensor clamp(const Operand& x, const std::optional<Operand>& min,
                       const std::optional<Operand>& max, Tensor* out = nullptr);
}  // namespace ops

template <int>
Tensor Tensor::clamp(const std::optional<Operand>& min, const std::optional<Operand>& max) const {
  return ops::clamp(*this, min, max);
}
template <int>
Tensor& Tensor::clamp_(const std::optional<Operand>& min, const std::optional<Operand>& max) const {
  (void)ops::clamp(*this, min, max, &self());
  return self();
}

/// Whether elements of the view lie in one row without gaps, in the order of the dimensions.
EMBER_API bool is_contiguous(const Shape& sizes, const Shape& strides) noexcept;
/// Whether the elements lie without gaps and overlaps in some order of the dimensions.
EMBER_API bool is_dense(const Shape& sizes, const Shape& strides) noexcept;

}  // namespace ember::inline v0
