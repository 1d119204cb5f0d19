#include "ember/memory/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/file.h"
#include "ember/base/file_name.h"
#include "ember/base/stack.h"
#include "ember/memory/allocators.h"
#include "ember/memory/snapshot_writer.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace {

MemorySnapshot::State state_of(memory::Block::State state) {
  switch (state) {
    case memory::Block::free: return MemorySnapshot::State::inactive;
    case memory::Block::parked: return MemorySnapshot::State::active_pending_free;
    // Also what a thread is just freeing, which waits for the lock.
    default: return MemorySnapshot::State::active_allocated;
  }
}

MemorySnapshot::Segment segment_of(int device, const memory::SegmentView& view) {
  MemorySnapshot::Segment segment;
  segment.device = device;
  segment.address = view.address;
  segment.total_size = view.size;
  segment.stream = reinterpret_cast<std::uintptr_t>(view.stream);
  segment.pool = view.pool;
  segment.small = view.small;
  segment.is_expandable = view.grows;
  segment.asleep = view.asleep;
  segment.stack = view.stack;
  segment.blocks.reserve(view.blocks.size());
  for (const memory::SegmentView::BlockView& block : view.blocks) {
    const MemorySnapshot::State state = state_of(block.state);
    segment.blocks.push_back(
        {block.address, block.size, block.requested, state, block.origin.tag, block.origin.stack});
    if (state == MemorySnapshot::State::inactive) continue;
    if (state == MemorySnapshot::State::active_allocated) segment.allocated_size += block.size;
    segment.active_size += block.size;
    segment.requested_size += block.requested;
  }
  return segment;
}

/// Failed: errno.
bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// `of_device(allocator, device)` is asked for the segments of each device that has an allocator.
template <class Segments>
MemorySnapshot look_at_all(const Segments& of_device) {
  MemorySnapshot snapshot;
  snapshot.settings = &memory::settings();
  driver::Driver* const driver = driver_if_made();
  if (driver == nullptr) return snapshot;
  const int devices = std::min(driver->device_count(), memory::kMaxDevices);
  snapshot.device_traces.resize(static_cast<std::size_t>(devices));
  for (int device = 0; device < devices; ++device) {
    memory::DeviceAllocator* const made = memory::allocator_if_made(device);
    if (made == nullptr) continue;
    auto& events = snapshot.device_traces[static_cast<std::size_t>(device)];
    for (const memory::SegmentView& view : of_device(*made, events))
      snapshot.segments.push_back(segment_of(device, view));
  }
  return snapshot;
}

}  // namespace

MemorySnapshot memory_snapshot() {
  tell_figure_asked("memory_snapshot");
  return look_at_all([](memory::DeviceAllocator& allocator, std::vector<MemoryEvent>& events) {
    return allocator.snapshot(events);
  });
}

MemorySnapshot memory_snapshot(const MemPoolId& pool) {
  tell_figure_asked("memory_snapshot");
  return detail::segments_of(pool);
}

MemorySnapshot detail::segments_of(const MemPoolId& pool) {
  return look_at_all([&](memory::DeviceAllocator& allocator, std::vector<MemoryEvent>& /*events*/) {
    return allocator.snapshot(pool);
  });
}

std::vector<StackFrame> memory_frames(std::uint32_t stack) { return stack_frames(stack); }

std::string snapshot_as_pickle(const MemorySnapshot& snapshot) {
  memory::PickleWriter writer;
  memory::describe(snapshot, writer);
  return std::move(writer).pickle();
}

std::string snapshot_as_json(const MemorySnapshot& snapshot) {
  memory::JsonWriter writer;
  memory::describe(snapshot, writer);
  return std::move(writer).json();
}

namespace {

/// Beside it and then in its place: whoever reads the file finds a whole one.
bool replace_file(const std::string& file, const std::string& bytes, mode_t mode) {
  static std::atomic<unsigned> count{0};  // threads may write the same one
  const std::string part =
      file + ".part-" + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1));
  File to(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!to) return false;
  if (write_all(to.get(), bytes) && ::close(to.release()) == 0 &&
      ::rename(part.c_str(), file.c_str()) == 0)
    return true;
  const int why = errno;
  (void)::unlink(part.c_str());
  errno = why;
  return false;
}

/// What is no ordinary file, such as a pipe or a device, takes the bytes and stays what it is.
bool write_file(const std::string& file, const std::string& bytes) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return replace_file(file, bytes, 0666);
  if (!S_ISREG(found.st_mode)) {
    File to(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    return to && write_all(to.get(), bytes) && ::close(to.release()) == 0;
  }
  // A link stays, too.
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(file.c_str(), nullptr), std::free);
  return real && replace_file(real.get(), bytes, found.st_mode & 0777);
}

}  // namespace

void dump_memory_snapshot(const std::string& file) {
  require_file_name(file, "filename");
  const MemorySnapshot snapshot = memory_snapshot();
  const std::string bytes =
      file.ends_with(".json") ? snapshot_as_json(snapshot) : snapshot_as_pickle(snapshot);
  if (!write_file(file, bytes))
    throw FileError("a snapshot of memory could not be written to '" + file + "'", file, errno);
}

std::vector<MemoryHolder> memory_holders(DeviceArg device, std::size_t most) {
  if (driver_if_made() == nullptr) return {};
  memory::DeviceAllocator* const made = memory::allocator_if_made(device.existing());
  if (made == nullptr) return {};
  struct Held {
    std::uint64_t bytes = 0, blocks = 0;
  };
  std::map<std::pair<std::uint16_t, std::uint32_t>, Held> by_place;
  for (const memory::SegmentView& view : made->snapshot())
    for (const memory::SegmentView::BlockView& block : view.blocks) {
      if (state_of(block.state) != MemorySnapshot::State::active_allocated) continue;
      Held& held = by_place[{block.origin.tag, block.origin.stack}];
      held.bytes += block.size;
      ++held.blocks;
    }
  std::vector<std::pair<std::pair<std::uint16_t, std::uint32_t>, Held>> places(by_place.begin(),
                                                                               by_place.end());
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  if (places.size() > most) places.resize(most);
  std::vector<MemoryHolder> holders;
  holders.reserve(places.size());
  for (const auto& [place, held] : places)
    holders.push_back(
        {memory_tag_name(place.first), memory_frames(place.second), held.bytes, held.blocks});
  return holders;
}

}  // namespace ember::inline v0::cuda
