#include "ember/memory/pinned_allocator.h"

#include <algorithm>
#include <bit>
#include <string>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/ledger.h"
#include "ember/memory/size_policy.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::memory {
namespace {

void add(cuda::Counter& counter, std::int64_t change) noexcept {
  counter.current += change;
  counter.peak = std::max(counter.peak, counter.current);
  (change > 0 ? counter.allocated : counter.freed) += change > 0 ? change : -change;
}

std::size_t size_class(std::size_t bytes) { return std::countr_zero(bytes); }

using Told = cuda::Activity::Kind;

/// Told by the Tell of the operation, once its locks are free.
void record(Told kind, cuda::Activity activity) noexcept {
  if (!cuda::observed()) [[likely]]
    return;
  activity.kind = kind;
  cuda::detail::record(activity);
}

}  // namespace

PinnedAllocator::~PinnedAllocator() {
  MutexLock lock(mutex_);
  for (const auto& [address, block] : by_address_) {
    (void)source_.free(block->data);
    if (block->in_use) delete block->use;  // otherwise it is parked, and uses_ deletes it
    delete block;
  }
}

PinnedBlock* PinnedAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes >= kTooLarge)
    throw ValueError("Invalid size for pinned memory: " + std::to_string(bytes) +
                     ". Sizes are from 0 to 2^60 - 1 bytes.");
  const std::size_t size = std::bit_ceil(bytes);
  const Tell tell;
  catch_up();
  if (!uses_.empty()) finish_uses(/*settle=*/false);
  std::uint32_t generation = 0;
  {
    MutexLock lock(mutex_);
    generation = generation_;  // before the source is asked, so that it is not too new
    if (PinnedBlock*& first = free_[size_class(size)]; first != nullptr) {
      PinnedBlock* block = first;
      first = block->next;
      block->in_use = true;
      add(counters_.active_requests, 1);
      add(counters_.active_bytes, static_cast<std::int64_t>(size));
      record(Told::pinned_handed_out, {.address = block->data, .bytes = size, .requested = bytes});
      return block;
    }
  }
  void* data = nullptr;
  Status status = source_.allocate(size, data);
  if (status.code() == Code::out_of_memory) {
    check(empty_cache());
    status = source_.allocate(size, data);
  }
  if (status.code() == Code::out_of_memory && status.detail().empty())
    status = Status(Code::out_of_memory, "page-locking " + format_bytes(size) + " of host memory");
  check(status);
  record(Told::pinned_allocated, {.address = data, .bytes = size});
  record(Told::pinned_handed_out, {.address = data, .bytes = size, .requested = bytes});
  return adopt(data, size, generation);
}

PinnedBlock* PinnedAllocator::adopt(void* data, std::size_t bytes, std::uint32_t generation) {
  auto* block = new PinnedBlock{data, bytes, generation, /*in_use=*/true};
  MutexLock lock(mutex_);
  by_address_[data] = block;
  contexts_.insert(block);
  const auto size = static_cast<std::int64_t>(bytes);
  add(counters_.allocations, 1);
  add(counters_.allocated_bytes, size);
  add(counters_.active_requests, 1);
  add(counters_.active_bytes, size);
  ++counters_.num_host_alloc;
  return block;
}

bool PinnedAllocator::free(void* pointer) noexcept {
  const Tell tell;
  catch_up();
  StreamUse* use = nullptr;
  bool retired = false;
  {
    MutexLock lock(mutex_);
    const auto found = by_address_.find(pointer);
    if (found == by_address_.end() || !found->second->in_use) return false;
    PinnedBlock* block = found->second;
    block->in_use = false;
    // Before another thread can have it.
    record(Told::pinned_returned, {.address = block->data, .bytes = block->bytes});
    use = block->use;
    if (use == nullptr) put_back(block);
    retired = retired_ != nullptr;
  }
  if (use != nullptr) uses_.park(use);
  if (retired) (void)release_retired();  // what cannot be given back now stays ours
  return true;
}

void PinnedAllocator::put_back(PinnedBlock* block) {
  insert(block);
  add(counters_.active_requests, -1);
  add(counters_.active_bytes, -static_cast<std::int64_t>(block->bytes));
}

void PinnedAllocator::insert(PinnedBlock* block) {
  PinnedBlock*& list =
      block->generation == generation_ ? free_[size_class(block->bytes)] : retired_;
  block->next = std::exchange(list, block);
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
  if (block->use == nullptr) block->use = new StreamUse{block, {}, {}, 0};
  block->use->note(stream);
  record(Told::pinned_stream_recorded,
         {.device = stream.device, .stream = stream.native, .address = block->data});
  return true;
}

// Never fails: no device is this memory's own.
void PinnedAllocator::finish_uses(bool settle) {
  bool retired = false;
  const auto done = [&](const std::vector<StreamUse*>& uses) {
    MutexLock lock(mutex_);
    for (StreamUse* use : uses) {
      auto* block = static_cast<PinnedBlock*>(use->owner);
      block->use = nullptr;
      delete use;
      put_back(block);
    }
    retired = retired_ != nullptr;
  };
  (void)(settle ? uses_.settle(done) : uses_.poll(done));
  if (retired) (void)release_retired();
}

Status PinnedAllocator::empty_cache() {
  const Tell tell;
  catch_up();
  // Blocks whose copies are done count as unused; the others are not waited for.
  if (!uses_.empty()) finish_uses(/*settle=*/source_.may_wait());
  return release_cached();
}

// If a device was reset, what is cached goes back, and so does what its streams used.
void PinnedAllocator::catch_up() {
  const std::uint32_t now = source_.epoch();
  std::vector<PinnedBlock*> unused;
  {
    MutexLock lock(mutex_);
    // Less is what another thread has overtaken: the sum of the devices' epochs only grows.
    if (now <= generation_) [[likely]]
      return;
    generation_ = now;
    for (PinnedBlock*& list : free_) take_out(list, unused);
  }
  (void)release(unused);
  if (!uses_.empty()) finish_uses(/*settle=*/false);
}

Status PinnedAllocator::release_cached() {
  std::vector<PinnedBlock*> unused;
  {
    MutexLock lock(mutex_);
    for (PinnedBlock*& list : free_) take_out(list, unused);
    take_out(retired_, unused);
  }
  return release(unused);
}

Status PinnedAllocator::release_retired() {
  std::vector<PinnedBlock*> unused;
  {
    MutexLock lock(mutex_);
    take_out(retired_, unused);
  }
  return release(unused);
}

// From here on nobody finds them; once the source has one back, it may give its address to another
// thread.
void PinnedAllocator::take_out(PinnedBlock*& list, std::vector<PinnedBlock*>& out) {
  for (; list != nullptr; list = list->next) {
    out.push_back(list);
    contexts_.erase(list);
    by_address_.erase(list->data);
  }
}

Status PinnedAllocator::release(const std::vector<PinnedBlock*>& unused) {
  Status failure;
  for (PinnedBlock* block : unused) {
    Status status = source_.free(block->data);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): that is not the C library's free; only a number
    if (status.ok()) record(Told::pinned_freed, {.address = block->data, .bytes = block->bytes});
    MutexLock lock(mutex_);
    if (status.ok()) {
      add(counters_.allocations, -1);
      add(counters_.allocated_bytes, -static_cast<std::int64_t>(block->bytes));
      ++counters_.num_host_free;
      delete block;
      continue;
    }
    if (failure.ok()) failure = std::move(status);
    by_address_[block->data] = block;  // still ours
    contexts_.insert(block);
    insert(block);
  }
  return failure;
}

cuda::PinnedCounters PinnedAllocator::counters() {
  catch_up();
  MutexLock lock(mutex_);
  return counters_;
}

}  // namespace ember::inline v0::memory
