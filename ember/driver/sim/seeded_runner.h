#pragma once

#include <cstdint>
#include <deque>

#include "ember/driver/sim/seeded_executor.h"
#include "ember/driver/sim/stream.h"

namespace ember::inline v0::driver::sim {

/// A stream as this executor sees it. What is not constant is guarded by the executor's lock.
class SeededExecutor::Runner final : public Executor::Runner {
 public:
  Runner(SeededExecutor& executor, Stream& of) : stream(of), executor_(executor) {}
  Status start() override { return thread.start(); }
  void submitted(TaskKind kind) override;

  Stream& stream;
  SeenThread thread;
  State state = State::idle;
  std::uint64_t done = 0;        // tasks, ever
  std::uint64_t run = 0;         // in which it was numbered
  std::uint32_t number = 0;      // in that run
  std::uint64_t ran = 0;         // tasks of that run that were chosen
  std::uint64_t ran_before = 0;  // tasks of earlier runs
  std::size_t copied = 0;        // bytes of the next task, a copy, that were copied beforehand

  // What the host may know of the progress, and what it was told though it could have known better.
  std::uint64_t known = 0;
  std::uint64_t denied = 0;
  std::uint64_t learned = 0;  // how far `known` is good

  // Where a device model decides: when the tasks from `done` on were enqueued; from when on the
  // next one is ready, or, of one that runs, its end.
  std::deque<std::int64_t> enqueued;
  std::int64_t time = 0;
  bool faulted = false;  // of one that runs

  /// Before the progress changes: what was done when the host last learnt something it may know.
  void recall(std::uint64_t learned_by_now) noexcept {
    if (learned == learned_by_now) return;
    learned = learned_by_now;
    known = stream.timeline().reached();
  }
  void advance(std::uint64_t learned_by_now) noexcept {
    recall(learned_by_now);
    ++done;
    copied = 0;
    if (!enqueued.empty()) enqueued.pop_front();
    stream.timeline().advance();
  }

 private:
  SeededExecutor& executor_;
};

}  // namespace ember::inline v0::driver::sim
