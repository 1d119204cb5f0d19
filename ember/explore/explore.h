// What a program does whatever the order: proved from one run, or seen by running every order that
// can matter. On simulated devices; docs/order.md, "Proof and exploration", is the guide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::sim {

struct ExploreOptions {
  std::size_t max_runs = 10'000;  ///< of the program, in all
  /// By the machine's clock. A run that has begun goes on to its end, unless it takes that long by
  /// itself: then its calls of the devices throw, so that a program which does not end does.
  double max_seconds = 60;
};

/// What a program throws that was ended because it took longer than max_seconds: it then counts as
/// one that does not end, and not as one that fails. For languages whose code can be ended.
class EMBER_API Overdue : public Error {
 public:
  Overdue();
};

/// What is known of a program's schedules.
enum class Verdict : std::uint8_t {
  proved,      ///< one run was enough: nothing that matters is left to the order
  same,        ///< every class of orders ran, and all did the same
  differs,     ///< two orders with different results
  not_proved,  ///< neither: `reasons` say why
};

struct Exploration {
  Verdict verdict = Verdict::not_proved;
  /// Why it is not proved: "(a)", "(b)" and "(c)" are the conditions of docs/order.md. Also what
  /// was left out.
  std::vector<std::string> reasons;
  std::size_t operations = 0;  ///< work and accesses of the host, of one run
  std::size_t tasks = 0;
  std::size_t pairs = 0;        ///< unordered and conflicting
  std::size_t both = 0;         ///< of these, seen in both orders
  std::size_t overlapped = 0;   ///< of these, seen to overlap
  std::size_t fixed = 0;        ///< of these, never seen in the other order on simulated devices
  std::size_t classes = 0;      ///< of orders, that ran
  std::size_t runs = 0;         ///< of the program, in all
  bool complete = false;        ///< there are no other classes
  bool several_orders = false;  ///< what is ordered leaves more than one order of all events
  /// What the sanitizer says of the pairs, once for the same two places in the program; all of them
  /// are errors, whatever the verdict.
  std::vector<std::string> races;
  // Of `differs`: the two shortest schedules found, as EMBER_SIM_SCHEDULE has them, what is
  // different, and the pairs that come in another order there.
  std::string first, second;
  std::string difference;
  std::vector<std::string> deciding;

  /// No pair, and no work on memory that is free.
  bool clean() const noexcept { return races.empty(); }
  /// All of it as text of several lines.
  EMBER_API std::string str() const;
};

/// Runs a program in different orders and says whether they do the same: once, if that run proves
/// it (docs/order.md has the conditions), otherwise once for each class of orders of the pairs of
/// accesses that conflict and that nothing orders, and for each pair with the two overlapping,
/// where that may do something else: both read what was there before, and the writes of both are
/// applied; a copy is cut in two. Results are what copies write to memory of the host, what
/// result() names, exceptions and faults. What lies finer is not explored, nor several pairs that
/// overlap at once.
///
/// The program must begin with the same memory and do the same each time, and may be run any number
/// of times; each run begins as sim::begin_run() says. After a fault the device is reset. Uses
/// simulated devices in a run that a seed decides: without devices in use it asks for one, and
/// afterwards the schedule is as before. Error on devices of another kind, or with `threads`, and
/// from within a program that is explored; ValueError for an empty function, no runs, or no time.
/// Not for several threads at once. Blocks.
EMBER_API Exploration explore(const std::function<void()>& program, ExploreOptions options = {});

/// Names a result of the program that is explored; does nothing elsewhere. A tensor is kept, and
/// read when all work is done; memory of the host is read at once, as by host_reads().
EMBER_API void result(const Tensor& tensor, const std::string& name = "tensor");
EMBER_API void result(const std::string& name, const void* host, std::size_t bytes);

/// A schedule `steps:...` with which `fails` still answers true, and without any one of whose steps
/// it answers false, from one with which it does, of any kind that a seed decides. Each time
/// another run is begun first, and `fails` runs the program and looks at what it did. Stops after
/// `max_seconds` with what it has by then. ValueError for a schedule that is malformed, or with
/// which it does not fail; Error where single steps cannot tell the run. Errors of begin_run().
/// Blocks.
EMBER_API std::string shrink(const std::string& schedule, const std::function<bool()>& fails,
                             double max_seconds = 60);

}  // namespace ember::inline v0::sim
