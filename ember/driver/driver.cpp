// Defaults for the optional parts of the seam: a driver that lacks one says so by name.
#include "ember/driver/driver.h"

#include <chrono>

namespace ember::inline v0::driver {
namespace {

Status unavailable(const Driver& driver, const char* what) {
  return Status(Code::not_supported,
                std::string("the ") + driver.name() + " driver does not offer " + what);
}

}  // namespace

Status Driver::memory_sharing(const void*, MemorySharing&) noexcept {
  return unavailable(*this, "what is known of sharing memory");
}
Status Driver::range_reserve(int, std::uint32_t, std::size_t, void*&, std::size_t&) noexcept {
  return unavailable(*this, "growable address ranges");
}
Status Driver::range_map(int, std::uint32_t, void*, std::size_t) noexcept {
  return unavailable(*this, "growable address ranges");
}
Status Driver::range_unmap(int, std::uint32_t, void*, std::size_t) noexcept {
  return unavailable(*this, "growable address ranges");
}
Status Driver::range_release(int, std::uint32_t, void*) noexcept {
  return unavailable(*this, "growable address ranges");
}
Status Driver::device_profile(int, bool) noexcept { return {}; }
std::int64_t Driver::now() noexcept { return clock_time(std::chrono::steady_clock::now()); }
Status Driver::time_next(StreamHandle, WorkTimes*) noexcept {
  return unavailable(*this, "times of work");
}
Status Driver::times_collect() noexcept { return unavailable(*this, "times of work"); }
Status Driver::times_pause() noexcept { return {}; }
Status Driver::blas_handle(StreamHandle, std::uint8_t, void*, std::size_t, void*&) noexcept {
  return unavailable(*this, "handles of cuBLAS");
}
Status Driver::capture_begin(StreamHandle, CaptureMode) noexcept {
  return unavailable(*this, "stream capture");
}
Status Driver::capture_end(StreamHandle, GraphHandle&) noexcept {
  return unavailable(*this, "stream capture");
}
Status Driver::capture_status(StreamHandle, CaptureStatus&, std::uint64_t&) noexcept {
  return unavailable(*this, "stream capture");
}
Status Driver::capture_node(StreamHandle, std::uint64_t&) noexcept {
  return unavailable(*this, "stream capture");
}
Status Driver::capture_mode_exchange(CaptureMode&) noexcept {
  return unavailable(*this, "stream capture");
}
Status Driver::graph_node_count(GraphHandle, std::size_t&) noexcept {
  return unavailable(*this, "graphs");
}
Status Driver::graph_instantiate(GraphHandle, GraphExecHandle&) noexcept {
  return unavailable(*this, "graphs");
}
Status Driver::graph_launch(GraphExecHandle, StreamHandle) noexcept {
  return unavailable(*this, "graphs");
}
Status Driver::graph_bind(GraphHandle, GraphExecHandle, const GraphRebinding&) noexcept {
  return unavailable(*this, "graphs");
}
Status Driver::graph_describe(GraphHandle, const std::string&) noexcept {
  return unavailable(*this, "graphs");
}
Status Driver::graph_destroy(GraphHandle) noexcept { return unavailable(*this, "graphs"); }
Status Driver::graph_exec_destroy(GraphExecHandle) noexcept { return unavailable(*this, "graphs"); }
Status Driver::batch_begin() noexcept { return {}; }
Status Driver::batch_end() noexcept { return {}; }
Status Driver::ipc_export_memory(void*, IpcExport&) noexcept {
  return unavailable(*this, "sharing between processes");
}
Status Driver::ipc_export_pieces(void*, std::size_t, std::vector<IpcPiece>&,
                                 std::size_t&) noexcept {
  return unavailable(*this, "sharing between processes");
}
Status Driver::ipc_open_pieces(int, std::span<const IpcPiece>, std::size_t, std::size_t,
                               void*&) noexcept {
  return unavailable(*this, "sharing between processes");
}
Status Driver::ipc_open_memory(int, const IpcHandle&, int, std::size_t, std::size_t,
                               void*&) noexcept {
  return unavailable(*this, "sharing between processes");
}
Status Driver::ipc_close_memory(int, void*) noexcept {
  return unavailable(*this, "sharing between processes");
}
Status Driver::ipc_export_event(EventHandle, IpcHandle&) noexcept {
  return unavailable(*this, "handles of events for other processes");
}
Status Driver::ipc_open_event(int, const IpcHandle&, EventHandle&) noexcept {
  return unavailable(*this, "handles of events for other processes");
}
Status Driver::words_open(void*, std::size_t) noexcept { return {}; }
Status Driver::words_close(void*) noexcept { return {}; }
Status Driver::word_write(StreamHandle, Word*, std::uint64_t) noexcept {
  return unavailable(*this, "words that processes share");
}
// NOLINTNEXTLINE(performance-unnecessary-value-param): whoever implements it keeps it
Status Driver::word_wait(StreamHandle, Word*, std::uint64_t, Ref<const Context>) noexcept {
  return unavailable(*this, "words that processes share");
}
Status Driver::record_launches(int, StackNumber) noexcept {
  return unavailable(*this, "recent launches");
}
Status Driver::recent_launches(int, std::vector<RecentLaunch>&) noexcept {
  return unavailable(*this, "recent launches");
}
Status Driver::malloc_async(StreamHandle, std::size_t, void*&) noexcept {
  return unavailable(*this, "memory in the order of streams");
}
Status Driver::free_async(StreamHandle, void*) noexcept {
  return unavailable(*this, "memory in the order of streams");
}
Status Driver::memory_trim(int, std::uint32_t) noexcept {
  return unavailable(*this, "memory in the order of streams");
}

}  // namespace ember::inline v0::driver
