#include "ember/graphs/structure.h"

#include <algorithm>
#include <map>

namespace ember::inline v0::cuda::detail {
namespace {

using Kind = Activity::Kind;
using Nodes = std::vector<std::size_t>;

/// Adds those that are missing.
void unite(Nodes& nodes, const Nodes& more) {
  for (const std::size_t node : more)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

struct Recorded {
  const CaptureLog::Entry* entry = nullptr;
  Nodes after;
};

}  // namespace

const char* work_name(const Activity& activity) noexcept {
  if (activity.name != nullptr) return activity.name;
  switch (activity.kind) {
    case Kind::copied: return "copy";
    case Kind::filled: return "fill";
    case Kind::host_function_queued: return "host function";
    case Kind::event_recorded: return "event record";
    case Kind::event_waited: return "event wait";
    default: return "unknown work";
  }
}

GraphStructure structure_of(const CaptureLog& log) {
  GraphStructure made;
  std::vector<Nodes> tails(1);  // what the next work of a stream waits for
  made.forks.resize(1);
  std::map<std::size_t, Recorded> events;
  for (const CaptureLog::Entry& entry : log.entries()) {
    if (entry.stream >= tails.size()) {
      tails.resize(entry.stream + 1);
      made.forks.resize(entry.stream + 1);
    }
    Nodes& tail = tails[entry.stream];
    switch (entry.external ? Kind::kernel_launched : entry.activity.kind) {
      case Kind::event_recorded: events[entry.event] = {&entry, tail}; break;
      case Kind::event_waited: {
        const Recorded& recorded = events[entry.event];
        if (entry.stream != 0 && made.forks[entry.stream].wait == nullptr)
          made.forks[entry.stream] = {&entry, recorded.entry};
        unite(tail, recorded.after);
        break;
      }
      default: made.nodes.push_back({&entry, tail}); tail = {made.nodes.size() - 1};
    }
  }
  made.last = tails[0];
  return made;
}

Nodes GraphStructure::unjoined() const {
  std::vector<bool> waited(nodes.size());
  for (const std::size_t node : last) waited[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (waited[i])
      for (const std::size_t before : nodes[i].after) waited[before] = true;
  Nodes left;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!waited[i]) left.push_back(i);
  return left;
}

}  // namespace ember::inline v0::cuda::detail
