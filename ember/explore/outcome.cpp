#include "ember/explore/outcome.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <utility>

#include "ember/base/error.h"
#include "ember/driver/schedule.h"
#include "ember/explore/explore.h"
#include "ember/runtime/device.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/sanitizer/report.h"

namespace ember::inline v0::explore {

using cuda::sanitizer::Conflict;
using driver::Step;

namespace {

thread_local constinit std::vector<Named>* named_by_this_thread = nullptr;

/// Sees only whether a run does what the first one did.
class Follower final : public cuda::Observer {
 public:
  explicit Follower(std::vector<std::uint64_t>& out) : out_(out) { cuda::add_observer(*this); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower() override { cuda::remove_observer(*this); }
  void notice(const cuda::Activity& activity) noexcept override {
    if (const std::uint64_t sum = fingerprint(activity); sum != 0) out_.push_back(sum);
  }

 private:
  std::vector<std::uint64_t>& out_;
};

/// Calls the program, and keeps what it throws and names.
void call(const std::function<void()>& program, Outcome& out) {
  struct Naming {
    explicit Naming(std::vector<Named>& results) { naming() = &results; }
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    ~Naming() { naming() = nullptr; }
  } const on(out.results);
  try {
    program();
  } catch (const AcceleratorError& error) {
    if (error.code() == Code::interrupted) throw;  // the user ends all of it
    out.thrown = error.what();
  } catch (const sim::Overdue&) {
    out.overdue = true;
  } catch (const std::exception& error) {
    out.thrown = error.what();
  } catch (...) {
    out.thrown = "something that is no std::exception";
  }
}

std::string hex(const std::uint8_t* first, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, i == 0 ? "%02x" : " %02x", first[i]);
    text += byte;
  }
  return text;
}

}  // namespace

std::vector<Named>*& naming() noexcept { return named_by_this_thread; }

std::string schedule_of(const std::vector<Step>& steps) {
  return "steps:" + driver::steps_text(steps);
}

std::string settle() {
  std::string fault;
  for (int device = 0; device < cuda::device_count(); ++device) {
    if (!cuda::active_driver().device_active(device)) continue;
    const Status status = cuda::HostWait::device(cuda::WaitKind::library, device);
    if (status.ok()) continue;
    if (fault.empty()) fault = status.text();
    cuda::reset_device(device);
  }
  return fault;
}

Outcome run(const std::function<void()>& program, double seconds, const std::vector<Step>& steps,
            const std::function<std::shared_ptr<cuda::Observer>(Outcome&)>& watch) {
  Outcome out;
  cuda::begin_owned_run(schedule_of(steps));
  {
    const auto watching = watch(out);
    (void)driver::limit_simulated_calls(seconds);
    call(program, out);
    if (driver::limit_simulated_calls(0)) out.overdue = true;
  }
  out.points = driver::simulated_points();
  const std::string fault = settle();
  if (!fault.empty()) out.thrown += (out.thrown.empty() ? "" : "; ") + fault;
  out.progress = driver::simulated_progress();
  for (Named& result : out.results) {
    if (!result.tensor) continue;
    if (!fault.empty()) {  // it may have gone with its device
      result.tensor.reset();
      continue;
    }
    result.original = result.tensor;
    result.tensor = result.tensor->contiguous().cpu();
    const auto* const first = static_cast<const std::uint8_t*>(result.tensor->address());
    result.bytes.assign(first, first + result.tensor->nbytes());
  }
  return out;
}

Outcome run(const std::function<void()>& program, double seconds, const std::vector<Step>& steps) {
  Outcome out = run(program, seconds, steps,
                    [](Outcome& made) { return std::make_shared<Follower>(made.fingerprints); });
  for (Named& result : out.results) result.original.reset();
  return out;
}

std::string difference(const Outcome& a, const Outcome& b) {
  if (a.thrown != b.thrown) {
    const auto said = [](const std::string& thrown) {
      return thrown.empty() ? std::string("nothing") : "'" + thrown + "'";
    };
    return "what is thrown: " + said(a.thrown) + " and " + said(b.thrown);
  }
  if (a.results.size() != b.results.size())
    return "how many results are named: " + std::to_string(a.results.size()) + " and " +
           std::to_string(b.results.size());
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    const Named& left = a.results[i];
    const Named& right = b.results[i];
    if (left.name != right.name)
      return "the name of result " + std::to_string(i + 1) + ": '" + left.name + "' and '" +
             right.name + "'";
    if (left.bytes.size() != right.bytes.size())
      return "the size of result '" + left.name + "': " + std::to_string(left.bytes.size()) +
             " and " + std::to_string(right.bytes.size()) + " bytes";
    const auto [at, other] =
        std::mismatch(left.bytes.begin(), left.bytes.end(), right.bytes.begin());
    if (at == left.bytes.end()) continue;
    const auto byte = static_cast<std::size_t>(at - left.bytes.begin());
    if (left.tensor && right.tensor && left.tensor->dtype() == right.tensor->dtype()) {
      const auto element = static_cast<std::int64_t>(byte / left.tensor->element_size());
      const auto shown = [&](const Tensor& of) { return of.flatten().select(0, element).str(); };
      return "result '" + left.name + "', element " + std::to_string(element) + ": " +
             shown(*left.tensor) + " and " + shown(*right.tensor);
    }
    const std::size_t from = byte / 8 * 8;
    const std::size_t count = std::min<std::size_t>(8, left.bytes.size() - from);
    return "result '" + left.name + "', from byte " + std::to_string(byte) +
           " on: " + hex(left.bytes.data() + from, count) + " and " +
           hex(right.bytes.data() + from, count) +
           (from == byte ? "" : " from byte " + std::to_string(from) + " on");
  }
  const auto& copies = a.progress.copies;
  const auto& others = b.progress.copies;
  for (std::size_t i = 0; i < std::min(copies.size(), others.size()); ++i) {
    const driver::HostCopy& left = copies[i];
    const driver::HostCopy& right = others[i];
    if (left.stream == right.stream && left.task == right.task && left.bytes == right.bytes &&
        left.sum == right.sum)
      continue;
    const std::size_t count = std::min<std::size_t>(left.first.size(), left.bytes);
    return "the copy of " + std::to_string(left.bytes) + " bytes to the host, s" +
           std::to_string(left.stream) + "." + std::to_string(left.task) + ", which begins with " +
           hex(left.first.data(), count) + " and " + hex(right.first.data(), count);
  }
  if (copies.size() != others.size())
    return "how many copies reached the host: " + std::to_string(copies.size()) + " and " +
           std::to_string(others.size());
  return "";
}

std::chrono::steady_clock::duration duration_of(double seconds) {
  constexpr double kMost = 1e9;  // more than anybody waits, and it fits
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kMost)));
}

std::vector<std::string> reports(const std::vector<const Conflict*>& conflicts, Places& known) {
  const auto place_of = [](const cuda::sanitizer::Side& side) {
    const cuda::sanitizer::Operation& operation = side.operation;
    return CodePlace(operation.stack, operation.name, static_cast<int>(operation.kind),
                     operation.stack != 0 ? 0 : operation.stream_id, side.writes);
  };
  std::vector<std::string> made;
  for (const Conflict* conflict : conflicts)
    if (known.emplace(place_of(conflict->now), place_of(conflict->before)).second)
      made.push_back(cuda::sanitizer::report_text(*conflict));
  return made;
}

std::vector<std::string> reports(const std::vector<const Conflict*>& conflicts) {
  Places known;
  return reports(conflicts, known);
}

std::vector<std::size_t> ranks_of(const Graph& graph) {
  std::vector<std::size_t> by_rank(graph.events()), rank(graph.events());
  std::iota(by_rank.begin(), by_rank.end(), 0);
  const auto key = [&](std::size_t event) {
    if (event < graph.segments) return std::pair<std::uint64_t, std::uint64_t>(0, event);
    const Step& task = graph.tasks[event - graph.segments];
    return std::pair<std::uint64_t, std::uint64_t>(task.stream, task.task);
  };
  std::sort(by_rank.begin(), by_rank.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < by_rank.size(); ++i) rank[by_rank[i]] = i;
  return rank;
}

}  // namespace ember::inline v0::explore
