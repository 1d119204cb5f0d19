#include "ember/memory/shards.h"

#include <algorithm>
#include <utility>

#include "ember/memory/back_end.h"
#include "ember/memory/tracking.h"

namespace ember::inline v0::memory {

Shards::Shards(int device, EventStore& store, EventLog& ledgers) noexcept
    : device_(device), ledgers_(ledgers) {
  for (std::size_t i = 0; i < kShards; ++i) {
    const MutexLock lock(shards_[i].mutex);
    shards_[i].log.open(store, i + 1);
  }
}

bool Shards::Stack::holds(const Request& request) const noexcept {
  return size == request.size && stream == request.stream && pool == request.pool;
}

// Threads are spread over the shards in the order in which they come.
Shards::Shard& Shards::mine() noexcept {
  static constinit std::atomic<std::uint32_t> threads{0};
  static constinit thread_local std::uint32_t number [[gnu::tls_model("initial-exec")]] = 0;
  if (number == 0) number = threads.fetch_add(1, std::memory_order_relaxed) % kShards + 1;
  return shards_[number - 1];
}

// The stack for such blocks; `make`: or an empty one that becomes it. Null if there is none.
Shards::Stack* Shards::Shard::find(const Request& request, bool make) noexcept {
  const std::size_t key = request.size / kMinBlock + reinterpret_cast<std::size_t>(request.stream);
  const std::size_t home = key * 0x9E3779B97F4A7C15u >> 57;
  static_assert(kStacks == std::size_t{1} << (64 - 57));
  Stack* empty = nullptr;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Stack& stack = stacks[(home + i) % kStacks];
    if (stack.holds(request)) return &stack;
    if (stack.first == nullptr && empty == nullptr) empty = &stack;
  }
  if (!make || empty == nullptr) return nullptr;
  *empty = {request.pool, request.stream, request.size, nullptr};
  return empty;
}

Block* Shards::Shard::pop(Stack& stack) noexcept {
  Block* block = std::exchange(stack.first, stack.first->link);
  block->set(Block::claimed);
  --blocks;
  bytes -= block->size;
  return block;
}

// False when the shards are closed, or should be.
bool Shards::count_operation(Shard& shard) noexcept {
  if (!open()) return false;
  shard.used = true;
  if (++shard.operations <= kOperations) return true;
  expired_.store(true, std::memory_order_relaxed);
  return false;
}

BlockUse Shards::take(const Request& request) noexcept {
  Shard& shard = mine();
  const MutexLock lock(shard.mutex);
  if (!count_operation(shard)) return {};
  Stack* stack = shard.find(request, /*make=*/false);
  if (stack == nullptr || stack->first == nullptr) return {};
  const Usage usage{1, static_cast<std::int64_t>(request.size),
                    static_cast<std::int64_t>(request.requested)};
  const Kinds kind = kind_of(stack->first->segment->small);
  if (!shard.quota[kAll].covers(usage) || !shard.quota[kind].covers(usage)) return {};
  shard.quota[kAll] -= usage;
  shard.quota[kind] -= usage;
  shard.increases[kind] += usage;
  Block* const block = shard.pop(*stack);
  const BlockUse use = block->begin_use(request.requested);
  if (tracked()) [[unlikely]]
    track_block(device_, AllocEvent::Kind::allocated, *block, shard.log);
  return use;
}

bool Shards::put(Block* block) noexcept {
  if (block->size > kLargestBlock) return false;
  Shard& shard = mine();
  const MutexLock lock(shard.mutex);
  if (!count_operation(shard)) return false;
  const Segment* segment = block->segment;
  if (segment == nullptr || !segment->sharable || block->streams_noted()) return false;
  if (shard.blocks >= kMostBlocks || shard.bytes + block->size > kMostBytes) return false;
  Stack* stack = shard.find({block->size, 0, segment->stream, segment->pool}, /*make=*/true);
  if (stack == nullptr) return false;
  const Usage usage{1, static_cast<std::int64_t>(block->size),
                    static_cast<std::int64_t>(block->requested_bytes())};
  shard.quota[kAll] += usage;
  shard.quota[kind_of(segment->small)] += usage;
  if (tracked()) [[unlikely]]
    track_block(device_, AllocEvent::Kind::freed, *block, shard.log);
  block->set(Block::sharded);
  block->link = std::exchange(stack->first, block);
  ++shard.blocks;
  shard.bytes += block->size;
  return true;
}

Block* Shards::find(const Request& request, Where where) noexcept {
  const std::size_t first = static_cast<std::size_t>(&mine() - shards_.data());
  for (std::size_t i = 0; i < (where == Where::any ? kShards : 1); ++i) {
    Shard& shard = shards_[(first + i) % kShards];
    const MutexLock lock(shard.mutex);
    Stack* stack = shard.find(request, /*make=*/false);
    if (stack == nullptr || stack->first == nullptr) continue;
    ledgers_.raise(shard.log.last());
    return shard.pop(*stack);
  }
  return nullptr;
}

Block* Shards::close(Stats& stats) noexcept {
  if (!open()) return nullptr;
  open_.store(false, std::memory_order_release);
  seen_operations_ = -1;
  Block* chain = nullptr;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);  // nobody begins anything there any more
    shard.operations = 0;
    ledgers_.raise(shard.log.last());
    for (Stack& stack : shard.stacks) {
      while (stack.first != nullptr) {
        Block* block = shard.pop(stack);
        block->link = std::exchange(chain, block);
      }
    }
    stats.recall(std::exchange(shard.quota, {}));
    stats.add_increases(std::exchange(shard.increases, {}));
  }
  expired_.store(false, std::memory_order_relaxed);
  return chain;
}

void Shards::grant(Stats& stats) noexcept {
  Shard& shard = mine();
  const MutexLock lock(shard.mutex);
  if (!open()) return;
  const int users = users_.load(std::memory_order_relaxed);
  const UsageByKind share = stats.share_of_room(2 * users, false, {});
  stats.grant(share);
  for (const Kinds kind : {kAll, kSmall, kLarge}) shard.quota[kind] += share[kind];
}

// All locks at once: taken one by one, usage could move from a shard that is still to come to one
// that has been counted, and the sum would be a total that never was.
void Shards::recall(Stats& stats, const Usage* next, bool small) noexcept
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (Shard& shard : shards_) shard.mutex.lock();
  int users = 0;
  operations_ = 0;
  for (Shard& shard : shards_) {
    operations_ += shard.operations;
    users += static_cast<int>(shard.used);
    stats.recall(std::exchange(shard.quota, {}));
    stats.add_increases(std::exchange(shard.increases, {}));
  }
  if (next != nullptr) {
    users_.store(std::max(users, 1), std::memory_order_relaxed);
    // Half of the room stays for those who need more.
    const UsageByKind share = stats.share_of_room(2 * std::max(users, 1), small, *next);
    for (Shard& shard : shards_) {
      if (!std::exchange(shard.used, false)) continue;
      shard.quota = share;
      stats.grant(share);
    }
  }
  for (Shard& shard : shards_) shard.mutex.unlock();
}

}  // namespace ember::inline v0::memory
