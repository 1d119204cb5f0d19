#include "ember/driver/sim/activity.h"

#include <algorithm>

#include "ember/base/sanitizer.h"

namespace ember::inline v0::driver::sim {
namespace {

constexpr std::int64_t kWindow = 1'000'000'000;  // nanoseconds
constexpr std::int64_t kLength = MeterRecord::kLength;
constexpr std::uint64_t kBusy = (std::uint64_t{1} << MeterRecord::kBusyBits) - 1;
static_assert(kLength * 64 == kWindow && std::uint64_t{kLength} <= kBusy);

std::int64_t nanoseconds(Meter::Clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint64_t number_of(std::int64_t piece) noexcept {
  return static_cast<std::uint64_t>(piece) << MeterRecord::kBusyBits;
}

/// How much of a piece that ends at `last` a record's meter was busy.
std::int64_t busy_in(const MeterRecord& record, std::int64_t piece, std::int64_t last) noexcept {
  const std::uint64_t word =
      record.pieces[static_cast<std::size_t>(piece % MeterRecord::kPieces)].load(
          std::memory_order_relaxed);
  std::int64_t busy = 0;
  if ((word & ~kBusy) == number_of(piece)) busy = static_cast<std::int64_t>(word & kBusy);
  if (const std::int64_t since = record.since.load(std::memory_order_relaxed); since > 0)
    busy += std::max<std::int64_t>(last - std::max(piece * kLength, since), 0);
  return busy;
}

}  // namespace

double share_of(std::span<const MeterRecord* const> records,
                Meter::Clock::time_point now) noexcept {
  const std::int64_t end = nanoseconds(now);
  std::int64_t made = end;
  bool running = false;
  for (const MeterRecord* record : records) {
    made = std::min(made, record->made.load(std::memory_order_relaxed));
    running = running || record->since.load(std::memory_order_relaxed) != 0;
  }
  const std::int64_t start = std::max({end - kWindow, made, std::int64_t{0}});
  if (start >= end) return running ? 1 : 0;
  double busy = 0;
  for (std::int64_t piece = start / kLength; piece * kLength < end; ++piece) {
    const std::int64_t first = piece * kLength;
    const std::int64_t last = std::min(first + kLength, end);
    std::int64_t together = 0;
    for (const MeterRecord* record : records) together += busy_in(*record, piece, last);
    const std::int64_t counted = last - std::max(first, start);
    busy += static_cast<double>(std::min(together, last - first)) * static_cast<double>(counted) /
            static_cast<double>(last - first);
  }
  return std::clamp(busy / static_cast<double>(end - start), 0.0, 1.0);
}

Meter::Meter() noexcept { own_.made = nanoseconds(Clock::now()); }

void Meter::begin(Clock::time_point now) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  if (running_++ == 0) record_->since.store(nanoseconds(now), std::memory_order_relaxed);
}

void Meter::end(Clock::time_point now) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  if (--running_ == 0) add(record_->since.exchange(0, std::memory_order_relaxed), nanoseconds(now));
}

void Meter::add(std::int64_t from, std::int64_t to) noexcept {
  // What is older than the pieces reach is not asked for any more.
  from = std::max(from, to - (MeterRecord::kPieces - 1) * kLength);
  while (from < to) {
    const std::int64_t number = from / kLength;
    auto& piece = record_->pieces[static_cast<std::size_t>(number % MeterRecord::kPieces)];
    const std::uint64_t word = piece.load(std::memory_order_relaxed);
    std::uint64_t busy = (word & ~kBusy) == number_of(number) ? word & kBusy : 0;
    const std::int64_t until = std::min(to, (number + 1) * kLength);
    busy = std::min<std::uint64_t>(busy + static_cast<std::uint64_t>(until - from), kLength);
    piece.store(number_of(number) | busy, std::memory_order_relaxed);
    from = until;
  }
}

double Meter::share(Clock::time_point now) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  const MeterRecord* const own = record_;
  return share_of({&own, 1}, now);
}

void Meter::move_to(MeterRecord& record) noexcept {
  const Unseen counting;
  const MutexLock lock(mutex_);
  const auto copy = [](const auto& from, auto& to) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  copy(record_->made, record.made);
  for (std::size_t i = 0; i < record.pieces.size(); ++i) copy(record_->pieces[i], record.pieces[i]);
  copy(record_->since, record.since);
  record_ = &record;
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
