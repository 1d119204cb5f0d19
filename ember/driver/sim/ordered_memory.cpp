#include "ember/driver/sim/ordered_memory.h"

#include <algorithm>

namespace ember::inline v0::driver::sim {

bool OrderedMemory::put(const Piece& piece) {
  const MutexLock lock(mutex_);
  if (!pointers_.insert(piece.pointer).second) return false;
  pieces_[{piece.device, piece.bytes}].push_back(piece);
  return true;
}

void* OrderedMemory::take(int device, std::uint32_t epoch, std::size_t bytes,
                          const Timeline& stream) {
  const MutexLock lock(mutex_);
  const auto of_size = pieces_.find({device, bytes});
  if (of_size == pieces_.end()) return nullptr;
  std::deque<Piece>& pieces = of_size->second;
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.epoch == epoch && (piece.freed.timeline == &stream || piece.freed.reached());
  });
  if (found == pieces.end()) return nullptr;
  void* const pointer = found->pointer;
  pieces.erase(found);
  pointers_.erase(pointer);
  return pointer;
}

bool OrderedMemory::has(const void* pointer) const {
  const MutexLock lock(mutex_);
  return pointers_.count(pointer) != 0;
}

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

std::vector<OrderedMemory::Piece> OrderedMemory::take_unused(int device) {
  const MutexLock lock(mutex_);
  return take_chosen(device, [](const Piece& piece) { return piece.freed.reached(); });
}

void OrderedMemory::begin_epoch(int device, std::uint32_t epoch) {
  const MutexLock lock(mutex_);
  (void)take_chosen(device, [&](const Piece& piece) { return piece.epoch != epoch; });
}

}  // namespace ember::inline v0::driver::sim
