// Graphs as data and as text.
#include <cstdio>

#include "ember/base/stack.h"
#include "ember/graphs/structure.h"

namespace ember::inline v0::cuda {
namespace {

const char* kind_of(Activity::Kind kind) noexcept {
  switch (kind) {
    case Activity::Kind::copied: return "copy";
    case Activity::Kind::filled: return "fill";
    case Activity::Kind::host_function_queued: return "host function";
    case Activity::Kind::event_recorded: return "event record";
    case Activity::Kind::event_waited: return "event wait";
    default: return "kernel";
  }
}

}  // namespace

GraphDescription detail::describe(const CaptureLog& log) {
  GraphDescription made;
  made.branches = log.stream_names().size();
  for (const GraphStructure::Node& from : structure_of(log).nodes) {
    const Activity& activity = from.entry->activity;
    GraphDescription::Node& node = made.nodes.emplace_back();
    node.kind = kind_of(activity.kind);
    node.name = work_name(activity);
    node.device = activity.device;
    node.branch = from.entry->stream;
    node.bytes = activity.bytes;
    node.memory_known = activity.accesses_known || from.entry->external;
    for (const Access& access : from.entry->accesses)
      if (access.bytes != 0)
        node.memory.push_back({reinterpret_cast<std::uintptr_t>(access.address), access.bytes,
                               access.writes, access.argument != nullptr ? access.argument : ""});
    node.after = from.after;
    if (activity.stack != 0) node.stack = stack_text(activity.stack);
  }
  return made;
}

std::string GraphDescription::str() const {
  std::string text = std::to_string(nodes.size()) + " nodes in " + std::to_string(branches) +
                     (branches == 1 ? " branch\n" : " branches\n");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    text += std::to_string(i) + ": " + node.name + " (cuda:" + std::to_string(node.device) +
            ", branch " + std::to_string(node.branch) + ")";
    if (node.bytes != 0) text += ", " + std::to_string(node.bytes) + " bytes";
    for (std::size_t k = 0; k < node.after.size(); ++k)
      text += (k == 0 ? ", after " : ", ") + std::to_string(node.after[k]);
    text += '\n';
    for (const Memory& memory : node.memory) {
      char address[24];
      std::snprintf(address, sizeof address, "0x%zx", memory.address);
      text += std::string(memory.writes ? "   writes " : "   reads ") +
              std::to_string(memory.bytes) + " bytes at " + address;
      if (!memory.argument.empty()) text += " (" + memory.argument + ")";
      text += '\n';
    }
    if (!node.memory_known) text += "   does not say what it touches\n";
  }
  return text;
}

}  // namespace ember::inline v0::cuda
