// A program for the engine, written by hand: activities as ember would report them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "ember/sanitizer/engine.h"

namespace ember::test {

using Kind = cuda::Activity::Kind;
using cuda::Access;
using cuda::sanitizer::Conflict;

/// Addresses that nobody follows.
inline const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

inline Access read(std::uintptr_t address, std::size_t bytes) {
  return {at(address), bytes, false};
}
inline Access write(std::uintptr_t address, std::size_t bytes) {
  return {at(address), bytes, true};
}

/// An engine, and short names for what happens. Streams and events are small numbers.
class Program {
 public:
  explicit Program(cuda::sanitizer::Threads threads = cuda::sanitizer::Threads::as_one)
      : engine(threads) {}

  void tell(cuda::Activity activity) {
    activity.device = activity.device < 0 ? 0 : activity.device;
    activity.thread = thread;
    activity.accesses_known |= !activity.accesses.empty();
    engine.observe(activity, found);
  }
  void launch(int stream, std::initializer_list<Access> accesses, const char* name = "kernel") {
    tell({.kind = Kind::kernel_launched,
          .stream = handle(stream),
          .name = name,
          .accesses = {accesses.begin(), accesses.size()}});
  }
  void host(std::initializer_list<Access> accesses) {
    tell({.kind = Kind::host_accessed,
          .name = "host",
          .accesses = {accesses.begin(), accesses.size()}});
  }
  void record(int event, int stream) {
    tell({.kind = Kind::event_recorded, .stream = handle(stream), .event = handle(event)});
  }
  void wait(int stream, int event) {
    tell({.kind = Kind::event_waited, .stream = handle(stream), .event = handle(event)});
  }
  void begin_wait(int stream) { tell({.kind = Kind::wait_began, .stream = handle(stream)}); }
  void end_wait(int stream) { tell({.kind = Kind::stream_synchronized, .stream = handle(stream)}); }
  void synchronize(int stream) {
    begin_wait(stream);
    end_wait(stream);
  }
  void synchronize_event(int event) {
    tell({.kind = Kind::wait_began, .event = handle(event)});
    tell({.kind = Kind::event_synchronized, .event = handle(event)});
  }
  void synchronize_device() {
    tell({.kind = Kind::wait_began});
    tell({.kind = Kind::device_synchronized});
  }
  void query(int event, bool done) {
    tell({.kind = Kind::event_queried, .event = handle(event), .done = done});
  }
  void allocate(std::uintptr_t address, std::size_t bytes, int stream = 0) {
    tell({.kind = Kind::memory_allocated,
          .stream = handle(stream),
          .address = at(address),
          .bytes = bytes,
          .requested = bytes,
          .ordered = ordered});
  }
  void free(std::uintptr_t address, int stream = 0) {
    for (const Kind kind : {Kind::memory_free_requested, Kind::memory_free_completed})
      tell({.kind = kind, .stream = handle(stream), .address = at(address)});
  }
  /// How many conflicts were found since the last call.
  std::size_t conflicts() {
    last = std::move(found);
    found.clear();
    return last.size();
  }

  static const void* handle(int number) {
    return number == 0 ? nullptr : at(static_cast<std::uintptr_t>(number) * 16);
  }

  bool ordered = false;  // whether memory comes and goes in the order of streams

  cuda::sanitizer::Engine engine;
  std::vector<Conflict> found, last;
  std::uint32_t thread = 1;
};

}  // namespace ember::test
