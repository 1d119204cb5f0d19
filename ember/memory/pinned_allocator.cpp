#include "ember/memory/pinned_allocator.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/ledger.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::memory {
namespace {

void add(cuda::Counter& counter, std::int64_t change) noexcept {
  counter.current += change;
  counter.peak = std::max(counter.peak, counter.current);
  (change > 0 ? counter.allocated : counter.freed) += change > 0 ? change : -change;
}

using Told = cuda::Activity::Kind;

/// Told by the Tell of the operation, once its locks are free.
template <class Make>
void record(Told kind, const Make& make) noexcept {
  if (!cuda::observed()) [[likely]]
    return;
  cuda::Activity activity = make();
  activity.kind = kind;
  cuda::detail::record(activity);
}

/// How long `call` takes, in microseconds.
template <class Call>
Status timed(std::int64_t& microseconds, const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = call();
  const auto taken = std::chrono::steady_clock::now() - begin;
  microseconds = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
  return status;
}

void record_use(PinnedBlock* block, const driver::StreamHandle& stream) {
  if (block->use == nullptr) block->use = new StreamUse{block, {}, {}, 0};
  block->use->note(stream);
  record(Told::pinned_stream_recorded, [&]() -> cuda::Activity {
    return {.device = stream.device, .stream = stream.native, .address = block->data};
  });
}

/// How many bytes of it lie before the first multiple of `alignment`.
std::size_t bytes_before(const PinnedBlock& block, std::size_t alignment) noexcept {
  if (alignment == PinnedPolicy::kUnit) return 0;
  return -reinterpret_cast<std::uintptr_t>(block.data) & (alignment - 1);
}

}  // namespace

PinnedAllocator::~PinnedAllocator() {
  MutexLock lock(mutex_);
  for (const auto& [address, block] : by_address_) {
    // Otherwise it is parked, and uses_ deletes it.
    if (block->in_use || block->kept != 0) delete block->use;
    if (block->previous != nullptr) continue;
    (void)source_.free(block->segment->data);
    delete block->segment;
  }
  for (const void* block : contexts_) delete static_cast<PinnedBlock*>(const_cast<void*>(block));
  while (leaving_ != nullptr) {
    PinnedSegment* const segment = std::exchange(leaving_, leaving_->next);
    delete segment->first;
    delete segment;
  }
}

void PinnedAllocator::apply(const PinnedPolicy& policy) {
  MutexLock lock(mutex_);
  policy_ = policy;
}

// ---- Allocating

PinnedBlock* PinnedAllocator::allocate(std::size_t bytes, std::size_t alignment, const char* user) {
  if (bytes == 0) return nullptr;
  if (bytes >= kTooLarge)
    throw ValueError("Invalid size for pinned memory: " + std::to_string(bytes) +
                     ". Sizes are from 0 to 2^60 - 1 bytes.");
  alignment = std::max(alignment, PinnedPolicy::kUnit);
  const Tell tell;
  catch_up();
  if (!uses_.empty()) finish_uses(/*settle=*/false);
  std::uint32_t generation = 0;
  std::size_t size = 0;
  PinnedBlock* block = nullptr;
  {
    MutexLock lock(mutex_);
    generation = generation_;  // before the source is asked, so that it is not too new
    size = policy_.block_bytes(bytes);
    block = take(size, alignment);
  }
  if (block == nullptr) block = grow(size, alignment, generation);
  record(Told::pinned_handed_out, [&]() -> cuda::Activity {
    return {.name = user, .address = block->data, .bytes = block->bytes, .requested = bytes};
  });
  return block;
}

PinnedBlock* PinnedAllocator::take(std::size_t size, std::size_t alignment) {
  for (auto at = free_.lower_bound(size); at != free_.end(); ++at) {
    PinnedBlock* block = *at;
    const std::size_t before = bytes_before(*block, alignment);
    if (block->bytes < before + size) continue;
    if (before != 0) block = skip(block, before);
    hand_out(block, size);
    return block;
  }
  return nullptr;
}

/// Cuts the first bytes off a free block: they stay free, and so does the rest, which is returned.
/// Without caching nobody else gets them.
PinnedBlock* PinnedAllocator::skip(PinnedBlock* block, std::size_t bytes) {
  split(block, bytes);
  if (policy_.caching && is_current(*block->segment)) free_.insert(std::move(block->node));
  return block->next;
}

void PinnedAllocator::hand_out(PinnedBlock* block, std::size_t size) {
  if (block->bytes > size) split(block, size);
  leave_list(block);
  block->free = false;
  block->in_use = true;
  add(counters_.active_requests, 1);
  add(counters_.active_bytes, static_cast<std::int64_t>(block->bytes));
}

// What may fail comes first.
void PinnedAllocator::split(PinnedBlock* block, std::size_t size) {
  auto rest = std::make_unique<PinnedBlock>();
  rest->data = block->data + size;
  rest->bytes = block->bytes - size;
  rest->segment = block->segment;
  rest->previous = block;
  rest->next = block->next;
  enlist(rest.get());
  leave_list(block);
  block->bytes = size;
  if (block->next != nullptr) block->next->previous = rest.get();
  block->next = rest.release();
}

/// Makes a new block known and free: wholly, or not at all.
void PinnedAllocator::enlist(PinnedBlock* block) {
  free_.insert(block);
  try {
    by_address_[block->data] = block;
    contexts_.insert(block);
  } catch (...) {
    by_address_.erase(block->data);
    free_.erase(block);
    throw;
  }
  block->free = true;
  if (is_cached(*block)) cached_ += block->bytes;
  if (!is_current(*block->segment)) leave_list(block);
}

void PinnedAllocator::leave_list(PinnedBlock* block) {
  if (!block->node.empty()) return;
  block->node = free_.extract(block);
  if (is_cached(*block)) cached_ -= block->bytes;
}

PinnedBlock* PinnedAllocator::grow(std::size_t size, std::size_t alignment,
                                   std::uint32_t generation) {
  auto segment = std::make_unique<PinnedSegment>();
  segment->generation = generation;
  auto block = std::make_unique<PinnedBlock>();
  block->segment = segment.get();
  segment->first = block.get();
  // Of a segment, too, no more is known than that it begins at a multiple of the unit.
  check(obtain(size + alignment - PinnedPolicy::kUnit, *segment));
  block->data = segment->data;
  block->bytes = segment->bytes;
  record(Told::pinned_allocated,
         [&]() -> cuda::Activity { return {.address = segment->data, .bytes = segment->bytes}; });
  try {
    MutexLock lock(mutex_);
    enlist(block.get());
    add(counters_.allocations, 1);
    add(counters_.allocated_bytes, static_cast<std::int64_t>(segment->bytes));
    (void)segment.release();
    PinnedBlock* given = block.get();
    if (const std::size_t before = bytes_before(*given, alignment)) given = skip(given, before);
    hand_out(given, policy_.caching ? size : given->bytes);
    (void)block.release();
    return given;
  } catch (...) {
    if (segment == nullptr)  // what failed is to cut it: it is whole, and can be found
      (void)block.release();
    else
      (void)source_.free(segment->data);
    throw;
  }
}

/// A segment for a block of `size` bytes: as large as the policy says or, where there is no room
/// for that, as needed.
Status PinnedAllocator::obtain(std::size_t size, PinnedSegment& out) {
  std::size_t wanted = 0;
  {
    MutexLock lock(mutex_);
    wanted = policy_.segment_bytes(size);
    out.reserved = policy_.caching && !reserved_ && policy_.reserve >= wanted;
    if (out.reserved) {
      reserved_ = true;
      wanted = policy_.reserve;
    }
  }
  void* data = nullptr;
  Status status = ask(wanted, data);
  if (status.code() == Code::out_of_memory) {
    status = empty_cache();
    if (status.ok()) status = ask(wanted, data);
  }
  if (status.code() == Code::out_of_memory && wanted > size) {
    keep_nothing_for(out);
    status = ask(wanted = size, data);
  }
  if (!status.ok()) keep_nothing_for(out);
  if (status.code() == Code::out_of_memory && status.detail().empty())
    status = Status(Code::out_of_memory, "page-locking " + format_bytes(size) + " of host memory");
  out.data = static_cast<std::byte*>(data);
  out.bytes = wanted;
  return status;
}

/// It does not become the segment that stays.
void PinnedAllocator::keep_nothing_for(PinnedSegment& segment) {
  MutexLock lock(mutex_);
  if (std::exchange(segment.reserved, false)) reserved_ = false;
}

Status PinnedAllocator::ask(std::size_t bytes, void*& out) {
  std::int64_t taken = 0;
  Status status = timed(taken, [&] { return source_.allocate(bytes, out); });
  if (!status.ok()) return status;
  MutexLock lock(mutex_);
  ++counters_.num_host_alloc;
  counters_.host_alloc_time.add(taken);
  return status;
}

// ---- Freeing

bool PinnedAllocator::free(void* pointer) noexcept {
  const Tell tell;
  catch_up();
  StreamUse* use = nullptr;
  bool leaving = false;
  {
    MutexLock lock(mutex_);
    const auto found = by_address_.find(pointer);
    if (found == by_address_.end() || !found->second->in_use) return false;
    PinnedBlock* block = found->second;
    block->in_use = false;
    if (block->kept == 0) use = give_up(block);
    leaving = leaving_ != nullptr;
  }
  end_free(use, leaving);
  return true;
}

/// Neither its user nor a graph has it any more. Answers the streams that still use it.
StreamUse* PinnedAllocator::give_up(PinnedBlock* block) {
  // Before another thread can have it.
  record(Told::pinned_returned,
         [&]() -> cuda::Activity { return {.address = block->data, .bytes = block->bytes}; });
  StreamUse* const use = block->use;
  if (use == nullptr) put_back(block);
  return use;
}

void PinnedAllocator::end_free(StreamUse* use, bool leaving) noexcept {
  if (use != nullptr) uses_.park(use);
  if (leaving) (void)release_leaving();  // what cannot be given back now stays ours
}

bool PinnedAllocator::keep(const void* inside, std::vector<PinnedBlock*>& kept) {
  const auto* const address = static_cast<const std::byte*>(inside);
  const MutexLock lock(mutex_);
  for (const auto& [first, block] : by_address_) {
    const bool has_owner = block->in_use || block->kept != 0;
    if (!has_owner || address < block->data || address >= block->data + block->bytes) continue;
    if (std::find(kept.begin(), kept.end(), block) != kept.end()) return true;
    kept.push_back(block);
    ++block->kept;
    return true;
  }
  return false;
}

void PinnedAllocator::release(PinnedBlock* block,
                              const std::optional<driver::StreamHandle>& last) noexcept {
  const Tell tell;
  StreamUse* use = nullptr;
  bool leaving = false;
  {
    MutexLock lock(mutex_);
    if (last) record_use(block, *last);
    if (--block->kept == 0 && !block->in_use) use = give_up(block);
    leaving = leaving_ != nullptr;
  }
  end_free(use, leaving);
}

void PinnedAllocator::put_back(PinnedBlock* block) {
  add(counters_.active_requests, -1);
  add(counters_.active_bytes, -static_cast<std::int64_t>(block->bytes));
  block->free = true;
  if (block->next != nullptr && block->next->free) join(block, block->next);
  if (block->previous != nullptr && block->previous->free) {
    block = block->previous;
    join(block, block->next);
  }
  const PinnedSegment& segment = *block->segment;
  const bool current = is_current(segment);
  const bool kept = current && policy_.caching &&
                    (segment.reserved || cached_ + segment.bytes <= policy_.max_cached);
  if (block->whole() && !kept) return send_away(block);
  if (!current) return;
  free_.insert(std::move(block->node));
  if (is_cached(*block)) cached_ += block->bytes;
}

/// The left one takes the place of both, and is in no list.
void PinnedAllocator::join(PinnedBlock* left, PinnedBlock* right) {
  leave_list(left);
  leave_list(right);
  left->bytes += right->bytes;
  left->next = right->next;
  if (right->next != nullptr) right->next->previous = left;
  by_address_.erase(right->data);
  contexts_.erase(right);
  delete right;
}

bool PinnedAllocator::is_current(const PinnedSegment& segment) const {
  return segment.generation == generation_;
}

/// Whether it counts for what may be cached, when it is free.
bool PinnedAllocator::is_cached(const PinnedBlock& block) {
  return block.whole() && !block.segment->reserved;
}

/// From here on nobody finds it; once the source has it back, it may give its address to another
/// thread.
void PinnedAllocator::send_away(PinnedBlock* block) {
  leave_list(block);
  by_address_.erase(block->data);
  contexts_.erase(block);
  PinnedSegment* const segment = block->segment;
  if (segment->reserved) reserved_ = false;
  segment->first = block;
  segment->next = std::exchange(leaving_, segment);
}

PinnedBlock* PinnedAllocator::find(const void* pointer, const void* context) {
  if (const auto found = contexts_.find(context); found != contexts_.end())
    return static_cast<PinnedBlock*>(const_cast<void*>(*found));
  const auto found = by_address_.find(pointer);
  return found != by_address_.end() ? found->second : nullptr;
}

bool PinnedAllocator::record_event(const void* pointer, const void* context,
                                   const driver::StreamHandle& stream) {
  const Tell tell;
  MutexLock lock(mutex_);
  PinnedBlock* block = find(pointer, context);
  if (block == nullptr || !block->in_use) return false;
  record_use(block, stream);
  return true;
}

// ---- Giving back

// Never fails: no device is this memory's own.
void PinnedAllocator::finish_uses(bool settle) {
  bool leaving = false;
  const auto done = [&](const std::vector<StreamUse*>& uses) {
    MutexLock lock(mutex_);
    for (StreamUse* use : uses) {
      auto* block = static_cast<PinnedBlock*>(use->owner);
      block->use = nullptr;
      delete use;
      put_back(block);
    }
    leaving = leaving_ != nullptr;
  };
  (void)(settle ? uses_.settle(done) : uses_.poll(done));
  if (leaving) (void)release_leaving();
}

Status PinnedAllocator::empty_cache() {
  const Tell tell;
  catch_up();
  // Blocks whose copies are done count as unused; the others are not waited for.
  if (!uses_.empty()) finish_uses(/*settle=*/source_.may_wait());
  {
    MutexLock lock(mutex_);
    for (auto at = free_.begin(); at != free_.end();) {
      PinnedBlock* const block = *at++;
      if (block->whole() && !block->segment->reserved) send_away(block);
    }
  }
  return release_leaving();
}

// If a device was reset, what nobody uses goes back, and so does what its streams used.
void PinnedAllocator::catch_up() {
  const std::uint32_t now = source_.epoch();
  {
    MutexLock lock(mutex_);
    // Less is what another thread has overtaken: the sum of the devices' epochs only grows.
    if (now <= generation_) [[likely]]
      return;
    generation_ = now;
    while (!free_.empty()) {
      PinnedBlock* const block = *free_.begin();
      if (block->whole())
        send_away(block);
      else
        leave_list(block);
    }
  }
  (void)release_leaving();
  if (!uses_.empty()) finish_uses(/*settle=*/false);
}

Status PinnedAllocator::release_leaving() {
  PinnedSegment* segments = nullptr;
  {
    MutexLock lock(mutex_);
    segments = std::exchange(leaving_, nullptr);
  }
  Status failure;
  while (segments != nullptr) {
    PinnedSegment* const segment = std::exchange(segments, segments->next);
    std::int64_t taken = 0;
    // Told while it is ours: another thread may have the same memory before this call is over.
    record(Told::pinned_freed,
           [&]() -> cuda::Activity { return {.address = segment->data, .bytes = segment->bytes}; });
    Status status = timed(taken, [&] { return source_.free(segment->data); });
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): that is not the C library's free; only a number
    if (!status.ok())
      record(Told::pinned_allocated, [&]() -> cuda::Activity {
        return {.address = segment->data, .bytes = segment->bytes};
      });
    MutexLock lock(mutex_);
    if (!status.ok()) {
      if (failure.ok()) failure = std::move(status);
      segment->next = std::exchange(leaving_, segment);  // still ours: another time
      continue;
    }
    add(counters_.allocations, -1);
    add(counters_.allocated_bytes, -static_cast<std::int64_t>(segment->bytes));
    ++counters_.num_host_free;
    counters_.host_free_time.add(taken);
    delete segment->first;
    delete segment;
  }
  return failure;
}

// ---- Counting

cuda::PinnedCounters PinnedAllocator::counters() {
  catch_up();
  MutexLock lock(mutex_);
  return counters_;
}

void PinnedAllocator::reset_peaks() {
  MutexLock lock(mutex_);
  for (cuda::Counter* counter : {&counters_.allocations, &counters_.allocated_bytes,
                                 &counters_.active_requests, &counters_.active_bytes})
    counter->peak = counter->current;
}

void PinnedAllocator::reset_accumulated() {
  MutexLock lock(mutex_);
  for (cuda::Counter* counter : {&counters_.allocations, &counters_.allocated_bytes,
                                 &counters_.active_requests, &counters_.active_bytes})
    counter->allocated = counter->freed = 0;
  counters_.num_host_alloc = counters_.num_host_free = 0;
  counters_.host_alloc_time = counters_.host_free_time = {};
}

}  // namespace ember::inline v0::memory
