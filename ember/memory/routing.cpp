#include "ember/memory/routing.h"

#include <algorithm>
#include <utility>

#include "ember/memory/device_allocator.h"
#include "ember/memory/pools.h"

namespace ember::inline v0::memory {
namespace {

constinit std::atomic<bool> disabled_for_all{false};
constinit thread_local int disabled_here = 0;
constinit std::atomic<std::uint64_t> last_pool{0}, last_route{0};

}  // namespace

bool caching_disabled() noexcept {
  return disabled_here > 0 || disabled_for_all.load(std::memory_order_relaxed);
}

std::uint64_t new_pool_number() noexcept { return ++last_pool; }

// ---- Which pool it is

// The pool cannot go while the allocation is in progress, also if the route ends meanwhile.
BlockUse DeviceAllocator::allocate_routed(std::size_t bytes, void* stream) {
  struct Held {
    DeviceAllocator& allocator;
    Pool* const pool;
    ~Held() { allocator.let_go(pool); }
  };
  const Held held{*this, hold_routed(stream)};
  return allocate(bytes, stream, held.pool);
}

Pool* DeviceAllocator::hold_routed(const void* stream) {
  const auto hold = [this](Pool* pool) {
    const MutexLock lock(ledger_.mutex);
    ++pool->holds;
    return pool;
  };
  const MutexLock routing(routing_);
  const auto find = [&](const auto& leads) EMBER_REQUIRES(routing_) {
    const auto found = std::find_if(routes_.rbegin(), routes_.rend(), leads);
    return found != routes_.rend() ? found->pool : nullptr;
  };
  const bool caching = !caching_disabled();
  const std::thread::id self = std::this_thread::get_id();
  Pool* pool = nullptr;
  if (caching)
    pool = find([&](const Route& route) { return !route.filter && route.thread == self; });
  // Also without caching: what a capture has freed is still used by the graph's replays.
  if (pool == nullptr)
    pool = find([&](const Route& route) { return route.filter && route.filter(stream); });
  if (pool == nullptr) pool = caching ? &default_pool_ : &uncached_pool_;
  return hold(pool);
}

void DeviceAllocator::let_go(Pool* pool) noexcept {
  const MutexLock lock(ledger_.mutex);
  --pool->holds;
  drop_unused_pools();
}

// ---- Routes

std::uint64_t DeviceAllocator::route(Pool* pool) {
  return enter_route({++last_route, pool, std::this_thread::get_id(), {}});
}

std::uint64_t DeviceAllocator::route(Pool* pool, std::function<bool(const void*)> filter) {
  return enter_route({++last_route, pool, {}, std::move(filter)});
}

// The route keeps its pool, too.
std::uint64_t DeviceAllocator::enter_route(Route route) {
  const MutexLock routing(routing_);
  if (route.filter)
    for (const Route& other : routes_)
      if (other.filter && other.pool == route.pool) return 0;
  const std::uint64_t number = route.number;
  Pool* const pool = route.pool;
  routes_.push_back(std::move(route));
  ++routes_in_force;
  const MutexLock lock(ledger_.mutex);
  ++pool->holds;
  return number;
}

template <class Which>
bool DeviceAllocator::leave_route(const Which& which) noexcept {
  const MutexLock routing(routing_);
  const auto found = std::find_if(routes_.begin(), routes_.end(), which);
  if (found == routes_.end()) return false;
  let_go(found->pool);
  routes_.erase(found);
  --routes_in_force;
  return true;
}

void DeviceAllocator::end_route(std::uint64_t number) noexcept {
  leave_route([&](const Route& route) { return route.number == number; });
}

bool DeviceAllocator::end_route(const cuda::MemPoolId& id) noexcept {
  return leave_route([&](const Route& route) { return route.filter && route.pool->id == id; });
}

}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {

void caching_allocator_enable(bool value) noexcept {
  const bool was_disabled = memory::disabled_for_all.exchange(!value);
  memory::routes_in_force += static_cast<int>(!value) - static_cast<int>(was_disabled);
}

bool caching_allocator_enabled() noexcept { return !memory::caching_disabled(); }

CachingAllocatorDisabled::CachingAllocatorDisabled() noexcept {
  ++memory::disabled_here;
  ++memory::routes_in_force;
}

CachingAllocatorDisabled::~CachingAllocatorDisabled() {
  --memory::disabled_here;
  --memory::routes_in_force;
}

}  // namespace ember::inline v0::cuda
