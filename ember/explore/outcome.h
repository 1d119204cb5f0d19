// What came of one run of a program, and what differs between two.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ember/driver/simulation.h"
#include "ember/explore/record.h"
#include "ember/sanitizer/engine.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::explore {

/// What a program called its results.
struct Named {
  std::string name;
  std::vector<std::uint8_t> bytes;
  std::optional<Tensor> tensor;    // when all work is done, its elements on the CPU
  std::optional<Tensor> original;  // what was named
};

/// What came of one run.
struct Outcome {
  std::vector<Named> results;
  std::string thrown;    // by the program, or a fault
  bool overdue = false;  // the program was ended, as it would not end by itself
  driver::Progress progress;
  std::uint64_t points = 0;  // when the program ended
  std::vector<std::uint64_t> fingerprints;
};

/// What makes such a schedule.
std::string schedule_of(const std::vector<driver::Step>& steps);
/// Runs the program by these steps, for so many seconds at most; `watch(outcome)` makes what
/// watches it and goes when the program ends. The second one sees only whether a run does what
/// another one did.
Outcome run(const std::function<void()>& program, double seconds,
            const std::vector<driver::Step>& steps,
            const std::function<std::shared_ptr<cuda::Observer>(Outcome&)>& watch);
Outcome run(const std::function<void()>& program, double seconds,
            const std::vector<driver::Step>& steps);
/// Where the program that is explored by this thread names its results; null elsewhere.
std::vector<Named>*& naming() noexcept;
/// Waits for all work. The first fault, or nothing; devices in a fault are reset.
std::string settle();
/// What differs between two outcomes; empty if nothing does.
std::string difference(const Outcome& a, const Outcome& b);
/// At most what fits.
std::chrono::steady_clock::duration duration_of(double seconds);
/// Places in the program, two and two.
using CodePlace = std::tuple<std::uint64_t, const char*, int, std::int64_t, bool>;
using Places = std::set<std::pair<CodePlace, CodePlace>>;
/// What the sanitizer says of each, once for the same two places in the program; `known` are those
/// of which it has said it.
std::vector<std::string> reports(const std::vector<const cuda::sanitizer::Conflict*>& conflicts,
                                 Places& known);
std::vector<std::string> reports(const std::vector<const cuda::sanitizer::Conflict*>& conflicts);
/// Events in the order in which they come if nothing else matters: the host first, then streams
/// by their numbers.
std::vector<std::size_t> ranks_of(const Graph& graph);

}  // namespace ember::inline v0::explore
