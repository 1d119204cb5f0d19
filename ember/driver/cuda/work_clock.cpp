#include "ember/driver/cuda/work_clock.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "ember/base/no_destructor.h"

namespace ember::inline v0::driver::cuda {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;  // some 5,000 records
constexpr std::size_t kBufferAlignment = 8;                 // as CUPTI asks

std::uint64_t machine_clock() {
  return static_cast<std::uint64_t>(clock_time(std::chrono::steady_clock::now()));
}

/// CUPTI drops records where there is no buffer.
void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most = 0;  // as many as there is room for
}

/// The subscription is there to have CUPTI alone; no call of CUDA's is asked for.
void hear_nothing() {}

template <class Number>
Number field(const std::uint8_t* record, std::size_t at) {
  Number number;
  std::memcpy(&number, record + at, sizeof number);
  return number;
}

/// Where the number of the call is in a record of what a device did; 0 in others.
std::size_t place_of_call(cupti::Kind kind) {
  switch (kind) {
    case cupti::Kind::kernel: return cupti::kKernelCallAt;
    case cupti::Kind::copy:
    case cupti::Kind::fill: return cupti::kCopyCallAt;
    case cupti::Kind::peer_copy: return cupti::kPeerCopyCallAt;
    case cupti::Kind::driver_call:
    case cupti::Kind::runtime_call:
    case cupti::Kind::external_call: return 0;
  }
  return 0;
}

}  // namespace

WorkClock& WorkClock::instance() {
  static NoDestructor<WorkClock> made;
  return *made;
}

// ---- On and off

Status WorkClock::turn_on() noexcept {
  const MutexLock lock(switching_);
  if (on_.load(std::memory_order_relaxed)) return {};
  if (refused_) return why_;
  const cupti::Calls* calls = nullptr;
  why_ = cupti::load(calls);
  if (why_.ok()) {
    why_ = subscribe(*calls);
    // What is registered last is called first, and CUPTI's own end must come later.
    if (calls_.exchange(calls) == nullptr) (void)std::atexit([] { instance().leave(); });
  }
  refused_ = !why_.ok();
  on_.store(!refused_, std::memory_order_release);
  return why_;
}

Status WorkClock::subscribe(const cupti::Calls& calls) noexcept {
  cupti::Result result =
      calls.subscribe(&subscriber_, reinterpret_cast<void*>(&hear_nothing), nullptr);
  if (result == cupti::kOtherSubscriber)
    return Status(Code::not_supported, "another tool of this process uses CUPTI");
  if (result != cupti::kSuccess) return cupti::failure(calls, "subscribing", result);
  // The clock comes before the kinds, so that all records have it.
  const char* what = "setting the clock";
  result = calls.set_clock(&machine_clock);
  if (result == cupti::kSuccess) {
    what = "setting buffers";
    result = calls.set_buffers(&give_buffer, &take_buffer);
  }
  for (const cupti::Kind kind : cupti::kKinds) {
    if (result != cupti::kSuccess) break;
    what = "asking for records";
    result = calls.enable(kind);
  }
  if (result == cupti::kSuccess) return {};
  for (const cupti::Kind kind : cupti::kKinds) (void)calls.disable(kind);
  (void)calls.unsubscribe(std::exchange(subscriber_, nullptr));
  return cupti::failure(calls, what, result);
}

void WorkClock::leave() noexcept {
  pause();
  flush(false);
  flush(true);
  const MutexLock lock(switching_);
  over_ = true;
  refused_ = true;
  why_ = Status(Code::not_supported, "the process ends");
}

void WorkClock::pause() noexcept {
  const MutexLock lock(switching_);
  refused_ = over_;
  if (!on_.exchange(false)) return;
  const cupti::Calls& calls = *calls_.load(std::memory_order_acquire);
  for (const cupti::Kind kind : cupti::kKinds) (void)calls.disable(kind);
  (void)calls.unsubscribe(std::exchange(subscriber_, nullptr));
}

// ---- Work

Status WorkClock::begin_work(int device, std::uint32_t epoch, WorkTimes* times,
                             Number& out) noexcept {
  if (!on_.load(std::memory_order_acquire)) EMBER_TRY(turn_on());
  const Number made = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  {
    const MutexLock lock(mutex_);
    if (works_.size() >= sweep_at_) {
      sweep();
      sweep_at_ = std::max(sweep_at_, 2 * works_.size());
    }
    works_[made] = {.device = device, .epoch = epoch, .times = Ref<WorkTimes>(times)};
  }
  const cupti::Calls& calls = *calls_.load(std::memory_order_acquire);
  if (const cupti::Result result = calls.push(cupti::kOurs, made); result != cupti::kSuccess) {
    (void)take(made);
    return cupti::failure(calls, "naming work", result);
  }
  out = made;
  return {};
}

void WorkClock::end_work() noexcept {
  if (over_.load(std::memory_order_acquire)) return;
  std::uint64_t last = 0;
  (void)calls_.load(std::memory_order_acquire)->pop(cupti::kOurs, &last);
}

Ref<WorkTimes> WorkClock::take(Number work) noexcept {
  if (work == 0) return {};  // nothing is timed: host functions come by here
  const MutexLock lock(mutex_);
  const auto at = works_.find(work);
  if (at == works_.end()) return {};
  Ref<WorkTimes> times = std::move(at->second.times);
  works_.erase(at);
  return times;
}

void WorkClock::sweep() noexcept {
  std::erase_if(works_, [](const auto& each) { return each.second.times.is_only(); });
  std::erase_if(owners_, [&](const auto& each) { return !works_.contains(each.second); });
}

// ---- Records

/// One operation may be several kernels and copies: it ran from the begin of the first to the end
/// of the last.
void WorkClock::note(Number number, Span span) noexcept {
  const auto at = works_.find(number);
  if (at == works_.end()) return;
  Work& work = at->second;
  work.begin = work.known ? std::min(work.begin, span.begin) : span.begin;
  work.end = work.known ? std::max(work.end, span.end) : span.end;
  work.known = true;
  work.times->began(work.begin);
  work.times->ended(work.end, false);
}

void WorkClock::take_buffer(void* context, std::uint32_t stream, std::uint8_t* buffer,
                            std::size_t size, std::size_t valid) {
  (void)context, (void)stream, (void)size;
  WorkClock& clock = instance();
  clock.read(*clock.calls_.load(std::memory_order_acquire), buffer, valid);
  std::free(buffer);
}

void WorkClock::read(const cupti::Calls& calls, std::uint8_t* buffer, std::size_t valid) noexcept {
  const MutexLock lock(mutex_);
  Spans spans;
  // It ends at the first record that is not complete as well.
  for (std::uint8_t* record = nullptr;
       calls.next_record(buffer, valid, &record) == cupti::kSuccess;) {
    const auto kind = static_cast<cupti::Kind>(field<std::uint32_t>(record, 0));
    if (kind == cupti::Kind::external_call) {
      if (field<std::uint32_t>(record, cupti::kExternalKindAt) == cupti::kOurs)
        owners_[field<std::uint32_t>(record, cupti::kExternalCallAt)] =
            field<std::uint64_t>(record, cupti::kExternalNumberAt);
    } else if (const std::size_t place = place_of_call(kind); place != 0) {
      const auto begin = field<std::int64_t>(record, cupti::kBeginAt);
      const auto end = field<std::int64_t>(record, cupti::kEndAt);
      if (begin != 0 && end != 0)  // or CUPTI had no memory for them on the device
        spans.emplace(field<std::uint32_t>(record, place), Span{begin, end});
    }
  }
  const auto note_all = [&](Spans& from) EMBER_REQUIRES(mutex_) {
    std::erase_if(from, [&](const auto& each) EMBER_REQUIRES(mutex_) {
      const auto owner = owners_.find(each.first);
      if (owner == owners_.end()) return false;
      note(owner->second, each.second);
      return true;
    });
  };
  note_all(early_);
  note_all(spans);
  early_.swap(spans);  // what others enqueue is nobody's: it is gone with the next buffer
}

void WorkClock::flush(bool forced) noexcept {
  const cupti::Calls* const calls = calls_.load(std::memory_order_acquire);
  if (calls == nullptr || over_.load(std::memory_order_acquire)) return;
  const std::uint32_t flag = forced ? 1 : 0;
  try {
    std::thread([&] { (void)calls->flush(flag); }).join();
  } catch (const std::system_error&) {  // no thread can be made
    (void)calls->flush(flag);
  }
}

Status WorkClock::collect(const std::function<bool(int, std::uint32_t)>& lost) noexcept {
  // With a device in a fault, records that will never be complete keep back their buffer.
  const auto any_lost = [&] {
    const MutexLock lock(mutex_);
    return std::any_of(works_.begin(), works_.end(), [&](const auto& each) {
      return !each.second.known && lost(each.second.device, each.second.epoch);
    });
  };
  flush(false);
  if (any_lost()) {
    flush(true);
    const MutexLock lock(mutex_);
    for (auto& [number, work] : works_)
      if (!work.known && lost(work.device, work.epoch)) work.times->dropped();
  }
  {
    const MutexLock lock(mutex_);
    sweep();
  }
  const MutexLock lock(switching_);
  return over_ ? Status() : why_;
}

}  // namespace ember::inline v0::driver::cuda
