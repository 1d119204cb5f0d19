// A snapshot as a page of its own. What it looks like is in view.html and view.js, which the build
// makes texts of; here the snapshot becomes columns, and each stack is written once.
#include "ember/memory/view.h"

#include <map>
#include <unordered_map>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/json_text.h"
#include "ember/memory/pickle.h"

namespace ember::inline v0::cuda {
namespace {

using memory::Pickled;
using Value = Pickled::Value;
using Kind = Pickled::Kind;

constexpr std::string_view kPage =
#include "ember/memory/view_page_text.inc"
    ;
constexpr std::string_view kScript =
#include "ember/memory/view_script_text.inc"
    ;

[[noreturn]] void refuse(const std::string& what) { throw ValueError("not a snapshot: " + what); }

/// What stands under a key, by its value; null if nothing does.
const Pickled::Index* find(const Pickled& pickled, const Value& dict, std::string_view key) {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (pickled.at(dict.items[i]).text == key) return &dict.items[i + 1];
  return nullptr;
}

/// Stacks by number, each written once however many entries name it. Number 0 is the empty one.
class Stacks {
 public:
  explicit Stacks(const Pickled& pickled) : pickled_(pickled) { numbers_[{}] = 0; }

  std::size_t number_of(Pickled::Index list) {
    const auto [known, is_new] = by_list_.try_emplace(list, 0);
    if (!is_new) return known->second;
    const Value& frames = pickled_.at(list);
    if (frames.kind != Kind::list && frames.kind != Kind::tuple) refuse("frames are no list");
    std::vector<std::size_t> stack;
    for (const Pickled::Index frame : frames.items) stack.push_back(frame_of(pickled_.at(frame)));
    const std::size_t number =
        numbers_.try_emplace(std::move(stack), numbers_.size()).first->second;
    by_list_[list] = number;
    return number;
  }

  void write(std::string& to) const {
    to += "\"frames\":[";
    write_in_order(to, frames_, [&](const std::string& frame) { append_json_text(to, frame); });
    to += "],\"stacks\":[";
    write_in_order(to, numbers_, [&](const std::vector<std::size_t>& stack) {
      to += '[';
      for (const std::size_t frame : stack) {
        if (to.back() != '[') to += ',';
        to += std::to_string(frame);
      }
      to += ']';
    });
    to += ']';
  }

 private:
  std::size_t frame_of(const Value& frame) {
    if (frame.kind != Kind::dict) refuse("a frame is no dict");
    const auto part = [&](std::string_view key) {
      const Pickled::Index* at = find(pickled_, frame, key);
      if (at == nullptr) return std::string();
      const Value& value = pickled_.at(*at);
      return value.kind == Kind::integer ? std::to_string(value.whole) : std::string(value.text);
    };
    const std::string text = part("name") + "\n" + part("filename") + "\n" + part("line");
    return frames_.try_emplace(text, frames_.size()).first->second;
  }

  template <class Key, class Write>
  static void write_in_order(std::string& to, const std::map<Key, std::size_t>& numbers,
                             const Write& write) {
    std::vector<const Key*> keys(numbers.size());
    for (const auto& [key, number] : numbers) keys[number] = &key;
    const char* comma = "";
    for (const Key* key : keys) {
      to += comma;
      comma = ",";
      write(*key);
    }
  }

  const Pickled& pickled_;
  std::unordered_map<Pickled::Index, std::size_t> by_list_;
  std::map<std::string, std::size_t> frames_;
  std::map<std::vector<std::size_t>, std::size_t> numbers_;
};

/// Lists of dicts as rows of the same columns, so that keys are not written again and again.
class Columns {
 public:
  Columns(const Pickled& pickled, Stacks& stacks, std::string& to)
      : pickled_(pickled), stacks_(stacks), to_(to) {}

  void write(const Value& rows, std::string_view what) {
    if (rows.kind != Kind::list && rows.kind != Kind::tuple)
      refuse(std::string(what) + " is no list");
    to_ += '[';
    for (const Pickled::Index row : rows.items) {
      if (to_.back() != '[') to_ += ",\n";
      if (pickled_.at(row).kind != Kind::dict) refuse(std::string(what) + " has what is no dict");
      if (what == "segments") {
        write_segment(pickled_.at(row));
      } else if (what == "blocks") {
        write_row(pickled_.at(row), {"address", "size", "requested_size", "state", "tag"});
      } else {
        write_row(pickled_.at(row), {"action", "addr", "size", "stream", "time_us", "tag"});
      }
    }
    to_ += ']';
  }

 private:
  void write_row(const Value& row, std::initializer_list<std::string_view> keys) {
    to_ += '[';
    for (const std::string_view key : keys) {
      write_scalar(row, key);
      to_ += ',';
    }
    const Pickled::Index* frames = find(pickled_, row, "frames");
    to_ += std::to_string(frames == nullptr ? 0 : stacks_.number_of(*frames)) + "]";
  }
  void write_segment(const Value& segment) {
    to_ += '[';
    for (const std::string_view key :
         {"device", "address", "total_size", "stream", "segment_type"}) {
      write_scalar(segment, key);
      to_ += ',';
    }
    write_pool(find(pickled_, segment, "segment_pool_id"));
    const Pickled::Index* blocks = find(pickled_, segment, "blocks");
    if (blocks == nullptr) refuse("a segment without blocks");
    write(pickled_.at(*blocks), "blocks");
    to_ += ']';
  }
  void write_pool(const Pickled::Index* pool) {
    std::string text;
    if (pool != nullptr)
      for (const Pickled::Index part : pickled_.at(*pool).items)
        text += (text.empty() ? "" : ".") + std::to_string(pickled_.at(part).whole);
    append_json_text(to_, text);
    to_ += ',';
  }
  /// Numbers and texts; null for what is not there or is of another kind.
  void write_scalar(const Value& row, std::string_view key) {
    const Pickled::Index* at = find(pickled_, row, key);
    const Value none;
    const Value& value = at == nullptr ? none : pickled_.at(*at);
    if (value.kind == Kind::text) {
      append_json_text(to_, value.text);
    } else if (value.kind == Kind::integer) {
      to_ += value.is_unsigned ? std::to_string(static_cast<std::uint64_t>(value.whole))
                               : std::to_string(value.whole);
    } else {
      to_ += "null";
    }
  }

  const Pickled& pickled_;
  Stacks& stacks_;
  std::string& to_;
};

void append_snapshot(std::string& to, std::string_view pickle, std::string_view name) {
  Pickled pickled;
  if (const Status status = memory::read_pickle(pickle, pickled); !status.ok())
    throw ValueError(status.detail());
  const Value& root = pickled.at(pickled.root);
  if (root.kind != Kind::dict) refuse("it is no dict");
  Stacks stacks(pickled);
  Columns columns(pickled, stacks, to);
  to += "{\"name\":";
  append_json_text(to, name);
  const Pickled::Index* segments = find(pickled, root, "segments");
  const Pickled::Index* traces = find(pickled, root, "device_traces");
  if (segments == nullptr) refuse("it has no 'segments'");
  to += ",\"segments\":";
  columns.write(pickled.at(*segments), "segments");
  to += ",\"traces\":[";
  if (traces != nullptr)
    for (const Pickled::Index trace : pickled.at(*traces).items) {
      if (to.back() != '[') to += ',';
      columns.write(pickled.at(trace), "a trace");
    }
  to += "],";
  stacks.write(to);
  to += '}';
}

/// The page with a text in the place of a comment of this name.
void put_in(std::string& page, std::string_view name, std::string_view text) {
  const std::string mark = "<!-- " + std::string(name) + " -->";
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string snapshot_page(std::string_view snapshot, std::string_view name, std::string_view before,
                          std::string_view name_before) {
  std::string data = "[";
  append_snapshot(data, snapshot, name);
  if (!before.empty()) {
    data += ",\n";
    append_snapshot(data, before, name_before);
  }
  data += ']';
  std::string page(kPage);
  put_in(page, "script", kScript);
  put_in(page, "data", data);
  return page;
}

}  // namespace ember::inline v0::cuda
