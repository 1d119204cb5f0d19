#include "ember/driver/sim/decider.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ember::inline v0::driver::sim {
namespace {

std::uint32_t sum_of(std::span<const Ready> ready) noexcept {
  std::uint32_t sum = 2166136261;  // FNV-1a, word by word
  for (const Ready& task : ready) {
    sum = (sum ^ task.stream) * 16777619;
    sum = (sum ^ static_cast<std::uint32_t>(task.task)) * 16777619;
  }
  return sum;
}

/// Priorities of chains that were not lowered yet lie above all that were.
constexpr std::uint64_t kNotLowered = std::uint64_t{1} << 63;
/// So many steps without the host end the rule of priorities: tasks that submit tasks without end
/// would keep it, and others, waiting for ever.
constexpr std::uint64_t kMostInARow = 100'000;

}  // namespace

namespace {

/// What was chosen, which is not the host.
void note(const Choice& chosen, std::span<const Ready> ready, Decision& decision) {
  decision.stream = ready[chosen.task].stream;
  decision.task = ready[chosen.task].task;
  decision.name = ready[chosen.task].name;
  decision.half = chosen.half;
  if (chosen.with == Decider::kHost) return;
  decision.with_stream = ready[chosen.with].stream;
  decision.with_task = ready[chosen.with].task;
}

}  // namespace

void Decider::begin(const Schedule& schedule, std::optional<Recording> recording) {
  // What this run took is what the next one, of the same program, is expected to take.
  if (steps_ != 0) expected_steps_ = steps_;
  schedule_ = schedule;
  recording_ = std::move(recording);
  restart();
}

void Decider::restart() {
  numbers_ = Seeded(schedule_.seed);
  log_.clear();
  steps_ = 0;
  followed_ = 0;
  points_ = 0;
  steps_seen_ = steps_done_ = 0;
  in_a_row_ = 0;
  // Some bugs need a host that is far ahead, others one that is not.
  constexpr std::uint64_t kEagerness[] = {0, 1, 2, 4};
  eagerness_ = kEagerness[numbers_.below(std::size(kEagerness))];
  priorities_.clear();
  turn_priorities_.clear();
  changes_.clear();
  if (schedule_.kind != Schedule::Kind::pct) return;
  for (int i = 1; i < schedule_.depth; ++i) changes_.push_back(1 + numbers_.below(expected_steps_));
  std::sort(changes_.begin(), changes_.end());
}

Status Decider::choose(At at, std::span<const Ready> ready, bool host, Choice& out) {
  ++steps_;
  Decision decision{
      .at = at, .ready = static_cast<std::uint32_t>(ready.size()), .sum = sum_of(ready)};
  Choice chosen;
  switch (schedule_.kind) {
    case Schedule::Kind::threads:
    case Schedule::Kind::model:
    case Schedule::Kind::swarm:
    case Schedule::Kind::random: chosen.task = pick_random(ready.size(), host); break;
    case Schedule::Kind::pct: chosen.task = pick_by_priority(ready, host); break;
    case Schedule::Kind::replay: EMBER_TRY(follow(decision, ready, chosen)); break;
    case Schedule::Kind::steps: chosen = pick_step(ready, host); break;
  }
  keep(decision, ready, chosen);
  out = chosen;
  return {};
}

void Decider::keep(Decision decision, std::span<const Ready> ready, const Choice& chosen) {
  if (chosen.task != kHost) {
    note(chosen, ready, decision);
  } else {
    in_a_row_ = 0;
  }
  // Where nothing was ready nothing was decided.
  if (!ready.empty()) log_.push_back(decision);
}

Status Decider::choose_turn(std::span<const Ready> ready, std::uint32_t last, std::size_t& out) {
  out = 0;
  if (ready.size() == 1) return {};
  ++steps_;
  const Decision decision{
      .at = At::turn, .ready = static_cast<std::uint32_t>(ready.size()), .sum = sum_of(ready)};
  switch (schedule_.kind) {
    case Schedule::Kind::random: out = numbers_.below(ready.size()); break;
    case Schedule::Kind::pct: out = turn_by_priority(ready); break;
    case Schedule::Kind::replay: {
      Choice followed;
      EMBER_TRY(follow(decision, ready, followed));
      out = followed.task;
      break;
    }
    case Schedule::Kind::threads:
    case Schedule::Kind::steps:
    case Schedule::Kind::model:
    case Schedule::Kind::swarm:
      // The one that goes on already, for as long as it can.
      for (std::size_t i = 0; i < ready.size(); ++i)
        if (ready[i].stream == last) out = i;
      break;
  }
  keep(decision, ready, {out});
  return {};
}

// As of chains of tasks. The change of priorities falls on whoever is highest at that step.
std::size_t Decider::turn_by_priority(std::span<const Ready> ready) {
  const auto highest = [&] {
    std::size_t best = 0;
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const std::uint32_t thread = ready[i].stream;
      if (thread >= turn_priorities_.size()) turn_priorities_.resize(thread + 1);
      std::uint64_t& priority = turn_priorities_[thread];
      if (priority == 0) priority = numbers_.next() | kNotLowered;
      if (priority <= most) continue;
      best = i;
      most = priority;
    }
    return best;
  };
  // One that asks and asks for what another thread is to do would keep the turn for ever.
  if (++in_a_row_ > kMostInARow) return numbers_.below(ready.size());
  std::size_t chosen = highest();
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (changes_[i] != steps_) continue;
    turn_priorities_[ready[chosen].stream] = changes_.size() - i;
    chosen = highest();
  }
  return chosen;
}

Status Decider::note_modelled(At at, std::span<const Ready> ready, std::size_t chosen) {
  ++steps_;
  const Decision decision{
      .at = at, .ready = static_cast<std::uint32_t>(ready.size()), .sum = sum_of(ready)};
  if (recording_) {
    Choice expected;
    EMBER_TRY(follow(decision, ready, expected));
    if (expected.task != chosen)
      return Status(Code::invalid_value,
                    "the replay leaves its recording at decision " + std::to_string(followed_) +
                        ": the device model decides otherwise; is it the same one?");
  }
  keep(decision, ready, {chosen});
  return {};
}

std::size_t Decider::pick_random(std::size_t ready, bool host) {
  if (ready == 0) return kHost;
  if (host && numbers_.below(8) >= eagerness_) return kHost;
  return ready == 1 ? 0 : numbers_.below(ready);
}

// What lies before the tasks in their streams runs first. Steps that cannot be done are passed
// over, so that any part of a list is a schedule, too.
Choice Decider::pick_step(std::span<const Ready> ready, bool host) {
  const auto& steps = schedule_.steps;
  for (; steps_seen_ < steps.size() && steps[steps_seen_].point <= points_; ++steps_seen_) {
    const Step& step = steps[steps_seen_];
    const auto next_of = [&](std::uint32_t stream, std::uint64_t task) {
      std::size_t i = 0;
      while (i < ready.size() && (ready[i].stream != stream || ready[i].task > task)) ++i;
      return i < ready.size() ? i : kHost;
    };
    Choice made{next_of(step.stream, step.task)};
    if (made.task == kHost) continue;
    if (step.with_stream != 0) {
      made.with = next_of(step.with_stream, step.with_task);
      if (made.with == kHost) continue;
    }
    if (ready[made.task].task != step.task) return {made.task};
    if (made.with != kHost && ready[made.with].task != step.with_task) return {made.with};
    made.half = step.half;
    if (made.half && !ready[made.task].cuts) continue;
    ++steps_seen_;
    ++steps_done_;
    return made;
  }
  return {host ? kHost : 0};
}

std::uint64_t& Decider::priority_of(std::uint32_t chain) {
  if (chain >= priorities_.size()) priorities_.resize(chain + 1);
  std::uint64_t& priority = priorities_[chain];
  if (priority == 0) priority = numbers_.next() | kNotLowered;
  return priority;
}

// PCT (Burckhardt and others, 2010): the chain of the highest priority goes on, and at d - 1 steps,
// drawn beforehand, that chain falls behind all others. A bug that needs d orderings among k steps
// of n chains is met with a probability of at least 1 / (n k^(d-1)).
std::size_t Decider::pick_by_priority(std::span<const Ready> ready, bool host) {
  if (++in_a_row_ > kMostInARow) return pick_random(ready.size(), host);
  const auto highest = [&] {
    std::size_t best = kHost;
    std::uint64_t most = host ? priority_of(0) : 0;
    for (std::size_t i = 0; i < ready.size(); ++i)
      if (const std::uint64_t priority = priority_of(ready[i].stream); priority > most) {
        best = i;
        most = priority;
      }
    return best;
  };
  std::size_t chosen = highest();
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (changes_[i] != steps_) continue;
    priority_of(chosen == kHost ? 0 : ready[chosen].stream) = changes_.size() - i;
    chosen = highest();
  }
  return chosen;
}

Status Decider::follow(const Decision& found, std::span<const Ready> ready, Choice& out) {
  out = {};
  if (ready.empty()) return {};
  const auto& recorded = recording_->decisions;
  while (followed_ < recorded.size() && recorded[followed_].at == At::note) ++followed_;
  const auto leaves = [&](Decision shown) {
    const std::string expected =
        followed_ < recorded.size() ? decision_text(recorded[followed_]) : "the end";
    std::string text = "the replay leaves its recording at decision " +
                       std::to_string(followed_ + 1) + ": expected '" + expected + "', found ";
    char sum[48];
    std::snprintf(sum, sizeof sum, " %u %08x", shown.ready, shown.sum);
    const std::string full = decision_text(shown);
    text += "'" + full.substr(0, full.find(' ')) + sum + "' with";
    for (std::size_t i = 0; i < ready.size() && i < 8; ++i)
      text += " s" + std::to_string(ready[i].stream) + "." + std::to_string(ready[i].task) + " " +
              ready[i].name + (i + 1 < ready.size() ? "," : "");
    return Status(Code::invalid_value, text + (ready.size() > 8 ? " ..." : "") + " ready");
  };
  if (followed_ == recorded.size()) return leaves(found);
  Decision expected = recorded[followed_];
  const auto at = [&](std::uint32_t stream) {
    std::size_t i = 0;
    while (i < ready.size() && ready[i].stream != stream) ++i;
    return i < ready.size() ? i : kHost;
  };
  if (expected.stream != 0) {
    out.task = at(expected.stream);
    if (expected.with_stream != 0) out.with = at(expected.with_stream);
    if (out.task == kHost || (expected.with_stream != 0 && out.with == kHost) ||
        (expected.half && !ready[out.task].cuts))
      return leaves(found);
    out.half = expected.half;
  }
  Decision now = found;
  if (out.task != kHost) note(out, ready, now);
  if (!now.same_as(expected)) return leaves(found);
  ++followed_;
  return {};
}

std::string Decider::remark() const {
  if (schedule_.kind != Schedule::Kind::pct) return "";
  // The host is one chain, or as many as it has threads that take turns.
  const std::size_t threads = turn_priorities_.size() < 2 ? 1 : turn_priorities_.size() - 1;
  const std::string n =
      std::to_string(priorities_.empty() ? threads : priorities_.size() - 1 + threads);
  const std::string k = std::to_string(expected_steps_);
  std::string text = "pct: n = " + n + " chains, k = " + k +
                     " steps, d = " + std::to_string(schedule_.depth) + "; ";
  if (steps_ > expected_steps_)
    return text + "the run took " + std::to_string(steps_) +
           " steps, so the bound holds from the next one on";
  return text + "a bug of that depth is met with a probability of at least 1/(" + n + " * " + k +
         "^" + std::to_string(schedule_.depth - 1) + ")";
}

std::string Decider::log() const {
  // The log of a replay can be replayed, too: what decided is the recording's schedule.
  const std::string schedule = recording_ ? recording_->frame.schedule : schedule_text(schedule_);
  return log_text({schedule, remark()}, log_);
}

}  // namespace ember::inline v0::driver::sim
