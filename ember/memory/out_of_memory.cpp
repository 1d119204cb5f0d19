#include "ember/memory/out_of_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/memory/memory.h"

namespace ember::inline v0::memory {
namespace {

using cuda::OutOfMemoryReport;
using cuda::OutOfMemoryVerdict;

/// An observer, and the one that was added before it. Never freed, and no lock guards them: a child
/// that was forked beside an addition has those that were there.
struct Attached {
  cuda::OutOfMemoryObserver observer;
  const Attached* previous;
};
constinit std::atomic<const Attached*> last_attached{nullptr};

/// Callbacks can be removed, so these have a lock.
struct Callbacks {
  Mutex mutex;
  std::uint64_t last_number EMBER_GUARDED_BY(mutex) = 0;
  std::vector<std::pair<std::uint64_t, Callback>> all EMBER_GUARDED_BY(mutex);
};
Callbacks& callbacks() {
  static NoDestructor<Callbacks> made;
  return *made;
}
constinit thread_local bool asking = false;

constinit std::atomic<LeasedBlocks> leased_by{nullptr};
constinit std::atomic<AwaitLeases> awaited_by{nullptr};

std::string id_text(const cuda::MemPoolId& id) {
  return "(" + std::to_string(id.first) + ", " + std::to_string(id.second) + ")";
}

std::string documented_text(const OutOfMemory& what) {
  const OutOfMemoryReport& report = what.report;
  std::string text = "CUDA out of memory. Tried to allocate " + format_bytes(report.segment) +
                     ". GPU " + std::to_string(report.device) + " has a total capacity of " +
                     format_bytes(report.total) + " of which " + format_bytes(report.free) +
                     " is free. ";
  for (const driver::GpuProcess& process : what.processes) {
    if (process.bytes == driver::GpuProcess::kUnknown) continue;
    text += (process.pid == what.self ? std::string("Including non-ember memory, this process")
                                      : "Process " + std::to_string(process.pid)) +
            " has " + format_bytes(process.bytes) + " memory in use. ";
  }
  if (report.limit) text += format_bytes(*report.limit) + " allowed; ";
  text += "Of the allocated memory " + format_bytes(report.allocated) + " is allocated by ember, ";
  if (report.private_pools > 0)
    text += "with " + format_bytes(report.private_pools) +
            " allocated in private pools (e.g., CUDA Graphs), ";
  return text + "and " +
         format_bytes(report.reserved - std::min(report.allocated, report.reserved)) +
         " is reserved by ember but unallocated.";
}

/// Of cudaMallocAsync.
std::string ordered_text(const OutOfMemoryReport& report) {
  std::string text = "Allocation on device " + std::to_string(report.device) +
                     " would exceed allowed memory. (out of memory)";
  text += "\nCurrently allocated     : " + format_bytes(report.allocated);
  text += "\nRequested               : " + format_bytes(report.requested);
  text += "\nDevice limit            : " + format_bytes(report.total);
  text += "\nFree (according to CUDA): " + format_bytes(report.free);
  if (report.limit)
    text += "\nember limit (set by user-supplied memory fraction)\n                        : " +
            format_bytes(*report.limit);
  return text;
}

std::string stream_text(const void* stream) {
  if (stream == nullptr) return "the default stream";
  char text[40];
  std::snprintf(text, sizeof text, "stream %p", stream);
  return text;
}

std::size_t leased_bytes(const OutOfMemoryReport& report) {
  std::size_t bytes = 0;
  for (const auto& lease : report.leased) bytes += lease.bytes;
  return bytes;
}

/// Of private pools that have no graphs, or of all.
std::size_t releasable_bytes(const OutOfMemoryReport& report, bool with_graphs) {
  std::size_t bytes = 0;
  for (const auto& pool : report.pools)
    if (with_graphs || !pool.has_graphs) bytes += pool.releasable;
  return bytes;
}

bool needs_graphs(const OutOfMemoryReport& report) {
  const std::size_t needed = std::max<std::size_t>(report.missing, 1);
  return releasable_bytes(report, false) < needed;
}

std::string verdict_text(const OutOfMemory& what) {
  const OutOfMemoryReport& report = what.report;
  const std::string bytes = format_bytes(report.verdict_bytes);
  // A limit is looked at first, so that nobody else has been asked then.
  if (!what.refusal.empty() && report.verdict != OutOfMemoryVerdict::over_limit)
    return what.refusal;
  switch (report.verdict) {
    case OutOfMemoryVerdict::larger_than_device:
      return "The device is too small: it would not have " + bytes + " if nothing else were on it.";
    case OutOfMemoryVerdict::over_limit:
      return "The limit is too low by " + bytes + ": set_per_process_memory_fraction raises it." +
             (report.segment <= report.free
                  ? " The device has the memory."
                  : " Besides, " + format_bytes(report.segment - report.free) +
                        " more have to be free of the device.");
    case OutOfMemoryVerdict::private_pool:
      return bytes + " that nobody uses are held by private pools, most by the pool " +
             id_text(report.verdict_pool) +
             (needs_graphs(report)
                  ? ": empty_cache() is enough once the graphs that were captured with these "
                    "pools are reset."
                  : ": empty_cache() of these pools is enough.");
    case OutOfMemoryVerdict::pending:
      return bytes +
             (report.could_not_wait
                  ? " come free when work is waited for, which this thread must not do: the same "
                    "request succeeds outside of the host function."
                  : " were freed, and work still uses them that could not be waited for: the same "
                    "request succeeds once it is over, or its device was reset.");
    case OutOfMemoryVerdict::fragmented:
      return "It would fit after defragmentation: " + bytes +
             " are free in segments that blocks in use share. Freeing those blocks is enough.";
    case OutOfMemoryVerdict::leased: {
      std::string processes;
      for (const auto& lease : report.leased)
        processes += (processes.empty() ? "" : ", ") + std::to_string(lease.process);
      return bytes + " are in use only by processes that they were sent to (" + processes +
             "): it is enough that these let them go.";
    }
    case OutOfMemoryVerdict::elsewhere:
      return bytes + " more have to be free of what others hold of the device, which is " +
             format_bytes(report.elsewhere) +
             (!report.context
                  ? ", CUDA's context of this process among it (the driver does not say "
                    "whose it is)."
              : *report.context > 0
                  ? ", and of what this process holds beside ember's memory (CUDA's context, other "
                    "libraries), which is " +
                        format_bytes(*report.context) + "."
                  : ".");
    case OutOfMemoryVerdict::in_use: break;
  }
  if (report.verdict_bytes == 0)
    return "The device has so much free, but not for one allocation: memory in use has to be "
           "freed.";
  return bytes + " of the memory in use have to be freed.";
}

/// The first of what would help that is enough by itself.
void decide(OutOfMemory& what) {
  OutOfMemoryReport& report = what.report;
  const std::size_t needed = std::max<std::size_t>(report.missing, 1);
  const auto verdict = [&](OutOfMemoryVerdict found, std::size_t bytes) {
    report.verdict = found;
    report.verdict_bytes = bytes;
  };
  if (report.total > 0 && report.segment > report.total)
    return verdict(OutOfMemoryVerdict::larger_than_device, report.segment);
  if (report.limit && report.segment > *report.limit)
    return verdict(OutOfMemoryVerdict::over_limit,
                   // No limit is higher than the device: what is more has to be freed.
                   (report.total > 0 ? std::min(report.reserved + report.segment, report.total)
                                     : report.reserved + report.segment) -
                       *report.limit);
  const auto by_pools = [&](bool with_graphs) {
    const std::size_t bytes = releasable_bytes(report, with_graphs);
    if (bytes < needed) return false;
    const auto used = [&](const auto& pool) {
      return with_graphs || !pool.has_graphs ? pool.releasable : 0;
    };
    const auto most =
        std::max_element(report.pools.begin(), report.pools.end(),
                         [&](const auto& a, const auto& b) { return used(a) < used(b); });
    report.verdict_pool = most->id;
    verdict(OutOfMemoryVerdict::private_pool, bytes);
    return true;
  };
  if (by_pools(false)) return;
  if (const std::size_t bytes =
          what.pending_releasable + (report.could_not_wait ? report.cached : 0);
      bytes >= needed || what.pending_fits)
    return verdict(OutOfMemoryVerdict::pending,
                   report.pending + (report.could_not_wait ? report.cached : 0));
  if (report.fragmented >= needed)
    return verdict(OutOfMemoryVerdict::fragmented, report.fragmented);
  if (what.leased_releasable >= needed || what.leased_fits)
    return verdict(OutOfMemoryVerdict::leased, leased_bytes(report));
  if (by_pools(true)) return;
  if (report.segment <= report.free && report.missing > 0)
    return verdict(OutOfMemoryVerdict::over_limit, report.missing);
  const bool limited = report.limit && report.reserved + report.segment > *report.limit;
  // Nothing is missing any more where other threads gave back meanwhile what was in use.
  if (!limited && report.missing > 0 && report.elsewhere + report.context.value_or(0) >= needed)
    return verdict(OutOfMemoryVerdict::elsewhere, report.missing);
  return verdict(OutOfMemoryVerdict::in_use, report.missing);
}

}  // namespace

void judge(OutOfMemory& what) {
  OutOfMemoryReport& report = what.report;
  for (const driver::GpuProcess& process : what.processes)
    if (process.pid == what.self && process.bytes != driver::GpuProcess::kUnknown &&
        process.bytes >= report.reserved)
      report.context = static_cast<std::size_t>(process.bytes) - report.reserved;
  const auto beyond = [](std::size_t wanted, std::size_t there) {
    return wanted > there ? wanted - there : 0;
  };
  report.elsewhere =
      beyond(report.total, report.free + report.reserved + report.context.value_or(0));
  report.missing = beyond(report.segment, report.free);
  if (report.limit)
    report.missing =
        std::max(report.missing, beyond(report.reserved + report.segment, *report.limit));
  decide(what);
}

void tell_out_of_memory(const OutOfMemory& what) {
  std::vector<const Attached*> all;
  for (const Attached* one = last_attached; one != nullptr; one = one->previous) all.push_back(one);
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    (*one)->observer(what.report.device, what.report.requested, what.report.total,
                     what.report.free);
}

std::string out_of_memory_text(const OutOfMemory& what) {
  const OutOfMemoryReport& report = what.report;
  if (what.ordered) return ordered_text(report) + "\n" + verdict_text(what);
  std::string text = documented_text(what);
  // What could be given back has been: the rest are gaps. Of segments that grow they are smaller.
  if (report.fragmented >= std::max<std::size_t>(report.missing, 1) && !report.could_not_wait &&
      report.verdict != OutOfMemoryVerdict::larger_than_device)
    text +=
        " If reserved but unallocated memory is large, it lies in segments beside memory in use, "
        "which keeps them from being given back to the device: free that, or allocate what is "
        "large, or lives long, first" +
        std::string(what.grows ? "."
                               : ", or try setting EMBER_ALLOC_CONF=expandable_segments:True to "
                                 "avoid fragmentation.") +
        " With PYTORCH_NO_CUDA_MEMORY_CACHING=1 nothing is reserved, and every allocation takes "
        "longer.";
  text += " The request was for " + format_bytes(report.requested) +
          "; the largest cached block it could have used has " +
          format_bytes(report.largest_free_block) + ".";
  for (const auto& [stream, bytes] : what.cached)
    text += " Cached in partly used segments for work on " + stream_text(stream) + ": " +
            format_bytes(bytes) + ".";
  if (what.pending_blocks > 0)
    text += " Freed but still used by other streams: " + format_bytes(report.pending) + " in " +
            std::to_string(what.pending_blocks) + " blocks.";
  if (report.limit)
    text += " set_per_process_memory_fraction limits this process to " +
            format_bytes(*report.limit) + " on this device; it holds " +
            format_bytes(report.reserved) + ".";
  if (report.could_not_wait)
    text +=
        " Cached memory was not given back to the device, because that waits for the device's "
        "work, which waits for the host function that allocates here.";
  return text + " " + verdict_text(what);
}

void fail_too_large(int device, std::size_t bytes) {
  std::string text = "CUDA out of memory. Tried to allocate more than 1EB memory.";
  text += " The size was " + std::to_string(bytes);
  if (const auto value = static_cast<std::int64_t>(bytes); value < 0)
    text += ", or " + std::to_string(value) + " if that was meant, a negative number";
  OutOfMemoryReport report;
  report.device = device;
  report.requested = report.segment = report.verdict_bytes = bytes;
  report.verdict = OutOfMemoryVerdict::larger_than_device;
  throw OutOfMemoryError(text + "; sizes are from 0 to 2^60 - 1 bytes.",
                         std::make_shared<const OutOfMemoryReport>(report));
}

// ---- Callbacks

std::vector<Callback> callbacks_to_ask() {
  std::vector<Callback> chosen;
  if (asking) return chosen;
  Callbacks& all = callbacks();
  const MutexLock lock(all.mutex);
  for (const auto& [number, callback] : all.all) chosen.push_back(callback);
  return chosen;
}

bool ask(const Callback& callback, const OutOfMemory& what) {
  struct Asking {
    Asking() { asking = true; }
    ~Asking() { asking = false; }
  };
  const Asking now;
  return (*callback)(what.report);
}

// ---- What other processes have

void set_leases(LeasedBlocks blocks, AwaitLeases await) noexcept {
  awaited_by = await;
  leased_by = blocks;
}

bool await_leases(std::uint64_t& seen, int milliseconds) {
  const AwaitLeases await = awaited_by;
  return await != nullptr && await(seen, milliseconds);
}

std::vector<LeasedBlock> leased_blocks(int device) {
  const LeasedBlocks function = leased_by;
  std::vector<LeasedBlock> blocks;
  if (function != nullptr) blocks = function(device);
  std::sort(blocks.begin(), blocks.end(),
            [](const LeasedBlock& a, const LeasedBlock& b) { return a.address < b.address; });
  return blocks;
}

}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {

void attach_out_of_memory_observer(OutOfMemoryObserver observer) {
  using memory::Attached;
  using memory::last_attached;
  if (!observer)
    throw ValueError("attach_out_of_memory_observer: observer: expected a function, got none");
  auto made = std::make_unique<Attached>(Attached{std::move(observer), last_attached.load()});
  while (!last_attached.compare_exchange_weak(made->previous, made.get())) {
  }
  (void)made.release();
}

std::uint64_t add_out_of_memory_callback(OutOfMemoryCallback callback) {
  if (!callback)
    throw ValueError("add_out_of_memory_callback: callback: expected a function, got none");
  auto made = std::make_shared<const OutOfMemoryCallback>(std::move(callback));
  memory::Callbacks& all = memory::callbacks();
  const MutexLock lock(all.mutex);
  all.all.emplace_back(++all.last_number, std::move(made));
  return all.last_number;
}

bool remove_out_of_memory_callback(std::uint64_t number) {
  memory::Callbacks& all = memory::callbacks();
  memory::Callback removed;  // let go without the lock: its end may be anybody's code
  const MutexLock lock(all.mutex);
  const auto found = std::find_if(all.all.begin(), all.all.end(),
                                  [&](const auto& one) { return one.first == number; });
  if (found == all.all.end()) return false;
  removed = std::move(found->second);
  all.all.erase(found);
  return true;
}

const char* to_string(OutOfMemoryVerdict verdict) noexcept {
  switch (verdict) {
    case OutOfMemoryVerdict::larger_than_device: return "larger_than_device";
    case OutOfMemoryVerdict::over_limit: return "over_limit";
    case OutOfMemoryVerdict::private_pool: return "private_pool";
    case OutOfMemoryVerdict::pending: return "pending";
    case OutOfMemoryVerdict::fragmented: return "fragmented";
    case OutOfMemoryVerdict::leased: return "leased";
    case OutOfMemoryVerdict::elsewhere: return "elsewhere";
    case OutOfMemoryVerdict::in_use: break;
  }
  return "in_use";
}

}  // namespace ember::inline v0::cuda
