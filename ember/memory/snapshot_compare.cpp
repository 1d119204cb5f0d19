#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/memory/snapshot_file.h"
#include "ember/memory/snapshot_reader.h"

namespace ember::inline v0::cuda {
namespace {

using memory::Pickled;
using memory::SnapshotReader;
using Totals = SnapshotComparison::Totals;
using Usage = SnapshotComparison::Usage;
using Holder = SnapshotComparison::Holder;

using Frames = SnapshotReader::Frames;

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

/// One of the two.
class Reader {
 public:
  Reader(std::string_view bytes, const char* which) : snapshot_(bytes, which) {}

  Totals read(Places& places, Usage std::pair<Usage, Usage>::*side) {
    Totals totals;
    tag_of_.emplace(SnapshotReader::kNone, places.tags.number({}));
    stack_of_.emplace(SnapshotReader::kNone, places.stacks.number({}));
    snapshot_.each_segment([&](Pickled::Index segment) {
      ++totals.segments;
      totals.reserved += snapshot_.bytes(segment, "total_size");
      snapshot_.each_block(segment, [&](Pickled::Index block) {
        if (!snapshot_.state(block).starts_with("active")) return;
        const std::uint64_t size = snapshot_.bytes(block, "size");
        Usage& usage = places.usage[place_of(block, places)].*side;
        for (Usage* counted : {&usage, &totals.active}) {
          counted->bytes += size;
          ++counted->blocks;
        }
      });
    });
    return totals;
  }

 private:
  std::pair<std::size_t, std::size_t> place_of(Pickled::Index block, Places& places) {
    const auto tag = tag_of_.try_emplace(snapshot_.member(block, "tag"), 0);
    if (tag.second) tag.first->second = places.tags.number(snapshot_.text(tag.first->first));
    const auto stack = stack_of_.try_emplace(snapshot_.member(block, "frames"), 0);
    if (stack.second)
      stack.first->second = places.stacks.number(snapshot_.frames(stack.first->first));
    return {tag.first->second, stack.first->second};
  }

  SnapshotReader snapshot_;
  std::unordered_map<Pickled::Index, std::size_t> tag_of_, stack_of_;
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
  if (!holder.tag.empty()) text += ", tag " + as_line(holder.tag);
  text += "\n";
  if (holder.frames.empty()) text += "      no stack was recorded\n";
  for (const StackFrame& frame : holder.frames) {
    text += "      " + as_line(frame.file);
    if (frame.line != 0) text += ":" + std::to_string(frame.line);
    text += " " + as_line(frame.name) + "\n";
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
