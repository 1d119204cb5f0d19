// A second process of a test: the same program, started again, which does what it is told.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ember/ipc/ipc.h"
#include "ember/ipc/steps.h"

namespace ember::test {

/// Talks to the other process in lines of text, over a socket. Every call waits for the answer, two
/// seconds at most where something is received: a test fails that has to wait longer.
class Peer {
 public:
  Peer();
  /// Lets it end by itself, and expects that it does.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// The answer to a command; "killed" if the process ended in place of answering.
  std::string ask(const std::string& command);
  /// Only tells: the answer is read with answer().
  void tell(const std::string& command);
  std::string answer();

  void kill_now();
  /// Waits until the process has ended, by itself or killed.
  void await_end();
  bool ended() const noexcept { return process_ < 0; }
  int process() const noexcept { return process_; }

 private:
  int process_ = -1;
  int socket_ = -1;
};

/// What the other process runs: commands until the socket is closed.
int run_peer(int socket);

std::string to_text(const ipc::Handle& handle);
ipc::Handle to_handle(const std::string& text);

/// New memory that can be sent, on "cpu" or a device, with bytes that follow from the seed; written
/// by work on the current stream.
Ref<Storage> make_memory(const Device& device, std::size_t bytes, unsigned seed);
void write_memory(const Storage& storage, unsigned seed);
/// Whether the memory has these bytes, read by work on the current stream.
bool has_bytes(const Storage& storage, unsigned seed);

/// What a process has, that has to come back to what it was.
struct Counts {
  std::size_t allocated = 0;    ///< bytes on device 0
  std::size_t descriptors = 0;  ///< in /proc/self/fd
  std::size_t mappings = 0;     ///< lines of /proc/self/maps with shared files
  /// Of /proc/self/maps, but threads' stacks; on real devices those of files and shared memory.
  std::size_t lines = 0;
  std::set<std::string> maps;  ///< those lines
  std::size_t threads = 0;
  std::size_t sockets = 0;  ///< files in the folder of sockets, of any process
  std::size_t shm = 0;      ///< files in /dev/shm, but CUDA's and semaphores
  std::size_t leases = 0;

  static Counts now();
  /// The same once device 0 has been used: its file and its stream stay; and once memory was shared
  /// both ways, after which threads that serve others stay.
  static Counts warm();
  std::string text() const;
  friend bool operator==(const Counts&, const Counts&) = default;
};
/// Waits, for a second, until nothing is more than it was; the difference otherwise, or "".
std::string await_counts(const Counts& before);

}  // namespace ember::test
