#include "ember/memory/pools.h"

#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/memory/allocator_functions.h"
#include "ember/memory/allocators.h"
#include "ember/memory/routing.h"
#include "ember/memory/user_memory.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

using memory::DeviceAllocator;

namespace {

void refuse_ordinary(const MemPoolId& pool, const char* function) {
  if (pool == MemPoolId())
    throw ValueError(std::string(function) +
                     ": pool: expected the id of a private pool, got (0, 0), which is the ordinary "
                     "one");
}

}  // namespace

void empty_cache(const MemPoolId& pool) {
  Status failure;
  for (int device = 0; device < memory::kMaxDevices; ++device)
    if (DeviceAllocator* made = memory::allocator_if_made(device)) {
      Status status = made->empty_cache(pool);
      if (failure.ok()) failure = std::move(status);
    }
  check(failure);
}

// ---- Pools of programs

MemPool::MemPool(const std::optional<PluggableAllocator>& allocator, const MemPoolOptions& options,
                 DeviceArg device)
    : allocator_(allocator),
      options_(options),
      id_(graph_pool_handle()),
      device_(device.existing()),
      pool_(retain(device_)) {}

MemPool::MemPool(const MemPoolOptions& options, DeviceArg device)
    : MemPool(std::nullopt, options, device) {}

MemPool::MemPool(const PluggableAllocator& allocator, const MemPoolOptions& options,
                 DeviceArg device)
    : MemPool(std::optional(allocator), options, device) {}

memory::Pool* MemPool::retain(int device) const {
  return memory::allocator_of(device).retain_pool(id_, {options_.use_on_oom, options_.no_split},
                                                  allocator_ ? allocator_->memory_ : nullptr);
}

std::vector<MemorySnapshot::Segment> MemPool::snapshot() const {
  return memory_snapshot(id_).segments;
}

MemPool::MemPool(MemPool&& other) noexcept
    : allocator_(other.allocator_),
      options_(other.options_),
      id_(other.id_),
      device_(other.device_),
      pool_(std::exchange(other.pool_, nullptr)) {}

MemPool& MemPool::operator=(MemPool&& other) noexcept {
  MemPool moved(std::move(other));
  std::swap(allocator_, moved.allocator_);
  std::swap(options_, moved.options_);
  std::swap(id_, moved.id_);
  std::swap(device_, moved.device_);
  std::swap(pool_, moved.pool_);
  return *this;
}

MemPool::~MemPool() {
  if (pool_ == nullptr) return;
  DeviceAllocator* allocator = memory::allocator_if_made(device_);
  if (allocator == nullptr) return;  // in a forked child
  try {
    if (allocator->is_asleep(*pool_)) allocator->restore(*pool_);
  } catch (const std::exception&) {  // nobody could be told
  }
  allocator->release_pool(pool_);
  (void)allocator->empty_cache(id_);
}

memory::Pool& MemPool::pool_for(const char* function) const {
  if (use_count() == 0)
    throw ValueError(std::string(function) + ": expected a pool, got one that was moved from");
  return *pool_;
}

void MemPool::offload() { memory::allocator_of(device_).offload(pool_for("MemPool.offload")); }

void MemPool::restore() { memory::allocator_of(device_).restore(pool_for("MemPool.restore")); }

bool MemPool::asleep() const {
  DeviceAllocator* allocator = memory::allocator_if_made(device_);
  return pool_ != nullptr && allocator != nullptr && allocator->is_asleep(*pool_);
}

int MemPool::use_count() const {
  DeviceAllocator* allocator = memory::allocator_if_made(device_);
  return pool_ != nullptr && allocator != nullptr ? allocator->users_of(*pool_) : 0;
}

void* MemPool::allocate(std::size_t bytes, int device, void* native_stream) const {
  // Without a guard it takes half as long. Where other pools or no cache are asked for, the guard
  // finds out what counts.
  if (device == device_ && pool_ != nullptr && !memory::any_route())
    return memory::allocator_of(device).allocate(bytes, native_stream, pool_).address;
  const MemPoolGuard guard(*this, device);
  return ember_allocator_malloc(bytes, device, native_stream);
}

MemPoolGuard::MemPoolGuard(const MemPool& pool, DeviceArg device) : device_(device.existing()) {
  DeviceAllocator& allocator = memory::allocator_of(device_);
  if (pool.use_count() == 0)
    throw ValueError("use_mem_pool: pool: expected a pool, got one that was moved from");
  pool_ = pool.retain(device_);
  route_ = allocator.route(pool_);
}

MemPoolGuard::~MemPoolGuard() {
  DeviceAllocator* allocator = memory::allocator_if_made(device_);
  if (allocator == nullptr) return;  // in a forked child
  allocator->end_route(route_);
  allocator->release_pool(pool_);
}

// ---- For captures of graphs

MemPoolId graph_pool_handle() noexcept { return {0, memory::new_pool_number()}; }

void begin_allocate_to_pool(const MemPoolId& pool, StreamFilter filter, DeviceArg device) {
  refuse_ordinary(pool, "begin_allocate_to_pool");
  if (!filter) throw ValueError("begin_allocate_to_pool: filter: expected a function, got none");
  DeviceAllocator& allocator = memory::allocator_of(device.existing());
  memory::Pool* const made = allocator.retain_for_graph(pool);
  if (allocator.route(made, std::move(filter)) != 0) return;
  (void)allocator.release_pool(pool);
  throw Error("beginAllocateToPool: already recording to mempool_id");
}

void end_allocate_to_pool(const MemPoolId& pool, DeviceArg device) {
  if (!memory::allocator_of(device.existing()).end_route(pool))
    throw Error("endAllocatePool: not currently recording to mempool_id");
}

void release_pool(const MemPoolId& pool, DeviceArg device) {
  if (!memory::allocator_of(device.existing()).release_pool(pool))
    throw Error("release_pool: nobody needs a pool (" + std::to_string(pool.first) + ", " +
                std::to_string(pool.second) + ") of device " + std::to_string(device.existing()));
}

}  // namespace ember::inline v0::cuda
