#include "ember/linalg/workspace.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/linalg/linalg.h"
#include "ember/memory/memory.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::linalg {
namespace {

struct Entry {
  int device;
  std::uint32_t epoch;
  const void* stream;
  std::uint64_t capture;  // in which it was made; 0: in none
  cuda::DeviceBuffer buffer;
};

struct Workspaces {
  Mutex mutex;
  std::vector<Entry> entries EMBER_GUARDED_BY(mutex);
};

Workspaces& workspaces() {
  // Work may be enqueued until the process ends.
  static NoDestructor<Workspaces> made;
  return *made;
}

std::size_t wanted_bytes(int device) {
  static const std::size_t configured = [] {
    const auto text = env::get("CUBLAS_WORKSPACE_CONFIG");
    return text ? parse_workspace_config(text->c_str()) : std::size_t{0};
  }();
  if (configured != 0) return configured;
  const auto [major, minor] = cuda::get_device_capability(device);
  return major == 9 ? std::size_t{32} << 20 : (std::size_t{8} << 20) + (std::size_t{128} << 10);
}

}  // namespace

std::size_t parse_workspace_config(const char* text) noexcept {
  // More would be a mistake, and is beyond what any device has.
  constexpr std::size_t kMost = std::size_t{1} << 40;
  const auto number = [&](std::size_t& out) {
    if (*text != ':' || std::isdigit(static_cast<unsigned char>(text[1])) == 0) return false;
    out = 0;
    for (++text; std::isdigit(static_cast<unsigned char>(*text)) != 0; ++text) {
      if (out > kMost) return false;
      out = out * 10 + static_cast<std::size_t>(*text - '0');
    }
    return true;
  };
  std::size_t total = 0;
  while (*text != '\0') {
    std::size_t kib = 0;
    std::size_t count = 0;
    if (!number(kib) || !number(count)) return 0;
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(kib * 1024, count, &bytes) || bytes > kMost) return 0;
    total += bytes;
    if (total > kMost) return 0;
  }
  return total;
}

Workspace workspace(Device device) {
  const int index = device.index();
  void* const stream = cuda::current_native_stream(index);
  const std::uint64_t capture = cuda::capture_of({stream, index, cuda::device_epoch(index)});
  std::vector<Entry> gone;  // freed after the lock is: an observer may be told, and may compute
  Workspaces& all = workspaces();
  const auto find = [&]() EMBER_REQUIRES(all.mutex) -> const Entry* {
    // The epoch is read under the lock, so that what is found to have passed has passed for all.
    const std::uint32_t epoch = cuda::device_epoch(index);
    const auto passed = std::partition(
        all.entries.begin(), all.entries.end(),
        [&](const Entry& entry) { return entry.device != index || entry.epoch == epoch; });
    std::move(passed, all.entries.end(), std::back_inserter(gone));
    all.entries.erase(passed, all.entries.end());
    for (const Entry& entry : all.entries)
      if (entry.device == index && entry.stream == stream && entry.capture == capture)
        return &entry;
    return nullptr;
  };
  const auto of = [](const Entry& entry) -> Workspace {
    return {entry.buffer.data(), entry.buffer.size()};
  };
  {
    const MutexLock lock(all.mutex);
    if (const Entry* entry = find()) return of(*entry);
  }
  Entry made{index, cuda::device_epoch(index), stream, capture, {}};
  try {
    // By its handle: an owner would keep the stream from being handed out again.
    made.buffer = cuda::allocate(wanted_bytes(index), cuda::ExternalStream(stream, index));
  } catch (const OutOfMemoryError&) {
    return {};
  }
  const MutexLock lock(all.mutex);
  // Another thread may have been faster, or a reset.
  if (const Entry* entry = find()) {
    gone.push_back(std::move(made));
    return of(*entry);
  }
  return of(all.entries.emplace_back(std::move(made)));
}

void drop_workspaces(std::uint64_t capture) {
  std::vector<Entry> gone;  // as above
  Workspaces& all = workspaces();
  const MutexLock lock(all.mutex);
  const auto others = std::partition(all.entries.begin(), all.entries.end(),
                                     [&](const Entry& entry) { return entry.capture != capture; });
  std::move(others, all.entries.end(), std::back_inserter(gone));
  all.entries.erase(others, all.entries.end());
}

}  // namespace ember::inline v0::linalg

namespace ember::inline v0::cuda {

void clear_blas_workspaces() {
  std::vector<linalg::Entry> taken;
  const MutexLock lock(linalg::workspaces().mutex);
  taken.swap(linalg::workspaces().entries);
}

}  // namespace ember::inline v0::cuda
