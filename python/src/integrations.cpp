// ember.integrations: what the allocators of other libraries call.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
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

/// The two functions of a library that asks Python for memory, and does not say for which stream:
/// it is called for each of the library's arrays.
class LibraryAllocator {
 public:
  LibraryAllocator(nb::object current_stream, nb::object pool)
      : current_stream_(std::move(current_stream)), pool_(std::move(pool)) {
    if (!PyCallable_Check(current_stream_.ptr()))
      throw TypeError("current_stream: expected a function, got " +
                      std::string(Py_TYPE(current_stream_.ptr())->tp_name));
    if (!pool_.is_none() && !nb::isinstance<MemPool>(pool_))
      throw TypeError("pool: expected a MemPool, got " +
                      std::string(Py_TYPE(pool_.ptr())->tp_name));
  }

  std::uintptr_t malloc(std::size_t size, int device) const {
    const nb::object stream = nb::getattr(current_stream_(), ptr_);
    void* const native = PyLong_AsVoidPtr(stream.ptr());
    if (native == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    const MemPool* const pool = pool_.is_none() ? nullptr : &nb::cast<const MemPool&>(pool_);
    return reinterpret_cast<std::uintptr_t>(unlocked([&] {
      return pool != nullptr ? pool->allocate(size, device, native)
                             : ember_allocator_malloc(size, device, native);
    }));
  }

  void free(std::uintptr_t pointer, int /*device*/) const {
    unlocked([&] { cuda::caching_allocator_delete(reinterpret_cast<void*>(pointer)); });  // NOLINT
  }

 private:
  nb::object current_stream_;
  nb::object pool_;
  nb::object ptr_ = nb::steal(PyUnicode_InternFromString("ptr"));  // looked up sooner than a text
};

}  // namespace

void bind_integrations(nb::module_& m) {
  m.def("_core_library", &core_library,
        "The file of libember, for libraries that load it themselves.");
  nb::class_<LibraryAllocator>(m, "_LibraryAllocator",
                               "Memory for a library, from everybody's pool or from `pool`, for "
                               "work on the stream that current_stream() returns: an object whose "
                               "`ptr` is the native handle. It keeps both.")
      .def(nb::init<nb::object, nb::object>(), nb::arg("current_stream"),
           nb::arg("pool") = nb::none(),
           nb::sig("def __init__(self, current_stream: collections.abc.Callable[[], object], "
                   "pool: MemPool | None = None) -> None"))
      .def("malloc", &LibraryAllocator::malloc, nb::arg("size"), nb::arg("device"),
           "The address of so many bytes on the device; 0 for none. As caching_allocator_alloc.")
      .def("free", &LibraryAllocator::free, nb::arg("pointer"), nb::arg("device"),
           "As caching_allocator_delete.");
}

}  // namespace ember::python
