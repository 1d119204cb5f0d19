// The streams of each device: the default one, and those that Stream() hands out.
//
// Note: Streams are distinct while they live.
// The documents describe pools of 32 that are handed out round robin, so that the 33rd request
// silently shares a queue with the first. Here a stream belongs to its owners alone. When the last
// Stream value dies its queue goes to a free list and is handed out again, without a driver call.
// Queues are made one at a time, when the free list is empty, and given back to the driver only
// when another run begins (sim::begin_run), so that streams come in the order of a new process. A
// reset of the device takes them. A place whose queue is gone is used again once it has no owner.

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda::detail {
namespace {

constexpr int kLevels = 4;  // priorities 0, -1, -2, -3: what the documents support

int level(int priority) { return -priority; }

/// Bit 0 tells pool streams from external handles (always even), bits 1 to 3 hold level + 1, the
/// rest the position; as in the documents, but not limited to 5 bits. Above it stands the epoch, so
/// that an id from before a reset never names a later stream.
constexpr int kPositionBits = 35;
constexpr std::int64_t kPositions = (std::int64_t{1} << kPositionBits) - 1;
std::int64_t pool_id(std::size_t position, int priority, std::uint32_t epoch) {
  constexpr std::uint32_t kEpochs = (std::uint32_t{1} << (63 - 5 - kPositionBits)) - 1;
  const std::int64_t high = std::int64_t{epoch & kEpochs} << kPositionBits;
  return ((high | static_cast<std::int64_t>(position)) << 5) | ((level(priority) + 1) << 1) | 1;
}

std::size_t position_of(std::int64_t id) { return static_cast<std::size_t>(id >> 5 & kPositions); }

struct DevicePool {
  struct Level {
    std::deque<StreamState> streams;  // addresses are stable
    // Both without owners: with a queue of the epoch, and without one.
    std::vector<StreamState*> idle, gone;  // the last is the next
  };
  Level levels[kLevels];
  std::uint32_t epoch = 0;  // of the device, when it was last looked at
};

struct Pools {
  Mutex mutex;
  std::deque<DevicePool> devices EMBER_GUARDED_BY(mutex);
  // By device; immutable once made, and read without the lock.
  std::vector<Ref<StreamState>> defaults;
};

void begin_run(std::uint64_t);

Pools* make_pools() {
  auto* pools = new Pools;  // leaked with the driver, whose streams it holds
  const auto count = static_cast<std::size_t>(active_driver().device_count());
  {
    const MutexLock lock(pools->mutex);
    pools->devices.resize(count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    Ref<StreamState> stream = make_ref<StreamState>();
    stream->handle.device = static_cast<int>(i);
    stream->is_default = true;
    pools->defaults.push_back(std::move(stream));
  }
  if (sim::seeded()) on_run_begun(&begin_run);
  return pools;
}

Pools& pools() {
  static Pools* const made = make_pools();
  return *made;
}

DevicePool& pool_of(int device) EMBER_REQUIRES(pools().mutex) {
  DevicePool& pool = pools().devices[static_cast<std::size_t>(device)];
  if (const std::uint32_t epoch = device_epoch(device); epoch != pool.epoch) {
    for (DevicePool::Level& at : pool.levels) {
      at.gone.insert(at.gone.end(), at.idle.begin(), at.idle.end());
      at.idle.clear();
    }
    pool.epoch = epoch;
  }
  return pool;
}

/// Streams without owners give their queues back, and their places are taken from the first on.
void begin_run(std::uint64_t) {
  driver::Driver& machine = active_driver();
  const MutexLock lock(pools().mutex);
  for (std::size_t device = 0; device < pools().devices.size(); ++device)
    for (DevicePool::Level& at : pool_of(static_cast<int>(device)).levels) {
      for (StreamState* state : at.idle) {
        (void)machine.stream_destroy(state->handle);  // fails where a reset was faster
        at.gone.push_back(state);
      }
      at.idle.clear();
      std::sort(at.gone.begin(), at.gone.end(), [](const StreamState* a, const StreamState* b) {
        return position_of(a->id) > position_of(b->id);
      });
    }
}

}  // namespace

void StreamState::dispose(StreamState* state) noexcept {
  if (!state->pooled) {
    delete state;
    return;
  }
  // In a forked child the lock may be held by a thread that does not exist: the pool is dead there.
  if (driver_if_made() == nullptr) return;
  // Before it is handed out again.
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::stream_ended,
            .device = state->handle.device,
            .stream = state->handle.native,
            .stream_id = state->id};
  });
  const MutexLock lock(pools().mutex);
  DevicePool& pool = pool_of(state->handle.device);
  DevicePool::Level& at = pool.levels[level(state->priority)];
  (state->handle.epoch == pool.epoch ? at.idle : at.gone).push_back(state);
}

driver::PriorityRange priority_range(int device) {
  driver::PriorityRange range;
  check(active_driver().stream_priorities(device, range));
  return {0, std::max(range.greatest, 1 - kLevels)};
}

Ref<StreamState> take_stream(int device, int priority) {
  if (priority != 0) {
    const driver::PriorityRange range = priority_range(device);
    priority = std::clamp(priority, range.greatest, range.least);
  }
  {
    const MutexLock lock(pools().mutex);
    auto& idle = pool_of(device).levels[level(priority)].idle;
    if (!idle.empty()) {
      StreamState* state = idle.back();
      idle.pop_back();
      return Ref<StreamState>(state);
    }
  }
  driver::StreamHandle handle;
  check(active_driver().stream_create(device, priority, handle));
  Ref<StreamState> made;
  {
    const MutexLock lock(pools().mutex);
    DevicePool::Level& at = pool_of(device).levels[level(priority)];
    StreamState* state = nullptr;
    std::size_t position = at.streams.size();
    if (at.gone.empty()) {
      state = &at.streams.emplace_back();
      at.idle.reserve(at.streams.size());  // so that dispose can't fail
      at.gone.reserve(at.streams.size());
    } else {
      state = at.gone.back();
      at.gone.pop_back();
      position = position_of(state->id);
    }
    state->handle = handle;
    state->priority = priority;
    state->pooled = true;
    state->id = pool_id(position, priority, handle.epoch);
    made = Ref<StreamState>(state);
  }
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::stream_created,
            .device = device,
            .stream = handle.native,
            .stream_id = made->id};
  });
  return made;
}

Ref<StreamState> find_stream(int device, std::int64_t id) {
  if (id == 0) return default_state(device);
  const auto at_level = static_cast<int>((id >> 1) & 15) - 1;
  if ((id & 1) == 0 || id < 0 || at_level < 0 || at_level >= kLevels) return {};
  const std::size_t position = position_of(id);
  const MutexLock lock(pools().mutex);
  DevicePool& pool = pool_of(device);
  auto& streams = pool.levels[at_level].streams;
  if (position >= streams.size() || streams[position].id != id ||
      streams[position].handle.epoch != pool.epoch)
    return {};
  // An owner may be going away right now; then the stream counts as gone.
  return streams[position].try_acquire() ? Ref<StreamState>::adopt(&streams[position])
                                         : Ref<StreamState>();
}

Ref<StreamState> default_state(int device) {
  return pools().defaults[static_cast<std::size_t>(device)];
}

}  // namespace ember::inline v0::cuda::detail
