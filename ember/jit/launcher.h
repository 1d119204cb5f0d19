// From the operands of a call to the launches of a compiled kernel: dimensions, layout, arguments.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ember/base/short_vector.h"
#include "ember/jit/compiled_kernel.h"
#include "ember/ops/merge.h"
#include "ember/ops/run.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::jit {

/// How many operands a call has without asking the heap for room; others have as many as there is
/// room for in arguments.
inline constexpr std::size_t kFewOperands = 8;
using Operands = ShortVector<ops::PlanOperand, kFewOperands>;
using Dims = ops::MergedDims<ShortVector<ops::DimStrides, kFewOperands>>;

/// Dimensions of the elements of one call, and what was decided of them.
struct Plan {
  Dims dims;
  Layout layout = Layout::flat;
  /// Of the rows that these are the dimensions of, if it is of rows; and how many elements their
  /// means are of: more than these where the rows are of what was reduced before.
  std::int64_t length = 0, count = 0;
};

/// For operands that are broadcast to `sizes`, none of which is zero. `made` is a new one.
void plan(Plan& made, const Shape& sizes, std::span<const ops::PlanOperand> operands);
/// The same for rows of `length` elements, whose means are of `count`; `sizes`, and where the
/// operands' rows begin, are of the rows.
void plan_rows(Plan& made, const Shape& sizes, std::span<const ops::PlanOperand> operands,
               std::int64_t length, std::int64_t count);
/// The same as the first for `count` elements, not none, which all of so many operands have in one
/// row.
void plan_row(Plan& made, std::int64_t count, std::size_t operands);

/// A number as a kernel has it, of the type that its instance says.
struct NumberBytes {
  alignas(16) std::byte bytes[ArgumentPlaces::kNumberBytes] = {};
};
/// Of bool_, int64, float64 or complex128, as the number itself.
NumberBytes bytes_of(const Scalar& number);

/// The launches of one call: several where there are more dimensions than a kernel walks.
class Launcher {
 public:
  /// `numbers` as the instance of the kernel has them. All have to outlive the launcher.
  Launcher(const ops::Site& site, const driver::Kernel& kernel, const CompiledKernel& compiled,
           std::span<const ops::PlanOperand> operands, std::span<const NumberBytes> numbers);

  /// Throws what a launch does.
  void launch(const Plan& planned) {
    length_ = planned.length;
    row_count_ = planned.count;
    launch(planned.dims, planned.dims.count);
  }

 private:
  bool flat() const { return compiled_.instance.layout == Layout::flat; }
  void launch(const Dims& dims, int count);
  driver::CompiledHeader write_arguments(const Dims& dims, int count);
  void put_index(std::size_t at, std::size_t i, std::int64_t value);
  std::span<const cuda::Access> accesses(const Dims& dims, int count);

  ops::Site site_;
  const driver::Kernel& kernel_;
  const CompiledKernel& compiled_;
  std::int64_t length_ = 0, row_count_ = 0;
  std::span<const ops::PlanOperand> operands_;
  ShortVector<void*, kFewOperands> data_;
  std::vector<cuda::Access> accesses_;                                      // for observers only
  std::vector<std::int64_t> extents_;                                       // the same, of rows
  alignas(16) std::array<std::byte, driver::Params::kCapacity> arguments_;  // to places.end
};

}  // namespace ember::inline v0::jit
