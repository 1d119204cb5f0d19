// What a task writes, so that another one can overlap with it.
#pragma once

#include <cstddef>
#include <vector>

namespace ember::inline v0::driver::sim {

/// Two tasks that overlap both read what was there before, and what both have written stays. So the
/// first one runs with a journal, which then takes back what it has written; the second one runs;
/// and then the bytes that the first one had changed are put over that. Not thread-safe.
class WriteJournal {
 public:
  /// The task is about to write there, if it has not done so yet. It may only read, too.
  void note(void* at, std::size_t bytes);
  /// The first task is over: memory holds again what it held before it.
  void take_back();
  /// The second one is over: what the first one changed is changed.
  void put_over() const;

 private:
  struct Piece {
    std::byte* at;
    std::vector<std::byte> before, after;
  };
  std::vector<Piece> pieces_;  // in the order in which they were noted
};

}  // namespace ember::inline v0::driver::sim
