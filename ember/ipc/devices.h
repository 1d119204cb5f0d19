// What sending and receiving share: whose memory a storage is, and which device a record names.
#pragma once

#include <cstdint>
#include <string>

#include "ember/ipc/host_pool.h"
#include "ember/ipc/record.h"
#include "ember/tensor/storage.h"

namespace ember::inline v0::ipc {

/// The keeper of a storage in shared memory of this process's own.
class SharedHostMemory final : public ForeignMemory {
 public:
  SharedHostMemory(const HostPool::Piece& piece, std::uint64_t generation) noexcept
      : piece_(piece), generation_(generation) {}
  ~SharedHostMemory() override;
  const HostPool::Piece& piece() const noexcept { return piece_; }
  /// False in a forked child of the process that allocated it.
  bool is_own() const noexcept;

 private:
  const HostPool::Piece piece_;
  const std::uint64_t generation_;
};

/// The device with the record's UUID, as this process has it. Error if it does not see it.
/// Initialises.
Device device_of(const Record& record);
/// "cpu", "cuda:1", or for a device that is not there "GPU-...". Never initialises.
std::string device_text(const Record& record);

}  // namespace ember::inline v0::ipc
