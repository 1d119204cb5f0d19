// Snapshots of memory as they lie in files, part by part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ember/memory/pickle.h"

namespace ember::inline v0::memory {

/// A pickle that should be a snapshot: what it holds is checked where it is asked for. A pickle may
/// name a value again and again: segments, blocks and lists of blocks are refused the second time,
/// so that reading takes time in proportion to the file.
class SnapshotReader {
 public:
  /// File, line and name of each, innermost first.
  using Frames = std::vector<std::tuple<std::string, std::int64_t, std::string>>;
  /// In place of a member that is not there.
  static constexpr Pickled::Index kNone = ~Pickled::Index{0};

  /// `name` names it in errors, all of which are ValueErrors; `bytes` must outlive the reader.
  SnapshotReader(std::string_view bytes, std::string name);

  /// Calls `visit(segment)` for each; each_block() the same.
  template <class Visit>
  void each_segment(const Visit& visit) {
    for (const Pickled::Index at : list(member(pickled_.root, "segments"), "segments")) {
      once(at, "a segment");
      visit(at);
    }
  }
  template <class Visit>
  void each_block(Pickled::Index segment, const Visit& visit) {
    const Pickled::Index at = member(segment, "blocks");
    const std::vector<Pickled::Index>& blocks = list(at, "blocks");
    once(at, "a list of blocks");
    for (const Pickled::Index block : blocks) {
      once(block, "a block");
      visit(block);
    }
  }

  /// The value of a key of a dict; kNone if there is none.
  Pickled::Index member(Pickled::Index of, std::string_view name) const;
  /// A number of bytes, or an address.
  std::uint64_t bytes(Pickled::Index of, const char* name) const;
  std::string_view state(Pickled::Index block) const;
  /// Empty for what is no text, or kNone.
  std::string text(Pickled::Index at) const;
  /// What stands there: a list of frames.
  Frames frames(Pickled::Index at);

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  const std::vector<Pickled::Index>& list(Pickled::Index at, const char* name) const;
  void once(Pickled::Index at, const char* what);

  const std::string name_;
  Pickled pickled_;
  std::unordered_set<Pickled::Index> seen_;
  std::unordered_map<Pickled::Index, Frames::value_type> frame_of_;
};

}  // namespace ember::inline v0::memory
