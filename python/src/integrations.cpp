// ember.integrations: what the allocators of other libraries call.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "define.h"
#include "ember/memory/allocator_functions.h"
#include "ember/memory/pools.h"

namespace ember::python {
namespace {

using cuda::MemPool;

std::string core_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&ember_allocator_malloc), &info) == 0)
    throw Error("the dynamic linker does not know which file libember is");
  return info.dli_fname;
}

/// What a library asks for memory, without saying for which stream, for each of its arrays: by
/// Python's functions or, which takes less time, by C's.
class LibraryAllocator {
 public:
  LibraryAllocator(nb::object current_stream, nb::object pool, const nb::object& stream_function)
      : current_stream_(std::move(current_stream)), pool_(std::move(pool)) {
    if (!PyCallable_Check(current_stream_.ptr()))
      throw TypeError("current_stream: expected a function, got " +
                      std::string(Py_TYPE(current_stream_.ptr())->tp_name));
    if (!pool_.is_none() && !nb::isinstance<MemPool>(pool_))
      throw TypeError("pool: expected a MemPool, got " +
                      std::string(Py_TYPE(pool_.ptr())->tp_name));
    // As Cython exports functions; of another kind it is not called.
    if (PyCapsule_IsValid(stream_function.ptr(), kStreamFunction) != 0)
      stream_function_ = reinterpret_cast<StreamFunction>(
          PyCapsule_GetPointer(stream_function.ptr(), kStreamFunction));
  }

  std::uintptr_t malloc(std::size_t size, int device) const {
    return reinterpret_cast<std::uintptr_t>(allocate(size, device));
  }

  void free(std::uintptr_t pointer, int /*device*/) const {
    unlocked([&] { cuda::caching_allocator_delete(reinterpret_cast<void*>(pointer)); });  // NOLINT
  }

  // What C calls, with Python's lock, and the object as its parameter. An error is Python's.
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(this); }
  static std::uintptr_t malloc_function() { return reinterpret_cast<std::uintptr_t>(&c_malloc); }
  static std::uintptr_t free_function() { return reinterpret_cast<std::uintptr_t>(&c_free); }

  /// Whether `memory_class(size, parameter, malloc, free, device)`, CuPy's class of memory by C's
  /// functions, passes on their errors: they are then safe to use.
  bool passes_errors_on(const nb::object& memory_class) const {
    constexpr int kNoDevice = std::numeric_limits<int>::max();
    try {
      memory_class(1, address(), malloc_function(), free_function(), kNoDevice);
    } catch (const nb::python_error& error) {
      return !error.matches(PyExc_SystemError) && !error.matches(PyExc_TypeError);
    }
    return false;
  }

  void rethrow() const { std::rethrow_exception(std::exchange(failure_, nullptr)); }

 private:
  using StreamFunction = std::intptr_t (*)();
  static constexpr const char* kStreamFunction = "intptr_t (void)";
  /// For Cython, an error may have been raised.
  static constexpr std::intptr_t kFailed = -1;

  void* allocate(std::size_t size, int device) const {
    void* const stream = native_stream();
    const MemPool* const pool = pool_.is_none() ? nullptr : &nb::cast<const MemPool&>(pool_);
    return unlocked([&] {
      return pool != nullptr ? pool->allocate(size, device, stream)
                             : ember_allocator_malloc(size, device, stream);
    });
  }

  void* native_stream() const {
    void* native = nullptr;
    if (stream_function_ != nullptr) {
      const std::intptr_t stream = stream_function_();
      if (stream == kFailed && PyErr_Occurred() != nullptr) throw nb::python_error();
      native = reinterpret_cast<void*>(stream);  // NOLINT(performance-no-int-to-ptr)
    } else {
      const nb::object stream = nb::getattr(current_stream_(), ptr_);
      native = PyLong_AsVoidPtr(stream.ptr());
      if (native == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    }
    return native;
  }

  static void* c_malloc(void* self, std::size_t size, int device) noexcept {
    const auto& allocator = *static_cast<const LibraryAllocator*>(self);
    try {
      return allocator.allocate(size, device);
    } catch (...) {
      allocator.raise();
    }
    return reinterpret_cast<void*>(kFailed);  // NOLINT(performance-no-int-to-ptr)
  }

  /// The object may be gone: CuPy's memory does not keep it.
  static void c_free(void* /*self*/, void* pointer, int /*device*/) noexcept {
    if (reinterpret_cast<std::intptr_t>(pointer) == kFailed) return;
    try {
      unlocked([&] { cuda::caching_allocator_delete(pointer); });
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
      PyErr_WriteUnraisable(nullptr);
    }
  }

  /// Raises the exception that is being handled in Python: by a method, which translates it.
  void raise() const noexcept {
    failure_ = std::current_exception();
    try {
      nb::find(*this).attr("_rethrow")();
    } catch (nb::python_error& error) {
      error.restore();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  }

  nb::object current_stream_;
  nb::object pool_;
  nb::object ptr_ = nb::steal(PyUnicode_InternFromString("ptr"));  // looked up sooner than a text
  StreamFunction stream_function_ = nullptr;
  mutable std::exception_ptr failure_;
};

}  // namespace

void bind_integrations(nb::module_& m) {
  m.def("_core_library", &core_library,
        "The file of libember, for libraries that load it themselves.");
  nb::class_<LibraryAllocator>(
      m, "_LibraryAllocator",
      "Memory for a library, from everybody's pool or from `pool`, for work on the stream that "
      "current_stream() returns: an object whose `ptr` is the native handle; or, if it is a "
      "capsule "
      "of such a function by Cython, what stream_function returns. It keeps both and the pool.")
      .def(nb::init<nb::object, nb::object, nb::object>(), nb::arg("current_stream"),
           nb::arg("pool") = nb::none(), nb::arg("stream_function") = nb::none(),
           nb::sig("def __init__(self, current_stream: collections.abc.Callable[[], object], "
                   "pool: MemPool | None = None, stream_function: object = None) -> None"))
      .def("malloc", &LibraryAllocator::malloc, nb::arg("size"), nb::arg("device"),
           "The address of so many bytes on the device; 0 for none. As caching_allocator_alloc.")
      .def("free", &LibraryAllocator::free, nb::arg("pointer"), nb::arg("device"),
           "As caching_allocator_delete.")
      .def_prop_ro("address", &LibraryAllocator::address,
                   "The parameter of the functions in C. It lives as long as the object.")
      .def_prop_ro_static(
          "malloc_function", [](const nb::object&) { return LibraryAllocator::malloc_function(); },
          "The address of a function in C, void* (void* parameter, size_t size, int device), that "
          "is called with Python's lock. After an error, which is raised, it returns -1.")
      .def_prop_ro_static(
          "free_function", [](const nb::object&) { return LibraryAllocator::free_function(); },
          "The address of a function in C, void (void* parameter, void* pointer, int device), that "
          "is called with Python's lock, also after the object is gone. An error is written.")
      .def("passes_errors_on", &LibraryAllocator::passes_errors_on, nb::arg("memory_class"),
           "Whether memory_class(size, parameter, malloc_function, free_function, device) raises "
           "the errors of the functions in C.")
      .def("_rethrow", &LibraryAllocator::rethrow);
}

}  // namespace ember::python
