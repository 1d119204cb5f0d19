// ember.cuda: memory of devices.
#include "python.h"

namespace ember::python {
namespace {

using cuda::Counter;
using cuda::MemoryCounters;
using cuda::PoolCounters;

template <class Call>
void define(nb::module_& m, const char* name, Call call, const char* doc) {
  m.def(
      name,
      [call](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return call(given); });
      },
      nb::arg("device") = nb::none(), doc);
}

/// The same, with a FutureWarning first.
template <class Call>
void define_old(nb::module_& m, const char* name, const char* warning, Call call, const char* doc) {
  m.def(
      name,
      [call, warning](const DeviceLike& device) {
        warn_future(warning);
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return call(given); });
      },
      nb::arg("device") = nb::none(), doc);
}

void put(nb::dict& stats, const std::string& name, const Counter& counter) {
  stats[(name + ".current").c_str()] = counter.current;
  stats[(name + ".peak").c_str()] = counter.peak;
  stats[(name + ".allocated").c_str()] = counter.allocated;
  stats[(name + ".freed").c_str()] = counter.freed;
}

void put(nb::dict& stats, const std::string& name, const PoolCounters& counters) {
  put(stats, name + ".all", counters.all);
  put(stats, name + ".small_pool", counters.small_pool);
  put(stats, name + ".large_pool", counters.large_pool);
}

nb::object memory_stats(const DeviceLike& device) {
  const nb::object ordered = nb::module_::import_("collections").attr("OrderedDict");
  if (!cuda::is_initialized()) return ordered();
  const cuda::DeviceArg given = device.arg();
  const MemoryCounters counters = unlocked([&] { return cuda::memory_counters(given); });
  nb::dict stats;
  put(stats, "allocation", counters.allocation);
  put(stats, "segment", counters.segment);
  put(stats, "active", counters.active);
  put(stats, "inactive_split", counters.inactive_split);
  put(stats, "allocated_bytes", counters.allocated_bytes);
  put(stats, "reserved_bytes", counters.reserved_bytes);
  put(stats, "active_bytes", counters.active_bytes);
  put(stats, "inactive_split_bytes", counters.inactive_split_bytes);
  put(stats, "requested_bytes", counters.requested_bytes);
  // There is no limit of size for splitting, so nothing is beyond it.
  put(stats, "oversize_allocations", Counter());
  put(stats, "oversize_segments", Counter());
  stats["max_split_size"] = -1;
  stats["num_alloc_retries"] = counters.num_alloc_retries;
  stats["num_ooms"] = counters.num_ooms;
  stats["num_sync_all_streams"] = counters.num_sync_all_streams;
  stats["num_device_alloc"] = counters.num_device_alloc;
  stats["num_device_free"] = counters.num_device_free;
  nb::object items = nb::steal(PyDict_Items(stats.ptr()));
  if (PyList_Sort(items.ptr()) != 0) throw nb::python_error();
  return ordered(items);
}

std::uintptr_t alloc(std::size_t size, const DeviceLike& device, nb::handle stream) {
  const cuda::DeviceArg given = device.arg();
  std::optional<cuda::Stream> on;
  if (nb::isinstance<cuda::Stream>(stream)) {
    on = nb::cast<const cuda::Stream&>(stream);
  } else if (!stream.is_none()) {
    const auto handle = index_from(stream);
    if (!handle)
      throw TypeError(
          "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing a "
          "pointer to a existing stream");
    void* native = reinterpret_cast<void*>(*handle);  // NOLINT(performance-no-int-to-ptr)
    on = unlocked([&] {
      return native == nullptr ? cuda::default_stream(given)
                               : cuda::Stream(cuda::ExternalStream(native, given));
    });
  }
  return reinterpret_cast<std::uintptr_t>(
      unlocked([&] { return cuda::caching_allocator_alloc(size, given, on); }));
}

double checked_fraction(nb::handle fraction) {
  if (!PyFloat_Check(fraction.ptr()))
    throw TypeError("Invalid type for fraction argument, must be `float`");
  return nb::cast<double>(fraction);
}

}  // namespace

void bind_memory(nb::module_& m) {
  using cuda::DeviceArg;
  define(
      m, "memory_allocated", [](DeviceArg device) { return cuda::memory_allocated(device); },
      "Bytes in use on a device.");
  define(
      m, "max_memory_allocated",
      [](DeviceArg device) { return cuda::max_memory_allocated(device); },
      "The most bytes in use at once.");
  define(
      m, "memory_reserved", [](DeviceArg device) { return cuda::memory_reserved(device); },
      "Bytes held of a device, in use or cached.");
  define(
      m, "max_memory_reserved", [](DeviceArg device) { return cuda::max_memory_reserved(device); },
      "The most bytes held at once.");
  define(
      m, "reset_peak_memory_stats", [](DeviceArg device) { cuda::reset_peak_memory_stats(device); },
      "Every peak becomes the current value.");
  define(
      m, "mem_get_info", [](DeviceArg device) { return cuda::mem_get_info(device); },
      "(free, total) bytes of the whole device.");
  define(
      m, "get_per_process_memory_fraction",
      [](DeviceArg device) { return cuda::get_per_process_memory_fraction(device); },
      "The limit of set_per_process_memory_fraction; 1.0 unless set.");
  define_old(
      m, "memory_cached",
      "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`",
      [](DeviceArg device) { return cuda::memory_reserved(device); },
      "The old name of memory_reserved.");
  define_old(
      m, "max_memory_cached",
      "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`",
      [](DeviceArg device) { return cuda::max_memory_reserved(device); },
      "The old name of max_memory_reserved.");
  define_old(
      m, "reset_max_memory_allocated",
      "torch.cuda.reset_max_memory_allocated now calls torch.cuda.reset_peak_memory_stats, "
      "which resets /all/ peak memory stats.",
      [](DeviceArg device) { cuda::reset_peak_memory_stats(device); },
      "The same as reset_peak_memory_stats.");
  define_old(
      m, "reset_max_memory_cached",
      "torch.cuda.reset_max_memory_cached now calls torch.cuda.reset_peak_memory_stats, "
      "which resets /all/ peak memory stats.",
      [](DeviceArg device) { cuda::reset_peak_memory_stats(device); },
      "The same as reset_peak_memory_stats.");
  m.def(
      "memory_stats", &memory_stats, nb::arg("device") = nb::none(),
      nb::sig(
          "def memory_stats(device: ember._C.device | int | str | None = None) -> dict[str, int]"),
      "Everything that the caching allocator counts; empty before initialisation.");
  m.def(
      "empty_cache", [] { unlocked([] { cuda::empty_cache(); }); },
      "Gives cached memory that is not in use back to the devices.");
  m.def(
      "set_per_process_memory_fraction",
      [](nb::handle fraction, const DeviceLike& device) {
        const double checked = checked_fraction(fraction);
        const DeviceArg given = device.arg();
        unlocked([&] { cuda::set_per_process_memory_fraction(checked, given); });
      },
      nb::arg("fraction"), nb::arg("device") = nb::none(),
      nb::sig("def set_per_process_memory_fraction(fraction: float, device: ember._C.device | int "
              "| str | None = None) -> None"),
      "Limits what this process may hold of a device, as a part of its memory.");
  m.def("caching_allocator_alloc", &alloc, nb::arg("size"), nb::arg("device") = nb::none(),
        nb::arg("stream") = nb::none(),
        nb::sig("def caching_allocator_alloc(size: int, device: ember._C.device | int | str | None "
                "= None, "
                "stream: Stream | int | None = None) -> int"),
        "Memory by its address; 0 for no bytes.");
  m.def(
      "caching_allocator_delete",
      [](std::uintptr_t mem_ptr) {
        unlocked([&] {
          cuda::caching_allocator_delete(reinterpret_cast<void*>(mem_ptr));  // NOLINT
        });
      },
      nb::arg("mem_ptr"), "Frees memory by its address.");
  m.def("get_allocator_backend", &cuda::get_allocator_backend, "'native'.");
}

}  // namespace ember::python
