// Which orders of a program are worth running: of all that a partial order allows, one for each way
// in which the pairs of events that matter can come. Pure functions; knows nothing of devices.
//
// Two orders of the same events are equivalent if one becomes the other by exchanging neighbours
// that commute (Mazurkiewicz, 1977). Where exactly the events of `pairs`, and those that `order`
// orders, do not commute, the classes are the orientations of the pairs that close no cycle with
// the order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ember::inline v0::explore {

/// `first` comes before `second`; of a pair, as it came when it was recorded.
struct Edge {
  std::size_t first = 0, second = 0;
};

/// For each pair whether its second event comes first.
using Orientation = std::vector<bool>;

/// Sets of numbers below a bound. Plain data.
class Bits {
 public:
  explicit Bits(std::size_t bound = 0) : words_((bound + 63) / 64) {}
  bool has(std::size_t i) const noexcept { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void add(std::size_t i) noexcept { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void join(const Bits& other) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// The classes of one partial order and its pairs. Each is given once, and none that no order of
/// the events belongs to: a pair is turned only if the other way is still possible, which the
/// transitive closure says; so every branch of the search ends at a class.
class Classes {
 public:
  /// Events are 0 to `events` - 1. `order` must have no cycle. `pairs`: two different events each;
  /// those that `order` orders are never turned.
  Classes(std::size_t events, std::span<const Edge> order, std::span<const Edge> pairs);

  /// The next class; false when all were given. The first one has every pair as it was recorded, if
  /// that closes no cycle.
  bool next(Orientation& out);
  /// A class with that pair turned and, as far as that leaves them the choice, all others as they
  /// were recorded. next() leaves it out from then on. False if the pair cannot be turned, or the
  /// class was given before.
  bool turned(std::size_t pair, Orientation& out);
  /// That class is not given.
  void leave_out(const Orientation& orientation);
  /// Whether some class has that pair turned.
  bool can_turn(std::size_t pair) const;

  /// All events in an order of that class: of those that may come next always the one of the least
  /// `rank`.
  std::vector<std::size_t> linearise(const Orientation& orientation,
                                     std::span<const std::size_t> rank) const;

 private:
  /// What comes after each end of a pair; ends are numbered by themselves.
  using Closure = std::vector<Bits>;
  static void add(Closure& closure, std::size_t first, std::size_t second);
  /// Decides pairs from `pair` on, each as it was recorded if it can be, and notes where there was
  /// a choice.
  void complete(std::size_t pair, Closure& closure, Orientation& made,
                std::vector<std::size_t>* choices) const;
  bool is_new(const Orientation& orientation);

  std::size_t events_;
  std::vector<std::vector<std::size_t>> after_;  // directly, by event
  std::vector<Edge> pairs_;                      // of events
  std::vector<Edge> ends_;                       // the same, as numbers of ends
  Closure ordered_;                              // by `order` alone
  std::unordered_set<std::string> given_;        // or left out
  bool begun_ = false;
  Orientation orientation_;
  std::vector<std::size_t> choices_;  // pairs that can still be turned, where those before stay
};

/// A smallest part of `steps` that still fails: taking any one away makes it pass (Zeller and
/// Hildebrandt, 2002). `steps` must fail. `fails` is asked some n log n times where few steps
/// matter, and n^2 times at worst. Stops when `stop()` says so, with what it has by then.
template <class Step, class Fails, class Stop>
std::vector<Step> shrink(std::vector<Step> steps, const Fails& fails, const Stop& stop) {
  const auto without = [&](std::size_t from, std::size_t count) {
    std::vector<Step> rest(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(from));
    rest.insert(rest.end(),
                steps.begin() + static_cast<std::ptrdiff_t>(std::min(from + count, steps.size())),
                steps.end());
    return rest;
  };
  for (std::size_t part = steps.size(); part != 0 && !stop();) {
    bool any = false;
    for (std::size_t from = 0; from < steps.size() && !stop();) {
      std::vector<Step> rest = without(from, part);
      if (fails(rest)) {
        steps = std::move(rest);
        any = true;
      } else {
        from += part;
      }
    }
    // With single steps until none of them can go.
    if (part == 1 && !any) break;
    if (part != 1) part = (part + 1) / 2;
  }
  return steps;
}

}  // namespace ember::inline v0::explore
