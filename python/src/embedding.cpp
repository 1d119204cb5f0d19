// Python in ember's core (base/embedding.h): warnings, call stacks, and the lock where it matters
// to others than the caller.
#include "ember/base/embedding.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "ember/runtime/runtime.h"
#include "python.h"

namespace ember::python {
namespace {

// ---- Threads that are not Python's

// Note [The end of the interpreter]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A thread that takes Python's lock after the interpreter has begun to end is ended by Python, by
// an exception that no C++ frame may stop: the process aborts. That holds also for a thread that
// has the lock and gives it back for a moment, as time.sleep does. So an atexit function, which
// runs before that point, (1) has threads of the driver's take the lock no more: host functions
// that have not begun are never called, as the work that a device still has is not done either; and
// (2) waits for those that have begun, with the lock given back, as Python waits for its own
// threads. It does not wait for a device, whose work may take any time. Ctrl-C ends the wait.
//
// Daemon threads are Python's own, and nobody waits for them: the exception ends in
// take_lock_again, and so does the thread's course, as Python has it from 3.14 on.

constexpr std::uint32_t kEnding = std::uint32_t{1} << 31;
/// How many foreign threads have the lock or will have it; and kEnding.
constinit std::atomic<std::uint32_t> foreign{0};
/// How many of them are the calling thread: those it does not wait for, and keeps in a child.
thread_local constinit std::uint32_t own = 0;

void await_foreign_threads() {
  foreign.fetch_or(kEnding);
  while ((foreign.load() & ~kEnding) > own) {
    unlocked([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

/// The others did not come along.
void after_fork_in_child() { foreign.store((foreign.load() & kEnding) | own); }

// ---- Hooks

thread_local WarningsRaised* raising = nullptr;

void warn_in_python(Warning kind, const char* text) noexcept {
  const LockFromAnywhere lock;
  if (!lock) return;
  PyObject* category = kind == Warning::future ? PyExc_FutureWarning : PyExc_UserWarning;
  if (PyErr_WarnEx(category, text, 1) == 0) return;
  if (raising != nullptr)
    raising->keep();
  else
    PyErr_WriteUnraisable(nullptr);
}

std::string stack_of_python() noexcept {
  const LockFromAnywhere lock;
  if (!lock) return {};
  try {
    const nb::object lines = nb::module_::import_("traceback").attr("format_stack")();
    return nb::cast<std::string>(nb::str("").attr("join")(lines));
  } catch (...) {  // never worth failing for
    return {};
  }
}

void* give_lock_back() noexcept {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return nullptr;
  return PyEval_SaveThread();
}

void take_lock_if_given(void* thread) noexcept {
  if (thread != nullptr) take_lock_again(static_cast<PyThreadState*>(thread));
}

/// What a signal handler raised in a wait, until the wait has been left.
thread_local std::optional<nb::python_error> interruption;

// Python runs the handlers of signals on its main thread only.
bool raised_by_signal() noexcept {
  if (interruption) return true;
  if (getpid() != gettid()) return false;
  const LockFromAnywhere lock;
  if (!lock || PyErr_CheckSignals() == 0) return false;
  interruption.emplace();
  return true;
}

// ---- Stacks as numbers

/// Innermost first: code objects, which are owned, and where in them.
using Frames = std::vector<std::pair<PyObject*, int>>;
constexpr std::size_t kFrames = 16;

/// With Python's lock. Never destroyed: observers may ask until the process ends.
struct Stacks {
  std::map<Frames, std::uint64_t> numbers;
  std::deque<const Frames*> frames;
};
Stacks& stacks() {
  static auto* const made = new Stacks;
  return *made;
}

/// What StackWhileUnlocked noted.
thread_local constinit std::uint64_t noted = 0;

int place_in(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

int line_of(PyObject* code, int place) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code), place);
#else
  (void)code;
  return place;
#endif
}

std::uint64_t take_stack() {
  Frames frames;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr && frames.size() < kFrames) {
    frames.emplace_back(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)), place_in(frame));
    PyFrameObject* const outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  if (frames.empty()) return 0;
  Stacks& all = stacks();
  const auto [at, is_new] = all.numbers.try_emplace(std::move(frames), all.frames.size() + 1);
  if (is_new)
    all.frames.push_back(&at->first);  // it owns the code objects from now on
  else
    for (const auto& [code, place] : frames) Py_DECREF(code);
  return at->second;
}

std::uint64_t stack_number() noexcept {
  if (noted != 0) return noted;
  if (!nb::is_alive() || PyGILState_Check() == 0) return 0;
  try {
    return take_stack();
  } catch (...) {  // never worth failing for
    return 0;
  }
}

std::string stack_of_number(std::uint64_t number) noexcept {
  const LockFromAnywhere lock;
  if (!lock || number == 0 || number > stacks().frames.size()) return {};
  try {
    std::string text;
    const Frames& frames = *stacks().frames[number - 1];
    const nb::object line_in = nb::module_::import_("linecache").attr("getline");
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const nb::handle code(frame->first);
      const int line = line_of(frame->first, frame->second);
      const nb::object file = code.attr("co_filename");
      const nb::object source = line_in(file, line).attr("strip")();
      text.append("  File \"").append(nb::cast<std::string>(file));
      text.append("\", line ").append(std::to_string(line)).append(", in ");
      text.append(nb::cast<std::string>(code.attr("co_name"))).append("\n");
      if (nb::len(source) != 0)
        text.append("    ").append(nb::cast<std::string>(source)).append("\n");
    }
    return text;
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("ember: a stack in a report");
  } catch (...) {
  }
  return {};
}

std::vector<StackFrame> frames_of_number(std::uint64_t number) noexcept {
  const LockFromAnywhere lock;
  std::vector<StackFrame> made;
  if (!lock || number == 0 || number > stacks().frames.size()) return made;
  try {
    for (const auto& [owned, place] : *stacks().frames[number - 1]) {
      const nb::handle code(owned);
      made.push_back({nb::cast<std::string>(code.attr("co_filename")), line_of(owned, place),
                      nb::cast<std::string>(code.attr("co_name"))});
    }
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("ember: a stack in a report");
  } catch (...) {
  }
  return made;
}

const void* interpreter() noexcept { return reinterpret_cast<const void*>(&PyEval_GetFrame); }

constexpr Embedding kPython{&warn_in_python,     &stack_of_python,  &give_lock_back,
                            &take_lock_if_given, &raised_by_signal, &stack_number,
                            &stack_of_number,    &frames_of_number, &interpreter};

}  // namespace

void take_lock_again(PyThreadState* thread) noexcept {
  try {
    PyEval_RestoreThread(thread);
  } catch (const abi::__forced_unwind&) {  // the thread's end
    for (;;) (void)pause();
  }
}

void StackWhileUnlocked::note() {
  if (noted != 0) return;
  noted = stack_number();
  noted_ = noted != 0;
}
void StackWhileUnlocked::forget() noexcept { noted = 0; }

LockFromAnywhere::LockFromAnywhere() {
  if (!nb::is_alive()) return;
  if (PyGILState_Check() != 0) {
    held_ = true;
    return;
  }
  if ((foreign.fetch_add(1) & kEnding) != 0) {
    foreign.fetch_sub(1);
    return;
  }
  ++own;
  taken_.emplace();
  held_ = true;
}

LockFromAnywhere::~LockFromAnywhere() {
  if (!taken_) return;
  taken_.reset();
  --own;
  foreign.fetch_sub(1);
}

bool raise_interruption() {
  if (!interruption) return false;
  interruption->restore();
  interruption.reset();
  return true;
}

WarningsRaised::WarningsRaised() noexcept : outer_(std::exchange(raising, this)) {}
WarningsRaised::~WarningsRaised() { raising = outer_; }
void WarningsRaised::keep() { error_.emplace(); }
void WarningsRaised::raise() {
  if (error_) throw nb::python_error(std::move(*error_));
}

void bind_embedding() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&await_foreign_threads));
  pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  embed(kPython);
  cuda::want_stacks_of_first_use();
}

}  // namespace ember::python
