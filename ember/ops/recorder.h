// Element-wise operations and reductions that are recorded instead of run. While a thread has a
// recorder, every such operation, conversion and copy on one device asks it first, after all
// questions of shapes, dtypes and devices were answered as ever. What a recorder does not take runs
// at once, and what was recorded before runs before that (runtime/deferred.h).
#pragma once

#include <cstddef>
#include <span>

#include "ember/ops/elementwise_kernels.h"
#include "ember/runtime/deferred.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// A number beside tensors: as it was given, and in the form that the operation's loop has it in.
struct RecordedNumber {
  Scalar given = 0;
  Dtype type = Dtype::float32;  ///< of `bytes`: of the element type, or of what it is computed in
  alignas(16) std::byte bytes[16] = {};
};

struct ElementwiseCall {
  OpId op;
  Dtype computed;  ///< the element type that it computes with
  Dtype result;    ///< of the elements that come out
  Device device;
  const Shape& sizes;
  const Shape& strides;  ///< of a new output
  std::span<const Operand* const> inputs;
  std::span<const RecordedNumber> numbers;  ///< one for each input; that of a tensor is empty
};

/// Reductions of one row of elements.
enum class RowReduction : std::uint8_t { sum, mean, prod, largest, smallest, any, all };

struct ReductionCall {
  RowReduction reduction;
  Dtype result;  ///< of what comes out
  const Tensor& x;
  int dims;      ///< how many of the last dimensions go
  bool keepdim;  ///< whether they stay, with size one
};

class Recorder : public cuda::Deferred {
 public:
  /// Whether it takes the call, whose result is `out`, or a new tensor where that is undefined.
  virtual bool compute(const ElementwiseCall& call, Tensor& out) = 0;
  /// The same for a copy within one device, converted on the way: into a tensor that there is, and
  /// into a new one.
  virtual bool copy(const Tensor& target, const Tensor& source) = 0;
  virtual bool convert(const Tensor& source, Dtype dtype, const Shape& strides, Tensor& made) = 0;
  /// Whether operations on elements of x that need the result of a reduction over so many of its
  /// last dimensions would go on in the same kernel: what consists of several is worth recording
  /// then.
  virtual bool reduces(const Tensor& x, int dims) = 0;
  /// Whether it takes a reduction, whose result is a new tensor.
  virtual bool reduce(const ReductionCall& call, Tensor& made) = 0;
  /// Throws: the program asks for the value of an element.
  [[noreturn]] virtual void refuse_value(const char* call) = 0;

 protected:
  ~Recorder() = default;
};

/// From now on the calling thread's; null ends it. Returns the one before.
Recorder* exchange_recorder(Recorder* recorder) noexcept;

namespace detail {
Recorder* recorder_of_thread() noexcept;
}
/// The calling thread's, which is nearly always null.
inline Recorder* recorder() noexcept {
  if (cuda::detail::deferring_threads.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  return detail::recorder_of_thread();
}

/// Tensor::item() for the library itself, which recorders do not refuse.
EMBER_API Scalar value_of(const Tensor& tensor);

}  // namespace ember::inline v0::ops
