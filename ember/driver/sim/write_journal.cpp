#include "ember/driver/sim/write_journal.h"

#include <algorithm>
#include <cstring>

namespace ember::inline v0::driver::sim {

void WriteJournal::note(void* at, std::size_t bytes) {
  auto* const first = static_cast<std::byte*>(at);
  if (bytes != 0) pieces_.push_back({first, {first, first + bytes}, {}});
}

// Pieces may have bytes in common, and the later one was noted when these had changed. Taken back
// from the last to the first, all of them are as they were.
void WriteJournal::take_back() {
  for (Piece& piece : pieces_) piece.after.assign(piece.at, piece.at + piece.before.size());
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece)
    std::memcpy(piece->at, piece->before.data(), piece->before.size());
  for (Piece& piece : pieces_)
    std::copy(piece.at, piece.at + piece.before.size(), piece.before.begin());
}

void WriteJournal::put_over() const {
  for (const Piece& piece : pieces_)
    for (std::size_t i = 0; i < piece.before.size(); ++i)
      if (piece.after[i] != piece.before[i]) piece.at[i] = piece.after[i];
}

}  // namespace ember::inline v0::driver::sim
