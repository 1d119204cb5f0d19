#include "ember/memory/snapshot_writer.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "ember/base/json_text.h"
#include "ember/memory/pickle.h"
#include "ember/memory/settings.h"
#include "ember/memory/snapshot.h"

namespace ember::inline v0::memory {
namespace {

enum Opcode : unsigned char {
  kMark = '(',
  kAppends = 'e',
  kBinget = 'h',
  kBinfloat = 'G',
  kBinint = 'J',
  kBinint1 = 'K',
  kBinint2 = 'M',
  kBinunicode = 'X',
  kEmptyDict = '}',
  kEmptyList = ']',
  kLong1 = 0x8a,
  kLongBinget = 'j',
  kMemoize = 0x94,
  kNewfalse = 0x89,
  kNewtrue = 0x88,
  kProto = 0x80,
  kSetitems = 'u',
  kShortBinunicode = 0x8c,
  kStop = '.',
  kTuple2 = 0x86,
};

}  // namespace

// ---- Pickle

PickleWriter::PickleWriter() {
  put(kProto);
  put(4);
}

void PickleWriter::little_endian(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) put(static_cast<unsigned char>(value >> (8 * i)));
}

// Before each value: in a list, begins and ends the groups of items.
void PickleWriter::item() {
  if (open_.empty() || !open_.back().list) return;
  if (open_.back().items++ % kMostAppended != 0) return;
  if (open_.back().items > 1) put(kAppends);
  put(kMark);
}

std::uint32_t PickleWriter::memoize() {
  put(kMemoize);
  return memo_++;
}

void PickleWriter::get(std::uint32_t index) {
  put(index < 256 ? kBinget : kLongBinget);
  little_endian(index, index < 256 ? 1 : 4);
}

void PickleWriter::begin_list() {
  item();
  put(kEmptyList);
  open_.push_back({true, 0});
}

void PickleWriter::end_list() {
  if (open_.back().items > 0) put(kAppends);
  open_.pop_back();
}

void PickleWriter::begin_dict() {
  item();
  put(kEmptyDict);
  put(kMark);
  open_.push_back({});
}

void PickleWriter::end_dict() {
  put(kSetitems);
  open_.pop_back();
}

void PickleWriter::new_text(std::string_view value) {
  put(value.size() < 256 ? kShortBinunicode : kBinunicode);
  little_endian(value.size(), value.size() < 256 ? 1 : 4);
  out_.append(value);
}

void PickleWriter::key(const char* name) {
  const auto [at, is_new] = keys_.try_emplace(name, memo_);
  if (!is_new) return get(at->second);
  new_text(name);
  (void)memoize();
}

void PickleWriter::text(std::string_view value) {
  item();
  std::string utf8 = as_utf8(value);
  utf8.resize(std::min<std::size_t>(utf8.size(), 0xFFFF'FFFF));
  const auto [at, is_new] = texts_.try_emplace(std::move(utf8), memo_);
  if (!is_new) return get(at->second);
  new_text(at->first);
  (void)memoize();
}

void PickleWriter::whole(std::uint64_t bits, bool negative) {
  const auto value = static_cast<std::int64_t>(bits);
  if (!negative && bits < 0x100) {
    put(kBinint1);
    little_endian(bits, 1);
  } else if (!negative && bits < 0x10000) {
    put(kBinint2);
    little_endian(bits, 2);
  } else if (negative ? value >= INT32_MIN : bits <= INT32_MAX) {
    put(kBinint);
    little_endian(bits, 4);
  } else {
    // As few bytes as hold it with its sign.
    std::size_t bytes = 8;
    if (!negative && bits >> 63 != 0)
      bytes = 9;
    else
      while (bytes > 5 &&
             static_cast<std::int64_t>(bits << (72 - 8 * bytes)) >> (72 - 8 * bytes) == value)
        --bytes;
    put(kLong1);
    put(static_cast<unsigned char>(bytes));
    little_endian(bits, std::min<std::size_t>(bytes, 8));
    if (bytes == 9) put(0);
  }
}

void PickleWriter::integer(std::int64_t value) {
  item();
  whole(static_cast<std::uint64_t>(value), value < 0);
}

void PickleWriter::natural(std::uint64_t value) {
  item();
  whole(value, false);
}

void PickleWriter::number(double value) {
  item();
  put(kBinfloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) put(static_cast<unsigned char>(bits >> (8 * i)));
}

void PickleWriter::boolean(bool value) {
  item();
  put(value ? kNewtrue : kNewfalse);
}

void PickleWriter::pair(std::uint64_t first, std::uint64_t second) {
  item();
  whole(first, false);
  whole(second, false);
  put(kTuple2);
}

bool PickleWriter::kept(std::uint32_t number) {
  const auto found = kept_.find(number);
  if (found == kept_.end()) return false;
  item();
  get(found->second);
  return true;
}

void PickleWriter::keep(std::uint32_t number) { kept_.emplace(number, memoize()); }

std::string PickleWriter::pickle() && {
  put(kStop);
  return std::move(out_);
}

// ---- JSON

void JsonWriter::separate() {
  if (!first_ && !after_key_) out_ += ", ";
  first_ = after_key_ = false;
}

void JsonWriter::begin(char bracket) {
  separate();
  begun_.push_back(out_.size());
  out_ += bracket;
  first_ = true;
}

void JsonWriter::end(char bracket) {
  out_ += bracket;
  closed_ = begun_.back();
  begun_.pop_back();
  first_ = false;
}

void JsonWriter::key(const char* name) {
  text(name);
  out_ += ": ";
  after_key_ = true;
}

void JsonWriter::integer(std::int64_t value) {
  separate();
  out_ += std::to_string(value);
}

void JsonWriter::natural(std::uint64_t value) {
  separate();
  out_ += std::to_string(value);
}

void JsonWriter::number(double value) {
  separate();
  char text[40];
  if (std::isfinite(value))
    out_.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  else
    out_ += "null";
}

void JsonWriter::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
}

void JsonWriter::text(std::string_view value) {
  separate();
  append_json_text(out_, value);
}

void JsonWriter::pair(std::uint64_t first, std::uint64_t second) {
  separate();
  out_ += "[" + std::to_string(first) + ", " + std::to_string(second) + "]";
}

bool JsonWriter::kept(std::uint32_t number) {
  const auto found = kept_.find(number);
  if (found == kept_.end()) return false;
  separate();
  out_ += found->second;
  return true;
}

void JsonWriter::keep(std::uint32_t number) { kept_.emplace(number, out_.substr(closed_)); }

// ---- The description

namespace {

using cuda::MemoryEvent;
using cuda::MemorySnapshot;
using Action = MemoryEvent::Action;

const char* name_of(MemorySnapshot::State state) {
  switch (state) {
    case MemorySnapshot::State::active_allocated: return "active_allocated";
    case MemorySnapshot::State::active_pending_free: return "active_pending_free";
    default: return "inactive";
  }
}

void frames(SnapshotWriter& to, std::uint32_t stack) {
  to.key("frames");
  if (to.kept(stack)) return;
  to.begin_list();
  for (const StackFrame& frame : cuda::memory_frames(stack)) {
    to.begin_dict();
    to.key("filename"), to.text(frame.file);
    to.key("line"), to.integer(frame.line);
    to.key("name"), to.text(frame.name);
    to.end_dict();
  }
  to.end_list();
  to.keep(stack);
}

void block(SnapshotWriter& to, const MemorySnapshot::Block& block) {
  to.begin_dict();
  to.key("address"), to.natural(block.address);
  to.key("size"), to.natural(block.size);
  to.key("requested_size"), to.natural(block.requested_size);
  to.key("state"), to.text(name_of(block.state));
  frames(to, block.stack);
  if (block.tag != 0) to.key("tag"), to.text(cuda::memory_tag_name(block.tag));
  to.end_dict();
}

void describe_segment(SnapshotWriter& to, const MemorySnapshot::Segment& segment) {
  to.begin_dict();
  to.key("device"), to.integer(segment.device);
  to.key("address"), to.natural(segment.address);
  to.key("total_size"), to.natural(segment.total_size);
  to.key("allocated_size"), to.natural(segment.allocated_size);
  to.key("active_size"), to.natural(segment.active_size);
  to.key("requested_size"), to.natural(segment.requested_size);
  to.key("stream"), to.natural(segment.stream);
  to.key("segment_type"), to.text(segment.small ? "small" : "large");
  to.key("segment_pool_id"), to.pair(segment.pool.first, segment.pool.second);
  to.key("is_expandable"), to.boolean(segment.is_expandable);
  if (segment.asleep) to.key("asleep"), to.boolean(true);
  frames(to, segment.stack);
  to.key("blocks"), to.begin_list();
  for (const MemorySnapshot::Block& each : segment.blocks) block(to, each);
  to.end_list();
  to.end_dict();
}

void entry(SnapshotWriter& to, const MemoryEvent& event) {
  to.begin_dict();
  to.key("action"), to.text(cuda::action_name(event.action()));
  to.key(event.action() == Action::oom ? "device_free" : "addr"), to.natural(event.address);
  to.key("size"), to.natural(event.size);
  to.key("stream"), to.natural(event.stream);
  to.key("time_us"), to.natural(event.time_us);
  to.key("pool_id"), to.pair(event.pool_id().first, event.pool_id().second);
  if (event.stack != 0) frames(to, event.stack);
  if (event.tag != 0) {
    to.key("tag"), to.text(cuda::memory_tag_name(event.tag));
    to.key("user_metadata"), to.text(cuda::memory_tag_name(event.tag));
  }
  to.end_dict();
}

void settings(SnapshotWriter& to, const Settings& settings) {
  to.begin_dict();
  to.key("PYTORCH_CUDA_ALLOC_CONF"), to.text(settings.text);
  to.key("max_split_size");
  if (settings.max_split_size == Settings::kUnlimited)
    to.integer(-1);
  else
    to.natural(settings.max_split_size);
  to.key("garbage_collection_threshold"), to.number(settings.garbage_collection_threshold);
  to.key("expandable_segments"), to.boolean(settings.expandable_segments);
  to.key("pinned_num_register_threads"), to.natural(settings.pinned_num_register_threads);
  to.key("release_lock_on_cudamalloc"), to.boolean(settings.release_lock_on_cudamalloc);
  to.key("pinned_use_cuda_host_register"), to.boolean(settings.pinned_use_cuda_host_register);
  to.key("roundup_power2_divisions"), to.begin_dict();
  static constexpr const char* kMegabytes[Settings::kIntervals] = {
      "1",   "2",   "4",    "8",    "16",   "32",   "64",    "128",
      "256", "512", "1024", "2048", "4096", "8192", "16384", "32768"};
  for (std::size_t i = 0; i < Settings::kIntervals; ++i)
    to.key(kMegabytes[i]), to.natural(settings.roundup_divisions[i]);
  to.end_dict();
  to.end_dict();
}

}  // namespace

void describe(const MemorySnapshot& snapshot, SnapshotWriter& to) {
  to.begin_dict();
  to.key("segments"), to.begin_list();
  for (const MemorySnapshot::Segment& each : snapshot.segments) describe_segment(to, each);
  to.end_list();
  to.key("device_traces"), to.begin_list();
  for (const std::vector<MemoryEvent>& trace : snapshot.device_traces) {
    to.begin_list();
    for (const MemoryEvent& event : trace) entry(to, event);
    to.end_list();
  }
  to.end_list();
  to.key("allocator_settings");
  settings(to, snapshot.settings != nullptr ? *snapshot.settings : default_settings());
  to.end_dict();
}

}  // namespace ember::inline v0::memory
