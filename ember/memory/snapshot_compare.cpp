#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/pickle.h"
#include "ember/memory/snapshot_file.h"

namespace ember::inline v0::cuda {
namespace {

using memory::Pickled;
using Kind = Pickled::Kind;
using Totals = SnapshotComparison::Totals;
using Usage = SnapshotComparison::Usage;
using Holder = SnapshotComparison::Holder;

/// File, line and name of each.
using Frames = std::vector<std::tuple<std::string, std::int64_t, std::string>>;

/// What both snapshots name, once, and by its number from then on.
template <class T>
class Numbered {
 public:
  std::size_t number(T value) {
    const auto [at, is_new] = numbers_.try_emplace(std::move(value), all_.size());
    if (is_new) all_.push_back(&at->first);
    return at->second;
  }
  const T& at(std::size_t number) const { return *all_[number]; }

 private:
  std::map<T, std::size_t> numbers_;
  std::vector<const T*> all_;
};

struct Places {
  Numbered<std::string> tags;
  Numbered<Frames> stacks;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<Usage, Usage>> usage;
};

/// One of the two: `which` names it in errors. A pickle may name a value again and again: here each
/// is read once, so that it takes time in proportion to the file.
class Reader {
 public:
  Reader(std::string_view bytes, const char* which) : which_(which) {
    const Status status = memory::read_pickle(bytes, pickled_);
    if (!status.ok()) throw ValueError(std::string(which) + ": " + status.detail());
  }

  Totals read(Places& places, Usage std::pair<Usage, Usage>::*side) {
    Totals totals;
    tag_of_.emplace(kNone, places.tags.number({}));
    stack_of_.emplace(kNone, places.stacks.number({}));
    for (const Pickled::Index at : list(member(pickled_.root, "segments"), "segments")) {
      once(at, "a segment");
      ++totals.segments;
      totals.reserved += bytes(at, "total_size");
      for (const Pickled::Index block : blocks_of(at)) {
        once(block, "a block");
        const std::optional<Pickled::Index> state = member(block, "state");
        if (!state || pickled_.at(*state).kind != Kind::text) refuse("a block without a state");
        if (!pickled_.at(*state).text.starts_with("active")) continue;
        const std::uint64_t size = bytes(block, "size");
        Usage& usage = places.usage[place_of(block, places)].*side;
        for (Usage* counted : {&usage, &totals.active}) {
          counted->bytes += size;
          ++counted->blocks;
        }
      }
    }
    return totals;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ValueError(std::string(which_) + ": not a snapshot of memory: " + what);
  }
  std::optional<Pickled::Index> member(Pickled::Index of, std::string_view name) const {
    const Pickled::Value& dict = pickled_.at(of);
    if (dict.kind != Kind::dict) refuse("expected a dict with '" + std::string(name) + "'");
    // The last one of equal keys counts, as in Python.
    for (std::size_t i = dict.items.size(); i >= 2; i -= 2)
      if (pickled_.at(dict.items[i - 2]).text == name) return dict.items[i - 1];
    return {};
  }
  const std::vector<Pickled::Index>& list(std::optional<Pickled::Index> at,
                                          const char* name) const {
    if (!at || pickled_.at(*at).kind != Kind::list)
      refuse("'" + std::string(name) + "' is not there, or no list");
    return pickled_.at(*at).items;
  }
  std::uint64_t bytes(Pickled::Index of, const char* name) const {
    const std::optional<Pickled::Index> at = member(of, name);
    if (!at || pickled_.at(*at).kind != Kind::integer || pickled_.at(*at).is_unsigned ||
        pickled_.at(*at).whole < 0)
      refuse("'" + std::string(name) + "' is not there, or no number of bytes");
    return static_cast<std::uint64_t>(pickled_.at(*at).whole);
  }
  std::string text(std::optional<Pickled::Index> at) const {
    return at && pickled_.at(*at).kind == Kind::text ? std::string(pickled_.at(*at).text)
                                                     : std::string();
  }

  void once(Pickled::Index at, const char* what) {
    if (!seen_.insert(at).second) refuse(std::string(what) + " that is there twice");
  }
  const std::vector<Pickled::Index>& blocks_of(Pickled::Index segment) {
    const std::optional<Pickled::Index> at = member(segment, "blocks");
    const std::vector<Pickled::Index>& blocks = list(at, "blocks");
    once(*at, "a list of blocks");
    return blocks;
  }

  std::pair<std::size_t, std::size_t> place_of(Pickled::Index block, Places& places) {
    const auto tag = tag_of_.try_emplace(member(block, "tag").value_or(kNone), 0);
    if (tag.second) tag.first->second = places.tags.number(text(tag.first->first));
    const auto stack = stack_of_.try_emplace(member(block, "frames").value_or(kNone), 0);
    if (stack.second) stack.first->second = places.stacks.number(frames_of(stack.first->first));
    return {tag.first->second, stack.first->second};
  }
  Frames frames_of(Pickled::Index at) {
    Frames frames;
    for (const Pickled::Index frame : list(at, "frames")) {
      const auto [known, is_new] = frame_of_.try_emplace(frame);
      if (is_new) {
        const std::optional<Pickled::Index> line = member(frame, "line");
        known->second = {
            text(member(frame, "filename")),
            line && pickled_.at(*line).kind == Kind::integer ? pickled_.at(*line).whole : 0,
            text(member(frame, "name"))};
      }
      frames.push_back(known->second);
    }
    return frames;
  }

  static constexpr Pickled::Index kNone = ~Pickled::Index{0};
  const char* const which_;
  Pickled pickled_;
  std::unordered_set<Pickled::Index> seen_;
  std::unordered_map<Pickled::Index, std::size_t> tag_of_, stack_of_;
  std::unordered_map<Pickled::Index, Frames::value_type> frame_of_;
};

std::int64_t growth(const Holder& holder) {
  return static_cast<std::int64_t>(holder.after.bytes - holder.before.bytes);
}

std::string with_sign(std::int64_t bytes) {
  return bytes < 0 ? "-" + format_bytes(static_cast<std::uint64_t>(-bytes))
                   : "+" + format_bytes(static_cast<std::uint64_t>(bytes));
}

std::string count(std::uint64_t number, const char* of) {
  return std::to_string(number) + " " + of + (number == 1 ? "" : "s");
}

std::string text_of(const char* name, const Totals& totals) {
  return std::string(name) + format_bytes(totals.active.bytes) + " in " +
         count(totals.active.blocks, "block") + " of " + format_bytes(totals.reserved) + " in " +
         count(totals.segments, "segment") + "\n";
}

std::string text_of(const Holder& holder) {
  std::string text = "  " + with_sign(growth(holder)) + ": " + format_bytes(holder.before.bytes) +
                     " in " + count(holder.before.blocks, "block") + " -> " +
                     format_bytes(holder.after.bytes) + " in " +
                     count(holder.after.blocks, "block");
  if (!holder.tag.empty()) text += ", tag " + holder.tag;
  text += "\n";
  if (holder.frames.empty()) text += "      no stack was recorded\n";
  for (const StackFrame& frame : holder.frames) {
    text += "      " + frame.file;
    if (frame.line != 0) text += ":" + std::to_string(frame.line);
    text += " " + frame.name + "\n";
  }
  return text;
}

}  // namespace

SnapshotComparison compare_snapshots(std::string_view before, std::string_view after) {
  Places places;
  SnapshotComparison made;
  made.before = Reader(before, "the first snapshot").read(places, &std::pair<Usage, Usage>::first);
  made.after = Reader(after, "the second snapshot").read(places, &std::pair<Usage, Usage>::second);
  for (const auto& [place, usage] : places.usage) {
    if (usage.first == usage.second) continue;
    Holder& holder = made.changed.emplace_back();
    holder.tag = places.tags.at(place.first);
    for (const auto& [file, line, name] : places.stacks.at(place.second))
      holder.frames.push_back({file, static_cast<int>(line), name});
    holder.before = usage.first;
    holder.after = usage.second;
  }
  std::stable_sort(made.changed.begin(), made.changed.end(),
                   [](const Holder& a, const Holder& b) { return growth(a) > growth(b); });
  return made;
}

std::string SnapshotComparison::str(std::size_t most) const {
  std::string text = text_of("before: ", before) + text_of("after:  ", after);
  if (changed.empty()) return text + "nothing has changed\n";
  const auto list = [&](const char* title, auto first, auto last, auto wanted) {
    std::size_t shown = 0, left = 0;
    for (; first != last && wanted(*first); ++first) {
      if (shown == most) {
        ++left;
        continue;
      }
      if (shown++ == 0) text += title;
      text += text_of(*first);
    }
    if (left > 0) text += "  and " + count(left, "place") + " more\n";
  };
  list("grew\n", changed.begin(), changed.end(),
       [](const Holder& holder) { return growth(holder) >= 0; });
  list("shrank\n", changed.rbegin(), changed.rend(),
       [](const Holder& holder) { return growth(holder) < 0; });
  return text;
}

}  // namespace ember::inline v0::cuda
