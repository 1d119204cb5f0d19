#include "ember/explore/overlaps.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>

namespace ember::inline v0::explore {
namespace {

using driver::Step;
using Part = Unordered::Part;

/// An order of all events in which the pair's second one comes directly behind the first one.
std::vector<std::size_t> side_by_side(const Graph& graph, const Edge& pair,
                                      const std::vector<std::size_t>& line) {
  const auto one = [&](std::size_t event) { return event == pair.second ? pair.first : event; };
  std::vector<std::size_t> place(graph.events()), open(graph.events());
  for (std::size_t i = 0; i < line.size(); ++i) place[line[i]] = i;
  place[pair.first] = std::min(place[pair.first], place[pair.second]);
  std::vector<std::vector<std::size_t>> after(graph.events());
  for (const Edge& edge : graph.order) {
    after[one(edge.first)].push_back(one(edge.second));
    ++open[one(edge.second)];
  }
  const auto later = [&](std::size_t a, std::size_t b) { return place[a] > place[b]; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
  for (std::size_t event = 0; event < graph.events(); ++event)
    if (open[event] == 0 && event != pair.second) ready.push(event);
  std::vector<std::size_t> made;
  made.reserve(line.size());
  while (!ready.empty()) {
    const std::size_t event = ready.top();
    ready.pop();
    made.push_back(event);
    if (event == pair.first) made.push_back(pair.second);
    for (const std::size_t next : after[event])
      if (--open[next] == 0) ready.push(next);
  }
  return made;
}

/// The steps of such an order, in which `overlap(point, steps)` adds those of the pair and, where
/// one of them is the host's, goes to its next point.
std::vector<Step> steps_of(
    const Graph& graph, const Edge& pair, const std::vector<std::size_t>& line,
    const std::function<void(std::uint64_t& point, std::vector<Step>& steps)>& overlap) {
  std::vector<Step> made;
  std::uint64_t point = 0;
  for (const std::size_t event : line) {
    if (event == pair.first)
      overlap(point, made);
    else if (event < graph.segments)
      ++point;
    else if (event != pair.second)
      made.push_back(graph.step(event, point));
  }
  return made;
}

}  // namespace

std::vector<std::vector<Step>> overlaps(const Graph& graph, const Unordered& pair,
                                        const std::vector<std::size_t>& line) {
  std::vector<std::vector<Step>> made;
  const Edge& events = pair.events;
  const std::vector<std::size_t> beside = side_by_side(graph, events, line);
  const auto add = [&](const auto& overlap) {
    made.push_back(steps_of(graph, events, beside, overlap));
  };
  const auto together = [&](std::size_t last, std::size_t other) {
    add([&, last, other](std::uint64_t& point, std::vector<Step>& steps) {
      Step step = graph.step(last, point);
      const Step with = graph.step(other, point);
      step.with_stream = with.stream;
      step.with_task = with.task;
      steps.push_back(step);
    });
  };
  const auto cut = [&](std::size_t copy, std::size_t other) {
    add([&, copy, other](std::uint64_t& point, std::vector<Step>& steps) {
      Step half = graph.step(copy, point);
      half.half = true;
      steps.push_back(half);
      if (other < graph.segments)
        ++point;
      else
        steps.push_back(graph.step(other, point));
      steps.push_back(graph.step(copy, point));
    });
  };
  const auto runs = [](Part part) { return part == Part::kernel || part == Part::copy; };
  if (runs(pair.first) && runs(pair.second)) {
    if (pair.first_reads && (pair.second_reads || pair.both_write))
      together(events.first, events.second);
    if (pair.second_reads && pair.both_write) together(events.second, events.first);
  }
  if (pair.first == Part::copy) cut(events.first, events.second);
  if (pair.second == Part::copy) cut(events.second, events.first);
  return made;
}

}  // namespace ember::inline v0::explore
