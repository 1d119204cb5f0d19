// Memory behind a range of addresses, on its way to another process: a list of pieces of files.
#pragma once

#include <cstdint>
#include <vector>

#include "ember/base/file.h"
#include "ember/driver/driver.h"
#include "ember/ipc/messages.h"
#include "ember/tensor/storage.h"

namespace ember::inline v0::ipc {

struct MemoryInPieces {
  std::uint64_t before = 0;  ///< bytes of the first piece in front of the memory
  std::vector<driver::IpcPiece> pieces;
  std::vector<File> files;  ///< what the pieces name
};

/// Where the memory of a storage of this process lies.
Status find_pieces(const Storage& storage, MemoryInPieces& out);
/// Sends them behind the reply that says how many there are. False if that is not possible at once.
bool send_pieces(const File& socket, const MemoryInPieces& memory) noexcept;
/// As many as the reply says; `before` is the reply's. False if something else comes, or nothing in
/// the time.
bool receive_pieces(const File& socket, std::uint32_t count, int milliseconds, MemoryInPieces& out);

}  // namespace ember::inline v0::ipc
