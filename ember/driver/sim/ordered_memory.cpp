#include "ember/driver/sim/ordered_memory.h"

#include <algorithm>
#include <iterator>

namespace ember::inline v0::driver::sim {

template <class Choose>
std::vector<OrderedMemory::Piece> OrderedMemory::take_chosen(int device, const Choose& choose) {
  std::vector<Piece> chosen;
  for (auto of_size = pieces_.lower_bound({device, 0});
       of_size != pieces_.end() && of_size->first.first == device;) {
    std::deque<Piece>& pieces = of_size->second;
    const auto kept = std::stable_partition(pieces.begin(), pieces.end(),
                                            [&](const Piece& piece) { return !choose(piece); });
    for (auto piece = kept; piece != pieces.end(); ++piece) {
      pointers_.erase(piece->pointer);
      chosen.push_back(*piece);
    }
    pieces.erase(kept, pieces.end());
    of_size = pieces.empty() ? pieces_.erase(of_size) : std::next(of_size);
  }
  return chosen;
}

bool OrderedMemory::put(const Piece& piece) {
  const MutexLock lock(mutex_);
  const auto there = pointers_.find(piece.pointer);
  if (there != pointers_.end()) {
    if (there->second == piece.epoch) return false;
    if (there->second > piece.epoch) return true;  // gone with a reset, and forgotten at once
    (void)take_chosen(piece.device, [&](const Piece& old) { return old.epoch != piece.epoch; });
  }
  pointers_[piece.pointer] = piece.epoch;
  pieces_[{piece.device, piece.bytes}].push_back(piece);
  return true;
}

void* OrderedMemory::take(int device, std::uint32_t epoch, std::size_t bytes,
                          const Timeline& stream, Point* freed) {
  const MutexLock lock(mutex_);
  const auto of_size = pieces_.find({device, bytes});
  if (of_size == pieces_.end()) return nullptr;
  std::deque<Piece>& pieces = of_size->second;
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.epoch == epoch && (piece.freed.timeline == &stream || piece.freed.reached());
  });
  if (found == pieces.end()) return nullptr;
  void* const pointer = found->pointer;
  if (freed != nullptr) *freed = found->freed;
  pieces.erase(found);
  pointers_.erase(pointer);
  return pointer;
}

bool OrderedMemory::has(const void* pointer, std::uint32_t epoch) const {
  const MutexLock lock(mutex_);
  const auto there = pointers_.find(pointer);
  return there != pointers_.end() && there->second == epoch;
}

std::vector<OrderedMemory::Piece> OrderedMemory::take_unused(int device) {
  const MutexLock lock(mutex_);
  return take_chosen(device, [](const Piece& piece) { return piece.freed.reached(); });
}

void OrderedMemory::begin_epoch(int device, std::uint32_t epoch) {
  const MutexLock lock(mutex_);
  (void)take_chosen(device, [&](const Piece& piece) { return piece.epoch != epoch; });
}

}  // namespace ember::inline v0::driver::sim
