// ember.cuda: private pools of memory, allocations without the cache, running out of memory.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "define.h"

namespace ember::python {
namespace {

using cuda::MemPool;
using cuda::MemPoolGuard;
using cuda::MemPoolId;
using cuda::OutOfMemoryReport;
using cuda::PluggableAllocator;

/// `with ember.cuda.use_mem_pool(pool):`. Keeps the pool.
struct MemPoolContext {
  MemPoolContext(nb::object of, cuda::DeviceArg on) : pool(std::move(of)), device(on) {}
  MemPoolContext(MemPoolContext&&) = default;
  ~MemPoolContext() = default;
  nb::object pool;
  cuda::DeviceArg device;
  std::vector<std::unique_ptr<MemPoolGuard>> guards;

  void enter() {
    const auto& of = nb::cast<const MemPool&>(pool);
    guards.push_back(unlocked([&] { return std::make_unique<MemPoolGuard>(of, device); }));
  }
  void exit() {
    if (guards.empty()) return;
    std::unique_ptr<MemPoolGuard> last = std::move(guards.back());
    guards.pop_back();
    unlocked([&] { last.reset(); });
  }
};

/// `with ember.cuda.caching_allocator_disabled():`.
struct DisabledContext {
  DisabledContext() = default;
  DisabledContext(DisabledContext&&) = default;
  ~DisabledContext() = default;
  std::vector<std::unique_ptr<cuda::CachingAllocatorDisabled>> guards;
};

/// A pool, or its id.
MemPoolId id_of(nb::handle pool) {
  if (nb::isinstance<MemPool>(pool)) return nb::cast<const MemPool&>(pool).id();
  MemPoolId id;
  if (!nb::try_cast(pool, id))
    throw TypeError("pool: expected a MemPool or the id of one, a pair of int, got " +
                    std::string(Py_TYPE(pool.ptr())->tp_name));
  return id;
}

void bind_allocators(nb::module_& m) {
  nb::class_<PluggableAllocator>(m, "_PluggableAllocator",
                                 "What CUDAPluggableAllocator.allocator() gives.")
      .def(nb::init<const std::string&, const std::string&, const std::string&>(),
           nb::arg("path_to_so_file"), nb::arg("alloc_fn_name"), nb::arg("free_fn_name"))
      .def(
          "set_init_fn",
          [](PluggableAllocator& self, std::uintptr_t address) {
            self.set_init_fn(reinterpret_cast<void (*)(int)>(address));  // NOLINT
          },
          nb::arg("fn_ptr"), "void init(int device_count), called before the first allocation.")
      .def(
          "set_reset_fn",
          [](PluggableAllocator& self, std::uintptr_t address) {
            self.set_reset_fn(reinterpret_cast<void (*)()>(address));  // NOLINT
          },
          nb::arg("fn_ptr"), "void reset(), called by empty_cache, and where memory is short.")
      .def(
          "__eq__",
          [](const PluggableAllocator& self, nb::handle other) {
            return nb::isinstance<PluggableAllocator>(other) &&
                   self == nb::cast<const PluggableAllocator&>(other);
          },
          nb::arg("other").none())
      .def("__hash__", [](const PluggableAllocator& self) {
        return std::hash<const std::string*>()(&self.alloc_fn_name());  // one of each allocator
      });
  m.def("_change_current_allocator", &cuda::change_current_allocator, nb::arg("allocator"));
}

void bind_pool(nb::module_& m) {
  nb::class_<MemPool>(m, "MemPool",
                      "A private pool of the current device's memory: it serves only what is "
                      "allocated inside use_mem_pool, and nothing else serves that.")
      .def(
          "__init__",
          [](MemPool* self, nb::handle allocator, bool use_on_oom, bool no_split) {
            const cuda::MemPoolOptions options{.use_on_oom = use_on_oom, .no_split = no_split};
            if (allocator.is_none()) {
              new (self) MemPool(unlocked([&] { return MemPool(options); }));
              return;
            }
            if (!nb::isinstance<PluggableAllocator>(allocator))
              throw TypeError(
                  "MemPool: allocator: expected what CUDAPluggableAllocator.allocator() gives, or "
                  "None, got " +
                  std::string(Py_TYPE(allocator.ptr())->tp_name));
            const auto& of = nb::cast<const PluggableAllocator&>(allocator);
            new (self) MemPool(unlocked([&] { return MemPool(of, options); }));
          },
          nb::arg("allocator") = nb::none(), nb::arg("use_on_oom") = false,
          nb::arg("no_split") = false,
          nb::sig("def __init__(self, allocator: _PluggableAllocator | None = None, use_on_oom: "
                  "bool = False, no_split: bool = False) -> None"),
          "allocator: where its segments come from, if not from the device: "
          "CUDAPluggableAllocator(...).allocator(). use_on_oom: free blocks serve allocations of "
          "other pools that would fail. no_split: each block is a segment of its own.")
      .def_prop_ro("id", [](const MemPool& self) { return self.id(); })
      .def_prop_ro(
          "allocator", [](const MemPool& self) { return self.allocator(); },
          nb::sig("def allocator(self) -> _PluggableAllocator | None"))
      .def(
          "use_count",
          [](const MemPool& self) { return unlocked([&] { return self.use_count(); }); },
          "How many need the pool: this object, and those who use it now.")
      .def(
          "offload", [](MemPool& self) { unlocked([&] { self.offload(); }); },
          "Puts the pool to sleep: its contents move to page-locked host memory and its memory "
          "goes "
          "back to the device; addresses and tensors stay. Until restore() its tensors must not be "
          "used, and allocating from it is a RuntimeError; freeing works. Waits for the work of "
          "the streams that use it. RuntimeError, naming the setting, unless its segments grow "
          "(expandable_segments:True). docs/memory.md.")
      .def(
          "restore", [](MemPool& self) { unlocked([&] { self.restore(); }); },
          "Wakes the pool: the same contents at the same addresses. Nothing if it does not sleep. "
          "OutOfMemoryError if the device has not enough memory; then it sleeps as before, and the "
          "same call succeeds once there is memory.")
      .def_prop_ro(
          "asleep", [](const MemPool& self) { return unlocked([&] { return self.asleep(); }); },
          "Whether offload() put it to sleep.")
      .def(
          "snapshot",
          [](const MemPool& self, bool /*include_traces*/) { return segments_of(self.id()); },
          nb::arg("include_traces") = true,
          nb::sig("def snapshot(self, include_traces: bool = True) -> list[dict[str, typing.Any]]"),
          "Its segments, as memory_snapshot has them.");
  nb::class_<MemPoolContext> context(m, "_MemPoolContext", "What use_mem_pool returns.");
  context.def("__enter__", &MemPoolContext::enter);
  define_exit(context, [](MemPoolContext& self) { self.exit(); });
  define_decorator(
      context, [](const MemPoolContext& self) { return MemPoolContext(self.pool, self.device); });
  m.def(
      "use_mem_pool",
      [](nb::object pool, const DeviceLike& device) {
        if (!nb::isinstance<MemPool>(pool))
          throw TypeError("pool: expected a MemPool, got " +
                          std::string(Py_TYPE(pool.ptr())->tp_name));
        return MemPoolContext(std::move(pool), device.arg());
      },
      nb::arg("pool"), nb::arg("device") = nb::none(),
      nb::sig("def use_mem_pool(pool: MemPool, device: ember._C.device | int | str | None = None) "
              "-> _MemPoolContext"),
      "In a with block, or as a decorator in each call of a function: what the thread allocates on "
      "the device comes from the pool. Nests.");
  m.def("graph_pool_handle", &cuda::graph_pool_handle, "A new id for a pool.");
  m.def(
      "empty_cache",
      [](nb::handle pool) {
        if (pool.is_none()) return unlocked([] { cuda::empty_cache(); });
        const MemPoolId id = id_of(pool);
        unlocked([&] { cuda::empty_cache(id); });
      },
      nb::arg("pool") = nb::none(),
      nb::sig("def empty_cache(pool: MemPool | tuple[int, int] | None = None) -> None"),
      "Gives cached memory that is not in use back to the devices; with a pool, that one's.");
}

void bind_disabling(nb::module_& m) {
  m.def("caching_allocator_enable", &cuda::caching_allocator_enable, nb::arg("value") = true,
        "False: from now on each allocation is one of the device's own.");
  m.def("caching_allocator_enabled", &cuda::caching_allocator_enabled,
        "Whether caching is on for this thread.");
  nb::class_<DisabledContext> context(m, "caching_allocator_disabled",
                                      "In a with block, the thread allocates without the cache.");
  context.def(nb::init<>()).def("__enter__", [](DisabledContext& self) {
    self.guards.push_back(std::make_unique<cuda::CachingAllocatorDisabled>());
  });
  define_exit(context, [](DisabledContext& self) {
    if (!self.guards.empty()) self.guards.pop_back();
  });
}

void bind_report(nb::module_& m) {
  using PoolBytes = OutOfMemoryReport::PoolBytes;
  nb::class_<OutOfMemoryReport>(
      m, "OutOfMemoryReport",
      "Why an allocation failed, in bytes: OutOfMemoryError.report. docs/memory.md.")
      .def_ro("device", &OutOfMemoryReport::device)
      .def_ro("requested", &OutOfMemoryReport::requested)
      .def_ro("segment", &OutOfMemoryReport::segment)
      .def_ro("pool", &OutOfMemoryReport::pool)
      .def_prop_ro("stream",
                   [](const OutOfMemoryReport& self) {
                     return reinterpret_cast<std::uintptr_t>(self.stream);
                   })
      .def_ro("total", &OutOfMemoryReport::total)
      .def_ro("free", &OutOfMemoryReport::free)
      .def_ro("limit", &OutOfMemoryReport::limit)
      .def_ro("allocated", &OutOfMemoryReport::allocated)
      .def_ro("reserved", &OutOfMemoryReport::reserved)
      .def_ro("missing", &OutOfMemoryReport::missing)
      .def_ro("largest_free_block", &OutOfMemoryReport::largest_free_block)
      .def_ro("fragmented", &OutOfMemoryReport::fragmented)
      .def_ro("private_pools", &OutOfMemoryReport::private_pools)
      .def_ro("pending", &OutOfMemoryReport::pending)
      .def_ro("cached", &OutOfMemoryReport::cached)
      .def_prop_ro(
          "pools",
          [](const OutOfMemoryReport& self) {
            nb::list pools;
            for (const PoolBytes& from : self.pools) {
              nb::dict pool;
              pool["id"] = from.id;
              pool["reserved"] = from.reserved;
              pool["free"] = from.free;
              pool["releasable"] = from.releasable;
              pool["has_graphs"] = from.has_graphs;
              pools.append(pool);
            }
            return pools;
          },
          nb::sig("def pools(self) -> list[dict[str, typing.Any]]"))
      .def_prop_ro(
          "leased",
          [](const OutOfMemoryReport& self) {
            nb::list leased;
            for (const auto& from : self.leased)
              leased.append(nb::make_tuple(from.process, from.bytes));
            return leased;
          },
          nb::sig("def leased(self) -> list[tuple[int, int]]"))
      .def_ro("elsewhere", &OutOfMemoryReport::elsewhere)
      .def_ro("context", &OutOfMemoryReport::context)
      .def_ro("could_not_wait", &OutOfMemoryReport::could_not_wait)
      .def_prop_ro(
          "verdict",
          [](const OutOfMemoryReport& self) { return std::string(cuda::to_string(self.verdict)); })
      .def_ro("verdict_bytes", &OutOfMemoryReport::verdict_bytes)
      .def_ro("verdict_pool", &OutOfMemoryReport::verdict_pool)
      // So that the error reaches whoever started the process.
      .def(
          "__reduce__",
          [](nb::handle self) {
            nb::dict figures;
            for (const nb::handle name : nb::steal<nb::list>(PyObject_Dir(self.type().ptr())))
              if (*nb::str(name).c_str() != '_') figures[name] = self.attr(nb::str(name));
            const nb::object plain = nb::module_::import_("types").attr("SimpleNamespace");
            return nb::make_tuple(plain, nb::tuple(), figures);
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"),
          "Copied or sent to another process, it is a namespace of the same figures.");
}

/// Python's lock is needed to let a function go, too.
std::shared_ptr<nb::object> kept(nb::object function) {
  return {new nb::object(std::move(function)), [](nb::object* held) {
            const LockFromAnywhere lock;
            if (lock) delete held;
          }};
}

void bind_callbacks(nb::module_& m) {
  m.def(
      "add_out_of_memory_callback",
      [](nb::object callback) {
        if (PyCallable_Check(callback.ptr()) == 0)
          throw TypeError("callback: expected a function, got " +
                          std::string(Py_TYPE(callback.ptr())->tp_name));
        return cuda::add_out_of_memory_callback(
            [function = kept(std::move(callback))](const OutOfMemoryReport& report) {
              const LockFromAnywhere lock;
              if (!lock) return false;
              const nb::object answer = (*function)(report);
              const int helped = PyObject_IsTrue(answer.ptr());
              if (helped < 0) throw nb::python_error();
              return helped == 1;
            });
      },
      nb::arg("callback").none(),
      nb::sig("def add_out_of_memory_callback(callback: "
              "collections.abc.Callable[[OutOfMemoryReport], object]) -> int"),
      "From now on callback(report) is called when all else was tried and before OutOfMemoryError "
      "is raised. True: it freed something, so the allocation is tried again. What it raises is "
      "raised instead. Returns a number to remove it by.");
  m.def(
      "remove_out_of_memory_callback",
      [](std::uint64_t number) {
        return unlocked([&] { return cuda::remove_out_of_memory_callback(number); });
      },
      nb::arg("number"), "False if there is none by that number.");
}

}  // namespace

void bind_pools(nb::module_& m) {
  bind_report(m);
  bind_allocators(m);
  bind_pool(m);
  bind_disabling(m);
  bind_callbacks(m);
}

}  // namespace ember::python
