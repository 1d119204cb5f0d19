// Functions of element-wise operations and reductions as one kernel. docs/fuse.md:
//
//   const auto gelu = fuse([](const Tensor& x) {
//     return 0.5 * x * (1.0 + (x * 0.7071067811865476).erf());
//   });
//   Tensor y = gelu(x);
//
// The function runs at each call, but its operations are noted instead of done; one kernel does
// them, compiled at the first call as those of jit/jiterator.h are, and found again by what it
// computes. So there is nothing to be guarded: what the function reads, numbers above all, is as it
// is at each call. The results have the bits of the operations one by one; where there are
// reductions, over the last dimensions or over all, these add up in an order of their own.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "ember/base/export.h"

namespace ember::inline v0 {

struct FuseOptions {
  /// Whether results of 16-bit floats are rounded after each operation, as without fuse. Otherwise
  /// they stay float32 between operations, and are rounded where they are stored or converted.
  bool precise = true;
  /// By which errors, observers and timelines know the kernels.
  std::string name = "fused";
};

namespace fusion {
class Recording;
}

/// While it lives, the calling thread's element-wise operations, conversions, copies within one
/// device, and reductions over the last dimensions or over all, are noted. They are done by
/// finish(); before anything else that the thread does with tensors or devices; and when the memory
/// of a result is asked for. Of the results those are stored that somebody still holds by then.
/// Until then they are for this thread alone. Within another scope it does nothing. Ends on the
/// thread, and in the order, in which it began.
class EMBER_API FusedScope {
 public:
  explicit FusedScope(const FuseOptions& options = {});
  FusedScope(const FusedScope&) = delete;
  FusedScope& operator=(const FusedScope&) = delete;
  /// As finish(), unless that was called; its errors are lost.
  ~FusedScope();

  /// Does what was noted, and ends the scope. Enqueues work on CUDA devices, and does not wait for
  /// it. The first time for a chain of operations, dtypes, a kind of layout and a kind of device it
  /// compiles, and blocks while the compiler runs, unless the kernel is on disk.
  ///
  /// Error without a compiler, and if the cache of kernels on disk is open to others (as in
  /// jit/jiterator.h), and what launching a kernel throws. Results that were not computed have no
  /// elements then.
  void finish();

 private:
  std::unique_ptr<fusion::Recording> recording_;  ///< null within another scope
};

/// A function whose element-wise operations and reductions are done by one kernel, or by one for
/// each part between other operations. Thread-safe if the function is.
template <class Function>
class Fused {
 public:
  explicit Fused(Function function, FuseOptions options = {})
      : function_(std::move(function)), options_(std::move(options)) {}

  /// What the function returns. Its own errors, those of FusedScope::finish(), and Error if it asks
  /// for the value of a tensor by item().
  template <class... Arguments>
  requires std::invocable<const Function&, Arguments...>
  auto operator()(Arguments&&... arguments) const {
    FusedScope scope(options_);
    if constexpr (std::is_void_v<std::invoke_result_t<const Function&, Arguments...>>) {
      function_(std::forward<Arguments>(arguments)...);
      scope.finish();
    } else {
      auto result = function_(std::forward<Arguments>(arguments)...);
      scope.finish();
      return result;
    }
  }

 private:
  Function function_;
  FuseOptions options_;
};

template <class Function>
Fused<std::decay_t<Function>> fuse(Function&& function, FuseOptions options = {}) {
  return Fused<std::decay_t<Function>>(std::forward<Function>(function), std::move(options));
}

}  // namespace ember::inline v0
