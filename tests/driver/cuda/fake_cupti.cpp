// A libcupti that knows what a test tells it. Its records are as large as CUPTI 13's, and have
// their fields where those have them.
#include "fake_cupti.h"

#include <cstring>
#include <mutex>
#include <vector>

namespace {

constexpr std::size_t kRecordBytes = 216;
constexpr std::uint32_t kNamed = 39;
enum Result { success = 0, invalid = 1, no_more = 12, incomplete = 21, other_subscriber = 39 };

std::uint32_t call_now();
void record_now(int kind, std::uint32_t call, std::int64_t begin, std::int64_t end);

std::mutex mutex;
void (*ask)(std::uint8_t**, std::size_t*, std::size_t*) = nullptr;
void (*take)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t) = nullptr;
std::uint64_t (*now)() = nullptr;
struct Buffer {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  std::size_t records = 0;
  bool complete = true;
};
std::vector<Buffer> buffers;
std::uint32_t last_call = 0;
thread_local std::vector<std::uint64_t> names;
// A name's record stands in front of that of the call itself: both have to be asked for.
bool names_are_recorded[2] = {};
constexpr std::uint32_t kDriverCall = 4;

void note_kind(std::uint32_t kind, bool on) {
  if (kind == kNamed) names_are_recorded[0] = on;
  if (kind == kDriverCall) names_are_recorded[1] = on;
}

}  // namespace

extern "C" {
extern __attribute__((visibility("default"))) FakeCupti fake_cupti;
FakeCupti fake_cupti{.call = &call_now, .record = &record_now};
}

namespace {

/// Whether a call of that name is to fail.
bool fails(const char* name) {
  if (fake_cupti.failing_call == nullptr || std::strcmp(fake_cupti.failing_call, name) != 0)
    return false;
  fake_cupti.failing_call = nullptr;
  return true;
}

void put(std::uint8_t* record, std::size_t at, auto number) {
  std::memcpy(record + at, &number, sizeof number);
}

std::uint8_t* add_record(std::uint32_t kind) {
  if (buffers.empty() || buffers.back().records == fake_cupti.records_of_buffer) {
    Buffer made;
    std::size_t most = 0;
    ask(&made.bytes, &made.size, &most);
    buffers.push_back(made);
    ++fake_cupti.buffers;
  }
  Buffer& buffer = buffers.back();
  std::uint8_t* const record = buffer.bytes + kRecordBytes * buffer.records++;
  std::memset(record, 0xEE, kRecordBytes);
  put(record, 0, kind);
  return record;
}

std::uint32_t call_now() {
  const std::lock_guard lock(mutex);
  const std::uint32_t call = ++last_call;
  if (names_are_recorded[0] && names_are_recorded[1] && !names.empty()) {
    std::uint8_t* const record = add_record(kNamed);
    put(record, 4, std::uint32_t{3});
    put(record, 8, names.back());
    put(record, 16, call);
    (void)add_record(kDriverCall);
  }
  return call;
}

void record_now(int kind, std::uint32_t call, std::int64_t begin, std::int64_t end) {
  const std::lock_guard lock(mutex);
  std::uint8_t* const record = add_record(end == 0 ? 0 : static_cast<std::uint32_t>(kind));
  put(record, 16, begin);
  put(record, 24, end);
  put(record, kind == 10 ? 92 : kind == 22 ? 60 : 44, call);
  if (end == 0) buffers.back().complete = false;
}

}  // namespace

extern "C" {

int cuptiSubscribe(void** subscriber, void*, void*) {
  if (fake_cupti.taken) return other_subscriber;
  if (fails("cuptiSubscribe")) return invalid;
  *subscriber = &fake_cupti;
  return ++fake_cupti.subscribers, success;
}
int cuptiUnsubscribe(void* subscriber) {
  if (subscriber != &fake_cupti) return invalid;
  return --fake_cupti.subscribers, success;
}
int cuptiActivityEnable(std::uint32_t kind) {
  if (fails("cuptiActivityEnable") || ask == nullptr || now == nullptr) return invalid;
  note_kind(kind, true);
  return ++fake_cupti.kinds, success;
}
int cuptiActivityDisable(std::uint32_t kind) {
  note_kind(kind, false);
  if (fake_cupti.kinds != 0) --fake_cupti.kinds;
  return success;
}
int cuptiActivityRegisterCallbacks(decltype(ask) asked, decltype(take) taken) {
  if (fails("cuptiActivityRegisterCallbacks")) return invalid;
  ask = asked;
  take = taken;
  return success;
}
int cuptiActivityRegisterTimestampCallback(decltype(now) clock) {
  if (fails("cuptiActivityRegisterTimestampCallback")) return invalid;
  now = clock;
  return success;
}
int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, std::uint8_t** record) {
  std::uint8_t* const next = *record == nullptr ? buffer : *record + kRecordBytes;
  if (next >= buffer + valid) return no_more;
  std::uint32_t kind = 0;
  std::memcpy(&kind, next, sizeof kind);
  if (kind == 0) return incomplete;
  *record = next;
  return success;
}
int cuptiActivityPushExternalCorrelationId(int kind, std::uint64_t number) {
  if (kind != 3 || fails("cuptiActivityPushExternalCorrelationId")) return invalid;
  names.push_back(number);
  return ++fake_cupti.pushed, success;
}
int cuptiActivityPopExternalCorrelationId(int kind, std::uint64_t* number) {
  if (kind != 3 || names.empty()) return invalid;
  *number = names.back();
  names.pop_back();
  return --fake_cupti.pushed, success;
}
int cuptiActivityFlushAll(std::uint32_t forced) {
  std::vector<Buffer> given;
  {
    const std::lock_guard lock(mutex);
    ++fake_cupti.flushes;
    std::vector<Buffer> kept;
    for (const Buffer& buffer : buffers)
      (forced != 0 || buffer.complete ? given : kept).push_back(buffer);
    buffers.swap(kept);
    fake_cupti.buffers = static_cast<int>(buffers.size());
  }
  for (const Buffer& buffer : given)
    take(nullptr, 0, buffer.bytes, buffer.size, buffer.records * kRecordBytes);
  return success;
}
int cuptiGetResultString(int result, const char** text) {
  *text = result == invalid ? "CUPTI_ERROR_INVALID_PARAMETER" : "CUPTI_ERROR_UNKNOWN";
  return success;
}
}
