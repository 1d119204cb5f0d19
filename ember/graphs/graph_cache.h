// The graphs of one function, by signature. Internal: users have graphed.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/graphs/captured_call.h"
#include "ember/graphs/graphed.h"
#include "ember/runtime/event.h"

namespace ember::inline v0::cuda::detail {

/// Thread-safe. All graphs share a pool, so their replays follow each other.
class GraphCache {
 public:
  GraphCache(GraphedFunctionOptions options, GraphedCalls::Same same,
             std::function<void()> before_capture);
  GraphedResults call(const GraphedFunctionBody& body, const std::vector<Tensor>& arguments,
                      const std::shared_ptr<const void>& other, std::string refusal);
  void clear();

 private:
  struct Entry {
    CallSignature signature;
    std::shared_ptr<const void> other;
    std::vector<const void*> addresses;  // of the first call's arguments
    std::unique_ptr<CapturedCall> graph;
    bool refused = false;
  };
  using Entries = std::list<Entry>;
  /// A device's last replay, which the next one comes after.
  struct Last {
    std::uint32_t epoch;
    Stream stream;
    Event event;
  };
  struct Origin {
    std::uint32_t epoch;
    Stream stream;
  };

  /// The entry, which becomes the first one; null if there is none.
  Entry* find(const CallSignature& signature, const std::shared_ptr<const void>& other)
      EMBER_REQUIRES(mutex_);
  /// Why the call is the function's own, empty if nothing is wrong; or its results.
  std::string replay(Entry& entry, const GraphedFunctionBody& body,
                     const std::vector<Tensor>& arguments, std::optional<GraphedResults>& results,
                     Entries& gone) EMBER_REQUIRES(mutex_);
  std::string capture(Entry& entry, const GraphedFunctionBody& body,
                      const std::vector<Tensor>& arguments, const std::vector<bool>& copied)
      EMBER_REQUIRES(mutex_);
  const Stream& capture_stream(const CallSignature& signature) EMBER_REQUIRES(mutex_);
  bool any_graph() const EMBER_REQUIRES(mutex_);
  /// Takes out what is too many.
  void trim(Entries& gone) EMBER_REQUIRES(mutex_);
  void drop_last(bool graph, std::ptrdiff_t most, Entries& gone) EMBER_REQUIRES(mutex_);
  void warn_once(const std::string& reason);

  const GraphedFunctionOptions options_;
  const GraphedCalls::Same same_;
  const std::function<void()> before_capture_;
  std::atomic<bool> warned_{false};
  std::atomic<std::thread::id> capturing_{};  // the thread that captures
  Mutex mutex_;
  Entries entries_ EMBER_GUARDED_BY(mutex_);  // the most recently used one first
  std::optional<MemPoolId> pool_ EMBER_GUARDED_BY(mutex_);
  std::map<int, Last> last_ EMBER_GUARDED_BY(mutex_);
  std::map<int, Origin> origins_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::cuda::detail
