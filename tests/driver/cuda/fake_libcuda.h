// What a test can tell the fake libcuda.so.1, and ask it.
#pragma once

#include <cstddef>

struct FakeCuda {
  static constexpr int kDevices = 2;

  /// Work already enqueued on the device faults: the next call that waits or asks says so, and so
  /// does every call after it until the context is reset.
  int fault[kDevices] = {};
  /// Queries of streams and events answer "not ready".
  bool busy = false;
  /// Larger allocations run out of memory.
  std::size_t largest_allocation = std::size_t{1} << 20;
  /// How often memory was asked for.
  std::size_t allocations = 0;
  /// Of ranges: what is reserved, chunks that exist, and how often access was set. A chunk exists
  /// while there is a handle or a mapping of it.
  int ranges = 0, chunks = 0, access_set = 0;
  /// Copies for which it was told whose memory it is.
  int peer_copies = 0;
  /// The next call of that name about ranges answers this error number, once.
  const char* failing_call = nullptr;
  int next_failure = 0;
  /// The number of a device attribute that is 0, and the kinds of handles that memory has.
  int absent_attribute = 0;
  unsigned long long handle_types = 0;
  /// Memory of other processes that is open.
  int imports = 0;
  /// The next query of a stream answers this error number, once.
  int next_query = 0;
  /// Making a stream runs out of memory.
  bool no_more_streams = false;
  /// Making more events than this runs out of memory.
  int most_events = 1 << 30;
  /// How many events there are.
  int events = 0;
  /// The next reset of a device answers this error number, once, and resets nothing.
  int next_reset = 0;
  /// Called in a reset before it does anything.
  void (*in_reset)() = nullptr;
  /// How many threads are waiting for work in a call; atomic.
  int waiting = 0;
  /// The stream of the last copy.
  void* copied_on = nullptr;
  /// How often a context was made.
  int contexts_made[kDevices] = {};
  /// The one kernel that there is in every library that is loaded; null: none can be launched.
  const char* kernel = nullptr;
  /// How often a library was loaded.
  int libraries = 0;
  /// Called in place of a kernel. `code` is what its library was loaded from.
  void (*run)(const void* code, unsigned blocks, unsigned threads, void* stream,
              const void* arguments) = nullptr;
  /// How many bytes of a kernel's first parameter a graph keeps.
  std::size_t argument_bytes = 8;
  /// How often graphs were made ready, brought up to date and launched; and how many are ready.
  int graphs_made = 0, graphs_updated = 0, graphs_launched = 0, graphs_ready = 0;
  /// Making graphs ready runs out of memory.
  bool no_more_graphs = false;
  /// How often a profiler was told to begin and to end.
  int profiles_begun = 0, profiles_ended = 0;
  /// Contexts in use: retained and not released.
  int retained[kDevices] = {};
};

/// The symbol of the fake that is a FakeCuda.
inline constexpr const char* kFakeCuda = "fake_cuda";
