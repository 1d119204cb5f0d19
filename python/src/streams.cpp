// ember.cuda: streams and events.
#include <memory>
#include <vector>

#include "define.h"
#include "held_guard.h"

namespace ember::python {
namespace {

using cuda::Event;
using cuda::ExternalStream;
using cuda::Stream;
using cuda::StreamGuard;

constexpr int kCudaType = 1;  // torch's number of the kind of device

/// `with ember.cuda.stream(s):`. None is no stream.
struct StreamContext {
  explicit StreamContext(std::optional<Stream> target) : stream(std::move(target)) {}
  StreamContext(StreamContext&&) = default;
  ~StreamContext() = default;
  std::optional<Stream> stream;
  std::vector<std::unique_ptr<HeldGuard<StreamGuard>>> guards;

  void enter() {
    if (stream) guards.push_back(std::make_unique<HeldGuard<StreamGuard>>(*stream));
  }
  void exit() {
    if (guards.empty()) return;
    guards.back()->end();
    guards.pop_back();
  }
};

/// Of `with s:`; streams are values, so they keep no guards themselves.
thread_local std::vector<std::unique_ptr<StreamGuard>> entered;

/// `with ember.cuda.batch():`.
struct BatchContext {};

/// Those that the thread is in, the innermost last: they are its own.
thread_local std::vector<std::unique_ptr<cuda::Batch>> batches;

void leave_batch(const BatchContext&) {
  if (batches.empty())
    throw Error("batch: left on another thread than it was entered on, expected the same one");
  unlocked([] { batches.pop_back(); });
}

std::uintptr_t handle_of(const Stream& stream) {
  return reinterpret_cast<std::uintptr_t>(stream.native());
}
std::uintptr_t number_of(const Event& event) {
  return reinterpret_cast<std::uintptr_t>(event.native());
}
void* pointer_of(std::uintptr_t handle) {
  return reinterpret_cast<void*>(handle);  // NOLINT(performance-no-int-to-ptr)
}

/// For ctypes: a handle as an argument.
nb::object as_parameter(std::uintptr_t handle) {
  return nb::module_::import_("ctypes").attr("c_void_p")(handle);
}

void make_stream(Stream* self, const DeviceLike& device, std::optional<int> priority,
                 std::optional<std::int64_t> stream_id, std::optional<int> device_index,
                 std::optional<int> device_type, std::optional<std::uintptr_t> stream_ptr) {
  if (stream_ptr) {
    if (priority.value_or(0) != 0) throw Error("Priority was explicitly set for a external stream");
    const cuda::DeviceArg given = device.arg();
    new (self) Stream(unlocked([&] { return ExternalStream(pointer_of(*stream_ptr), given); }));
  } else if (stream_id || device_index || device_type) {
    if (!stream_id || !device_index || !device_type)
      throw ValueError("Stream: stream_id, device_index and device_type go together");
    if (*device_type != kCudaType)
      throw ValueError("Stream: device_type " + std::to_string(*device_type) + ", expected " +
                       std::to_string(kCudaType) + " (CUDA)");
    new (self) Stream(unlocked([&] { return Stream::from_id(*stream_id, *device_index); }));
  } else {
    const cuda::DeviceArg given = device.arg();
    new (self) Stream(unlocked([&] { return Stream(given, priority.value_or(0)); }));
  }
}

void bind_stream(nb::module_& m) {
  auto bound = nb::class_<Stream>(m, "Stream", "An in-order queue of work on one device.",
                                  nb::is_weak_referenceable());
  bound
      .def("__init__", &make_stream, nb::arg("device") = nb::none(),
           nb::arg("priority") = nb::none(), nb::kw_only(), nb::arg("stream_id") = nb::none(),
           nb::arg("device_index") = nb::none(), nb::arg("device_type") = nb::none(),
           nb::arg("stream_ptr") = nb::none(),
           "A new stream. With stream_id, device_index and device_type an existing one; with "
           "stream_ptr a foreign handle.")
      .def_prop_ro("cuda_stream", &handle_of, "The machine's own handle.")
      .def_prop_ro("device", &Stream::device)
      .def_prop_ro("device_index", &Stream::device_index)
      .def_prop_ro("device_type", [](const Stream&) { return kCudaType; })
      .def_prop_ro("stream_id", &Stream::stream_id)
      .def_prop_ro("priority", &Stream::priority)
      .def_prop_ro(
          "_as_parameter_", [](const Stream& self) { return as_parameter(handle_of(self)); },
          nb::sig("def _as_parameter_(self) -> typing.Any"))
      .def_static(
          "priority_range",
          [](const DeviceLike& device) {
            const cuda::DeviceArg given = device.arg();
            return unlocked([&] { return Stream::priority_range(given); });
          },
          nb::arg("device") = nb::none(), "(least, greatest), such as (0, -3).")
      .def(
          "query", [](const Stream& self) { return unlocked([&] { return self.query(); }); },
          "Whether all work enqueued so far is done.")
      .def(
          "synchronize", [](const Stream& self) { unlocked([&] { self.synchronize(); }); },
          "Waits until all work enqueued so far is done.")
      .def("is_capturing", &Stream::is_capturing, "Whether it is part of a capture of a graph.")
      .def(
          "wait_stream",
          [](const Stream& self, const Stream& other) {
            unlocked([&] { self.wait_stream(other); });
          },
          nb::arg("stream"), "Later work waits for what another stream holds now. Returns at once.")
      .def(
          "wait_event",
          [](const Stream& self, const Event& event) { unlocked([&] { self.wait_event(event); }); },
          nb::arg("event"), "Later work waits for an event. Returns at once.")
      .def(
          "record_event",
          [](const Stream& self, Event* event) -> nb::object {
            if (event == nullptr) return nb::cast(unlocked([&] { return self.record_event(); }));
            unlocked([&] { self.record_event(*event); });
            return nb::find(*event);
          },
          nb::arg("event") = nb::none(),
          nb::sig("def record_event(self, event: Event | None = None) -> Event"),
          "Records an event, a new one unless given, and returns it.")
      .def("__cuda_stream__",
           [](const Stream& self) { return std::pair<int, std::uintptr_t>(0, handle_of(self)); })
      .def(
          "__enter__",
          [](Stream& self) {
            entered.push_back(std::make_unique<StreamGuard>(self));
            return nb::find(self);
          },
          nb::sig("def __enter__(self) -> Stream"))
      .def(
          "__eq__", [](const Stream& self, const Stream& other) { return self == other; },
          nb::is_operator())
      .def(
          "__ne__", [](const Stream& self, const Stream& other) { return !(self == other); },
          nb::is_operator())
      .def("__hash__",
           [](const Stream& self) {
             return static_cast<std::int64_t>(std::hash<Stream>()(self) & INT64_MAX);
           })
      .def("__repr__", &Stream::str);
  define_exit(bound, [](const Stream&) {
    if (!entered.empty()) entered.pop_back();
  });
  nb::class_<ExternalStream, Stream>(
      m, "ExternalStream", "A stream around a foreign handle, which its owner keeps alive.")
      .def(
          "__init__",
          [](ExternalStream* self, std::uintptr_t stream_ptr, const DeviceLike& device) {
            const cuda::DeviceArg given = device.arg();
            new (self) ExternalStream(
                unlocked([&] { return ExternalStream(pointer_of(stream_ptr), given); }));
          },
          nb::arg("stream_ptr"), nb::arg("device") = nb::none());
}

void bind_foreign(nb::module_& m) {
  m.def(
      "get_stream_from_external",
      [](std::uintptr_t data_ptr, const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return ExternalStream(pointer_of(data_ptr), given); });
      },
      nb::arg("data_ptr"), nb::arg("device") = nb::none(),
      nb::sig(
          "def get_stream_from_external(data_ptr: int, device: device | int | str | None = None)"
          " -> ExternalStream"),
      "A stream around a foreign handle, which its owner keeps alive.");
  const auto number = [](Code code) { return static_cast<int>(code); };
  m.def(
      "_cudaGetErrorString", [](int error) { return code_text(static_cast<Code>(error)); },
      nb::arg("error"), "The text of CUDA's number of an error.");
  m.def(
      "_cudaHostRegister",
      [number](std::uintptr_t ptr, std::size_t size, unsigned /*flags*/) {
        return number(unlocked([&] { return cuda::cudart::host_register(pointer_of(ptr), size); }));
      },
      nb::arg("ptr"), nb::arg("size"), nb::arg("flags"),
      "Page-locks memory of the host's; flags make no difference.");
  m.def(
      "_cudaHostUnregister",
      [number](std::uintptr_t ptr) {
        return number(unlocked([&] { return cuda::cudart::host_unregister(pointer_of(ptr)); }));
      },
      nb::arg("ptr"), "The end of _cudaHostRegister.");
  m.def(
      "_cudaProfilerStart", [number] { return number(unlocked(cuda::cudart::profiler_start)); },
      "An attached profiler collects from now on.");
  m.def(
      "_cudaProfilerStop", [number] { return number(unlocked(cuda::cudart::profiler_stop)); },
      "An attached profiler collects no longer.");
  m.def(
      "_cudaStreamCreate",
      [number](std::uintptr_t ptr) {
        auto* const handle = static_cast<void**>(pointer_of(ptr));
        return number(unlocked([&] { return cuda::cudart::stream_create(handle); }));
      },
      nb::arg("ptr"),
      "Makes a stream of the current device, whose handle is written at an address.");
  m.def(
      "_cudaStreamDestroy",
      [number](std::uintptr_t stream) {
        return number(unlocked([&] { return cuda::cudart::stream_destroy(pointer_of(stream)); }));
      },
      nb::arg("stream"), "The end of _cudaStreamCreate.");
}

void bind_event(nb::module_& m) {
  nb::class_<Event>(m, "Event",
                    "A point in the work of a stream. In a capture, an external one joins no "
                    "streams: each replay of the graph records it, or waits for it.",
                    nb::is_weak_referenceable())
      .def(nb::init<bool, bool, bool, bool>(), nb::arg("enable_timing") = false,
           nb::arg("blocking") = false, nb::arg("interprocess") = false,
           nb::arg("external") = false)
      .def(
          "__init__",
          [](Event* self, const DeviceLike& device, bool enable_timing, bool blocking,
             bool interprocess) {
            const std::optional<Device> place = device.place();
            if (place && !place->is_cuda())
              throw ValueError("Expected a cuda device, but got: " + place->str());
            new (self) Event(enable_timing, blocking, interprocess);
          },
          nb::arg("device").none(), nb::kw_only(), nb::arg("enable_timing") = false,
          nb::arg("blocking") = false, nb::arg("interprocess") = false,
          "As torch.Event is made: it belongs to the device of the stream that first records it, "
          "whichever is given.")
      .def_prop_ro("device", &Event::device, "None until the first record.")
      .def_prop_ro("cuda_event", &number_of, "The machine's own handle; 0 until the first record.")
      .def_prop_ro("event_id", &number_of)
      .def_prop_ro(
          "_as_parameter_", [](const Event& self) { return as_parameter(number_of(self)); },
          nb::sig("def _as_parameter_(self) -> typing.Any"))
      .def(
          "record",
          [](Event& self, const Stream* stream) {
            unlocked([&] { stream != nullptr ? self.record(*stream) : self.record(); });
          },
          nb::arg("stream") = nb::none(),
          "Stands from now on for all work that a stream, the current one unless given, holds.")
      .def(
          "wait",
          [](const Event& self, const Stream* stream) {
            unlocked([&] { stream != nullptr ? self.wait(*stream) : self.wait(); });
          },
          nb::arg("stream") = nb::none(), "Later work of a stream waits for it. Returns at once.")
      .def(
          "query", [](const Event& self) { return unlocked([&] { return self.query(); }); },
          "Whether the work it stands for is done; True if never recorded.")
      .def(
          "synchronize", [](const Event& self) { unlocked([&] { self.synchronize(); }); },
          "Waits until the work it stands for is done.")
      .def(
          "elapsed_time",
          [](const Event& self, const Event& end) {
            return unlocked([&] { return self.elapsed_time(end); });
          },
          nb::arg("end_event"), "Milliseconds from this event to another one.")
      .def(
          "ipc_handle",
          [](Event& self) {
            const auto bytes = unlocked([&] { return self.ipc_handle(); });
            return nb::bytes(bytes.data(), bytes.size());
          },
          "64 bytes by which other processes open the event, which must be an interprocess one.")
      .def_static(
          "from_ipc_handle",
          [](const DeviceLike& device, const nb::bytes& handle) {
            const std::optional<Device> place = device.place();
            const std::span bytes(static_cast<const std::uint8_t*>(handle.data()), handle.size());
            return unlocked([&] {
              return Event::from_ipc_handle(
                  place.value_or(Device(Device::Type::cuda, cuda::current_device())), bytes);
            });
          },
          nb::arg("device"), nb::arg("handle"), "Another process's event, as one of a device.")
      .def("__repr__", &Event::str);
}

void bind_context(nb::module_& m) {
  nb::class_<StreamContext> bound(
      m, "StreamContext",
      "Makes a stream, and its device, current inside a with block; None "
      "changes nothing.");
  bound.def(nb::init<std::optional<Stream>>(), nb::arg("stream").none())
      .def_ro("stream", &StreamContext::stream)
      .def("__enter__", [](StreamContext& self) { self.enter(); });
  define_exit(bound, [](StreamContext& self) { self.exit(); });
  m.def(
      "stream", [](std::optional<Stream> stream) { return StreamContext(std::move(stream)); },
      nb::arg("stream").none(), "StreamContext(stream).");
}

void bind_batch(nb::module_& m) {
  nb::class_<BatchContext> bound(
      m, "batch",
      "Inside a with block, operations of the thread may be kept instead of being enqueued, and "
      "are handed to the device several at once, as graphs that are used again when the same "
      "operations come again. Results and order are the same; operations may start later. They "
      "are handed over before anything that could tell: waits, queries, copies, events, and where "
      "a stream's handle or a tensor's pointer is given out. Blocks nest.");
  bound.def(nb::init<>())
      .def("__enter__",
           [](BatchContext&) {
             batches.push_back(unlocked([] { return std::make_unique<cuda::Batch>(); }));
           })
      .def_static(
          "hand_over", [] { unlocked([] { cuda::Batch::hand_over(); }); },
          "Hands over what the thread's block has in hand. Does not wait.");
  define_exit(bound, &leave_batch);
}

}  // namespace

void bind_streams(nb::module_& m) {
  bind_foreign(m);
  bind_event(m);
  bind_stream(m);
  bind_context(m);
  bind_batch(m);
  m.def(
      "current_stream",
      [](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return cuda::current_stream(given); });
      },
      nb::arg("device") = nb::none(), "The calling thread's current stream on a device.");
  m.def(
      "default_stream",
      [](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return cuda::default_stream(given); });
      },
      nb::arg("device") = nb::none(), "The default stream of a device.");
  m.def(
      "set_stream",
      [](const Stream* stream) {
        if (stream != nullptr) cuda::set_stream(*stream);
      },
      nb::arg("stream").none(),
      "Makes a stream current on its device, and that device current. Nothing for None.");
  m.def(
      "_host_function",
      [](nb::object function, const Stream* stream) {
        if (PyCallable_Check(function.ptr()) == 0)
          throw TypeError(std::string("function: expected something that can be called, but got ") +
                          Py_TYPE(function.ptr())->tp_name);
        // Called, and let go, on a thread of the driver's.
        struct Held {
          nb::object function;
          ~Held() {
            if (const LockFromAnywhere lock; lock)
              function.reset();
            else
              function.release();  // the interpreter ends, and with it the function
          }
        };
        auto held = std::make_shared<Held>(Held{std::move(function)});
        auto call = [held] {
          const LockFromAnywhere lock;
          if (!lock) return;
          try {
            held->function();
          } catch (nb::python_error& error) {
            error.discard_as_unraisable(held->function);
          }
        };
        unlocked([&] {
          if (stream != nullptr)
            cuda::host_function(std::move(call), *stream);
          else
            cuda::host_function(std::move(call));
        });
      },
      nb::arg("function"), nb::arg("stream") = nb::none(),
      "Enqueues a call of a function without arguments on the host, in the stream's order. It must "
      "not use CUDA; every wait in it is an error. Not called if it has not begun when the "
      "interpreter ends.");
}

}  // namespace ember::python
