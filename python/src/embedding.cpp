// Python in ember's core (base/embedding.h): warnings, call stacks, and the lock where it matters
// to others than the caller.
#include "ember/base/embedding.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

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

void take_lock_again(void* thread) noexcept {
  if (thread != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(thread));
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

constexpr Embedding kPython{&warn_in_python, &stack_of_python, &give_lock_back, &take_lock_again,
                            &raised_by_signal};

}  // namespace

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
}

}  // namespace ember::python
