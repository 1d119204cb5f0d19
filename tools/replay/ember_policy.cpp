#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "ember/base/error.h"
#include "ember/memory/caching.h"
#include "ember/memory/device_allocator.h"
#include "ember/memory/segment_source.h"
#include "tools/replay/policies.h"

namespace ember::replay {
namespace {

using Action = Entry::Action;

/// Addresses that nobody touches, and streams whose work is done when the trace says so. For one
/// thread.
class Device final : public memory::SegmentSource {
 public:
  std::size_t calls = 0;

  /// All work that the stream has now is done.
  void complete(void* stream) { done_[stream] = recorded_[stream]; }

  Status allocate(std::uint32_t /*epoch*/, std::size_t bytes, void*& out) noexcept override {
    ++calls;
    out = reinterpret_cast<void*>(next_);
    next_ += memory::round_up(bytes, std::size_t{2} << 20);
    return {};
  }
  Status free(std::uint32_t /*epoch*/, void* /*pointer*/) noexcept override {
    ++calls;
    return {};
  }
  Status memory_info(driver::MemoryInfo& /*out*/) noexcept override { return {}; }
  Status reserve(std::uint32_t /*epoch*/, void*& base, std::size_t& bytes) noexcept override {
    bytes = std::size_t{1} << 40;
    base = reinterpret_cast<void*>(next_);
    next_ += bytes;
    return {};
  }
  Status release(std::uint32_t /*epoch*/, void* /*base*/) noexcept override { return {}; }
  Status map(std::uint32_t /*epoch*/, void* /*start*/, std::size_t /*bytes*/) noexcept override {
    ++calls;
    return {};
  }
  Status unmap(std::uint32_t /*epoch*/, void* /*start*/, std::size_t /*bytes*/) noexcept override {
    ++calls;
    return {};
  }
  Status stream_synchronize(driver::StreamHandle stream) noexcept override {
    complete(stream.native);
    return {};
  }
  Status event_create(int device, driver::EventHandle& out) noexcept override {
    events_.push_back(std::make_unique<Event>());
    out = {events_.back().get(), device, 0};
    return {};
  }
  Status event_destroy(driver::EventHandle /*event*/) noexcept override { return {}; }
  Status event_record(driver::EventHandle event, driver::StreamHandle stream) noexcept override {
    *static_cast<Event*>(event.native) = {stream.native, ++recorded_[stream.native]};
    return {};
  }
  Status event_query(driver::EventHandle handle) noexcept override {
    const auto& event = *static_cast<const Event*>(handle.native);
    return done_[event.stream] >= event.number ? Code::ok : Code::not_ready;
  }
  Status event_synchronize(driver::EventHandle handle) noexcept override {
    const auto& event = *static_cast<const Event*>(handle.native);
    done_[event.stream] = std::max(done_[event.stream], event.number);
    return {};
  }

 private:
  struct Event {
    void* stream = nullptr;
    std::uint64_t number = 0;
  };
  std::uintptr_t next_ = std::uintptr_t{1} << 44;
  std::vector<std::unique_ptr<Event>> events_;
  std::unordered_map<void*, std::uint64_t> recorded_, done_;
};

class Replay {
 public:
  Replay(const Trace& trace, bool grows) : trace_(trace) {
    settings_.expandable_segments = grows;
    allocator_.apply(settings_);
  }

  Outcome run() {
    for (at_ = 0; at_ < trace_.entries.size(); ++at_) {
      const Entry& entry = trace_.entries[at_];
      const std::size_t before = device_.calls;
      switch (entry.action) {
        case Action::alloc: {
          const memory::BlockUse use =
              allocator_.allocate(entry.size, stream(entry.stream), pool(entry.pool));
          live_[entry.address] = {use.address, nullptr};
          break;
        }
        case Action::free_requested: request(entry.address); break;
        case Action::free_completed: complete(entry.address); break;
        case Action::segment_alloc:  // what is asked of the device, the allocator decides
          pool_of_segment_[entry.address] = entry.pool;
          break;
        case Action::segment_free:
          if (at_ == 0 || trace_.entries[at_ - 1].action != Action::segment_free) empty_cache();
          break;
      }
      (at_ < trace_.entries.size() / 10 ? outcome_.calls_first : outcome_.calls_after) +=
          device_.calls - before;
    }
    outcome_.peaks.allocated = static_cast<std::uint64_t>(allocator_.max_allocated());
    outcome_.peaks.reserved = static_cast<std::uint64_t>(allocator_.max_reserved());
    return outcome_;
  }

 private:
  struct Live {
    void* address = nullptr;
    void* used_on = nullptr;  // another stream, until its work is done
  };

  static void* stream(std::uint32_t number) {
    return reinterpret_cast<void*>(std::uintptr_t{number} * 64);
  }
  memory::Pool* pool(std::uint32_t number) {
    if (number == 0) return nullptr;
    memory::Pool*& known = pools_[number];
    if (known == nullptr) known = allocator_.retain_pool({0, number}, {});
    return known;
  }

  // A trace does not say on which streams a block was used. Each that waits for some has one of its
  // own: so it waits for nothing but its own end.
  void request(std::uint64_t address) {
    Live& live = live_.at(address);
    const bool at_once = at_ + 1 < trace_.entries.size() &&
                         trace_.entries[at_ + 1].action == Action::free_completed &&
                         trace_.entries[at_ + 1].address == address;
    if (!at_once) {
      if (idle_.empty()) idle_.push_back(stream(kFirstOther + others_++));
      live.used_on = idle_.back();
      idle_.pop_back();
      if (!allocator_.record_stream(live.address, {live.used_on, 0, 0}))
        throw Error("replay: a stream could not be noted for a block in use");
    }
    if (!allocator_.free(live.address)) throw Error("replay: a block in use could not be freed");
  }
  void complete(std::uint64_t address) {
    const auto found = live_.find(address);
    if (void* const other = found->second.used_on; other != nullptr) {
      device_.complete(other);
      idle_.push_back(other);
    }
    live_.erase(found);
  }
  // empty_cache() leaves private pools alone: those go that the trace names.
  void empty_cache() {
    check(allocator_.empty_cache());
    std::set<std::uint32_t> named;
    for (std::size_t i = at_; i < trace_.entries.size(); ++i) {
      if (trace_.entries[i].action != Action::segment_free) break;
      named.insert(pool_of_segment_.at(trace_.entries[i].address));
    }
    for (const std::uint32_t number : named)
      if (pools_.contains(number)) check(allocator_.empty_cache({0, number}));
  }

  static constexpr std::uint32_t kFirstOther = 1U << 20;

  const Trace& trace_;
  memory::Settings settings_;
  Device device_;
  memory::EventPool events_{device_};
  memory::DeviceAllocator allocator_{0, device_, events_,
                                     std::make_unique<memory::CachingBackEnd>()};
  std::size_t at_ = 0;
  Outcome outcome_;
  std::unordered_map<std::uint64_t, Live> live_;  // by addresses of the trace
  std::map<std::uint32_t, memory::Pool*> pools_;
  std::unordered_map<std::uint64_t, std::uint32_t> pool_of_segment_;  // the same
  std::vector<void*> idle_;
  std::uint32_t others_ = 0;
};

}  // namespace

Outcome replay_ember(const Trace& trace, bool grows) { return Replay(trace, grows).run(); }

}  // namespace ember::replay
