// The stream sanitizer: what ember.cuda._sanitizer is made of. The classes that programs build
// themselves are in that file; what they find is found here.
#include "ember/sanitizer/sanitizer.h"

#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "define.h"
#include "ember/runtime/observer.h"
#include "ember/sanitizer/by_pointer.h"

namespace ember::python {
namespace {

using cuda::Activity;
using cuda::sanitizer::ByPointer;
using cuda::sanitizer::Conflict;
using Kind = Activity::Kind;
using Number = std::uint64_t;

const void* pointer(Number number) { return reinterpret_cast<const void*>(number); }
Number number(const void* address) { return reinterpret_cast<Number>(address); }

std::vector<const void*> pointers(const std::vector<Number>& numbers) {
  std::vector<const void*> made;
  for (const Number each : numbers) made.push_back(pointer(each));
  return made;
}

/// (pointer, it writes, number of the earlier launch, that writes, stream of that)
using Found = std::tuple<Number, bool, Number, bool, Number>;

std::vector<Found> launch(ByPointer& self, Number stream, const std::vector<Number>& read,
                          const std::vector<Number>& written) {
  std::vector<Found> found;
  for (const Conflict& conflict : self.launch(pointer(stream), pointers(read), pointers(written)))
    found.emplace_back(number(conflict.now.address), conflict.now.writes,
                       conflict.before.operation.serial, conflict.before.writes,
                       number(conflict.before.operation.stream));
  return found;
}

void wait(ByPointer& self, const Activity& what, Kind over) {
  Activity activity = what;
  activity.kind = Kind::wait_began;
  self.tell(activity);
  activity.kind = over;
  self.tell(activity);
}

void bind_engine(nb::module_& made) {
  nb::class_<ByPointer> rule(made, "ByPointer",
                             "The documents' rule for streams, events and pointers as ints.");
  rule.def(nb::init<>(), "Nothing has happened yet.");
  rule.def("launch", &launch, nb::arg("stream"), nb::arg("read"), nb::arg("written"),
           "What work on a stream runs into: (pointer, it writes, number of the earlier launch, "
           "that one writes, its stream).");
  rule.def("launched", &ByPointer::launched, "How often launch() was called.");
  rule.def("kept", &ByPointer::kept, "The numbers of those that later work may run into.");
  rule.def(
      "allocate", [](ByPointer& self, Number data) { self.allocate(pointer(data)); },
      nb::arg("data"), "Memory is new there.");
  rule.def(
      "stream_created",
      [](ByPointer& self, Number stream) {
        self.tell({.kind = Kind::stream_created, .stream = pointer(stream)});
      },
      nb::arg("stream"), "There is a stream.");
  rule.def(
      "event_deleted",
      [](ByPointer& self, Number event) {
        self.tell({.kind = Kind::event_destroyed, .event = pointer(event)});
      },
      nb::arg("event"), "An event stands for nothing.");
  rule.def(
      "event_recorded",
      [](ByPointer& self, Number event, Number stream) {
        self.tell(
            {.kind = Kind::event_recorded, .stream = pointer(stream), .event = pointer(event)});
      },
      nb::arg("event"), nb::arg("stream"), "An event stands for what a stream holds.");
  rule.def(
      "event_waited",
      [](ByPointer& self, Number event, Number stream) {
        self.tell({.kind = Kind::event_waited, .stream = pointer(stream), .event = pointer(event)});
      },
      nb::arg("event"), nb::arg("stream"), "A stream waits for an event.");
  rule.def(
      "device_synchronized", [](ByPointer& self) { wait(self, {}, Kind::device_synchronized); },
      "All work is over.");
  rule.def(
      "stream_synchronized",
      [](ByPointer& self, Number stream) {
        wait(self, {.stream = pointer(stream)}, Kind::stream_synchronized);
      },
      nb::arg("stream"), "A stream's work is over.");
  rule.def(
      "event_synchronized",
      [](ByPointer& self, Number event) {
        wait(self, {.event = pointer(event)}, Kind::event_synchronized);
      },
      nb::arg("event"), "What an event stands for is over.");
}

nb::tuple as_tuple(const cuda::sanitizer::Side& side) {
  const auto& operation = side.operation;
  return nb::make_tuple(side.writes, operation.serial, number(operation.stream),
                        operation.name != nullptr
                            ? operation.name
                            : (operation.kind == Kind::copied   ? "copy"
                               : operation.kind == Kind::filled ? "fill"
                                                                : "host function"),
                        side.arguments.text(), side.arguments.output, stack_text(operation.stack));
}

/// A Sanitizer for as long as Python wants, without Python's lock: those that are being told
/// something may want it.
class Watch {
 public:
  Watch()
      : sanitizer_(unlocked([] {
          return std::make_unique<cuda::Sanitizer>(cuda::SanitizerOptions{.print = false});
        })) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void stop() {
    if (!sanitizer_) return;
    unlocked([this] {
      summary_ = sanitizer_->summary();
      reports_ = sanitizer_->reports();
      sanitizer_.reset();
    });
  }
  std::vector<std::string> reports() const {
    return sanitizer_ ? unlocked([this] { return sanitizer_->reports(); }) : reports_;
  }
  cuda::SanitizerSummary summary() const {
    return sanitizer_ ? unlocked([this] { return sanitizer_->summary(); }) : summary_;
  }

 private:
  std::unique_ptr<cuda::Sanitizer> sanitizer_;
  cuda::SanitizerSummary summary_;
  std::vector<std::string> reports_;
};

void bind_watch(nb::module_& made) {
  nb::class_<Watch> watch(made, "Watch",
                          "Watches from its construction until stop(), and prints nothing.");
  watch.def(nb::init<>(), "Begins.");
  watch.def("stop", &Watch::stop, "Ends it; what was found remains.");
  watch.def("reports", &Watch::reports, "The reports of all races so far, in order.");
  watch.def(
      "summary", [](const Watch& self) { return self.summary().str(); },
      "What was found, and how many launches could not be checked.");
  watch.def(
      "unchecked", [](const Watch& self) { return self.summary().unchecked_names; },
      "The names of the launches whose accesses are unknown, each once, at most 32.");
}

/// SanitizerError as the exception of ember.cuda._sanitizer.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const cuda::SanitizerError& error) {
    nb::list found;
    for (const Conflict& conflict : error.conflicts())
      found.append(nb::make_tuple(number(conflict.now.address),
                                  stack_text(conflict.allocation_stack), as_tuple(conflict.now),
                                  conflict.kind == Conflict::Kind::never_written
                                      ? nb::object(nb::none())
                                      : nb::object(as_tuple(conflict.before))));
    try {
      const nb::object made =
          nb::module_::import_("ember.cuda._sanitizer").attr("_errors_of")(found);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  }
}

}  // namespace

void bind_sanitizer(nb::module_& cuda) {
  nb::module_ made = cuda.def_submodule("_sanitizer", "The stream sanitizer.");
  bind_engine(made);
  made.def(
      "enable", [] { unlocked([] { cuda::enable_sanitizer(); }); },
      "Watches every operation from now on: one that runs into a race is shown on stderr, and "
      "raises CUDASanitizerErrors once it is enqueued. Does nothing if it watches already.");
  made.def(
      "enabled", [] { return cuda::enabled_sanitizer() != nullptr; },
      "Whether it watches, by enable() or because the environment asks for it.");
  made.def(
      "summary",
      [] {
        const cuda::Sanitizer* const watching = cuda::enabled_sanitizer();
        return watching != nullptr ? watching->summary().str() : std::string();
      },
      "What was found, and how many launches could not be checked; empty unless it watches.");
  bind_watch(made);
  nb::register_exception_translator(translate);
}

}  // namespace ember::python
