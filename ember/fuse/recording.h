// The recorder of fused functions. It notes the steps of a function in a graph; their results are
// tensors without memory. Whatever asks for their memory, and whatever else the thread has done,
// settles the recording: one kernel computes those results that somebody still holds, and the next
// steps begin a new graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ember/fuse/graph.h"
#include "ember/jit/launcher.h"
#include "ember/ops/recorder.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::fusion {

/// An operand of a kernel that walks rows.
struct RowOperand {
  Tensor tensor;
  Shape strides;            ///< from row to row
  bool once = false;        ///< whether it has one element for each row, or a row of them
  std::int64_t offset = 0;  ///< of the first element that is meant

  void* address() const {
    return static_cast<std::byte*>(tensor.address()) +
           offset * static_cast<std::int64_t>(tensor.element_size());
  }
};

class Recording final : public ops::Recorder {
 public:
  /// `name`: of the function, for observers and errors.
  Recording(std::string name, bool precise);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  bool compute(const ops::ElementwiseCall& call, Tensor& out) override;
  bool copy(const Tensor& target, const Tensor& source) override;
  bool convert(const Tensor& source, Dtype dtype, const Shape& strides, Tensor& made) override;
  bool reduces(const Tensor& x, int dims) override;
  bool reduce(const ops::ReductionCall& call, Tensor& made) override;
  [[noreturn]] void refuse_value(const char* call) override;
  void settle() override;

 private:
  /// A tensor that has the result of a step: a new one, whose memory is to come, or one that there
  /// was, which is to be written.
  struct Result {
    Ref<TensorState> made;     ///< null of one that there was
    Ref<Storage> placeholder;  ///< of a new one
    Tensor written;            ///< the one that there was
    std::uint8_t step = 0;

    /// Whether there is nobody who could read it. That may be so of memory that there was, too:
    /// some operations ask for their result's before they compute it.
    bool is_dropped() const noexcept { return made ? made.is_only() : written.is_only(); }
  };
  /// Elements in memory: one for each element, or one for each row.
  struct Input {
    Tensor tensor;
    bool of_row = false;
    int dims = 0;  ///< of the shape that it is broadcast to
  };
  /// What one kernel with reductions does.
  struct RowWork {
    Graph graph;
    std::vector<RowOperand> operands;  ///< of the graph: outputs, then inputs
    std::vector<jit::NumberBytes> numbers;
    Shape rows;                          ///< the dimensions of the rows
    std::int64_t length = 0, count = 0;  ///< of each, and what means are of (jit::Plan)
  };
  /// All of a launch but its kernel. It points into what it was made of.
  struct Launch {
    const Graph* graph;
    ops::Site site;
    std::span<const jit::NumberBytes> numbers;
    jit::Instance instance{};
    jit::Operands operands{};
    jit::Plan planned{};
  };
  enum class Found : std::uint8_t { yes, no, settle };

  /// The needed part of the graph, and which inputs and numbers it has.
  struct Selection {
    Graph graph;
    std::vector<std::uint8_t> inputs, numbers;
  };

  void let_dropped_go();
  void begin(Device device, const Shape& sizes, std::size_t operands);
  bool prepare(Device device, const Shape& sizes, std::span<const Tensor* const> inputs,
               const Tensor& out);
  Found find(const Tensor& tensor, std::uint8_t& step) const;
  bool is_read_otherwise(const Tensor& out, const Shape& sizes) const;
  bool is_of_rows(const Shape& sizes) const;
  bool comes_from_memory(const Tensor& tensor, std::uint8_t step, const Shape& sizes) const;
  void add_tensor(Step& step, const Tensor& tensor, int dims);
  void add_number(Step& step, const ops::RecordedNumber& number);
  void add_step(const Step& step, const Shape& sizes, const Shape& strides, Tensor& out);
  bool record_cast(const Tensor& source, Dtype dtype, const Shape& sizes, const Shape& strides,
                   Tensor& out);
  void run(std::span<const Result> results);
  bool run_alone(const Selection& part, std::span<Tensor> outputs) const;
  void launch(const Selection& part, std::span<const Tensor> outputs) const;
  void launch_rows(Selection part, std::span<const Tensor> outputs) const;
  void launch_divided(const RowWork& work) const;
  Launch prepared(const RowWork& work) const;
  void launch(std::span<const Launch> all) const;
  std::vector<jit::NumberBytes> numbers_of(const Selection& part) const;
  void clear() noexcept;

  const std::string name_;
  const bool precise_;
  Device device_{Device::Type::cpu};
  std::optional<cuda::Stream> stream_;
  Shape sizes_;
  int reduced_ = 0;       ///< how many of the last dimensions reductions are over; 0: none
  bool divided_ = false;  ///< whether rows are cut into parts: no step on elements needs a result
  std::size_t reductions_ = 0;
  Shape rows_kept_, rows_gone_;  ///< what their results have for sizes, with these and without
  Graph graph_;
  std::vector<Input> inputs_;
  std::vector<ops::RecordedNumber> numbers_;
  std::vector<Result> results_;
  std::vector<Ref<Storage>> spent_;  ///< placeholders that may be asked at this moment
};

}  // namespace ember::inline v0::fusion
