// One signature's graph of a function: where its arguments are read, and what its results are.
// Internal: users have graphed.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/graphs/graph.h"
#include "ember/graphs/graphed.h"
#include "ember/memory/snapshot.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda::detail {

/// What tells the tensors of calls apart, beside their addresses.
struct CallSignature {
  struct Argument {
    Dtype dtype;
    Shape sizes, strides;
    std::size_t same;  ///< the first argument that is this very view; its own number otherwise
    bool operator==(const Argument& other) const noexcept;
  };
  int device = 0;   ///< of the arguments; without any, the current one
  int current = 0;  ///< the current device
  std::uint32_t epoch = 0;
  std::vector<Argument> arguments;
  /// Different views whose bytes overlap, the greater number first.
  std::vector<std::pair<std::size_t, std::size_t>> overlaps;

  /// The arguments are of that device.
  static CallSignature of(const std::vector<Tensor>& arguments, int device);
  bool operator==(const CallSignature& other) const noexcept = default;
};

/// Why arguments can be no graph's; empty if they can.
std::string reason_against(const std::vector<Tensor>& arguments);

/// Used by one thread at a time.
class CapturedCall {
 public:
  struct Made {
    std::unique_ptr<CapturedCall> call;  ///< null if there can be none
    std::string reason;                  ///< why
  };
  /// Captures the body's work on a stream of the signature's device, in a pool. `copied`: which
  /// arguments the graph reads in memory of its own; it reads the others where they lie now. What
  /// the body throws is a reason, if it is a std::exception; nothing else is left of it.
  static Made capture(const GraphedFunctionBody& body, const CallSignature& signature,
                      const std::vector<Tensor>& arguments, const std::vector<bool>& copied,
                      const MemPoolId& pool, const Stream& stream);

  /// Which arguments would have to be copied for these; as they are now if all lie right.
  std::vector<bool> copied_for(const std::vector<Tensor>& arguments) const;
  const std::vector<bool>& copied() const noexcept { return copied_; }
  /// Whether an argument that would be copied shares memory with what the work touches elsewhere,
  /// so that the copy would not be as good.
  bool conflicts(const std::vector<Tensor>& arguments) const;
  /// On the current stream of the device, after all earlier replays of graphs in its pool.
  GraphedResults replay(const std::vector<Tensor>& arguments, bool copy);

 private:
  struct Range {
    std::uintptr_t begin = 0, end = 0;
    bool writes = false;
    bool overlaps(const Range& other) const noexcept {
      return begin < other.end && other.begin < end;
    }
  };
  struct Result {
    enum class Of : std::uint8_t { argument, pool, elsewhere } of = Of::elsewhere;
    std::size_t index = 0;      // of the argument, or of the storage in the pool
    bool itself = false;        // the argument, not a view of it
    std::ptrdiff_t offset = 0;  // bytes from the argument's first element, or in the storage
    Tensor elsewhere;
    Dtype dtype = Dtype::float32;
    Shape sizes, strides;
  };

  explicit CapturedCall(int device) : device_(device) {}
  static Range range_of(const Tensor& tensor);
  std::string note_results(const std::vector<Tensor>& results, const std::vector<Tensor>& inputs,
                           const MemorySnapshot& pool);
  std::string note_accesses(const CallSignature& signature, const std::vector<Tensor>& inputs,
                            const MemorySnapshot& pool);
  Tensor result(const Result& made, const std::vector<Tensor>& arguments,
                const std::vector<Ref<Storage>>& storages) const;

  const int device_;
  std::vector<bool> copied_, written_;
  std::vector<const void*> addresses_;  // of arguments that are read where they lie
  std::vector<Tensor> buffers_;         // of the others; of one view, the first one's
  std::optional<Stream> buffers_of_;
  std::vector<Range> elsewhere_;  // what the work touches that is neither its own nor a buffer
  std::vector<Ref<Storage>> storages_;
  std::vector<Result> results_;
  std::shared_ptr<const void> rest_;
  CUDAGraph graph_;
};

}  // namespace ember::inline v0::cuda::detail
