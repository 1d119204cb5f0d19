#include "ember/explore/classes.h"

#include <map>
#include <queue>
#include <utility>

namespace ember::inline v0::explore {
namespace {

std::string key_of(const Orientation& orientation) {
  std::string key(orientation.size(), '0');
  for (std::size_t i = 0; i < orientation.size(); ++i) key[i] = orientation[i] ? '1' : '0';
  return key;
}

}  // namespace

Classes::Classes(std::size_t events, std::span<const Edge> order, std::span<const Edge> pairs)
    : events_(events), after_(events), pairs_(pairs.begin(), pairs.end()) {
  std::vector<std::size_t> open(events);  // predecessors that were not visited
  for (const Edge& edge : order) {
    after_[edge.first].push_back(edge.second);
    ++open[edge.second];
  }
  std::map<std::size_t, std::size_t> numbers;  // ends by their events
  ends_.reserve(pairs_.size());
  for (const Edge& pair : pairs_) {
    const std::size_t first = numbers.try_emplace(pair.first, numbers.size()).first->second;
    const std::size_t second = numbers.try_emplace(pair.second, numbers.size()).first->second;
    ends_.push_back({first, second});
  }
  // For each event the ends that come before it; for each end, then, those after it.
  std::vector<Bits> before(events, Bits(numbers.size()));
  ordered_.assign(numbers.size(), Bits(numbers.size()));
  std::vector<std::size_t> next;
  next.reserve(events);
  for (std::size_t i = 0; i < events; ++i)
    if (open[i] == 0) next.push_back(i);
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::size_t event = next[i];
    if (const auto end = numbers.find(event); end != numbers.end()) {
      for (std::size_t other = 0; other < numbers.size(); ++other)
        if (before[event].has(other)) ordered_[other].add(end->second);
      before[event].add(end->second);
    }
    for (const std::size_t later : after_[event]) {
      before[later].join(before[event]);
      if (--open[later] == 0) next.push_back(later);
    }
  }
}

void Classes::add(Closure& closure, std::size_t first, std::size_t second) {
  Bits reached = closure[second];
  reached.add(second);
  for (std::size_t i = 0; i < closure.size(); ++i)
    if (i == first || closure[i].has(first)) closure[i].join(reached);
}

void Classes::complete(std::size_t pair, Closure& closure, Orientation& made,
                       std::vector<std::size_t>* choices) const {
  for (; pair < ends_.size(); ++pair) {
    const auto [first, second] = ends_[pair];
    made[pair] = closure[second].has(first);
    if (made[pair] || closure[first].has(second)) continue;
    if (choices != nullptr) choices->push_back(pair);
    add(closure, first, second);
  }
}

bool Classes::is_new(const Orientation& orientation) {
  return given_.empty() || !given_.contains(key_of(orientation));
}

// The closure is made anew after each choice: kept for each, it would take the square of the pairs
// times their number.
bool Classes::next(Orientation& out) {
  do {
    Closure closure = ordered_;
    if (!begun_) {
      begun_ = true;
      orientation_.assign(pairs_.size(), false);
      complete(0, closure, orientation_, &choices_);
    } else {
      if (choices_.empty()) return false;
      const std::size_t last = choices_.back();
      choices_.pop_back();
      orientation_[last] = true;
      for (std::size_t i = 0; i <= last; ++i) {
        const Edge end = ends_[i];
        const auto [before, after] = orientation_[i] ? Edge{end.second, end.first} : end;
        if (!closure[before].has(after)) add(closure, before, after);
      }
      complete(last + 1, closure, orientation_, &choices_);
    }
  } while (!is_new(orientation_));
  out = orientation_;
  return true;
}

void Classes::leave_out(const Orientation& orientation) { given_.insert(key_of(orientation)); }

bool Classes::can_turn(std::size_t pair) const {
  return !ordered_[ends_[pair].first].has(ends_[pair].second);
}

bool Classes::turned(std::size_t pair, Orientation& out) {
  if (!can_turn(pair)) return false;
  Closure closure = ordered_;
  Orientation made(pairs_.size());
  if (!closure[ends_[pair].second].has(ends_[pair].first))
    add(closure, ends_[pair].second, ends_[pair].first);
  complete(0, closure, made, nullptr);
  if (!given_.insert(key_of(made)).second) return false;
  out = std::move(made);
  return true;
}

std::vector<std::size_t> Classes::linearise(const Orientation& orientation,
                                            std::span<const std::size_t> rank) const {
  std::vector<std::vector<std::size_t>> also(events_);
  std::vector<std::size_t> open(events_);
  for (const auto& later : after_)
    for (const std::size_t event : later) ++open[event];
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const auto [first, second] = pairs_[i];
    also[orientation[i] ? second : first].push_back(orientation[i] ? first : second);
    ++open[orientation[i] ? first : second];
  }
  const auto later_rank = [&](std::size_t a, std::size_t b) { return rank[a] > rank[b]; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later_rank)> ready(
      later_rank);
  for (std::size_t i = 0; i < events_; ++i)
    if (open[i] == 0) ready.push(i);
  std::vector<std::size_t> line;
  line.reserve(events_);
  while (!ready.empty()) {
    const std::size_t event = ready.top();
    ready.pop();
    line.push_back(event);
    const auto pass = [&](const std::vector<std::size_t>& list) {
      for (const std::size_t later : list)
        if (--open[later] == 0) ready.push(later);
    };
    pass(after_[event]);
    pass(also[event]);
  }
  return line;
}

}  // namespace ember::inline v0::explore
