// ember.cuda: graphs.
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "define.h"

namespace ember::python {
namespace {

using cuda::CUDAGraph;
using cuda::MemPoolId;

std::uintptr_t number_of(void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::object>> nodes_of(const CUDAGraph& self) {
  const cuda::GraphDescription description = unlocked([&] { return self.describe(); });
  nb::list nodes;
  for (const cuda::GraphDescription::Node& from : description.nodes) {
    nb::dict node;
    node["kind"] = from.kind;
    node["name"] = from.name;
    node["device"] = from.device;
    node["branch"] = from.branch;
    node["bytes"] = from.bytes;
    node["memory_known"] = from.memory_known;
    nb::list memory;
    for (const cuda::GraphDescription::Memory& piece : from.memory) {
      nb::dict each;
      each["address"] = piece.address;
      each["bytes"] = piece.bytes;
      each["writes"] = piece.writes;
      each["argument"] = piece.argument;
      memory.append(each);
    }
    node["memory"] = memory;
    nb::list after;
    for (const std::size_t before : from.after) after.append(before);
    node["after"] = after;
    node["stack"] = from.stack;
    nodes.append(node);
  }
  return nodes;
}

/// The tensors of replay(bind={captured: now}).
std::vector<cuda::GraphBinding> pairs_of(const nb::dict& bind) {
  std::vector<cuda::GraphBinding> pairs;
  for (const auto& [captured, now] : bind) {
    const auto tensor = [&](nb::handle object, const char* what) {
      Tensor made;
      if (!nb::try_cast(object, made))
        throw nb::type_error(("bind, pair " + std::to_string(pairs.size()) + ": the " + what +
                              " is a " + nb::type_name(object.type()).c_str() +
                              ", expected a tensor")
                                 .c_str());
      return made;
    };
    Tensor old = tensor(captured, "captured one");
    pairs.push_back({std::move(old), tensor(now, "new one")});
  }
  return pairs;
}

/// What a graphed function raised: an Exception, after which it may be called again, or something
/// that ends it, such as KeyboardInterrupt, which the core lets through.
struct Raised : std::runtime_error {
  Raised(const std::string& text, nb::python_error raised)
      : std::runtime_error(text), error(std::move(raised)) {}
  nb::python_error error;
};
struct Ended {
  nb::python_error error;
};

/// An object that lives as long as the core wants.
std::shared_ptr<const void> kept(nb::handle object) {
  object.inc_ref();
  return {object.ptr(), [](const void* held) {
            const LockFromAnywhere lock;
            if (lock) nb::handle(static_cast<PyObject*>(const_cast<void*>(held))).dec_ref();
          }};
}

nb::handle object_of(const void* held) { return static_cast<PyObject*>(const_cast<void*>(held)); }

nb::tuple call_graphed(const cuda::detail::GraphedCalls& calls, const nb::callable& function,
                       const nb::list& objects, nb::handle other, const std::string& refusal) {
  const auto arguments = nb::cast<std::vector<Tensor>>(objects);
  // Arguments are the caller's own objects, as what is passed on and as results.
  const auto objects_of = [&](const std::vector<Tensor>& tensors) {
    nb::list made;
    for (const Tensor& each : tensors) {
      std::size_t i = 0;
      while (i < arguments.size() && !arguments[i].is(each)) ++i;
      made.append(i < arguments.size() ? nb::object(objects[i]) : nb::cast(each));
    }
    return made;
  };
  const auto body = [&](const std::vector<Tensor>& given,
                        bool captured) -> cuda::detail::GraphedResults {
    const nb::gil_scoped_acquire lock;
    try {
      const auto made = nb::cast<nb::tuple>(function(objects_of(given), captured));
      return {nb::cast<std::vector<Tensor>>(made[0]), kept(made[1]),
              nb::cast<std::string>(made[2])};
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw Ended{error};
      const std::string kind = nb::cast<std::string>(error.type().attr("__name__"));
      throw Raised(kind + ": " + nb::str(error.value()).c_str(), error);
    }
  };
  const std::shared_ptr<const void> constants = other.is_none() ? nullptr : kept(other);
  try {
    const cuda::detail::GraphedResults results =
        unlocked_warning([&] { return calls.call(body, arguments, constants, refusal); });
    return nb::make_tuple(objects_of(results.tensors), object_of(results.rest.get()));
  } catch (const Raised& raised) {
    throw nb::python_error(raised.error);
  } catch (const Ended& ended) {
    throw nb::python_error(ended.error);
  }
}

}  // namespace

void bind_graphs(nb::module_& m) {
  nb::class_<CUDAGraph>(
      m, "CUDAGraph", "A graph of a device's work: captured once, replayed often. docs/graphs.md.",
      nb::is_weak_referenceable())
      .def(
          "__init__",
          [](CUDAGraph* self, bool keep_graph, const std::optional<std::string>& validate) {
            std::optional<cuda::GraphCheck> level;
            if (validate) level = cuda::graph_check(*validate);
            new (self) CUDAGraph(keep_graph, level);
          },
          nb::arg("keep_graph") = false, nb::arg("validate") = nb::none(),
          "validate: what becomes of mistakes with this graph, off, warn or error; without it "
          "EMBER_GRAPH_CHECK decides.")
      .def(
          "register_generator_state",
          [](CUDAGraph& self, const Generator& generator) {
            unlocked([&] { self.register_generator_state(generator); });
          },
          nb::arg("generator"),
          "Before capturing: lets the capture draw from a generator of its device, beside the "
          "default one.")
      .def(
          "capture_begin",
          [](CUDAGraph& self, const std::optional<MemPoolId>& pool, const std::string& mode) {
            const cuda::CaptureErrorMode parsed = cuda::capture_error_mode(mode);
            unlocked([&] { self.capture_begin(pool, parsed); });
          },
          nb::arg("pool") = nb::none(), nb::arg("capture_error_mode") = "global",
          "Captures what the current stream is given from now on, instead of doing it. pool: the "
          "id "
          "of a pool that graphs share. capture_error_mode: global, thread_local or relaxed.")
      .def(
          "capture_end", [](CUDAGraph& self) { unlocked_warning([&] { self.capture_end(); }); },
          "Ends the capture and, unless keep_graph, makes the graph ready.")
      .def(
          "_abandon_capture", [](CUDAGraph& self) { unlocked([&] { self.abandon_capture(); }); },
          "Ends a capture in progress, whatever the current stream, and keeps nothing of it.")
      .def(
          "instantiate", [](CUDAGraph& self) { unlocked([&] { self.instantiate(); }); },
          "Makes a kept graph ready.")
      .def(
          "replay",
          [](CUDAGraph& self, const std::optional<nb::typed<nb::dict, Tensor, Tensor>>& bind) {
            const std::vector<cuda::GraphBinding> pairs =
                bind ? pairs_of(*bind) : std::vector<cuda::GraphBinding>();
            unlocked_warning([&] { self.replay(pairs); });
          },
          nb::arg("bind") = nb::none(),
          "Enqueues the captured work on the current stream of the graph's device. bind: tensors "
          "that the capture used, each with one like it that takes its place in this replay.")
      .def(
          "reset", [](CUDAGraph& self) { unlocked([&] { self.reset(); }); },
          "Drops the graph and gives up its memory.")
      .def("pool", &CUDAGraph::pool, "The id of the graph's pool, for captures that share it.")
      .def("enable_debug_mode", &CUDAGraph::enable_debug_mode,
           "Before capturing: keeps the graph for debug_dump.")
      .def(
          "debug_dump",
          [](CUDAGraph& self, const FileName& file) {
            unlocked_warning([&] { self.debug_dump(file.path); });
          },
          nb::arg("debug_path"), "Writes the graph to a file, as text for Graphviz.")
      .def("describe", &nodes_of,
           "The captured work: a dict for each node, with kind, name, device, branch, bytes, "
           "memory_known, memory (address, bytes, writes, argument), after (the nodes it waits "
           "for) and stack.")
      .def(
          "raw_cuda_graph", [](const CUDAGraph& self) { return number_of(self.raw_cuda_graph()); },
          "The machine's own handle of a kept graph.")
      .def(
          "raw_cuda_graph_exec",
          [](const CUDAGraph& self) { return number_of(self.raw_cuda_graph_exec()); },
          "The machine's own handle of a graph that is ready.");
  nb::class_<cuda::GraphedCallable>(m, "_GraphedCallable", "A function of tensors that is a graph.")
      .def(
          "__call__",
          [](const cuda::GraphedCallable& self, const std::vector<Tensor>& arguments) {
            return unlocked([&] { return self(arguments); });
          },
          nb::arg("arguments"));
  m.def(
      "_make_graphed_callables",
      [](const std::vector<nb::callable>& callables,
         const std::vector<std::vector<Tensor>>& sample_args, int num_warmup_iters,
         const std::optional<MemPoolId>& pool) {
        std::vector<cuda::TensorFunction> functions;
        for (const nb::callable& callable : callables)
          functions.emplace_back([&callable](const std::vector<Tensor>& arguments) {
            const nb::gil_scoped_acquire lock;
            return nb::cast<std::vector<Tensor>>(callable(arguments));
          });
        const cuda::GraphedOptions options{num_warmup_iters, pool};
        return unlocked_warning(
            [&] { return cuda::make_graphed_callables(functions, sample_args, options); });
      },
      nb::arg("callables"), nb::arg("sample_args"), nb::arg("num_warmup_iters"),
      nb::arg("pool") = nb::none(),
      nb::sig("def _make_graphed_callables(callables: collections.abc.Sequence["
              "collections.abc.Callable[[list[ember._C.Tensor]], list[ember._C.Tensor]]], "
              "sample_args: collections.abc.Sequence[collections.abc.Sequence[ember._C.Tensor]], "
              "num_warmup_iters: int, pool: tuple[int, int] | None = None) "
              "-> list[_GraphedCallable]"),
      "Graphs of functions of lists of tensors.");
  nb::class_<cuda::detail::GraphedCalls>(m, "_GraphedCalls", "The graphs of a function.")
      .def(
          "__init__",
          [](cuda::detail::GraphedCalls* self, int max_graphs, bool copy, const std::string& name,
             const nb::callable& before_capture) {
            const auto same = [](const void* a, const void* b) {
              const nb::gil_scoped_acquire lock;
              try {
                return object_of(a).equal(object_of(b));
              } catch (const nb::python_error& error) {
                if (!error.matches(PyExc_Exception)) throw;
                return false;  // objects that cannot be compared
              }
            };
            const std::shared_ptr<const void> before = kept(before_capture);
            const auto call_before = [before] {
              const nb::gil_scoped_acquire lock;
              nb::borrow<nb::callable>(object_of(before.get()))();
            };
            new (self) cuda::detail::GraphedCalls({max_graphs, copy, name}, same, call_before);
          },
          nb::arg("max_graphs"), nb::arg("copy"), nb::arg("name"), nb::arg("before_capture"),
          nb::sig("def __init__(self, max_graphs: int, copy: bool, name: str, "
                  "before_capture: collections.abc.Callable[[], object]) -> None"))
      .def("__call__", &call_graphed, nb::arg("function"), nb::arg("arguments"),
           nb::arg("other").none(), nb::arg("refusal"),
           nb::sig("def __call__(self, function: collections.abc.Callable[[list[ember._C.Tensor], "
                   "bool], "
                   "tuple[list[ember._C.Tensor], object, str]], "
                   "arguments: list[ember._C.Tensor], other: object, "
                   "refusal: str) -> tuple[list[ember._C.Tensor], typing.Any]"),
           "Calls the function, or replays it. other: what a signature has beside tensors.")
      .def(
          "clear", [](const cuda::detail::GraphedCalls& self) { unlocked([&] { self.clear(); }); },
          "Forgets all graphs.");
  m.def(
      "is_current_stream_capturing",
      [] { return unlocked([] { return cuda::is_current_stream_capturing(); }); },
      "Whether the current stream is part of a capture. Does not initialise.");
  m.def(
      "_default_capture_stream",
      [] { return unlocked([] { return cuda::default_capture_stream(); }); },
      "The stream on which ember.cuda.graph captures unless told otherwise.");
  m.def(
      "_host_empty_cache", [] { unlocked([] { cuda::pinned_empty_cache(); }); },
      "Gives cached page-locked memory back.");
}

}  // namespace ember::python
