// A device for allocators without a device: addresses, a limit, streams whose work is done when the
// test says so, and calls that fail when the test says so. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "ember/memory/caching.h"
#include "ember/memory/device_allocator.h"
#include "ember/memory/direct.h"
#include "ember/memory/pinned_allocator.h"
#include "ember/memory/segment_source.h"

namespace ember::test {

inline driver::StreamHandle stream_handle(std::uintptr_t number, int device = 0) {
  return {reinterpret_cast<void*>(number * 64), device, 0};
}

/// Base: memory::SegmentSource or memory::PinnedSource.
template <class Base>
class FakeSource : public Base {
 public:
  static constexpr std::uintptr_t kStart = std::uintptr_t{1} << 40;
  static constexpr std::size_t kAlign = std::size_t{2} << 20;

  explicit FakeSource(std::size_t capacity) : capacity_(capacity) {}

  /// All work that the stream has now is done.
  void complete(const driver::StreamHandle& stream) {
    const std::lock_guard lock(mutex_);
    done_[stream.native] = recorded_[stream.native];
  }
  /// Nothing can be recorded on the stream any more; its work goes on.
  void destroy(const driver::StreamHandle& stream) {
    const std::lock_guard lock(mutex_);
    destroyed_.insert(stream.native);
  }
  /// Every call about events of the device fails, until it is reset.
  void fault(int device, Code code) {
    const std::lock_guard lock(mutex_);
    faults_[device] = code;
  }
  /// The device's events are gone, and its memory; handles from before are refused.
  void reset(int device) {
    begin_reset(device);
    end_reset(device);
  }
  /// The same in two steps: in between, work of the old epoch is still in progress.
  void begin_reset(int device) {
    const std::lock_guard lock(mutex_);
    faults_.erase(device);
    ++epochs_[static_cast<std::size_t>(device)];
    std::erase_if(events_, [device](const auto& event) { return event.second->device == device; });
    if (device != memory_of_) return;
    segments_.clear();
    ranges_.clear();
    chunks_.clear();
    held_ = 0;
  }
  void end_reset(int device) {
    const auto at = static_cast<std::size_t>(device);
    oldest_[at] = device_epoch(device);
  }
  bool epoch_ended(int device, std::uint32_t epoch) noexcept override {
    return epoch < oldest_[static_cast<std::size_t>(device)];
  }
  std::uint32_t device_epoch(int device) noexcept override {
    return epochs_[static_cast<std::size_t>(device)];
  }
  /// On the calling thread nothing may wait: as in a host function.
  static bool& on_worker() {
    static thread_local bool worker = false;
    return worker;
  }
  bool may_wait() noexcept override { return !on_worker(); }
  /// How often somebody waited for all work of a device.
  int devices_synchronized() const { return devices_synchronized_; }

  /// From now on the k-th call (from 1) fails with `code`, and those after it if `and_on`; 0: none
  /// does.
  void fail_call(int k, Code code, bool and_on = false) {
    const std::lock_guard lock(mutex_);
    countdown_ = k;
    failure_ = code;
    and_on_ = and_on;
  }
  bool has_failed() const { return countdown_ == 0; }
  int calls() const { return calls_; }

  std::size_t segments() {
    const std::lock_guard lock(mutex_);
    return segments_.size();
  }
  std::size_t ranges() {
    const std::lock_guard lock(mutex_);
    return ranges_.size();
  }
  std::size_t chunks() {
    const std::lock_guard lock(mutex_);
    return chunks_.size();
  }
  /// Whether a whole chunk lies there.
  bool any_chunk_within(std::uintptr_t start, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto chunk = chunks_.lower_bound(start);
    return chunk != chunks_.end() && chunk->first + chunk->second <= start + bytes;
  }
  std::size_t bytes_held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::size_t events_alive() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

  static constexpr std::uint32_t kAnyEpoch = ~std::uint32_t{0};
  Status obtain(std::size_t bytes, void*& out, std::uint32_t epoch = kAnyEpoch) noexcept {
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    if (Status status = next_call(); !status.ok()) return status;
    if (bytes > capacity_ - held_) return Code::out_of_memory;
    std::uintptr_t address = kStart;  // the lowest gap: the same calls give the same addresses
    for (const auto& [start, size] : segments_) {
      if (start - address >= bytes) break;
      address = (start + size + kAlign - 1) / kAlign * kAlign;
    }
    segments_[address] = bytes;
    held_ += bytes;
    out = reinterpret_cast<void*>(address);
    return {};
  }
  Status give_back(void* pointer, std::uint32_t epoch = kAnyEpoch) noexcept {
    if (on_worker()) return Code::not_permitted;
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    const auto found = segments_.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found == segments_.end()) return Code::invalid_value;
    if (Status status = next_call(); !status.ok()) return status;
    held_ -= found->second;
    segments_.erase(found);
    return {};
  }
  /// Ranges begin far behind all segments.
  Status obtain_range(void*& base, std::size_t& bytes, std::uint32_t epoch) noexcept {
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    if (Status status = next_call(); !status.ok()) return status;
    if (ranges_.size() == most_ranges_) return Code::out_of_memory;
    bytes = (capacity_ + capacity_ / 8 + kAlign - 1) / kAlign * kAlign;
    std::uintptr_t address = kStart << 1U;
    for (const auto& [start, size] : ranges_) {
      if (start - address >= bytes) break;
      address = start + size;
    }
    ranges_[address] = bytes;
    base = reinterpret_cast<void*>(address);
    return {};
  }
  Status give_back_range(void* base, std::uint32_t epoch) noexcept {
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(base));
    if (found == ranges_.end()) return Code::invalid_value;
    const auto chunk = chunks_.lower_bound(found->first);
    if (chunk != chunks_.end() && chunk->first < found->first + found->second)
      return Code::invalid_value;
    if (Status status = next_call(); !status.ok()) return status;
    ranges_.erase(found);
    return {};
  }
  Status obtain_chunk(void* start, std::size_t bytes, std::uint32_t epoch) noexcept {
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    const auto at = reinterpret_cast<std::uintptr_t>(start);
    auto range = ranges_.upper_bound(at);
    if (range == ranges_.begin() || bytes == 0 || bytes % kAlign != 0) return Code::invalid_value;
    --range;
    const auto after = chunks_.lower_bound(at + bytes);
    if (at + bytes > range->first + range->second || (at - range->first) % kAlign != 0 ||
        (after != chunks_.begin() && std::prev(after)->first + std::prev(after)->second > at))
      return Code::invalid_value;
    if (Status status = next_call(); !status.ok()) return status;
    if (bytes > capacity_ - held_) return Code::out_of_memory;
    chunks_[at] = bytes;
    held_ += bytes;
    return {};
  }
  Status give_back_chunk(void* start, std::size_t bytes, std::uint32_t epoch) noexcept {
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    const auto found = chunks_.find(reinterpret_cast<std::uintptr_t>(start));
    if (found == chunks_.end() || found->second != bytes) return Code::invalid_value;
    if (Status status = next_call(); !status.ok()) return status;
    held_ -= bytes;
    chunks_.erase(found);
    return {};
  }
  Status obtain_host(std::size_t bytes, void*& out) noexcept {
    const std::lock_guard lock(mutex_);
    if (Status status = next_call(); !status.ok()) return status;
    if (bytes > host_capacity_ - host_held_) return Code::out_of_memory;
    next_host_ += kAlign + bytes;
    hosts_[next_host_] = bytes;
    host_held_ += bytes;
    out = reinterpret_cast<void*>(next_host_);
    return {};
  }
  void give_back_host(void* pointer) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found == hosts_.end()) std::abort();  // given back twice
    host_held_ -= found->second;
    hosts_.erase(found);
  }
  /// What has no memory is not copied.
  Status copy_all(std::uint32_t epoch, const std::vector<memory::SegmentSource::HostCopy>& copies,
                  bool to_host) noexcept {
    if (on_worker()) return Code::not_permitted;
    const std::lock_guard lock(mutex_);
    if (passed(epoch)) return Code::context_is_destroyed;
    if (Status status = next_call(); !status.ok()) return status;
    for (const auto& copy : copies) {
      const auto at = reinterpret_cast<std::uintptr_t>(copy.device);
      const auto chunk = chunks_.upper_bound(at);
      const auto host = hosts_.find(reinterpret_cast<std::uintptr_t>(copy.host));
      if (chunk == chunks_.begin() || host == hosts_.end() ||
          at + copy.bytes > std::prev(chunk)->first + std::prev(chunk)->second ||
          copy.offset + copy.bytes > host->second)
        return Status(Code::illegal_address, "copied what has no memory");
      (to_host ? saved_ : restored_) += copy.bytes;
    }
    return {};
  }
  /// Of the host, for pools that sleep.
  std::size_t host_held() {
    const std::lock_guard lock(mutex_);
    return host_held_;
  }
  void limit_host(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    host_capacity_ = bytes;
  }
  /// Bytes that were copied, in all.
  std::size_t saved() {
    const std::lock_guard lock(mutex_);
    return saved_;
  }
  std::size_t restored() {
    const std::lock_guard lock(mutex_);
    return restored_;
  }
  /// No more ranges than these.
  void limit_ranges(std::size_t most) {
    const std::lock_guard lock(mutex_);
    most_ranges_ = most;
  }
  Status synchronize(driver::StreamHandle stream) noexcept {
    if (on_worker()) return Code::not_permitted;
    {
      const std::lock_guard lock(mutex_);
      if (Status status = next_call(stream.device); !status.ok()) return status;
      if (stream.epoch != device_epoch(stream.device)) return Code::context_is_destroyed;
      if (destroyed_.contains(stream.native)) return Code::invalid_handle;
      ++streams_synchronized_[stream.native];
    }
    return {};
  }
  /// How often somebody waited for a stream itself.
  int synchronized(const driver::StreamHandle& stream) {
    const std::lock_guard lock(mutex_);
    return streams_synchronized_[stream.native];
  }
  Status event_create(int device, driver::EventHandle& out) noexcept override {
    const std::lock_guard lock(mutex_);
    if (Status status = next_call(device); !status.ok()) return status;
    auto event = std::make_unique<Event>(Event{nullptr, 0, device});
    out = {event.get(), device, epochs_[static_cast<std::size_t>(device)]};
    events_[event.get()] = std::move(event);
    return {};
  }
  Status event_destroy(driver::EventHandle event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (event.epoch != device_epoch(event.device)) return Code::context_is_destroyed;
    return events_.erase(event.native) == 1 ? Status() : Status(Code::invalid_handle);
  }
  Status event_record(driver::EventHandle handle, driver::StreamHandle stream) noexcept override {
    const std::lock_guard lock(mutex_);
    if (Status status = next_call(stream.device); !status.ok()) return status;
    if (handle.epoch != epochs_[static_cast<std::size_t>(handle.device)])
      return Code::context_is_destroyed;
    if (stream.epoch != epochs_[static_cast<std::size_t>(stream.device)])
      return Code::context_is_destroyed;
    if (destroyed_.contains(stream.native)) return Code::invalid_handle;
    *events_.at(handle.native) = {stream.native, ++recorded_[stream.native], handle.device};
    return {};
  }
  Status event_query(driver::EventHandle handle) noexcept override {
    const std::lock_guard lock(mutex_);
    if (Status status = next_call(handle.device); !status.ok()) return status;
    if (handle.epoch != epochs_[static_cast<std::size_t>(handle.device)])
      return Code::context_is_destroyed;
    const Event& event = *events_.at(handle.native);
    return done_[event.stream] >= event.number ? Code::ok : Code::not_ready;
  }
  Status event_synchronize(driver::EventHandle handle) noexcept override {
    if (on_worker()) return Code::not_permitted;
    Event event;
    {
      const std::lock_guard lock(mutex_);
      if (Status status = next_call(handle.device); !status.ok()) return status;
      if (handle.epoch != epochs_[static_cast<std::size_t>(handle.device)])
        return Code::context_is_destroyed;
      event = *events_.at(handle.native);
      if (done_[event.stream] >= event.number) return {};
    }
    wait_for(event.stream, event.number);
    return {};
  }
  Status device_synchronize(int device) noexcept override {
    if (on_worker()) return Code::not_permitted;
    const std::lock_guard lock(mutex_);
    if (Status status = next_call(device); !status.ok()) return status;
    ++devices_synchronized_;
    return {};
  }

 protected:
  struct Event {
    void* stream = nullptr;
    std::uint64_t number = 0;
    int device = 0;
  };
  /// A wait makes the stream's work happen.
  virtual void wait_for(void* stream, std::uint64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    done_[stream] = std::max(done_[stream], number);
  }

  std::size_t capacity_;
  int memory_of_ = -1;  // the device; none: the host

 private:
  bool passed(std::uint32_t epoch) noexcept {
    return epoch != kAnyEpoch && epoch != device_epoch(memory_of_);
  }
  Status next_call() noexcept {
    ++calls_;
    if (countdown_ > 0 ? --countdown_ == 0 : and_on_) return Status(failure_, "injected");
    return {};
  }

  Status next_call(int device) noexcept {
    if (Status status = next_call(); !status.ok()) return status;
    const auto found = faults_.find(device);
    return found != faults_.end() ? Status(found->second, "fault") : Status();
  }

  std::mutex mutex_;
  std::map<int, Code> faults_;
  std::array<std::atomic<std::uint32_t>, 8> epochs_{};
  std::array<std::atomic<std::uint32_t>, 8> oldest_{};  // not ended yet
  std::set<void*> destroyed_;
  std::atomic<int> devices_synchronized_{0};
  std::atomic<int> countdown_{-1}, calls_{0};
  Code failure_ = Code::unknown;
  bool and_on_ = false;
  std::size_t held_ = 0;
  std::map<std::uintptr_t, std::size_t> segments_, ranges_, chunks_;
  std::size_t most_ranges_ = 1000;
  std::map<std::uintptr_t, std::size_t> hosts_;
  std::uintptr_t next_host_ = kStart << 2U;
  std::size_t host_held_ = 0, host_capacity_ = std::size_t{1} << 40, saved_ = 0, restored_ = 0;
  std::map<void*, int> streams_synchronized_;
  std::map<void*, std::unique_ptr<Event>> events_;
  std::map<void*, std::uint64_t> recorded_, done_;
};

class FakeDevice : public FakeSource<memory::SegmentSource> {
 public:
  explicit FakeDevice(std::size_t capacity, int device = 0) : FakeSource(capacity) {
    memory_of_ = device;
  }
  std::uint32_t epoch() noexcept override { return device_epoch(memory_of_); }
  Status allocate(std::uint32_t epoch, std::size_t bytes, void*& out) noexcept override {
    return obtain(bytes, out, epoch);
  }
  Status free(std::uint32_t epoch, void* pointer) noexcept override {
    return give_back(pointer, epoch);
  }
  Status reserve(std::uint32_t epoch, void*& base, std::size_t& bytes) noexcept override {
    return obtain_range(base, bytes, epoch);
  }
  Status release(std::uint32_t epoch, void* base) noexcept override {
    return give_back_range(base, epoch);
  }
  Status map(std::uint32_t epoch, void* start, std::size_t bytes) noexcept override {
    return obtain_chunk(start, bytes, epoch);
  }
  Status unmap(std::uint32_t epoch, void* start, std::size_t bytes) noexcept override {
    return give_back_chunk(start, bytes, epoch);
  }
  Status stream_synchronize(driver::StreamHandle stream) noexcept override {
    return synchronize(stream);
  }
  Status host_allocate(std::size_t bytes, void*& out) noexcept override {
    return obtain_host(bytes, out);
  }
  void host_free(void* pointer) noexcept override { give_back_host(pointer); }
  Status copy(std::uint32_t epoch, const std::vector<HostCopy>& copies,
              bool to_host) noexcept override {
    return copy_all(epoch, copies, to_host);
  }
  Status memory_info(driver::MemoryInfo& out) noexcept override {
    out.total = capacity_;
    out.free = capacity_ - bytes_held();
    return {};
  }
  Status processes(std::vector<driver::GpuProcess>& out) noexcept override {
    out = processes_;
    return {};
  }
  void set_processes(std::vector<driver::GpuProcess> processes) { processes_ = processes; }

 private:
  std::vector<driver::GpuProcess> processes_;
};

class FakePinned : public FakeSource<memory::PinnedSource> {
 public:
  using FakeSource::FakeSource;
  std::uint32_t epoch() noexcept override { return device_epoch(0) + device_epoch(1); }
  Status allocate(std::size_t bytes, void*& out) noexcept override { return obtain(bytes, out); }
  Status free(void* pointer) noexcept override { return give_back(pointer); }
};

/// Allocators with a pool of events of their own.
struct OwnEvents {
  memory::EventPool events;
};
template <class BackEnd>
class AllocatorOf : private OwnEvents, public memory::DeviceAllocator {
 public:
  AllocatorOf(int device, memory::SegmentSource& source)
      : OwnEvents{memory::EventPool(source)},
        DeviceAllocator(device, source, events, std::make_unique<BackEnd>()) {}
};
using CachingAllocator = AllocatorOf<memory::CachingBackEnd>;
using DirectAllocator = AllocatorOf<memory::DirectBackEnd>;

/// expandable_segments:True
inline const memory::Settings& growing_settings() {
  static const memory::Settings* const settings = [] {
    auto* const made = new memory::Settings;
    made->expandable_segments = true;
    return made;
  }();
  return *settings;
}

/// As after cuda::change_current_allocator: nothing is kept, and all is counted. Its memory comes
/// from the same device.
struct OwnMemory {
  memory::DeviceMemory memory;
};
class UsersAllocator : private OwnEvents, private OwnMemory, public memory::DeviceAllocator {
 public:
  UsersAllocator(int device, memory::SegmentSource& source)
      : OwnEvents{memory::EventPool(source)},
        OwnMemory{memory::DeviceMemory(source)},
        DeviceAllocator(device, source, events, std::make_unique<memory::DirectBackEnd>(true),
                        &memory) {}
};

class PinnedAllocator : private OwnEvents, public memory::PinnedAllocator {
 public:
  explicit PinnedAllocator(memory::PinnedSource& source)
      : OwnEvents{memory::EventPool(source)}, memory::PinnedAllocator(source, events) {}
};

}  // namespace ember::test
