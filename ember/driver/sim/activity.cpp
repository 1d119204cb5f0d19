#include "ember/driver/sim/activity.h"

#include <algorithm>

#include "ember/base/sanitizer.h"

namespace ember::inline v0::driver::sim {
namespace {

std::int64_t nanoseconds(Meter::Clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

void Meter::begin(Clock::time_point now) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  if (running_++ == 0) since_ = nanoseconds(now);
}

void Meter::end(Clock::time_point now) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  if (--running_ == 0) add(since_, nanoseconds(now));
}

void Meter::add(std::int64_t from, std::int64_t to) noexcept {
  // What is older than the pieces reach is not asked for any more.
  from = std::max(from, to - (kPieces - 1) * kLength);
  while (from < to) {
    const std::int64_t number = from / kLength;
    Piece& piece = pieces_[static_cast<std::size_t>(number % kPieces)];
    if (piece.number != number) piece = {number, 0};
    const std::int64_t until = std::min(to, (number + 1) * kLength);
    piece.busy += until - from;
    from = until;
  }
}

double Meter::share(Clock::time_point now) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  const std::int64_t end = nanoseconds(now);
  if (running_ > 0) {
    add(since_, end);
    since_ = end;
  }
  const std::int64_t start = std::max(end - kWindow.count(), nanoseconds(made_));
  if (start >= end) return running_ > 0 ? 1 : 0;
  double busy = 0;
  for (const Piece& piece : pieces_) {
    const std::int64_t first = piece.number * kLength;
    const std::int64_t last = std::min(first + kLength, end);
    if (piece.number < 0 || last <= start || first >= end) continue;
    const std::int64_t counted = last - std::max(first, start);
    busy += static_cast<double>(piece.busy) * static_cast<double>(counted) /
            static_cast<double>(last - first);
  }
  return std::clamp(busy / static_cast<double>(end - start), 0.0, 1.0);
}

void WorkerActivity::begin(const Task& task) noexcept {
  switch (task.kind) {
    case Task::Kind::kernel:
      run_ = reinterpret_cast<const void*>(task.kernel.host.run);
      if (memory_ && known(run_) != run_) end_memory();
      break;
    case Task::Kind::copy:
    case Task::Kind::fill:
      if (!memory_) begin_memory();
      break;
    case Task::Kind::stamp:
    case Task::Kind::word_write: return;
    case Task::Kind::host_function:
    case Task::Kind::wait:
    case Task::Kind::word_wait: return idle();
  }
  if (busy_) return;
  busy_ = true;
  device_.busy.begin();
}

void WorkerActivity::begin_memory() noexcept {
  memory_ = true;
  device_.memory.begin();
}

void WorkerActivity::end_memory() noexcept {
  memory_ = false;
  device_.memory.end();
}

void WorkerActivity::stop() noexcept {
  busy_ = false;
  device_.busy.end();
  if (memory_) end_memory();
}

}  // namespace ember::inline v0::driver::sim
