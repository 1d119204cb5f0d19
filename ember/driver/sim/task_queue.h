// The queue between those who submit work and the one worker that does it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "ember/driver/kernel.h"

namespace ember::driver::sim {

class Event;

/// One entry of a queue. What a kind needs travels in `params`, like a kernel's arguments.
struct Task {
  enum class Kind : std::uint8_t {
    kernel,         ///< run `kernel.host` with `params`
    copy,           ///< CopyArgs
    fill,           ///< FillArgs
    host_function,  ///< HostFunctionArgs
    wait,           ///< Point: wait until it is reached
    stamp,          ///< StampArgs: note the time in an event
  };
  Kind kind = Kind::kernel;
  Kernel kernel{};  ///< of other kinds only the name, for messages
  Params params;
};

struct CopyArgs {
  void* target;
  const void* source;
  std::size_t bytes;
};
struct FillArgs {
  void* target;
  std::uint32_t pattern;
  unsigned width;
  std::size_t count;
};
struct HostFunctionArgs {
  void (*function)(void*);
  void* argument;
};
struct StampArgs {
  Event* event;
  std::uint64_t serial;
};

/// Tasks in linked chunks: they are written and run in place, never moved, and a chunk that was
/// worked off is used again, so that a steady stream of tasks allocates nothing. One producer at a
/// time (the caller locks), one consumer, no lock between the two.
class TaskQueue {
 public:
  TaskQueue() : first_(new Chunk), last_(first_) {}
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  ~TaskQueue() {
    delete spare_.load();
    while (first_ != nullptr) delete std::exchange(first_, first_->next.load());
  }

  // Producer: fill in next_slot(), then publish() it, which returns its number, from 1.
  Task& next_slot() {
    const std::uint64_t published = published_.load(std::memory_order_relaxed);
    const std::uint64_t place = published % kChunkSize;
    if (place == 0 && published != 0) extend();
    return last_->tasks[place];
  }
  std::uint64_t publish() noexcept {
    return published_.fetch_add(1) + 1;  // seq_cst: pairs with the worker's falling asleep
  }

  // Anyone: how many tasks there ever were.
  std::uint64_t published() const noexcept { return published_.load(); }

  // Consumer: the task after `done` others; it must have been published. The reference is good
  // until the next call.
  Task& front(std::uint64_t done) noexcept {
    const std::uint64_t place = done % kChunkSize;
    if (place == 0 && done != 0) retire(first_->next.load(std::memory_order_acquire));
    return first_->tasks[place];
  }

 private:
  static constexpr std::uint64_t kChunkSize = 32;
  struct Chunk {
    std::array<Task, kChunkSize> tasks;
    std::atomic<Chunk*> next{nullptr};
  };

  void extend() {
    Chunk* chunk = spare_.exchange(nullptr, std::memory_order_acquire);
    if (chunk == nullptr) chunk = new Chunk;
    last_->next.store(chunk, std::memory_order_release);
    last_ = chunk;
  }
  void retire(Chunk* next) noexcept {
    Chunk* empty = first_;
    first_ = next;
    empty->next.store(nullptr, std::memory_order_relaxed);
    delete spare_.exchange(empty, std::memory_order_acq_rel);  // one spare is enough
  }

  Chunk* first_;  // the consumer's
  Chunk* last_;   // the producers'
  std::atomic<Chunk*> spare_{nullptr};
  std::atomic<std::uint64_t> published_{0};
};

}  // namespace ember::driver::sim
