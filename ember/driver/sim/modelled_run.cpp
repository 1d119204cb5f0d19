// Runs that a device model decides: a simulation of discrete events.
//
// An event is the begin or the end of a task. A task begins, and does its work, once it was
// enqueued (and the launch's latency is over), the task before it in its stream and what the stream
// waits for have ended, and its part of the device is free. It ends after what the model says it
// takes; only then its stream's timeline moves. Events come in the order of their times: ends
// before begins, then by the streams' priorities, by who was ready first, by the streams' numbers.
// The host has a clock of its own, and when it enqueues, asks or waits, everything up to there
// happens.

#include <algorithm>
#include <limits>
#include <tuple>

#include "ember/driver/sim/seeded_runner.h"

namespace ember::inline v0::driver::sim {
namespace {

/// What a call costs without a model, in nanoseconds: as much as on a usual host.
constexpr std::int64_t kCallTime = 1000;

}  // namespace

void SeededExecutor::call(std::int64_t modelled) {
  if (!devices_) {
    clock_ += kCallTime;
  } else if (!on_worker()) {  // what a task enqueues costs the host nothing
    clock_ += modelled;
  }
}

void SeededExecutor::note_enqueued(Runner& runner) {
  if (!devices_) return;
  while (runner.done + runner.enqueued.size() < runner.stream.published())
    runner.enqueued.push_back(time());
}

std::int64_t SeededExecutor::can_begin(Runner& runner) {
  const Task& task = runner.stream.front(runner.done);
  return std::max({devices_now_.load(), runner.time,
                   devices_->free_from(runner.stream.device(), devices_->part_of(task))});
}

bool SeededExecutor::step_modelled(At at, bool host) {
  const std::int64_t until = host ? clock_.load() : std::numeric_limits<std::int64_t>::max();
  const auto ending =
      std::min_element(running_.begin(), running_.end(), [](const Runner* a, const Runner* b) {
        return std::tie(a->time, a->number) < std::tie(b->time, b->number);
      });
  std::size_t first = Decider::kHost;
  using Turn = std::tuple<std::int64_t, int, std::int64_t>;  // ready_ is by number
  Turn earliest(until, std::numeric_limits<int>::max(), 0);
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    Runner& runner = *ready_[i];
    const Turn turn(can_begin(runner), runner.stream.priority(), runner.time);
    if (turn >= earliest) continue;
    earliest = turn;
    first = i;
  }
  if (ending != running_.end() && (*ending)->time <= std::get<0>(earliest)) {
    Runner& runner = **ending;
    running_.erase(ending);
    devices_now_ = std::max(devices_now_.load(), runner.time);
    finish(runner, base_ + runner.time, runner.faulted);
    return true;
  }
  if (first == Decider::kHost && (!host || options_.empty())) return false;
  if (const Status status = decider_.note_modelled(at, options_, first); !status.ok())
    end_process(status.detail(), replay_line_locked());
  if (first == Decider::kHost) return false;
  begin_modelled(*ready_[first], std::get<0>(earliest));
  return true;
}

void SeededExecutor::begin_modelled(Runner& runner, std::int64_t now) {
  devices_now_ = now;
  take(runner);
  Traffic traffic;
  runner.faulted = perform(runner, base_ + now, &traffic);
  const int device = runner.stream.device();
  // Also of what was dropped or has failed: it was not known before.
  runner.time =
      now + devices_->begin(device, runner.stream.front(runner.done), now, traffic.bytes());
  running_.push_back(&runner);
}

}  // namespace ember::inline v0::driver::sim
