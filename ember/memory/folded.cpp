#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "ember/memory/flame_graph.h"
#include "ember/memory/snapshot_reader.h"

namespace ember::inline v0::cuda {
namespace {

using memory::Pickled;
using memory::SnapshotReader;

/// A name within a line: without what separates names, and lines.
std::string clean(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ';' || c == '\n' || c == '\r'; }, ' ');
  return name;
}

/// Writes a snapshot's blocks as lines.
class Folder {
 public:
  Folder(std::string_view snapshot, const char* name) : snapshot_(snapshot, name) {}

  /// Calls `prefix(segment)` for each segment; an empty one leaves it out.
  template <class Prefix>
  void write(std::string& out, const Prefix& prefix) {
    snapshot_.each_segment([&](Pickled::Index segment) {
      const std::string begin = prefix(snapshot_, segment);
      snapshot_.each_block(segment, [&](Pickled::Index block) {
        if (!begin.empty()) write_block(out, begin, block);
      });
    });
  }

 private:
  void write_block(std::string& out, const std::string& begin, Pickled::Index block) {
    const std::string state = clean(std::string(snapshot_.state(block)));
    const std::uint64_t size = snapshot_.bytes(block, "size");
    const std::uint64_t requested = std::min(snapshot_.bytes(block, "requested_size"), size);
    out += begin + ';' + state + ';' + stack(block) + ' ' + std::to_string(requested) + '\n';
    if (size > requested)
      out += begin + ';' + state + ";<gaps> " + std::to_string(size - requested) + '\n';
  }

  const std::string& stack(Pickled::Index block) {
    const Pickled::Index at = snapshot_.member(block, "frames");
    const auto [known, is_new] = stacks_.try_emplace(at);
    if (!is_new) return known->second;
    SnapshotReader::Frames frames;
    if (at != SnapshotReader::kNone) frames = snapshot_.frames(at);
    std::string text;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const auto& [file, line, name] = *frame;
      if (!text.empty()) text += ';';
      text += clean(file.substr(file.rfind('/') + 1) + ':' + std::to_string(line) + ':' + name);
    }
    if (text.empty()) text = "<non-python>";
    return known->second = std::move(text);
  }

  SnapshotReader snapshot_;
  std::unordered_map<Pickled::Index, std::string> stacks_;
};

std::string stream_of(const SnapshotReader& snapshot, Pickled::Index segment) {
  return "stream_" + std::to_string(snapshot.bytes(segment, "stream"));
}
std::string segment_of(const SnapshotReader& snapshot, Pickled::Index segment) {
  return stream_of(snapshot, segment) + ";seg_" +
         std::to_string(snapshot.bytes(segment, "address"));
}

/// Address and size.
using Place = std::pair<std::uint64_t, std::uint64_t>;

Place place_of(const SnapshotReader& snapshot, Pickled::Index segment) {
  return {snapshot.bytes(segment, "address"), snapshot.bytes(segment, "total_size")};
}

std::set<Place> places(std::string_view snapshot, const char* name) {
  SnapshotReader reader(snapshot, name);
  std::set<Place> all;
  reader.each_segment([&](Pickled::Index segment) { all.insert(place_of(reader, segment)); });
  return all;
}

}  // namespace

std::string folded_memory(std::string_view snapshot, FoldedBy by) {
  std::string out;
  Folder(snapshot, "the snapshot").write(out, by == FoldedBy::segment ? segment_of : stream_of);
  return out;
}

std::string folded_changes(std::string_view before, std::string_view after) {
  std::string out;
  const auto write = [&](std::string_view snapshot, const char* name, std::set<Place> others,
                         const char* begin) {
    Folder(snapshot, name).write(out, [&](const SnapshotReader& reader, Pickled::Index segment) {
      if (others.count(place_of(reader, segment)) != 0) return std::string();
      return begin + segment_of(reader, segment);
    });
  };
  constexpr const char* kBefore = "the first snapshot";
  constexpr const char* kAfter = "the second snapshot";
  write(before, kBefore, places(after, kAfter), "only_before;");
  write(after, kAfter, places(before, kBefore), "only_after;");
  return out;
}

}  // namespace ember::inline v0::cuda
