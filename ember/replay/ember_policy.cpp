#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ember/base/error.h"
#include "ember/memory/caching.h"
#include "ember/memory/device_allocator.h"
#include "ember/memory/out_of_memory.h"
#include "ember/memory/segment_source.h"
#include "ember/replay/policies.h"
#include "ember/replay/tally.h"

namespace ember::inline v0::replay {
namespace {

using Action = Entry::Action;

/// Addresses that nobody touches, and streams whose work is done when the trace says so. For one
/// thread.
class Source final : public memory::SegmentSource {
 public:
  /// `memory`: bytes; 0 for any number.
  explicit Source(std::uint64_t memory) noexcept : memory_(memory == 0 ? kAny : memory) {}

  std::size_t calls = 0;

  /// All work that the stream has now is done.
  void complete(void* stream) { done_[stream] = recorded_[stream]; }

  Status allocate(std::uint32_t /*epoch*/, std::size_t bytes, void*& out) noexcept override {
    const std::size_t rounded = memory::round_up(bytes, std::size_t{2} << 20);
    EMBER_TRY(take(rounded));
    out = reinterpret_cast<void*>(next_);
    next_ += rounded;
    sizes_[out] = rounded;
    return {};
  }
  Status free(std::uint32_t /*epoch*/, void* pointer) noexcept override {
    ++calls;
    const auto found = sizes_.find(pointer);
    used_ -= found->second;
    sizes_.erase(found);
    return {};
  }
  Status memory_info(driver::MemoryInfo& out) noexcept override {
    out = {};
    out.free = static_cast<std::size_t>(memory_ - used_);
    out.total = static_cast<std::size_t>(memory_);
    return {};
  }
  Status reserve(std::uint32_t /*epoch*/, void*& base, std::size_t& bytes) noexcept override {
    bytes = std::size_t{1} << 40;
    base = reinterpret_cast<void*>(next_);
    next_ += bytes;
    return {};
  }
  Status release(std::uint32_t /*epoch*/, void* /*base*/) noexcept override { return {}; }
  Status map(std::uint32_t /*epoch*/, void* /*start*/, std::size_t bytes) noexcept override {
    return take(bytes);
  }
  Status unmap(std::uint32_t /*epoch*/, void* /*start*/, std::size_t bytes) noexcept override {
    ++calls;
    used_ -= bytes;
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
  static constexpr std::uint64_t kAny = std::uint64_t{1} << 60;

  Status take(std::uint64_t bytes) noexcept {
    if (bytes > memory_ - used_) return Code::out_of_memory;
    ++calls;
    used_ += bytes;
    return {};
  }

  struct Event {
    void* stream = nullptr;
    std::uint64_t number = 0;
  };
  std::uint64_t memory_, used_ = 0;
  std::unordered_map<void*, std::uint64_t> sizes_;
  std::uintptr_t next_ = std::uintptr_t{1} << 44;
  std::vector<std::unique_ptr<Event>> events_;
  std::unordered_map<void*, std::uint64_t> recorded_, done_;
};

class Replay {
 public:
  Replay(const Trace& trace, const memory::Settings& settings, const Limits& limits)
      : trace_(trace), source_(limits.memory), tally_(trace, limits) {
    allocator_.apply(settings);
    if (limits.memory != 0)
      allocator_.set_fraction(settings.per_process_memory_fraction, limits.memory);
  }

  Outcome run() {
    for (at_ = 0; at_ < trace_.entries.size() && !tally_.failed(); ++at_) {
      const Entry& entry = trace_.entries[at_];
      const std::size_t before = source_.calls;
      switch (entry.action) {
        case Action::alloc: allocate(entry); break;
        case Action::free_requested: request(entry.address); break;
        case Action::free_completed: complete(entry.address); break;
        case Action::segment_alloc:
        case Action::segment_map: break;  // what is asked of the device, the allocator decides
        case Action::segment_free:
        case Action::segment_unmap:
          if (trace_.empties(at_)) empty_cache();
          break;
      }
      for (std::size_t i = before; i < source_.calls; ++i) tally_.call(at_);
      tally_.note(at_, static_cast<std::uint64_t>(allocator_.allocated()),
                  static_cast<std::uint64_t>(allocator_.reserved()));
    }
    // Between two entries there may have been more.
    tally_.outcome.peaks = {static_cast<std::uint64_t>(allocator_.max_allocated()),
                            static_cast<std::uint64_t>(allocator_.max_reserved())};
    return std::move(tally_.outcome);
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

  void allocate(const Entry& entry) {
    try {
      const memory::BlockUse use =
          allocator_.allocate(entry.size, stream(entry.stream), pool(entry.pool));
      live_[entry.address] = {use.address, nullptr};
    } catch (const OutOfMemoryError& error) {
      tally_.fail(at_, error.what());
    }
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
      source_.complete(other);
      idle_.push_back(other);
    }
    live_.erase(found);
  }
  // empty_cache() leaves private pools alone: those go that the trace names.
  void empty_cache() {
    check(allocator_.empty_cache());
    for (const std::uint32_t number : trace_.pools_emptied(at_))
      if (pools_.contains(number)) check(allocator_.empty_cache({0, number}));
  }

  static constexpr std::uint32_t kFirstOther = 1U << 20;

  const Trace& trace_;
  Source source_;
  Tally tally_;
  memory::EventPool events_{source_};
  memory::DeviceAllocator allocator_{0, source_, events_,
                                     std::make_unique<memory::CachingBackEnd>()};
  std::size_t at_ = 0;
  std::unordered_map<std::uint64_t, Live> live_;  // by addresses of the trace
  std::map<std::uint32_t, memory::Pool*> pools_;
  std::vector<void*> idle_;
  std::uint32_t others_ = 0;
};

}  // namespace

Outcome replay_ember(const Trace& trace, const memory::Settings& settings, const Limits& limits) {
  return Replay(trace, settings, limits).run();
}

}  // namespace ember::inline v0::replay
