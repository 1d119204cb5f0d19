// Where a seeded run is decided: what runs next, of all that is ready.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/schedule.h"
#include "ember/driver/sim/decision_log.h"

namespace ember::inline v0::driver::sim {

/// A task that could run now: the next one of its stream.
struct Ready {
  std::uint32_t stream = 0;  ///< the stream's number in the run, from 1
  std::uint64_t task = 0;    ///< its number in the stream and in the run, from 1
  const char* name = "";     ///< its kernel's
  bool cuts = false;         ///< it is a copy whose first half can run by itself
};

/// What is to run next.
struct Choice {
  std::size_t task = SIZE_MAX;  ///< of those that are ready, or kHost
  std::size_t with = SIZE_MAX;  ///< the one that overlaps with it, if that is one of them
  bool half = false;            ///< only its first half
};

/// Numbers from a seed, the same on every machine (splitmix64).
class Seeded {
 public:
  explicit Seeded(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// 0 to bound - 1.
  std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }

 private:
  std::uint64_t state_;
};

/// One run's decisions: the policy that takes them, and their log. Not thread-safe.
class EMBER_TEST_API Decider {
 public:
  static constexpr std::size_t kHost = SIZE_MAX;  ///< the host thread goes on

  explicit Decider(const Schedule& schedule) : schedule_(schedule), numbers_(0) { restart(); }

  /// Begins another run. `recording` is what a schedule of kind replay follows.
  void begin(const Schedule& schedule, std::optional<Recording> recording);

  /// Which of `ready` (by ascending stream, none twice) runs, or kHost, which is possible only with
  /// `host`. There must be something to choose. An error where a replay leaves its recording: the
  /// text shows what was expected and what was found.
  Status choose(At at, std::span<const Ready> ready, bool host, Choice& out);

  /// Which of the host threads goes on that could: `ready` has their numbers and turns. `last` is
  /// the one that did. Not a decision, and not in the log, where there is only one.
  Status choose_turn(std::span<const Ready> ready, std::uint32_t last, std::size_t& out);

  /// A device model has decided: the same, where that is `chosen`. An error where what is replayed
  /// has another decision.
  Status note_modelled(At at, std::span<const Ready> ready, std::size_t chosen);

  /// The host has come to its next point. What a schedule of kind steps names for this one, or for
  /// earlier ones, runs before the host goes on, as far as it is ready.
  void come_to_point() noexcept { ++points_; }
  std::uint64_t points() const noexcept { return points_; }
  /// Steps that were passed over, since they were not ready, or are left.
  std::size_t unfollowed() const noexcept {
    return schedule_.kind == Schedule::Kind::steps ? schedule_.steps.size() - steps_done_ : 0;
  }

  /// From here on the log is not what a seed decides alone.
  void note_threads() { log_.push_back({.at = At::note}); }

  /// How many decisions of the recording are still to come; zero where nothing is replayed.
  std::size_t left() const noexcept {
    return recording_ ? recording_->decisions.size() - followed_ : 0;
  }

  const Schedule& schedule() const noexcept { return schedule_; }
  std::string log() const;

 private:
  void restart();
  std::size_t pick_random(std::size_t ready, bool host);
  std::size_t pick_by_priority(std::span<const Ready> ready, bool host);
  std::size_t turn_by_priority(std::span<const Ready> ready);
  std::uint64_t& priority_of(std::uint32_t chain);
  Choice pick_step(std::span<const Ready> ready, bool host);
  void keep(Decision decision, std::span<const Ready> ready, const Choice& chosen);
  Status follow(const Decision& found, std::span<const Ready> ready, Choice& out);
  std::string remark() const;

  Schedule schedule_;
  Seeded numbers_;
  std::vector<Decision> log_;
  std::uint64_t steps_ = 0;

  std::uint64_t eagerness_ = 0;  // random: of 8, how often a task runs before the host goes on

  std::vector<std::uint64_t> priorities_;       // pct: by chain, 0 is the host; zero is none yet
  std::vector<std::uint64_t> changes_;          // pct: steps, ascending
  std::vector<std::uint64_t> turn_priorities_;  // pct: by host thread
  std::uint64_t in_a_row_ = 0;                  // pct: steps since the host last went on
  std::uint64_t expected_steps_ = 1000;  // pct: before the first run has shown how many there are

  std::uint64_t points_ = 0;    // of the host's
  std::size_t steps_seen_ = 0;  // steps: whose turn has come
  std::size_t steps_done_ = 0;  // steps: of these, those that ran

  std::optional<Recording> recording_;
  std::size_t followed_ = 0;  // decisions of it
};

}  // namespace ember::inline v0::driver::sim
