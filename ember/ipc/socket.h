// The sockets through which processes of one user talk: one for each that shares something, in a
// folder that nobody else can enter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ember/base/file.h"
#include "ember/base/status.h"
#include "ember/ipc/process.h"

namespace ember::inline v0::ipc {

/// Makes the calling process's socket and listens there. Does not block. A failure says what is
/// wrong, such as a folder that belongs to somebody else.
Status listen_here(const Process& self, File& out);
/// Takes away the socket of a process: one's own, or that of one that has ended.
void remove_socket(const Process& process) noexcept;
/// Takes away the sockets of all processes that have ended.
void sweep_sockets() noexcept;

/// How a call ended that may have met a process that is gone.
enum class Met : std::uint8_t {
  yes,
  busy,   ///< it does not take the connection now
  gone,   ///< there is no such process, or it shares nothing
  other,  ///< somebody else's process answers there
  none,   ///< this process has no descriptor left for it
};
/// A connection to a process of the same user. Blocks until `milliseconds` have passed, or not at
/// all with zero.
Met connect_to(const Process& process, int milliseconds, File& out);

/// The process at the other end and its user. False if the kernel does not tell.
bool peer_of(const File& socket, std::int32_t& process, std::uint32_t& user) noexcept;
/// Whether the other end is a process of the calling process's user.
bool same_user(std::uint32_t user) noexcept;

/// Sends a message with descriptors, of which the receiver gets copies. False if that is not
/// possible at once.
bool send_message(const File& socket, std::span<const std::uint8_t> bytes,
                  std::span<const int> descriptors = {}) noexcept;
/// The next message: its bytes, and what descriptors came with it, in `most` of each at most. False
/// if there is none, or it is longer. Does not block.
bool receive_message(const File& socket, std::vector<std::uint8_t>& bytes, std::size_t most,
                     std::vector<File>& files);
/// Blocks until there is something to read, or the time has passed: false.
bool await_message(const File& socket, int milliseconds) noexcept;

/// The bytes of a message.
template <class Message>
std::span<const std::uint8_t> bytes_of(const Message& message) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(&message), sizeof message};
}

}  // namespace ember::inline v0::ipc
