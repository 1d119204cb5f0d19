// ember.cuda: devices.
#include <nanobind/stl/tuple.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "define.h"
#include "held_guard.h"

namespace ember::python {
namespace {

using cuda::DeviceGuard;

/// `with ember.cuda.device(1):`. One object can be entered several times, one inside the other; the
/// first time, which is nearly always the only one, allocates nothing.
struct DeviceContext {
  explicit DeviceContext(std::int64_t target) : index(target) {}
  std::int64_t index;
  int previous = -1;
  std::optional<HeldGuard<DeviceGuard>> guard;
  std::vector<std::unique_ptr<HeldGuard<DeviceGuard>>> inner;

  void enter() {
    if (index < 0) return;
    // A device's first use may take long. What the object holds changes with the lock held only:
    // other threads may enter it as well.
    unlocked([&] { const DeviceGuard ready(index); });
    const HeldGuard<DeviceGuard>* const entered =
        guard ? inner.emplace_back(std::make_unique<HeldGuard<DeviceGuard>>(index)).get()
              : &guard.emplace(index);
    previous = entered->get().original_device().index();
  }
  void exit() {
    if (!inner.empty()) {
      inner.back()->end();
      inner.pop_back();
    } else if (guard) {
      guard->end();
      guard.reset();
    }
  }
};

struct DeviceOf : DeviceContext {
  using DeviceContext::DeviceContext;
};

/// None, and "cuda" alone, are the current device.
std::int64_t resolved(const DeviceLike& device) {
  if (device.given.is_none()) return unlocked([] { return std::int64_t{cuda::current_device()}; });
  if (PyLong_CheckExact(device.given.ptr())) return device.arg().index();  // needs no device
  const cuda::DeviceArg given = device.arg();
  return unlocked([&] { return given.index(); });
}

/// A UUID as Python shows it.
struct Uuid {
  std::string text;
  std::array<std::uint8_t, 16> bytes;
};

auto all_of(const cuda::DeviceProperties& p) {
  return std::tie(p.name, p.major, p.minor, p.is_multi_gpu_board, p.is_integrated, p.simulated,
                  p.multi_processor_count, p.total_memory, p.max_threads_per_multi_processor,
                  p.max_threads_per_block, p.regs_per_multiprocessor, p.warp_size, p.L2_cache_size,
                  p.shared_memory_per_block, p.shared_memory_per_block_optin,
                  p.shared_memory_per_multiprocessor, p.clock_rate, p.memory_clock_rate,
                  p.memory_bus_width, p.pci_domain_id, p.pci_bus_id, p.pci_device_id, p.uuid);
}

void bind_properties(nb::module_& m) {
  using P = cuda::DeviceProperties;
  nb::class_<Uuid>(m, "_CUuuid")
      .def("__str__", [](const Uuid& self) { return self.text; })
      .def("__repr__", [](const Uuid& self) { return self.text; })
      .def_prop_ro("bytes", [](const Uuid& self) {
        return nb::bytes(reinterpret_cast<const char*>(self.bytes.data()), self.bytes.size());
      });
  nb::class_<P>(m, "_CudaDeviceProperties", "What a device is.")
      .def_ro("name", &P::name)
      .def_ro("major", &P::major)
      .def_ro("minor", &P::minor)
      .def_ro("is_multi_gpu_board", &P::is_multi_gpu_board)
      .def_ro("is_integrated", &P::is_integrated)
      .def_ro("simulated", &P::simulated)
      .def_ro("multi_processor_count", &P::multi_processor_count)
      .def_ro("total_memory", &P::total_memory)
      .def_ro("max_threads_per_multi_processor", &P::max_threads_per_multi_processor)
      .def_ro("max_threads_per_block", &P::max_threads_per_block)
      .def_ro("regs_per_multiprocessor", &P::regs_per_multiprocessor)
      .def_ro("warp_size", &P::warp_size)
      .def_ro("L2_cache_size", &P::L2_cache_size)
      .def_ro("shared_memory_per_block", &P::shared_memory_per_block)
      .def_ro("shared_memory_per_block_optin", &P::shared_memory_per_block_optin)
      .def_ro("shared_memory_per_multiprocessor", &P::shared_memory_per_multiprocessor)
      .def_ro("clock_rate", &P::clock_rate)
      .def_ro("memory_clock_rate", &P::memory_clock_rate)
      .def_ro("memory_bus_width", &P::memory_bus_width)
      .def_ro("pci_domain_id", &P::pci_domain_id)
      .def_ro("pci_bus_id", &P::pci_bus_id)
      .def_ro("pci_device_id", &P::pci_device_id)
      .def_prop_ro("gcnArchName", [](const P& self) { return self.name; })
      .def_prop_ro("uuid",
                   [](const P& self) {
                     return Uuid{self.uuid_text(), self.uuid};
                   })
      .def(
          "__eq__", [](const P& self, const P& other) { return all_of(self) == all_of(other); },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__ne__", [](const P& self, const P& other) { return all_of(self) != all_of(other); },
          nb::is_operator(), nb::sig("def __ne__(self, other: object, /) -> bool"))
      .def("__hash__", [](const P& self) { return nb::hash(nb::cast(self.uuid_text())); })
      .def("__repr__", &P::str);
}

}  // namespace

void bind_runtime(nb::module_& m) {
  bind_properties(m);
  m.def(
      "init", [] { unlocked([] { cuda::init(); }); },
      "Initialises CUDA, if that has not happened. Not needed: whatever needs a device does it.");
  m.def("is_initialized", &cuda::is_initialized,
        "Whether CUDA is initialised. False in a forked child.");
  m.def(
      "is_available", [] { return unlocked_warning([] { return cuda::is_available(); }); },
      "Whether there is at least one device. Never raises; warns of a broken driver.");
  m.def(
      "device_count", [] { return unlocked_warning([] { return cuda::device_count(); }); },
      "The number of devices; 0 on any trouble. Warns of a broken driver.");
  m.def(
      "current_device", [] { return unlocked([] { return cuda::current_device(); }); },
      "The index of the calling thread's current device.");
  m.def(
      "set_device",
      [](const DeviceLike& device) {
        if (device.given.is_none())
          throw ValueError(
              "Expected a torch.device with a specified index or an integer, but got:None");
        const cuda::DeviceArg given = device.arg();
        unlocked([&] { cuda::set_device(given); });
      },
      nb::arg("device").none(),
      "Makes a device current for the calling thread; negative: no effect.");
  define_for_device(
      m, "get_device_name", [](cuda::DeviceArg device) { return cuda::get_device_name(device); },
      "A device's name.");
  define_for_device(
      m, "get_device_capability",
      [](cuda::DeviceArg device) { return cuda::get_device_capability(device); },
      "A device's compute capability: (major, minor).");
  define_for_device(
      m, "get_device_properties",
      [](cuda::DeviceArg device) -> cuda::DeviceProperties {
        return cuda::get_device_properties(device);
      },
      "What a device is.");
  define_for_device(
      m, "synchronize", [](cuda::DeviceArg device) { cuda::synchronize(device); },
      "Waits for all work of a device.");
  define_for_device(
      m, "reset_device", [](cuda::DeviceArg device) { cuda::reset_device(device); },
      "Drops everything a device holds and clears its fault, so that the process can go on with "
      "it.\n"
      "Tensors, streams and events from before refuse to work. Not torch's; on real GPUs a fault\n"
      "cannot be cleared within the process, and is raised again.");
  m.def("get_arch_list", &cuda::get_arch_list,
        "What the CUDA object was compiled for, such as ['sm_90', 'compute_90'].");
  m.def("get_gencode_flags", &cuda::get_gencode_flags, "The same as flags of nvcc.");
  m.def(
      "can_device_access_peer",
      [](const DeviceLike& device, const DeviceLike& peer) {
        const cuda::DeviceArg from = device.arg();
        const cuda::DeviceArg to = peer.arg();
        return unlocked([&] { return cuda::can_device_access_peer(from, to); });
      },
      nb::arg("device").none(), nb::arg("peer_device").none(),
      "Whether a device can be given access to another one's memory.");
  m.def(
      "simulate",
      [](int count, std::optional<std::uint64_t> memory) {
        if (memory)
          cuda::simulate(count, *memory);
        else
          cuda::simulate(count);
      },
      nb::arg("count"), nb::arg("memory_bytes") = nb::none(),
      "Chooses simulated devices for this process, before the first use of a device. All are "
      "visible, whatever CUDA_VISIBLE_DEVICES says.");
  m.def("_devices_chosen", &cuda::devices_chosen,
        "Whether the program, EMBER_DEVICES or a first use has settled which devices there are.");
  using Machine = std::tuple<int, std::uint64_t, std::string, std::string, bool>;
  m.def("_share_machine", []() -> std::optional<Machine> {
    const auto shared = unlocked([] { return cuda::share_simulated_machine(); });
    if (!shared) return std::nullopt;
    return Machine{shared->devices, shared->memory_bytes, shared->name, shared->folder,
                   shared->all_visible};
  });
  m.def("_join_machine", [](const Machine& machine) {
    const auto& [devices, memory_bytes, name, folder, all_visible] = machine;
    return unlocked([&] {
      return cuda::join_simulated_machine({devices, memory_bytes, name, folder, all_visible});
    });
  });
  m.def("_leave_machine", [] { unlocked([] { cuda::leave_simulated_machine(); }); });
  m.def(
      "is_simulated", [] { return unlocked([] { return cuda::is_simulated(); }); },
      "Whether devices are simulated. Initialises CUDA.");
  m.def(
      "_sleep", [](std::uint64_t cycles) { unlocked([&] { cuda::sleep_cycles(cycles); }); },
      nb::arg("cycles"), "Spins for so many clock cycles on the current stream.");

  nb::class_<DeviceContext> context(m, "device",
                                    "Makes a device current inside a with block; a negative index "
                                    "changes nothing.");
  context
      .def(
          "__init__",
          [](DeviceContext* self, const DeviceLike& device) {
            new (self) DeviceContext(resolved(device));
          },
          nb::arg("device").none())
      .def_ro("idx", &DeviceContext::index)
      .def_ro("prev_idx", &DeviceContext::previous)
      .def(
          "__enter__",
          [](nb::handle_t<DeviceContext> self) {
            nb::inst_ptr<DeviceContext>(self)->enter();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> device"));
  define_exit(context, [](DeviceContext& self) { self.exit(); });
  nb::class_<DeviceOf, DeviceContext>(
      m, "device_of", "Makes a tensor's device current inside a with block; nothing for the CPU.")
      .def(
          "__init__",
          [](DeviceOf* self, nb::handle obj) {
            const bool on_device = argument<bool>(obj.attr("is_cuda"), "obj", "a tensor");
            new (self) DeviceOf(
                on_device ? argument<int>(obj.attr("get_device")(), "obj", "a tensor") : -1);
          },
          nb::arg("obj").none());
  m.attr("device_ctx_manager") = context;
}

}  // namespace ember::python
