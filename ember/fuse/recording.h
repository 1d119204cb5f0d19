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
  };
  enum class Found : std::uint8_t { yes, no, settle };

  /// The needed part of the graph, and which inputs and numbers it has.
  struct Selection {
    Graph graph;
    std::vector<std::uint8_t> inputs, numbers;
  };

  void begin(Device device, const Shape& sizes, std::size_t operands);
  bool prepare(Device device, const Shape& sizes, std::span<const Tensor* const> inputs,
               const Tensor& out);
  Found find(const Tensor& tensor, std::uint8_t& step) const;
  bool is_read_otherwise(const Tensor& out) const;
  void add_tensor(Step& step, const Tensor& tensor);
  void add_number(Step& step, const ops::RecordedNumber& number);
  void add_step(const Step& step, const Shape& strides, Tensor& out);
  bool record_cast(const Tensor& source, Dtype dtype, const Shape& sizes, const Shape& strides,
                   Tensor& out);
  void run(std::span<const Result> results);
  bool run_alone(const Selection& part, std::span<Tensor> outputs) const;
  void launch(const Selection& part, std::span<const Tensor> outputs) const;
  void clear() noexcept;

  const std::string name_;
  const bool precise_;
  Device device_{Device::Type::cpu};
  std::optional<cuda::Stream> stream_;
  Shape sizes_;
  Graph graph_;
  std::vector<Tensor> inputs_;
  std::vector<ops::RecordedNumber> numbers_;
  std::vector<Result> results_;
  std::vector<Ref<Storage>> spent_;  ///< placeholders that may be asked at this moment
};

}  // namespace ember::inline v0::fusion
