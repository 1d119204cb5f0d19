#include "ember/ipc/pieces.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ember/ipc/socket.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {

Status find_pieces(const Storage& storage, MemoryInPieces& out) {
  driver::Driver* driver = cuda::driver_if_made();
  if (driver == nullptr) return Code::not_initialized;
  std::size_t before = 0;
  EMBER_TRY(driver->ipc_export_pieces(storage.data(), storage.bytes(), out.pieces, before));
  out.before = before;
  int last = -1;  // those of one file follow each other
  for (const driver::IpcPiece& piece : out.pieces)
    if (std::exchange(last, piece.file) != piece.file) out.files.emplace_back(piece.file);
  if (out.pieces.size() > Pieces::kMost) return Code::out_of_memory;
  return {};
}

bool send_pieces(const File& socket, const MemoryInPieces& memory) noexcept {
  std::uint32_t file = 0;  // the one after those that went
  int last = -1;
  for (std::size_t first = 0; first < memory.pieces.size(); first += Pieces::kCapacity) {
    Pieces message;
    std::array<int, Pieces::kCapacity> descriptors{};
    std::size_t added = 0;
    const std::size_t count = std::min(Pieces::kCapacity, memory.pieces.size() - first);
    message.count = static_cast<std::uint16_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const driver::IpcPiece& piece = memory.pieces[first + i];
      if (std::exchange(last, piece.file) != piece.file) {
        descriptors[added++] = piece.file;
        ++file;
      }
      message.piece[i] = {piece.offset, piece.bytes, file - 1, 0};
    }
    if (!send_message(socket, bytes_of(message), {descriptors.data(), added})) return false;
  }
  return true;
}

bool receive_pieces(const File& socket, std::uint32_t count, int milliseconds,
                    MemoryInPieces& out) {
  std::vector<std::uint8_t> bytes;
  Pieces message;
  while (out.pieces.size() < count) {
    if (!await_message(socket, milliseconds) ||
        !receive_message(socket, bytes, sizeof(Pieces), out.files) ||
        !parse_pieces(bytes, out.files.size(), message) ||
        message.count > count - out.pieces.size())
      return false;
    for (std::size_t i = 0; i < message.count; ++i) {
      const Piece& piece = message.piece[i];
      out.pieces.push_back({out.files[piece.file].get(), piece.offset, piece.bytes});
    }
  }
  return true;
}

}  // namespace ember::inline v0::ipc
