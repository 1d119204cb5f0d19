// From the operands of a call to the launches of a compiled kernel: dimensions, layout, arguments.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ember/jit/compiled_kernel.h"
#include "ember/ops/merge.h"
#include "ember/ops/run.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::jit {

using Dims = ops::MergedDims<std::vector<ops::DimStrides>>;

/// Dimensions of the elements of one call, and what was decided of them.
struct Plan {
  Dims dims;
  Layout layout = Layout::flat;
};

/// For operands that are broadcast to `sizes`, none of which is zero.
Plan plan(const Shape& sizes, std::span<const ops::PlanOperand> operands);

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
  void launch(const Dims& dims) { launch(dims, dims.count); }

 private:
  bool flat() const { return compiled_.instance.layout == Layout::flat; }
  void launch(const Dims& dims, int count);
  void write_arguments(const Dims& dims, int count);
  void put_index(std::size_t at, std::size_t i, std::int64_t value);
  std::span<const cuda::Access> accesses(const Dims& dims, int count);

  ops::Site site_;
  const driver::Kernel& kernel_;
  const CompiledKernel& compiled_;
  std::span<const ops::PlanOperand> operands_;
  std::vector<void*> data_;
  std::vector<cuda::Access> accesses_;
  alignas(16) std::array<std::byte, driver::Params::kCapacity> arguments_{};
};

}  // namespace ember::inline v0::jit
