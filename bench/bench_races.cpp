// How many runs it takes until each bug of tests/races shows a wrong result: where seeds decide,
// and with threads, as devices run without one.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/timing.h"
#include "ember/ember.h"
#include "tests/races/races.h"

namespace ember::bench {
namespace {

/// After so many runs it is said not to show.
constexpr int kMost = 2000;

/// Whether a run computes something else than what the program says.
bool wrong(const races::Case& one) {
  try {
    const double result = one.run(false);
    for (int device = 0; device < cuda::device_count(); ++device) cuda::synchronize(device);
    return std::bit_cast<std::uint64_t>(result) != std::bit_cast<std::uint64_t>(one.result);
  } catch (const Error&) {  // a fault that a swarm has drawn
    return false;
  }
}

/// The median over some seeds to begin with; nothing if it never shows.
double until_it_shows(const races::Case& one, const std::string& kind, bool quick) {
  std::vector<double> counts;
  const int most = quick ? 20 : kMost;
  std::uint64_t seed = 0;
  for (int i = 0; i < (quick ? 1 : 9); ++i) {
    int runs = 1;
    for (; runs <= most; ++runs) {
      if (kind != "threads")
        sim::begin_run(kind + ":" + std::to_string(seed++) + (kind == "pct" ? ":3" : ""));
      if (wrong(one)) break;
    }
    if (runs > most && i == 0) return kNothing;
    counts.push_back(runs);
  }
  const double middle = median(counts);
  return middle > most ? kNothing : middle;
}

/// In a process of its own, whose devices no seed decides. Before this one has any.
std::vector<double> with_threads(bool quick) {
  const std::vector<races::Case> all = races::all_cases();
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    setenv("EMBER_SIM_SCHEDULE", "threads", 1);
    for (const races::Case& one : all) {
      const double count = until_it_shows(one, "threads", quick);
      if (write(pipe_ends[1], &count, sizeof count) != sizeof count) std::_Exit(1);
    }
    std::_Exit(0);
  }
  close(pipe_ends[1]);
  std::vector<double> made;
  double count = 0;
  while (read(pipe_ends[0], &count, sizeof count) == sizeof count) made.push_back(count);
  close(pipe_ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || made.size() != all.size())
    throw std::runtime_error("the process without a seed did not end well");
  return made;
}

void add(Program& program, const std::string& kind, const std::vector<double>& counts) {
  const std::vector<races::Case> all = races::all_cases();
  const std::string group = "Runs until a bug shows, " + kind;
  std::vector<double> shown;
  for (std::size_t i = 0; i < all.size(); ++i) {
    program.table().add({.group = group,
                         .name = kind + ": " + all[i].name,
                         .unit = "runs",
                         .ours = counts[i],
                         .goal = ""});
    if (counts[i] == counts[i]) shown.push_back(counts[i]);
  }
  program.table().add({.group = group,
                       .name = kind + ": bugs that show, of " + std::to_string(all.size()),
                       .unit = "",
                       .ours = static_cast<double>(shown.size()),
                       .goal = ""});
  if (shown.empty()) return;
  program.table().add({.group = group,
                       .name = kind + ": median of these",
                       .unit = "runs",
                       .ours = median(shown),
                       .goal = ""});
}

int run(int count, char** arguments) {
  setenv("EMBER_DEVICES", "sim:2@256MiB", 1);
  bool quick = false;
  for (int i = 1; i < count; ++i) quick = quick || std::string(arguments[i]) == "--quick";
  const std::vector<double> threads = with_threads(quick);
  setenv("EMBER_SIM_SCHEDULE", "random:0", 1);
  Program program(count, arguments);
  for (const char* kind : {"random", "pct", "swarm"})
    program.measure(kind, [&] {
      std::vector<double> counts;
      for (const races::Case& one : races::all_cases())
        counts.push_back(until_it_shows(one, kind, quick));
      add(program, kind, counts);
    });
  add(program, "threads", threads);
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
