// ember.cuda.memory: the history of device memory, snapshots, scopes.
#include "ember/memory/history.h"

#include <nanobind/stl/pair.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "define.h"
#include "ember/base/bytes.h"
#include "ember/memory/scope.h"
#include "ember/memory/snapshot.h"
#include "ember/memory/snapshot_file.h"
#include "ember/replay/replay.h"

namespace ember::python {
namespace {

using Text = std::optional<std::string>;

void record(Text enabled, Text context, std::string stacks, std::size_t max_entries,
            bool clear_history, std::vector<std::string> skip_actions) {
  cuda::MemoryHistoryOptions options;
  options.enabled = std::move(enabled);
  options.context = std::move(context);
  options.stacks = std::move(stacks);
  options.max_entries = max_entries;
  options.clear_history = clear_history;
  options.skip_actions = std::move(skip_actions);
  unlocked([&] { cuda::record_memory_history(options); });
}

void record_legacy(bool enabled, bool record_context, std::size_t max_entries, bool trace_context,
                   bool native, bool clear_history) {
  record(enabled ? Text("all") : Text(),
         trace_context    ? Text("alloc")
         : record_context ? Text("state")
                          : Text(),
         native ? "all" : "python", max_entries, clear_history, {});
}

/// The same as the file that is dumped says.
nb::object as_python(const cuda::MemorySnapshot& snapshot) {
  // Not without Python's lock, which the names of its frames need.
  const std::string pickle = cuda::snapshot_as_pickle(snapshot);
  return nb::module_::import_("pickle").attr("loads")(nb::bytes(pickle.data(), pickle.size()));
}

nb::object snapshot(nb::handle /*device*/) {
  return as_python(unlocked([] { return cuda::memory_snapshot(); }));
}

nb::object segments(std::optional<cuda::MemPoolId> mempool_id, bool /*include_traces*/) {
  if (mempool_id) return segments_of(*mempool_id);
  cuda::MemorySnapshot snapshot = unlocked([] { return cuda::memory_snapshot(); });
  snapshot.device_traces.clear();
  return as_python(snapshot)["segments"];
}

nb::list frames_of(const std::vector<StackFrame>& frames) {
  nb::list list;
  for (const StackFrame& frame : frames) {
    nb::dict each;
    each["filename"] = frame.file;
    each["line"] = frame.line;
    each["name"] = frame.name;
    list.append(each);
  }
  return list;
}

nb::list holders(const DeviceLike& device, std::size_t most) {
  nb::list list;
  if (!cuda::is_initialized()) return list;
  const cuda::DeviceArg given = device.arg();
  for (const cuda::MemoryHolder& holder :
       unlocked([&] { return cuda::memory_holders(given, most); })) {
    nb::dict each;
    each["tag"] = holder.tag;
    each["bytes"] = holder.bytes;
    each["blocks"] = holder.blocks;
    each["frames"] = frames_of(holder.frames);
    list.append(each);
  }
  return list;
}

/// A MemoryScope between __enter__ and __exit__.
class Scope {
 public:
  explicit Scope(std::string name) : name_(std::move(name)) {}
  Scope& enter() {
    if (scope_ != nullptr)
      throw Error("scope '" + name_ + "' was entered before: make another one of the name");
    scope_ = std::make_unique<cuda::MemoryScope>(name_);
    return *this;
  }
  void exit() {
    if (scope_ != nullptr) scope_->end();
  }
  std::size_t held(const DeviceLike& device) const {
    return scope_ != nullptr ? scope_->held(device.arg()) : 0;
  }
  std::size_t peak(const DeviceLike& device) const {
    return scope_ != nullptr ? scope_->peak(device.arg()) : 0;
  }
  std::string tag() const { return scope_ != nullptr ? scope_->tag() : name_; }

 private:
  std::string name_;
  std::unique_ptr<cuda::MemoryScope> scope_;
};

void bind_scope(nb::module_& m) {
  nb::class_<Scope> scope(
      m, "_MemoryScope",
      "While it is entered, what its thread allocates has its tag. Enter each one once.");
  scope.def(nb::init<std::string>(), nb::arg("name"), "Nothing happens until it is entered.");
  scope.def("__enter__", &Scope::enter, nb::rv_policy::reference_internal,
            nb::sig("def __enter__(self) -> _MemoryScope"), "Begins it on the calling thread.");
  scope.def(
      "__exit__", [](Scope& self, const nb::args&) { self.exit(); },
      nb::sig("def __exit__(self, *args: object) -> None"), "Ends it.");
  scope.def("held", &Scope::held, nb::arg("device") = nb::none(),
            nb::sig("def held(self, device: ember._C.device | int | str | None = None) -> int"),
            "Bytes that memory with this tag, or one within it, has on a device now.");
  scope.def("peak", &Scope::peak, nb::arg("device") = nb::none(),
            nb::sig("def peak(self, device: ember._C.device | int | str | None = None) -> int"),
            "The most there were while it was entered.");
  scope.def_prop_ro("tag", &Scope::tag, "Such as 'train/optimizer', for the inner one of two.");
}

}  // namespace

nb::object segments_of(const cuda::MemPoolId& pool) {
  return as_python(unlocked([&] { return cuda::memory_snapshot(pool); }))["segments"];
}

void bind_history(nb::module_& m) {
  bind_scope(m);
  m.def("_record_history", &record, nb::arg("enabled").none(), nb::arg("context").none(),
        nb::arg("stacks"), nb::arg("max_entries"), nb::arg("clear_history"),
        nb::arg("skip_actions"), "Records the history of device memory from now on, or stops.");
  m.def("_record_history_legacy", &record_legacy, nb::arg("enabled"), nb::arg("record_context"),
        nb::arg("trace_alloc_max_entries"), nb::arg("trace_alloc_record_context"),
        nb::arg("record_context_cpp"), nb::arg("clear_history"),
        "The same by the older signature.");
  m.def("_snapshot", &snapshot, nb::arg("device") = nb::none(),
        nb::sig("def _snapshot(device: object = None) -> dict[str, typing.Any]"),
        "Segments, blocks and the history of all devices, as they are now.");
  m.def("memory_snapshot", &segments, nb::arg("mempool_id") = nb::none(),
        nb::arg("include_traces") = true,
        nb::sig("def memory_snapshot(mempool_id: tuple[int, int] | None = None, include_traces: "
                "bool = True) -> list[dict[str, typing.Any]]"),
        "All segments and their blocks as they are now, or those of one pool.");
  m.def(
      "_dump_snapshot",
      [](const FileName& file) { unlocked([&] { cuda::dump_memory_snapshot(file.path); }); },
      nb::arg("filename") = "dump_snapshot.pickle", "Writes a snapshot to a file.");
  m.def("_holders", &holders, nb::arg("device") = nb::none(), nb::arg("most") = 10,
        nb::sig("def _holders(device: ember._C.device | int | str | None = None, most: int = 10) "
                "-> list[dict[str, typing.Any]]"),
        "Who holds most of a device's memory.");
  m.def(
      "_compare_snapshots",
      [](const nb::bytes& before, const nb::bytes& after, std::size_t most) {
        const std::string_view first(before.c_str(), before.size());
        const std::string_view second(after.c_str(), after.size());
        return unlocked([&] { return cuda::compare_snapshots(first, second).str(most); });
      },
      nb::arg("before"), nb::arg("after"), nb::arg("most"),
      "What grew between two snapshots' pickles, as text.");
  m.def(
      "_replay_memory",
      [](const nb::bytes& trace, std::vector<std::string> policies, std::size_t device,
         const std::string& memory, std::size_t points) {
        const std::optional<std::uint64_t> bytes = parse_bytes(memory);
        if (!bytes) throw ValueError("memory: got '" + memory + "', expected bytes, such as 80GiB");
        const std::string_view text(trace.c_str(), trace.size());
        return unlocked([&] {
          return cuda::replay_memory(text, {std::move(policies), device, *bytes, points}).str();
        });
      },
      nb::arg("trace"), nb::arg("policies"), nb::arg("device"), nb::arg("memory"),
      nb::arg("points"), "What allocators would make of a trace, as text.");
}

}  // namespace ember::python
