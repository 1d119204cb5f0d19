// The queue between those who submit work and the one executor that does it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "ember/base/sanitizer.h"
#include "ember/driver/arguments.h"
#include "ember/driver/driver.h"
#include "ember/driver/handles.h"
#include "ember/driver/kernel.h"
#include "ember/driver/sim/executor.h"
#include "ember/driver/sim/fault_plan.h"
#include "ember/driver/sim/timeline.h"
#include "ember/driver/work_times.h"

namespace ember::inline v0::driver::sim {

class Event;

/// One entry of a queue. What a kind needs travels in `params`, like a kernel's arguments, which
/// lie in the queue.
struct Task {
  using Kind = TaskKind;
  Kind kind = Kind::kernel;
  std::uint32_t epoch = 0;  ///< of the device, when the task was submitted
  Kernel kernel{};          ///< of other kinds only the name, for messages
  PeerMemory peer;          ///< that a kernel touches
  Params params;
  Ref<WorkTimes> times;  ///< where it notes when it ran, if anybody wants to know
  Trouble trouble;       ///< that a kernel is asked to have

  /// What it waits for besides the task before it.
  std::span<const Point> points() const noexcept {
    if (kind != Kind::wait) return {};
    return {static_cast<const Point*>(params.data()), params.size() / sizeof(Point)};
  }
};

/// With the epochs of the devices in which the memory was given out.
struct CopyArgs {
  void* target;
  const void* source;
  std::size_t bytes;
  std::uint32_t target_epoch;
  std::uint32_t source_epoch;
};
EMBER_ARGUMENTS(CopyArgs, EMBER_FIELD(target), EMBER_FIELD(source), EMBER_FIELD(bytes),
                EMBER_FIELD(target_epoch), EMBER_FIELD(source_epoch))
struct FillArgs {
  void* target;
  std::size_t count;
  std::uint32_t epoch;
  std::uint32_t pattern;
  std::uint32_t width;
  std::uint32_t unused = 0;  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(FillArgs, EMBER_FIELD(target), EMBER_FIELD(count), EMBER_FIELD(epoch),
                EMBER_FIELD(pattern), EMBER_FIELD(width), EMBER_FIELD(unused))
struct HostFunctionArgs {
  void (*function)(void*);
  void (*destroy)(void*);
  void* argument;
};
struct WordArgs {
  Word* word;
  std::uint64_t value;
};
struct StampArgs {
  Event* event;
  std::uint64_t serial;
};

/// Tasks in linked chunks: they are written and run in place, never moved, and chunks that were
/// worked off are used again, so that a steady stream of tasks allocates nothing. Arguments lie
/// behind the tasks of their chunk, which ends when either is full. One producer at a time (the
/// caller locks), one consumer, no lock between the two.
class TaskQueue {
 public:
  TaskQueue() : first_(new Chunk), last_(first_) {}
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  ~TaskQueue() {
    for (Chunk* chunk : {first_, spare_.load()})
      while (chunk != nullptr) delete std::exchange(chunk, chunk->next.load());
  }

  // Producer: fill in next_slot(), then publish() it, which returns its number, from 1. The slot's
  // params are a copy of these, of Params::kCapacity bytes at most.
  Task& next_slot(const Params& params) {
    const std::size_t room = (params.size() + kAlignment - 1) / kAlignment * kAlignment;
    if (slot_ == kTasks || room > kBytes - used_) extend();
    Task& task = last_->tasks[slot_];
    std::byte* copy = last_->arguments + used_;
    if (params.size() != 0) std::memcpy(copy, params.data(), params.size());
    task.params = Params(copy, params.size());
    used_ += room;
    return task;
  }
  std::uint64_t publish() noexcept {
    (void)hold();
    return publish_held();
  }
  // In place of publish(): it is not seen before the next publish() or publish_held().
  std::uint64_t hold() noexcept {
    ++slot_;
    ++held_;
    return next_number() - 1;
  }
  std::uint64_t publish_held() noexcept {
    const std::uint64_t more = std::exchange(held_, 0);
    return published_.fetch_add(more) + more;  // seq_cst: pairs with a worker's falling asleep
  }
  std::uint64_t held() const noexcept { return held_; }
  std::uint64_t next_number() const noexcept {
    return published_.load(std::memory_order_relaxed) + held_ + 1;
  }

  // Anyone: how many tasks there ever were.
  std::uint64_t published() const noexcept { return published_.load(); }

  // Consumer: the task after `done` others; it must have been published. The reference is good
  // until the next call.
  Task& front(std::uint64_t done) noexcept {
    // Where the task is of the next chunk, its producer has written the end of this one before.
    if (done == first_->end.load(std::memory_order_relaxed))
      retire(first_->next.load(std::memory_order_acquire));
    return first_->tasks[done - first_->begin];
  }

 private:
  static constexpr std::size_t kTasks = 32;
  static constexpr std::size_t kBytes = 8192;  // of arguments: 256 for each task, or two full ones
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);
  static constexpr int kSpares = 4;
  static constexpr std::uint64_t kOpen = UINT64_MAX;
  static_assert(Params::kCapacity <= kBytes);

  struct Chunk {
    std::array<Task, kTasks> tasks;
    alignas(kAlignment) std::byte arguments[kBytes];
    std::uint64_t begin = 0;                ///< tasks of the chunks before
    std::atomic<std::uint64_t> end{kOpen};  ///< tasks with this chunk's; written when it is full
    std::atomic<Chunk*> next{nullptr};
  };

  void extend() {
    Chunk* chunk = take_spare();
    if (chunk == nullptr) chunk = new Chunk;
    chunk->begin = next_number() - 1;
    chunk->end.store(kOpen, std::memory_order_relaxed);
    chunk->next.store(nullptr, std::memory_order_relaxed);
    last_->next.store(chunk, std::memory_order_release);
    last_->end.store(chunk->begin, std::memory_order_relaxed);
    last_ = chunk;
    slot_ = 0;
    used_ = 0;
  }
  void retire(Chunk* next) noexcept {
    Chunk* empty = std::exchange(first_, next);
    if constexpr (kThreadSanitizer) {  // using it again would order this task before the next ones
      delete empty;
      return;
    }
    if (spares_.fetch_add(1, std::memory_order_relaxed) >= kSpares) {
      spares_.fetch_sub(1, std::memory_order_relaxed);
      delete empty;
      return;
    }
    Chunk* top = spare_.load(std::memory_order_relaxed);
    do {
      empty->next.store(top, std::memory_order_relaxed);
    } while (!spare_.compare_exchange_weak(top, empty, std::memory_order_release,
                                           std::memory_order_relaxed));
  }
  /// Only the producer takes, so that what is on top stays there until it does.
  Chunk* take_spare() noexcept {
    Chunk* top = spare_.load(std::memory_order_acquire);
    while (top != nullptr &&
           !spare_.compare_exchange_weak(top, top->next.load(std::memory_order_relaxed),
                                         std::memory_order_acquire)) {
    }
    if (top != nullptr) spares_.fetch_sub(1, std::memory_order_relaxed);
    return top;
  }

  Chunk* first_;  // the consumer's

  // The producers'.
  Chunk* last_;
  std::size_t slot_ = 0;  // tasks of `last_`
  std::size_t used_ = 0;  // bytes of its arguments
  std::uint64_t held_ = 0;

  std::atomic<Chunk*> spare_{nullptr};  // chunks that were worked off, linked by `next`
  std::atomic<int> spares_{0};
  std::atomic<std::uint64_t> published_{0};
};

}  // namespace ember::inline v0::driver::sim
