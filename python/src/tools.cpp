// Names beside the documents that profilers, debuggers and test suites build on: functions that are
// told what happens on devices (ember.cuda._gpu_trace), and questions about devices.
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "define.h"
#include "ember/runtime/observer.h"

namespace ember::python {
namespace {

using cuda::Activity;
using Kind = Activity::Kind;

nb::int_ number(const void* handle) { return nb::int_(reinterpret_cast<std::uintptr_t>(handle)); }

struct Traced {
  Kind kind;
  const char* name;
  const char* doc;
  nb::tuple (*arguments)(const Activity& activity);
};

constexpr auto kEvent = [](const Activity& a) { return nb::make_tuple(number(a.event)); };
constexpr auto kStream = [](const Activity& a) { return nb::make_tuple(number(a.stream)); };
constexpr auto kAddress = [](const Activity& a) { return nb::make_tuple(number(a.address)); };
constexpr auto kEventAndStream = [](const Activity& a) {
  return nb::make_tuple(number(a.event), number(a.stream));
};

constexpr std::array kTraced{
    Traced{Kind::event_created, "event_creation",
           "cb(event), at the first record of an event; a handle, as all arguments here.", kEvent},
    Traced{Kind::event_destroyed, "event_deletion", "cb(event)", kEvent},
    Traced{Kind::event_recorded, "event_record", "cb(event, stream)", kEventAndStream},
    Traced{Kind::event_waited, "event_wait",
           "cb(event, stream): later work of the stream waits for the event.", kEventAndStream},
    Traced{Kind::memory_allocated, "memory_allocation", "cb(pointer)", kAddress},
    Traced{Kind::memory_free_requested, "memory_deallocation", "cb(pointer)", kAddress},
    Traced{Kind::stream_created, "stream_creation", "cb(stream)", kStream},
    Traced{Kind::device_synchronized, "device_synchronization", "cb(), after the wait.",
           [](const Activity&) { return nb::tuple(); }},
    Traced{Kind::stream_synchronized, "stream_synchronization",
           "cb(stream), after the wait; also of operations that wait, such as nonzero().", kStream},
    Traced{Kind::event_synchronized, "event_synchronization", "cb(event), after the wait.", kEvent},
};

/// One of the observers, for as long as the process lives.
class Trace : public cuda::Observer {
 public:
  void notice(const Activity& activity) noexcept override {
    for (std::size_t i = 0; i < kTraced.size(); ++i)
      if (kTraced[i].kind == activity.kind && any_[i].load(std::memory_order_acquire))
        call(i, activity);
  }

  // With Python's lock.
  void add(std::size_t i, nb::object callback) {
    callbacks_[i].push_back(std::move(callback));
    any_[i].store(true, std::memory_order_release);
  }
  void activate() {
    if (std::exchange(active_, true)) return;
    // Without the lock, which threads that are being told something may want.
    unlocked([this] { cuda::add_observer(*this); });
  }

 private:
  void call(std::size_t i, const Activity& activity) noexcept {
    const LockFromAnywhere lock;
    if (!lock) return;
    const nb::error_scope pending;                            // of whoever does what is told here
    const std::vector<nb::object> callbacks = callbacks_[i];  // one may add another
    for (const nb::object& callback : callbacks) {
      try {
        callback(*kTraced[i].arguments(activity));
      } catch (nb::python_error& error) {
        report(callback, error);
      }
    }
  }

  static void report(const nb::object& callback, nb::python_error& error) noexcept {
    if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    try {
      using namespace nb::literals;  // NOLINT
      nb::module_::import_("logging")
          .attr("getLogger")("ember.cuda._gpu_trace")
          .attr("error")("Exception in callback %s registered with gpu trace", callback,
                         "exc_info"_a = error.value());
    } catch (nb::python_error& failed) {
      failed.discard_as_unraisable("ember.cuda._gpu_trace");
    }
  }

  bool active_ = false;
  std::array<std::vector<nb::object>, kTraced.size()> callbacks_;
  std::array<std::atomic<bool>, kTraced.size()> any_{};
};

/// Never destroyed: threads that outlive the interpreter may still report to it.
Trace& trace() {
  static auto* const made = new Trace;
  return *made;
}

void bind_trace(nb::module_& m, nb::module_& cuda) {
  nb::module_ made = cuda.def_submodule("_gpu_trace", "Functions that are told what happens.");
  for (std::size_t i = 0; i < kTraced.size(); ++i) {
    const std::string name = std::string("register_callback_for_") + kTraced[i].name;
    const std::string doc = std::string(kTraced[i].doc) +
                            "\n\nCalled once _C._activate_gpu_trace() was, in the order of "
                            "registration, on the thread that does it; what a callback raises is "
                            "logged, and what it does itself is not told.";
    made.def(
        name.c_str(),
        [i](nb::object cb) {
          if (PyCallable_Check(cb.ptr()) == 0)
            throw TypeError("cb: expected a function, got " +
                            std::string(Py_TYPE(cb.ptr())->tp_name));
          trace().add(i, std::move(cb));
        },
        nb::arg("cb").none(),
        nb::sig(("def " + name + "(cb: collections.abc.Callable[..., object]) -> None").c_str()),
        doc.c_str());
  }
  m.def(
      "_activate_gpu_trace", [] { trace().activate(); },
      "From now on the callbacks of cuda._gpu_trace are called. Costs a test for each thing that "
      "happens, and Python's lock for each that there are callbacks for.");
}

/// An index of a device as tools pass it on; -1 for the CPU where that is allowed.
std::int64_t device_index(const DeviceLike& device, bool optional, bool allow_cpu) {
  // Also a negative one, which has no effect where it is given to set_device.
  if (const auto number = index_from(device.given)) return *number;
  const std::optional<Device> place = device.place();
  if (place && !place->is_cuda() && allow_cpu) return -1;
  const cuda::DeviceArg given = device.arg();
  return unlocked([&] { return optional ? given.index() : given.required_index(); });
}

}  // namespace

void bind_tools(nb::module_& m, nb::module_& cuda) {
  bind_trace(m, cuda);
  static PyObject* const cuda_error = PyErr_NewExceptionWithDoc(
      "ember.cuda.CudaError", "What check_error() raises: made of CUDA's number of an error.",
      PyExc_RuntimeError, nullptr);
  if (cuda_error == nullptr) throw nb::python_error();
  nb::handle(cuda_error).attr("__init__") = nb::cpp_function(
      [](nb::handle self, nb::object code) {  // its own text, where the error is unpickled
        if (!nb::isinstance<nb::str>(code)) {
          const int number = argument<int>(code, "code", "a number");
          const char* text = code_text(static_cast<Code>(number));
          code = nb::str((std::string(text) + " (" + std::to_string(number) + ")").c_str());
        }
        nb::handle(PyExc_RuntimeError).attr("__init__")(self, code);
      },
      nb::name("__init__"), nb::is_method(), nb::arg("code").none());
  cuda.attr("CudaError") = nb::handle(cuda_error);
  cuda.def(
      "check_error",
      [](int res) {
        const auto code = static_cast<Code>(res);
        if (code == Code::ok) return;
        PyErr_SetObject(cuda_error, nb::int_(res).ptr());
        throw nb::python_error();
      },
      nb::arg("res"), "CudaError with the text of CUDA's number of an error. Nothing for 0.");
  m.def(
      "_host_emptyCache", [] { unlocked([] { cuda::pinned_empty_cache(); }); },
      "Gives back cached pinned memory that no work uses.");
  m.def(
      "_cuda_hasPrimaryContext",
      [](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return cuda::has_primary_context(given); });
      },
      nb::arg("device"),
      "Whether anything has used the device yet, such as another library. Never makes a context.");
  m.def(
      "_cuda_attach_out_of_memory_observer",
      [](nb::object observer) {
        if (PyCallable_Check(observer.ptr()) == 0)
          throw TypeError("observer: expected a function, got " +
                          std::string(Py_TYPE(observer.ptr())->tp_name));
        // Never let go: threads that outlive the interpreter may still run out of memory.
        const auto* kept = new nb::object(std::move(observer));
        cuda::attach_out_of_memory_observer(
            [kept](int device, std::size_t requested, std::size_t total, std::size_t free) {
              const LockFromAnywhere lock;
              if (lock) (*kept)(device, requested, total, free);
            });
      },
      nb::arg("observer").none(),
      nb::sig("def _cuda_attach_out_of_memory_observer(observer: "
              "collections.abc.Callable[[int, int, int, int], object]) -> None"),
      "From now on observer(device, requested, device_total, device_free) is called before "
      "OutOfMemoryError is raised; what it raises is raised instead.");
  cuda.def("_is_in_bad_fork", &cuda::is_in_bad_fork,
           "Whether the process was forked from one that had initialised CUDA.");
  cuda.def(
      "_get_device_index", &device_index, nb::arg("device") = nb::none(),
      nb::arg("optional") = false, nb::arg("allow_cpu") = false,
      "The index of a device, which needs one unless `optional`: then it is the current one's. "
      "With `allow_cpu` -1 for the CPU.");
}

}  // namespace ember::python
