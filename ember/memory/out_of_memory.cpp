#include "ember/memory/out_of_memory.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/memory.h"

namespace ember::inline v0::memory {
namespace {

/// An observer, and the one that was added before it. Never freed, and no lock guards them: a child
/// that was forked beside an addition has those that were there.
struct Attached {
  cuda::OutOfMemoryObserver observer;
  const Attached* previous;
};
constinit std::atomic<const Attached*> last_attached{nullptr};

std::string format(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string documented_text(const OutOfMemory& what) {
  std::string text = "CUDA out of memory. Tried to allocate " + format_bytes(what.segment) +
                     ". GPU " + std::to_string(what.device) + " has a total capacity of " +
                     format_bytes(what.info.total) + " of which " + format_bytes(what.info.free) +
                     " is free. ";
  for (const driver::GpuProcess& process : what.processes) {
    if (process.bytes == driver::GpuProcess::kUnknown) continue;
    text += (process.pid == what.self ? std::string("Including non-PyTorch memory, this process")
                                      : "Process " + std::to_string(process.pid)) +
            " has " + format_bytes(process.bytes) + " memory in use. ";
  }
  if (what.limit) text += format_bytes(*what.limit) + " allowed; ";
  return text + "Of the allocated memory " + format(what.allocated) +
         " is allocated by PyTorch, and " + format(what.reserved - what.allocated) +
         " is reserved by PyTorch but unallocated.";
}

std::string stream_text(const void* stream) {
  if (stream == nullptr) return "the default stream";
  char text[40];
  std::snprintf(text, sizeof text, "stream %p", stream);
  return text;
}

}  // namespace

void tell_out_of_memory(const OutOfMemory& what) {
  std::vector<const Attached*> all;
  for (const Attached* one = last_attached; one != nullptr; one = one->previous) all.push_back(one);
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    (*one)->observer(what.device, what.requested, what.info.total, what.info.free);
}

std::string out_of_memory_text(const OutOfMemory& what) {
  std::string text = documented_text(what);
  // The documents advise a setting of PYTORCH_CUDA_ALLOC_CONF here that has no effect. What could
  // be given back has been: the rest are gaps.
  if (what.reserved > what.allocated && !what.could_not_wait)
    text +=
        " If reserved but unallocated memory is large, it lies in segments beside memory in use, "
        "which keeps them from being given back to the device: free that, or allocate what is "
        "large, or lives long, first. With PYTORCH_NO_CUDA_MEMORY_CACHING=1 nothing is reserved, "
        "and every allocation takes longer.";
  text += " The request was for " + format_bytes(what.requested) +
          "; the largest cached block it could have used has " + format_bytes(what.largest_cached) +
          ".";
  for (const auto& [stream, bytes] : what.cached)
    text += " Cached in partly used segments for work on " + stream_text(stream) + ": " +
            format_bytes(bytes) + ".";
  if (what.waiting_blocks > 0)
    text += " Freed but still used by other streams: " + format(what.waiting_bytes) + " in " +
            std::to_string(what.waiting_blocks) + " blocks.";
  if (what.limit)
    text += " set_per_process_memory_fraction limits this process to " + format_bytes(*what.limit) +
            " on this device; it holds " + format(what.reserved) + ".";
  if (what.could_not_wait)
    text +=
        " Cached memory was not given back to the device, because that waits for the device's "
        "work, which waits for the host function that allocates here.";
  return text;
}

std::string too_large_text(std::size_t bytes) {
  std::string text = "CUDA out of memory. Tried to allocate more than 1EB memory.";
  text += " The size was " + std::to_string(bytes);
  if (const auto value = static_cast<std::int64_t>(bytes); value < 0)
    text += ", or " + std::to_string(value) + " if that was meant, a negative number";
  return text + "; sizes are from 0 to 2^60 - 1 bytes.";
}

}  // namespace ember::inline v0::memory

void ember::cuda::attach_out_of_memory_observer(OutOfMemoryObserver observer) {
  using memory::Attached;
  using memory::last_attached;
  if (!observer)
    throw ValueError("attach_out_of_memory_observer: observer: expected a function, got none");
  auto made = std::make_unique<Attached>(Attached{std::move(observer), last_attached.load()});
  while (!last_attached.compare_exchange_weak(made->previous, made.get())) {
  }
  (void)made.release();
}
