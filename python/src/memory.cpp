// ember.cuda: memory of devices.
#include <algorithm>
#include <string>
#include <vector>

#include "define.h"
#include "ember/memory/flame_graph.h"
#include "ember/memory/sharing_caps.h"
#include "ember/memory/snapshot_file.h"
#include "ember/memory/summary.h"
#include "ember/memory/view.h"

namespace ember::python {
namespace {

using cuda::Counter;
using cuda::MemoryCounters;
using cuda::PoolCounters;

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

/// Calls `use(name, value)` for everything that is counted.
template <class Use>
void each_counter(const MemoryCounters& counters, Use&& use) {
  const auto metrics = [&](const char* group, const char* pool, const Counter& counter) {
    use(group, pool, ".current", counter.current);
    use(group, pool, ".peak", counter.peak);
    use(group, pool, ".allocated", counter.allocated);
    use(group, pool, ".freed", counter.freed);
  };
  const auto pools = [&](const char* group, const PoolCounters& of) {
    metrics(group, ".all", of.all);
    metrics(group, ".small_pool", of.small_pool);
    metrics(group, ".large_pool", of.large_pool);
  };
  pools("allocation", counters.allocation);
  pools("segment", counters.segment);
  pools("active", counters.active);
  pools("inactive_split", counters.inactive_split);
  pools("allocated_bytes", counters.allocated_bytes);
  pools("reserved_bytes", counters.reserved_bytes);
  pools("active_bytes", counters.active_bytes);
  pools("inactive_split_bytes", counters.inactive_split_bytes);
  pools("requested_bytes", counters.requested_bytes);
  metrics("oversize_allocations", "", counters.oversize_allocations);
  metrics("oversize_segments", "", counters.oversize_segments);
  use("max_split_size", "", "", counters.max_split_size);
  use("num_alloc_retries", "", "", counters.num_alloc_retries);
  use("num_ooms", "", "", counters.num_ooms);
  use("num_sync_all_streams", "", "", counters.num_sync_all_streams);
  use("num_device_alloc", "", "", counters.num_device_alloc);
  use("num_device_free", "", "", counters.num_device_free);
}

/// A key of memory_stats, and which of the values it stands for.
struct Key {
  nb::object name;
  std::size_t number;
};

/// In order of their names; made once, and never freed.
const std::vector<Key>& sorted_keys() {
  static const auto* keys = [] {
    std::vector<std::string> names;
    each_counter({}, [&](const char* group, const char* pool, const char* metric, std::int64_t) {
      names.push_back(std::string(group) + pool + metric);
    });
    std::vector<std::size_t> order(names.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
    auto* made = new std::vector<Key>;
    for (const std::size_t number : order)
      made->push_back({nb::steal(PyUnicode_InternFromString(names[number].c_str())), number});
    return made;
  }();
  return *keys;
}

nb::object memory_stats(const DeviceLike& device) {
  nb::object stats = nb::module_::import_("collections").attr("OrderedDict")();
  if (!cuda::is_initialized()) return stats;
  const cuda::DeviceArg given = device.arg();
  const MemoryCounters counters = unlocked([&] { return cuda::memory_counters(given); });
  std::vector<std::int64_t> values;
  values.reserve(sorted_keys().size());
  each_counter(counters, [&](const char*, const char*, const char*, std::int64_t value) {
    values.push_back(value);
  });
  for (const Key& key : sorted_keys()) {
    const nb::object value = nb::int_(values[key.number]);
    if (PyObject_SetItem(stats.ptr(), key.name.ptr(), value.ptr()) != 0) throw nb::python_error();
  }
  return stats;
}

nb::dict nested_stats(const DeviceLike& device) {
  nb::dict tree;
  if (!cuda::is_initialized()) return tree;
  const cuda::DeviceArg given = device.arg();
  const MemoryCounters counters = unlocked([&] { return cuda::memory_counters(given); });
  const auto inner = [](nb::dict of, const char* name) {
    if (!of.contains(name)) of[name] = nb::dict();
    return nb::cast<nb::dict>(of[name]);
  };
  each_counter(counters,
               [&](const char* group, const char* pool, const char* metric, std::int64_t value) {
                 if (*metric == '\0') {
                   tree[group] = value;
                   return;
                 }
                 nb::dict of = inner(tree, group);
                 if (*pool != '\0') of = inner(of, pool + 1);  // without the dot
                 of[metric + 1] = value;
               });
  return tree;
}

/// Calls `use(group, metric, value)` for everything that is counted of pinned memory, in order of
/// the names.
template <class Use>
void each_counter(const cuda::PinnedCounters& counters, Use&& use) {
  const auto metrics = [&](const char* group, const Counter& counter) {
    use(group, "allocated", counter.allocated);
    use(group, "current", counter.current);
    use(group, "freed", counter.freed);
    use(group, "peak", counter.peak);
  };
  const auto times = [&](const char* group, const cuda::Times& of) {
    use(group, "avg", of.avg());
    use(group, "count", of.count);
    use(group, "max", of.max);
    use(group, "min", of.min);
    use(group, "total", of.total);
  };
  metrics("active_bytes", counters.active_bytes);
  metrics("active_requests", counters.active_requests);
  metrics("allocated_bytes", counters.allocated_bytes);
  metrics("allocations", counters.allocations);
  times("host_alloc_time", counters.host_alloc_time);
  times("host_free_time", counters.host_free_time);
  use("num_host_alloc", "", counters.num_host_alloc);
  use("num_host_free", "", counters.num_host_free);
}

nb::object host_memory_stats() {
  nb::object stats = nb::module_::import_("collections").attr("OrderedDict")();
  if (!cuda::is_initialized()) return stats;
  const cuda::PinnedCounters counters = unlocked([] { return cuda::pinned_counters(); });
  each_counter(counters, [&](const char* group, const char* metric, std::int64_t value) {
    const std::string dot = *metric != '\0' ? "." : "";
    stats[nb::str((group + dot + metric).c_str())] = value;
  });
  return stats;
}

nb::dict nested_host_stats() {
  nb::dict tree;
  if (!cuda::is_initialized()) return tree;
  const cuda::PinnedCounters counters = unlocked([] { return cuda::pinned_counters(); });
  each_counter(counters, [&](const char* group, const char* metric, std::int64_t value) {
    if (*metric == '\0') {
      tree[group] = value;
      return;
    }
    if (!tree.contains(group)) tree[group] = nb::dict();
    nb::cast<nb::dict>(tree[group])[metric] = value;
  });
  return tree;
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

/// Of the memory at an address, or of a tensor.
cuda::SharingCaps caps_of(nb::handle of) {
  const void* pointer = nullptr;
  std::uintptr_t address = 0;
  if (nb::isinstance<Tensor>(of))
    pointer = nb::cast<const Tensor&>(of).address();
  else if (nb::try_cast(of, address))
    pointer = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  else
    throw TypeError("sharing_caps: pointer: expected an address, an int, or a tensor, got " +
                    std::string(Py_TYPE(of.ptr())->tp_name));
  return unlocked([&] { return cuda::sharing_caps(pointer); });
}

void bind_sharing_caps(nb::module_& m) {
  using cuda::SharingCap;
  using cuda::SharingCaps;
  using Named = std::pair<const char*, SharingCap SharingCaps::*>;
  static constexpr Named kAll[] = {{"legacy_ipc", &SharingCaps::legacy_ipc},
                                   {"fd", &SharingCaps::fd},
                                   {"fabric", &SharingCaps::fabric},
                                   {"rdma", &SharingCaps::rdma},
                                   {"peers", &SharingCaps::peers}};
  nb::class_<SharingCaps> type(
      m, "SharingCaps",
      "How others may reach some device memory, as cuda.memory.sharing_caps found it: legacy_ipc "
      "(CUDA's handles), fd (a descriptor), fabric, rdma (network cards), peers (all other "
      "devices).");
  type.def_ro("device", &SharingCaps::device, "Whose memory it is.");
  for (const auto& [name, member] : kAll)
    type.def_prop_ro(
        name, [member = member](const SharingCaps& self) { return (self.*member).possible; });
  type.def_prop_ro(
      "change",
      [](const SharingCaps& self) {
        nb::dict change;
        for (const auto& [name, member] : kAll)
          if (!(self.*member).possible) change[name] = (self.*member).change;
        return change;
      },
      nb::sig("def change(self) -> dict[str, str]"),
      "For each that is False, the setting that would change it, or why none would.");
  type.def("__repr__", [](const SharingCaps& self) {
    std::string text = "SharingCaps(device=" + std::to_string(self.device);
    for (const auto& [name, member] : kAll)
      text += ", " + std::string(name) + ((self.*member).possible ? "=True" : "=False");
    return text + ")";
  });
  m.def("sharing_caps", &caps_of, nb::arg("pointer"),
        nb::sig("def sharing_caps(pointer: int | ember._C.Tensor) -> SharingCaps"),
        "How others may reach the device memory at an address, or of a tensor, and which setting "
        "would change what is not possible. ValueError for anything but device memory in use.");
}

}  // namespace

void bind_memory(nb::module_& m) {
  using cuda::DeviceArg;
  define_for_device(
      m, "memory_allocated", [](DeviceArg device) { return cuda::memory_allocated(device); },
      "Bytes in use on a device.");
  define_for_device(
      m, "max_memory_allocated",
      [](DeviceArg device) { return cuda::max_memory_allocated(device); },
      "The most bytes in use at once.");
  define_for_device(
      m, "memory_reserved", [](DeviceArg device) { return cuda::memory_reserved(device); },
      "Bytes held of a device, in use or cached.");
  define_for_device(
      m, "max_memory_reserved", [](DeviceArg device) { return cuda::max_memory_reserved(device); },
      "The most bytes held at once.");
  define_for_device(
      m, "reset_peak_memory_stats", [](DeviceArg device) { cuda::reset_peak_memory_stats(device); },
      "Every peak becomes the current value.");
  define_for_device(
      m, "reset_accumulated_memory_stats",
      [](DeviceArg device) { cuda::reset_accumulated_memory_stats(device); },
      "What was allocated and freed, and how often things happened, is counted from zero again.");
  define_for_device(
      m, "mem_get_info", [](DeviceArg device) { return cuda::mem_get_info(device); },
      "(free, total) bytes of the whole device.");
  define_for_device(
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
      "_snapshot_json",
      [](const nb::bytes& snapshot) {
        const std::string_view bytes(snapshot.c_str(), snapshot.size());
        return unlocked([&] { return cuda::snapshot_json(bytes); });
      },
      nb::arg("snapshot"), "A snapshot's pickle as JSON; executes nothing of it.");
  m.def(
      "_snapshot_page",
      [](const nb::bytes& snapshot, const std::string& name, const nb::bytes& before,
         const std::string& name_before) {
        const std::string_view bytes(snapshot.c_str(), snapshot.size());
        const std::string_view earlier(before.c_str(), before.size());
        return unlocked([&] { return cuda::snapshot_page(bytes, name, earlier, name_before); });
      },
      nb::arg("snapshot"), nb::arg("name"), nb::arg("before") = nb::bytes("", 0),
      nb::arg("name_before") = "",
      "A snapshot's pickle as a page for a browser; with what grew since the one `before`.");
  const auto bytes_of = [](const nb::bytes& bytes) {
    return std::string_view(bytes.c_str(), bytes.size());
  };
  m.def(
      "_folded_memory",
      [=](const nb::bytes& snapshot, bool segments) {
        const std::string_view bytes = bytes_of(snapshot);
        const auto by = segments ? cuda::FoldedBy::segment : cuda::FoldedBy::stream;
        return unlocked([&] { return cuda::folded_memory(bytes, by); });
      },
      nb::arg("snapshot"), nb::arg("segments"), "A snapshot's pickle as lines for a flame graph.");
  m.def(
      "_folded_changes",
      [=](const nb::bytes& before, const nb::bytes& after) {
        const std::string_view first = bytes_of(before), second = bytes_of(after);
        return unlocked([&] { return cuda::folded_changes(first, second); });
      },
      nb::arg("before"), nb::arg("after"),
      "Segments that only one of two snapshots has, as lines.");
  m.def(
      "_flame_graph",
      [](const std::string& folded, const std::string& title) {
        return unlocked([&] { return cuda::flame_graph(folded, title); });
      },
      nb::arg("folded"), nb::arg("title"), "Lines as a flame graph (SVG).");
  m.def(
      "memory_stats_as_nested_dict", &nested_stats, nb::arg("device") = nb::none(),
      nb::sig("def memory_stats_as_nested_dict(device: ember._C.device | int | str | None = None) "
              "-> dict[str, typing.Any]"),
      "The same as memory_stats, as a tree.");
  m.def("host_memory_stats", &host_memory_stats,
        nb::sig("def host_memory_stats() -> dict[str, int]"),
        "What is counted of pinned memory of the host, times in microseconds; empty before "
        "initialisation.");
  m.def("host_memory_stats_as_nested_dict", &nested_host_stats,
        nb::sig("def host_memory_stats_as_nested_dict() -> dict[str, typing.Any]"),
        "The same as host_memory_stats, as a tree.");
  m.def(
      "reset_peak_host_memory_stats", [] { unlocked([] { cuda::reset_peak_pinned_counters(); }); },
      "Every peak of host_memory_stats becomes the current value.");
  m.def(
      "reset_accumulated_host_memory_stats",
      [] { unlocked([] { cuda::reset_accumulated_pinned_counters(); }); },
      "`allocated`, `freed` and what counts and times calls of the driver begin at zero.");
  m.def(
      "memory_summary",
      [](const DeviceLike& device, bool abbreviated) {
        const DeviceArg given = device.arg();
        return unlocked([&] { return cuda::memory_summary(given, abbreviated); });
      },
      nb::arg("device") = nb::none(), nb::arg("abbreviated") = false,
      nb::sig("def memory_summary(device: ember._C.device | int | str | None = None, abbreviated: "
              "bool = False) -> str"),
      "What memory_stats counts, as a table for people.");
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
  m.def(
      "_set_allocator_settings", [](const std::string& env) { cuda::set_allocator_settings(env); },
      nb::arg("env"), "Settings of the allocator, as in PYTORCH_ALLOC_CONF.");
  m.def("get_allocator_backend", &cuda::get_allocator_backend,
        "'native' or 'cudaMallocAsync', or 'pluggable' after change_current_allocator.");
  bind_sharing_caps(m);
}

}  // namespace ember::python
