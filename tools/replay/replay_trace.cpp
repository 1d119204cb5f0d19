// What allocators make of recorded traces: replay_trace [options] FILE...
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "tools/replay/policies.h"
#include "tools/replay/trace.h"

namespace ember::replay {
namespace {

constexpr const char* kUsage =
    "usage: replay_trace [--policy torch|expandable|ember|growing|all]\n"
    "                    [--device N] [--write FILE] [--check] [--over-mib N] [--over-calls N]\n"
    "                    FILE...\n"
    "  FILE       a trace (tools/replay/README.md), or a snapshot with a history, as PyTorch's or\n"
    "             ember's _dump_snapshot writes it; -: standard input\n"
    "  --device   whose history of a snapshot; 0\n"
    "  --write    writes the trace of the one FILE as text\n"
    "  --check    exit status 1 unless the model of PyTorch does everything as the trace says, "
    "and\n"
    "             ember keeps to its goals\n"
    "  --over-mib, --over-calls\n"
    "             how far beyond its goals --check lets ember with segments that grow be; 0\n";

struct Options {
  std::string policy = "all", write;
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

std::string mib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

void print(const char* who, const Outcome& outcome) {
  std::printf("  %-19s %14s %14s %7.1f%% %8zu %8zu\n", who, mib(outcome.peaks.allocated).c_str(),
              mib(outcome.peaks.reserved).c_str(), 100 * outcome.waste(), outcome.calls_first,
              outcome.calls_after);
}

void print(const char* who, const std::optional<Peaks>& peaks) {
  if (peaks)
    std::printf("  %-19s %14s %14s\n", who, mib(peaks->allocated).c_str(),
                mib(peaks->reserved).c_str());
}

/// Whether everything came out as --check wants it.
bool replay(const std::string& file, const Options& options) {
  const std::string bytes = bytes_of(file);
  const Trace trace =
      bytes.starts_with('\x80') ? trace_of_snapshot(bytes, options.device) : read_trace(bytes);
  if (!options.write.empty()) {
    std::ofstream out(options.write, std::ios::binary);
    out << write_trace(trace);
    if (!out.flush()) throw Error("'" + options.write + "' cannot be written");
  }
  std::printf("%s: %s%s%zu entries, %u streams, %zu streams and pools\n", file.c_str(),
              trace.program.c_str(), trace.program.empty() ? "" : ", ", trace.entries.size(),
              trace.streams(), trace.places());
  if (trace.dropped != 0)
    std::printf("  %zu entries about memory from before the history are left out\n", trace.dropped);
  std::printf("  %-19s %14s %14s %8s %8s %8s\n", "MiB", "most allocated", "most reserved", "waste",
              "calls", "later");
  print("counted", trace.native);
  print("counted, expandable", trace.expandable);
  print("recorded", recorded(trace));
  bool met = true;
  Outcome torch, grown, ember, growing;
  if (options.policy == "expandable" || options.policy == "all") {
    grown = replay_expandable(trace);
    print("expandable", grown);
  }
  if (options.policy == "torch" || options.policy == "all") {
    torch = replay_torch(trace);
    print("torch", torch);
    const bool same = torch.differences == 0 && (!trace.native || *trace.native == torch.peaks);
    met = met && same;
    if (torch.differences != 0)
      std::printf("  the model of PyTorch differs %zu times; %s\n", torch.differences,
                  torch.first_difference.c_str());
    else
      std::printf("  the model of PyTorch does everything as the trace says%s\n",
                  !trace.native ? ""
                  : same        ? ", peaks as counted"
                                : ", but its peaks are others");
  }
  if (options.policy == "ember" || options.policy == "all") {
    ember = replay_ember(trace);
    print("ember", ember);
  }
  if (options.policy == "growing" || options.policy == "all") {
    growing = replay_ember(trace, true);
    print("ember, growing", growing);
  }
  if (options.policy == "all") {
    const auto show = [&](const char* who, const Outcome& outcome) {
      const Verdict verdict = judge(trace, torch, grown, outcome);
      std::printf("  %s reserves at most %s MiB: %s; no more calls later: %s\n", who,
                  mib(verdict.most_reserved).c_str(), verdict.reserved ? "yes" : "no",
                  verdict.calls ? "yes" : "no");
      return outcome.peaks.reserved <= verdict.most_reserved + (options.over_mib << 20U) &&
             outcome.calls_after <= torch.calls_after + options.over_calls;
    };
    (void)show("ember", ember);
    met = show("ember with segments that grow", growing) && met;
  }
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
    if (argument == "--policy") {
      options.policy = value();
      if (options.policy != "torch" && options.policy != "expandable" &&
          options.policy != "ember" && options.policy != "growing" && options.policy != "all")
        throw ValueError("--policy: got '" + options.policy +
                         "', expected torch, expandable, ember, growing or all");
    } else if (argument == "--device") {
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
