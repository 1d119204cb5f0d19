// For tests with GoogleTest: runs of a test's body in which a seed decides what streams do in which
// order, and a test that fails if two of them race.
//
//     TEST(Pipeline, AddsUp) {
//       ember::sim::for_each_seed(50, [] {
//         Pipeline pipeline;
//         EXPECT_EQ(pipeline.sum(), 42);
//       });
//     }
//
// Header only; the library does not depend on GoogleTest, and no other header includes this one.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "ember/base/error.h"
#include "ember/runtime/device.h"
#include "ember/runtime/simulation.h"
#include "ember/sanitizer/sanitizer.h"

namespace ember::inline v0::sim {

struct SeedOptions {
  /// How many devices the test needs. So many are simulated if nobody has chosen any
  /// (EMBER_DEVICES, cuda::simulate) or used one; where there are fewer, the test is skipped.
  int devices = 1;
  /// Each run is watched by the stream sanitizer (sanitizer/sanitizer.h), and a race is a failure.
  bool sanitizer = true;
  /// By what the seeds decide (docs/order.md): "random", "pct" (of depth 3), "pct:DEPTH", "swarm",
  /// or a device model, "model", "model:NAME" or "model:FILE". Anything else fails the test.
  std::string schedule = "random";
};

namespace detail {

struct TestRuns {
  int count = 0;
  std::string schedule;  ///< of all; empty: of the kind, by the seeds from 0
  std::string kind = "random";

  std::string operator[](int run) const {
    if (!schedule.empty()) return schedule;
    const std::string seed = std::to_string(run);
    if (kind == "pct") return "pct:" + seed + ":3";
    if (kind.starts_with("pct:")) return "pct:" + seed + kind.substr(3);
    if (kind == "model") return "model:h200,seed=" + seed;
    return kind.starts_with("model:") ? kind + ",seed=" + seed : kind + ":" + seed;
  }
};

/// What for_each_seed and the environment ask for; fails the test where that cannot be read.
inline TestRuns test_runs(int seeds) {
  const char* const asked = std::getenv("EMBER_TEST_SEEDS");
  const std::string own = asked != nullptr ? asked : "";
  if (own == "model") return {1, own};
  for (const char* const kind : {"random:", "pct:", "swarm:", "model:", "steps:", "replay:"})
    if (own.starts_with(kind)) return {1, own};
  if (own.empty()) {
    if (seeds >= 1) return {seeds, {}};
    ADD_FAILURE() << "for_each_seed: seeds is " << seeds << ", expected a positive number";
    return {};
  }
  const char* const end = own.data() + own.size();
  const auto [rest, error] = std::from_chars(own.data(), end, seeds);
  if (error == std::errc() && rest == end && seeds >= 1) return {seeds, {}};
  ADD_FAILURE() << "EMBER_TEST_SEEDS is '" << own
                << "', expected a positive number, or a schedule: random:SEED, pct:SEED:DEPTH, "
                   "swarm:SEED, model, model:NAME, model:FILE, steps:LIST or replay:FILE";
  return {};
}

/// Chooses devices, if nobody did, and has a seed decide, if none are in use.
inline void prepare_devices(int devices) {
  if (!cuda::devices_chosen()) cuda::simulate(devices);
  const char* const own = std::getenv("EMBER_SIM_SCHEDULE");
  if (own != nullptr && *own != '\0') return;
  try {
    schedule("random:0");
  } catch (const Error&) {  // they are in use, and stay as they are
  }
}

inline int failed_parts() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  int failed = 0;
  for (int i = 0; i < result.total_part_count(); ++i)
    failed += result.GetTestPartResult(i).failed() ? 1 : 0;
  return failed;
}

/// The command that runs this test again, in the order of one schedule.
inline std::string replay_command(const std::string& schedule) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const char* const devices = std::getenv("EMBER_DEVICES");
  std::string line = devices != nullptr ? std::string("EMBER_DEVICES=") + devices + " " : "";
  line += "EMBER_TEST_SEEDS=" + schedule + " " + program_invocation_name;
  return line + " --gtest_filter=" + test.test_suite_name() + "." + test.name();
}

/// One run. Exceptions of the body are failures.
inline void run_watched(const std::function<void()>& body, bool sanitizer) {
  std::optional<cuda::Sanitizer> watching;
  if (sanitizer) watching.emplace(cuda::SanitizerOptions{.print = false});
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "it threw: " << error.what();
  } catch (...) {
    ADD_FAILURE() << "it threw something that is no std::exception";
  }
  if (!watching) return;
  for (const std::string& report : watching->reports()) ADD_FAILURE() << "a race\n" << report;
}

}  // namespace detail

/// Calls `body` once for each of the seeds 0 to `seeds` - 1, each in a run of its own (begin_run),
/// until one fails; then says which, and the command that runs it again. To be called in a test.
///
/// EMBER_TEST_SEEDS=N takes so many seeds instead, EMBER_TEST_SEEDS=random:SEED, or any other
/// schedule in full, one order. Skips the test where there are fewer devices than it needs, and on
/// real ones, whose order nobody decides. Fails if devices were in use before without a seed: then
/// set EMBER_SIM_SCHEDULE=random:0, or call this first. Throws nothing. Blocks, between runs until
/// all work is done.
inline void for_each_seed(int seeds, const std::function<void()>& body,
                          const SeedOptions& options = {}) {
  detail::TestRuns runs = detail::test_runs(seeds);
  runs.kind = options.schedule;
  try {
    detail::prepare_devices(options.devices);
    if (const int there_are = cuda::device_count(); there_are < options.devices)
      GTEST_SKIP() << "needs " << options.devices << " devices, and there are " << there_are;
    if (!cuda::is_simulated()) GTEST_SKIP() << "needs simulated devices: a seed decides the order";
    for (int run = 0; run < runs.count; ++run) {
      const std::string schedule = runs[run];
      begin_run(schedule);
      const int failed_before = detail::failed_parts();
      detail::run_watched(body, options.sanitizer);
      if (detail::failed_parts() > failed_before) {
        ADD_FAILURE() << "in the order of " << schedule << "; to see it again:\n  "
                      << detail::replay_command(schedule);
        return;
      }
      if (testing::Test::IsSkipped()) return;
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "for_each_seed: " << error.what();
  }
}

}  // namespace ember::inline v0::sim
