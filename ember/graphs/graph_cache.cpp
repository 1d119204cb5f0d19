#include "ember/graphs/graph_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/memory/allocators.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::detail {
namespace {

/// How many signatures without a graph are remembered. One that comes again after so many others
/// is a new one.
constexpr std::ptrdiff_t kMostSeen = 64;

}  // namespace

GraphCache::GraphCache(GraphedFunctionOptions options, GraphedCalls::Same same,
                       std::function<void()> before_capture)
    : options_(std::move(options)),
      same_(std::move(same)),
      before_capture_(std::move(before_capture)) {}

GraphedResults GraphCache::call(const GraphedFunctionBody& body,
                                const std::vector<Tensor>& arguments,
                                const std::shared_ptr<const void>& other, std::string refusal) {
  // In a capture, this function's own one too, it is what its body does.
  if (capturing_ == std::this_thread::get_id() || is_current_stream_capturing())
    return body(arguments, false);
  if (refusal.empty()) refusal = reason_against(arguments);
  if (!refusal.empty()) {
    GraphedResults results = body(arguments, false);
    warn_once(refusal);
    return results;
  }
  const int device = arguments.empty() ? current_device() : arguments[0].device().index();
  if (current_stream(device).is_capturing()) return body(arguments, false);
  const CallSignature signature = CallSignature::of(arguments, device);
  {
    Entries gone;  // without the lock: what goes with them may call this function
    std::optional<GraphedResults> results;
    const MutexLock lock(mutex_);
    Entry* const entry = find(signature, other);
    if (entry != nullptr && !entry->refused)
      refusal = replay(*entry, body, arguments, results, gone);
    if (results) return std::move(*results);
  }
  GraphedResults results = body(arguments, false);
  {
    Entries gone;
    const MutexLock lock(mutex_);
    if (Entry* const entry = find(signature, other)) {
      if (!refusal.empty()) entry->refused = true;
    } else {
      Entry& added = entries_.emplace_front();
      added.signature = signature;
      added.other = other;
      for (const Tensor& each : arguments) added.addresses.push_back(each.address());
      trim(gone);
    }
  }
  if (!refusal.empty()) warn_once(refusal);
  return results;
}

void GraphCache::clear() {
  if (capturing_ == std::this_thread::get_id())
    throw Error("clear() of a graphed function was called in a capture of that function");
  Entries gone;
  const MutexLock lock(mutex_);
  gone.swap(entries_);
  pool_.reset();
}

GraphCache::Entry* GraphCache::find(const CallSignature& signature,
                                    const std::shared_ptr<const void>& other) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (entry.signature != signature || (entry.other == nullptr) != (other == nullptr))
      return false;
    return other == nullptr || same_(entry.other.get(), other.get());
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front();
}

std::string GraphCache::replay(Entry& entry, const GraphedFunctionBody& body,
                               const std::vector<Tensor>& arguments,
                               std::optional<GraphedResults>& results, Entries& gone) {
  std::vector<bool> copied(arguments.size());
  if (entry.graph != nullptr) {
    copied = entry.graph->copied_for(arguments);
  } else {
    for (std::size_t i = 0; i < arguments.size(); ++i)
      copied[i] = arguments[i].address() != entry.addresses[i];
  }
  if (entry.graph == nullptr || copied != entry.graph->copied()) {
    std::string refusal = capture(entry, body, arguments, copied);
    if (!refusal.empty()) return refusal;
    trim(gone);
  }
  if (entry.graph->conflicts(arguments)) return {};
  const Stream stream = current_stream(entry.signature.device);
  auto last = last_.find(entry.signature.device);
  if (last != last_.end() && last->second.epoch != entry.signature.epoch) {
    last_.erase(last);
    last = last_.end();
  }
  if (last == last_.end())
    last =
        last_.emplace(entry.signature.device, Last{entry.signature.epoch, stream, Event()}).first;
  if (last->second.stream != stream) last->second.event.wait(stream);
  last->second.stream = stream;
  struct Note {
    Last& last;
    ~Note() {
      try {
        last.event.record(last.stream);
      } catch (const std::exception&) {
        // The device is broken, and whatever comes next says so.
      }
    }
  } const note{last->second};
  results = entry.graph->replay(arguments, options_.copy);
  return {};
}

std::string GraphCache::capture(Entry& entry, const GraphedFunctionBody& body,
                                const std::vector<Tensor>& arguments,
                                const std::vector<bool>& copied) {
  entry.graph.reset();
  if (!any_graph()) pool_.reset();
  if (!pool_) pool_ = graph_pool_handle();
  struct Capturing {
    std::atomic<std::thread::id>& thread;
    explicit Capturing(std::atomic<std::thread::id>& noted) : thread(noted) {
      thread = std::this_thread::get_id();
    }
    ~Capturing() { thread = std::thread::id(); }
  } const capturing(capturing_);
  const auto attempt = [&]() EMBER_REQUIRES(mutex_) {
    if (before_capture_) before_capture_();
    return CapturedCall::capture(body, entry.signature, arguments, copied, *pool_,
                                 capture_stream(entry.signature));
  };
  const int device = entry.signature.device;
  const auto ooms = [&] {  // not as the program asks: what is captured may depend on that
    memory::DeviceAllocator* const made = memory::allocator_if_made(device);
    return made != nullptr ? made->counters().num_ooms : 0;
  };
  const std::int64_t exhausted = ooms();
  CapturedCall::Made made = attempt();
  // Captures empty no caches, so what calls before it left there may have stood in its way.
  const bool for_memory = made.reason.find("out of memory") != std::string::npos;
  if (made.call == nullptr && for_memory && ooms() != exhausted && !any_capture()) {
    empty_cache();
    made = attempt();
  }
  entry.graph = std::move(made.call);
  return std::move(made.reason);
}

const Stream& GraphCache::capture_stream(const CallSignature& signature) {
  const auto found = origins_.find(signature.device);
  if (found != origins_.end() && found->second.epoch == signature.epoch)
    return found->second.stream;
  const Origin made{signature.epoch, Stream(signature.device)};
  return origins_.insert_or_assign(signature.device, made).first->second.stream;
}

bool GraphCache::any_graph() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.graph != nullptr; });
}

void GraphCache::trim(Entries& gone) {
  drop_last(true, options_.max_graphs, gone);
  drop_last(false, kMostSeen, gone);
}

void GraphCache::drop_last(bool graph, std::ptrdiff_t most, Entries& gone) {
  const auto is = [&](const Entry& entry) { return (entry.graph != nullptr) == graph; };
  while (std::count_if(entries_.begin(), entries_.end(), is) > most) {
    const auto last = std::find_if(entries_.rbegin(), entries_.rend(), is);
    gone.splice(gone.begin(), entries_, std::prev(last.base()));
  }
}

void GraphCache::warn_once(const std::string& reason) {
  if (!warned_.exchange(true))
    warn(Warning::user, "cuda.graphed: " + options_.name + " is called without a graph: " + reason);
}

}  // namespace ember::inline v0::cuda::detail
