// What a recording holds: element-wise steps and reductions, each on results of earlier ones,
// elements in memory and numbers. Where there are reductions the elements lie in rows, each of
// which is reduced to one: a step's result is there once for each element, or once for each row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/ops/elementwise_kernels.h"
#include "ember/ops/recorder.h"
#include "ember/tensor/dtype.h"

namespace ember::inline v0::fusion {

/// What a step is given.
struct Value {
  enum class Kind : std::uint8_t { step, input, number };
  Kind kind = Kind::step;
  std::uint8_t index = 0;  ///< of the step, the input or the number

  bool operator==(const Value&) const = default;
};

struct Step {
  enum class Kind : std::uint8_t { operation, cube, cast, reduction };
  static constexpr std::size_t kMostOperands = 4;

  Kind kind = Kind::operation;
  ops::OpId op{};                   ///< of an operation
  ops::RowReduction reduction{};    ///< of a reduction, whose operand is there for each element
  bool of_row = false;              ///< whether the result is there once for each row
  Dtype computed = Dtype::float32;  ///< the element type that it computes with; of casts `result`
  Dtype result = Dtype::float32;    ///< of the elements that come out
  std::uint8_t count = 0;           ///< of operands
  std::array<Value, kMostOperands> operands{};
};

struct Graph {
  /// As many of each as a kernel has room for.
  static constexpr std::size_t kMostSteps = 128;
  static constexpr std::size_t kMostOperands = 32;  ///< inputs and outputs
  static constexpr std::size_t kMostNumbers = 64;

  std::vector<Step> steps;
  std::vector<Dtype> inputs;          ///< of elements in memory
  std::vector<Dtype> numbers;         ///< what they are in the kernel
  std::uint32_t row_inputs = 0;       ///< which of them are there once for each row, as bits
  std::vector<std::uint8_t> outputs;  ///< steps whose results are stored

  /// The parts that the outputs need, in the same order. `inputs_of` and `numbers_of` say which of
  /// this graph's theirs are.
  Graph needed(std::vector<std::uint8_t>& inputs_of, std::vector<std::uint8_t>& numbers_of) const;
  bool is_row_input(std::size_t input) const noexcept { return (row_inputs >> input & 1) != 0; }
  /// Whether there are steps for whole rows: reductions, unless nobody needs these any more.
  bool has_rows() const noexcept;
  bool has_reductions() const noexcept;
  /// Different for graphs of which different kernels are made.
  std::string key() const;
  /// The statements of a kernel (jit::Instance::fused). With `precise`, results of 16-bit floats
  /// are rounded after each step; otherwise they stay float32 between steps, except where the
  /// function converts, and where an operation is on the bits. (fuse/rows.h has those of a graph
  /// with reductions.)
  std::string statements(bool precise) const;
};

}  // namespace ember::inline v0::fusion
