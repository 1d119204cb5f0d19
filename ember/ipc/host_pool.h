// CPU memory that processes share: pieces of a few large files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "ember/ipc/shared_file.h"

namespace ember::inline v0::ipc {

/// Each file has addresses for many pieces and gets memory piece by piece, so that a tensor needs
/// no descriptor of its own, and running out of memory is an error of the call that asks. A file
/// goes with its last piece. Not thread-safe.
class HostPool {
 public:
  static constexpr std::size_t kFileBytes = std::size_t{256} << 20;
  static constexpr std::size_t kAlignment = 64;

  struct Piece {
    std::byte* data = nullptr;
    std::uint64_t file = 0;  ///< its number, never used again
    std::size_t offset = 0;
  };
  /// `bytes` must be positive. Code::out_of_memory if the machine has none left; contents are
  /// undefined.
  Status allocate(std::size_t bytes, Piece& out);
  /// Gives back what allocate gave.
  void free(const Piece& piece) noexcept;

  /// The descriptor of a file, which stays the pool's; -1 if there is none of that number.
  int descriptor(std::uint64_t file) const noexcept;
  bool empty() const noexcept { return files_.empty(); }

 private:
  struct Shared {
    File file;
    Mapping mapping;
    std::map<std::size_t, std::size_t> free;  // length by offset
    std::map<std::size_t, std::size_t> used;
  };
  bool cut(Shared& from, std::size_t bytes, std::size_t& offset);
  static std::pair<std::size_t, std::size_t> merge(Shared& into, std::size_t offset,
                                                   std::size_t bytes);

  std::map<std::uint64_t, Shared> files_;
  std::uint64_t next_file_ = 1;
};

}  // namespace ember::inline v0::ipc
