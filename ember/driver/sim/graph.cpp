#include "ember/driver/sim/graph.h"

#include <algorithm>
#include <utility>

namespace ember::inline v0::driver::sim {
namespace {

/// As a text in quotes.
void append_quoted(std::string& text, const char* name) {
  for (const char* at = name; *at != '\0'; ++at) {
    if (*at == '"' || *at == '\\') text += '\\';
    text += *at;
  }
}

std::string detail_of(const CapturedGraph::Node& node) {
  if (node.kind == TaskKind::copy)
    return std::to_string(node.params().as<CopyArgs>().bytes) + " bytes";
  if (node.kind != TaskKind::fill) return {};
  const auto fill = node.params().as<FillArgs>();
  return std::to_string(fill.count * fill.width) + " bytes";
}

/// Makes a stream wait for points, as many in a task as its arguments hold.
void add_wait(Stream::Together& together, Stream& stream, const std::vector<Point>& points) {
  constexpr std::size_t kEach = Params::kCapacity / sizeof(Point);
  for (std::size_t i = 0; i < points.size(); i += kEach)
    together.add(stream, TaskKind::wait, {"event wait"},
                 Params(points.data() + i, std::min(kEach, points.size() - i) * sizeof(Point)));
}

/// Of several nodes, the last of each branch, without those of one: they wait for the others.
std::vector<std::size_t> latest(const CapturedGraph& graph, std::vector<std::size_t> nodes,
                                std::size_t without) {
  std::sort(nodes.rbegin(), nodes.rend());
  std::vector<std::size_t> kept;
  for (const std::size_t node : nodes) {
    const std::size_t branch = graph.nodes[node].branch;
    const bool known = std::any_of(kept.begin(), kept.end(), [&](std::size_t other) {
      return graph.nodes[other].branch == branch;
    });
    if (branch != without && !known) kept.push_back(node);
  }
  return kept;
}

}  // namespace

std::string CapturedGraph::dot() const {
  std::string text = "digraph ember {\n  node [shape=box];\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    text += "  n" + std::to_string(i) + " [label=\"";
    append_quoted(text, node.kernel.name.c_str());
    if (const std::string detail = detail_of(node); !detail.empty()) text += "\\n" + detail;
    text += "\\ncuda:" + std::to_string(branches[node.branch].device) + ", branch " +
            std::to_string(node.branch) + "\"];\n";
    for (const std::size_t before : node.after)
      text += "  n" + std::to_string(before) + " -> n" + std::to_string(i) + ";\n";
  }
  return text + "}\n";
}

GraphExec::GraphExec(std::shared_ptr<const CapturedGraph> graph, std::vector<StreamHandle> streams)
    : graph_(std::move(graph)),
      streams_(std::move(streams)),
      last_(latest(*graph_, graph_->last, 0)) {
  waits_.reserve(graph_->nodes.size());
  for (const CapturedGraph::Node& node : graph_->nodes)
    waits_.push_back(latest(*graph_, node.after, node.branch));
}

Status GraphExec::launch(Machine& machine, const std::vector<Stream*>& on,
                         const std::vector<Event*>& events) {
  const CapturedGraph& graph = *graph_;
  const MutexLock lock(mutex_);
  // Its memory is used again; not in place, since tasks may launch others.
  std::vector<Ticket> tickets = std::exchange(these_tickets(), {});
  tickets.clear();
  Stream::Together together;
  for (std::size_t branch = 0; branch < on.size(); ++branch)
    EMBER_TRY(together.include(*on[branch], graph.branches[branch].epoch));
  Stream& main = *on[0];
  if (end_.timeline != nullptr && end_.timeline != &main.timeline())
    add_wait(together, main, {end_});
  // Branches begin behind what the stream holds now.
  const Point begin = main.tail();
  std::vector<Point> done(graph.nodes.size());
  const auto points_of = [&](const std::vector<std::size_t>& nodes) {
    std::vector<Point> points;
    points.reserve(nodes.size());
    for (const std::size_t node : nodes) points.push_back(done[node]);
    return points;
  };
  auto event = events.begin();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const CapturedGraph::Node& node = graph.nodes[i];
    Stream& stream = *on[node.branch];
    std::vector<Point> before = points_of(waits_[i]);
    if (node.after.empty() && node.branch != 0) before.push_back(begin);
    add_wait(together, stream, before);
    if (node.kind == TaskKind::wait) {
      Event::Record record;
      (void)(*event++)->read(node.event, record);
      // Of its own stream the work before it comes first anyway.
      if (record.point.timeline != nullptr && record.point.timeline != &stream.timeline())
        add_wait(together, stream, {record.point});
      done[i] = stream.tail();
      tickets.push_back({done[i].value, 0, 0, 0});
      continue;
    }
    if (node.kind == TaskKind::stamp) {
      Event& recorded = **event++;
      const StampArgs stamp{&recorded, recorded.next_serial(node.event)};
      done[i] = together.add(stream, node.kind, node.kernel, Params(stamp));
      (void)recorded.set(node.event, done[i]);
    } else {
      const Trouble trouble =
          node.kind == TaskKind::kernel ? machine.faults.next_kernel() : Trouble();
      done[i] = together.add(stream, node.kind, kernel_of(i), params_of(i), node.peer, trouble);
    }
    tickets.push_back(this_ticket());
  }
  add_wait(together, main, points_of(last_));
  end_ = main.tail();
  tickets.push_back({end_.value, 0, 0, 0});
  const std::vector<Ticket> last = together.end();
  main.stay_near();
  if (last[0].stream == 0) tickets.clear();  // no seed decides
  // Else the executor has said what the streams are called, how many of their tasks were of former
  // runs, and which point that was.
  std::vector<std::uint64_t> before(tickets.empty() ? 0 : on.size());
  for (std::size_t i = 0; i + 1 < tickets.size(); ++i)
    if (tickets[i].task != 0) before[graph.nodes[i].branch] = tickets[i].task;
  const auto place = [&](Ticket& ticket, std::size_t branch) {
    ticket.stream = last[branch].stream;
    ticket.point = last[branch].point;
    if (ticket.task != 0) ticket.task -= before[branch] - last[branch].task;
  };
  for (std::size_t i = 0; i + 1 < tickets.size(); ++i) place(tickets[i], graph.nodes[i].branch);
  if (!tickets.empty()) place(tickets.back(), 0);
  these_tickets() = std::move(tickets);
  return {};
}

Status GraphExec::bind(const GraphRebinding& binding) {
  std::vector<std::pair<std::size_t, Bound>> made;
  for (const NodeBinding& each : binding.nodes) {
    if (each.node == 0 || each.node > graph_->nodes.size())
      return cannot_rebind(each.name, "which node of the graph it is cannot be told");
    const auto at = static_cast<std::size_t>(each.node - 1);
    const CapturedGraph::Node& node = graph_->nodes[at];
    Bound& bound = made.emplace_back(at, Bound{node.kernel, node.arguments}).second;
    if (each.addresses.empty()) continue;
    ArgumentBinding addresses(each, binding.memory);
    (void)addresses.change(bound.arguments, node.addresses);
    EMBER_TRY(addresses.finish());
    if (node.kind == TaskKind::kernel) bound.kernel = binding.kernel(node.kernel, binding.memory);
  }
  const MutexLock lock(mutex_);
  for (auto& [at, bound] : made) bound_.insert_or_assign(at, std::move(bound));
  return {};
}

}  // namespace ember::inline v0::driver::sim
