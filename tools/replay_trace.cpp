// Holds ember to its goals on recorded traces: replay_trace [options] FILE...
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/replay/policies.h"
#include "ember/replay/replay.h"
#include "ember/replay/trace.h"

namespace ember::replay {
namespace {

constexpr const char* kUsage =
    "usage: replay_trace [--device N] [--write FILE] [--check] [--over-mib N] [--over-calls N]\n"
    "                    FILE...\n"
    "  FILE       a trace (docs/traces.md), or a snapshot with a history, as PyTorch's or ember's\n"
    "             _dump_snapshot writes it; -: standard input\n"
    "  --device   whose history of a snapshot; 0\n"
    "  --write    writes the trace of the one FILE as text\n"
    "  --check    exit status 1 unless the model of PyTorch does everything as the trace says, "
    "and\n"
    "             ember keeps to its goals\n"
    "  --over-mib, --over-calls\n"
    "             how far beyond its goals --check lets ember with segments that grow be; 0\n";

struct Options {
  std::string write;
  std::size_t device = 0, over_mib = 0, over_calls = 0;
  bool check = false;
  std::vector<std::string> files;
};

std::string bytes_of(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error("'" + file + "' cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Whether everything came out as --check wants it.
bool replay(const std::string& file, const Options& options) {
  const std::string bytes = bytes_of(file);
  const Trace trace = trace_of(bytes, options.device);
  if (!options.write.empty()) {
    std::ofstream out(options.write, std::ios::binary);
    out << write_trace(trace);
    if (!out.flush()) throw Error("'" + options.write + "' cannot be written");
  }
  const cuda::Replayed replayed = cuda::replay_memory(bytes, {.device = options.device});
  const std::vector<Outcome>& outcomes = replayed.outcomes;  // as ReplayOptions::policies has them
  const Outcome &torch = outcomes.at(0), &expandable = outcomes.at(1);
  std::printf("%s: %s", file.c_str(), replayed.str().c_str());
  const bool counted = !trace.native || *trace.native == torch.peaks;
  if (!counted) std::printf("  torch: PyTorch counted other peaks\n");
  bool met = torch.compared && torch.differences == 0 && counted;
  const auto show = [&](const Outcome& outcome) {
    const Verdict verdict = judge(trace, torch, expandable, outcome);
    std::printf("  %s reserves at most %.2f MiB: %s; no more calls later: %s\n",
                outcome.policy.c_str(), static_cast<double>(verdict.most_reserved) / (1 << 20),
                verdict.reserved ? "yes" : "no", verdict.calls ? "yes" : "no");
    return outcome.peaks.reserved <= verdict.most_reserved + (options.over_mib << 20U) &&
           outcome.calls_after <= torch.calls_after + options.over_calls;
  };
  (void)show(outcomes.at(2));
  met = show(outcomes.at(3)) && met;
  return met;
}

std::size_t number(const std::string& option, const std::string& text) {
  if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos)
    throw ValueError(option + ": got '" + text + "', expected a number");
  return std::stoul(text);
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (++i == arguments.size()) throw ValueError(argument + ": expected a value after it");
      return arguments[i];
    };
    if (argument == "--device") {
      options.device = number(argument, value());
    } else if (argument == "--over-mib") {
      options.over_mib = number(argument, value());
    } else if (argument == "--over-calls") {
      options.over_calls = number(argument, value());
    } else if (argument == "--write") {
      options.write = value();
    } else if (argument == "--check") {
      options.check = true;
    } else if (argument == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    } else if (argument.size() > 1 && argument[0] == '-') {
      throw ValueError("'" + argument + "' is no option");
    } else {
      options.files.push_back(argument);
    }
  }
  if (options.files.empty() || (!options.write.empty() && options.files.size() != 1)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  bool met = true;
  for (const std::string& file : options.files) met = replay(file, options) && met;
  return options.check && !met ? 1 : 0;
}

}  // namespace
}  // namespace ember::replay

int main(int count, char** arguments) {
  try {
    return ember::replay::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay_trace: %s\n", error.what());
    return 2;
  }
}
