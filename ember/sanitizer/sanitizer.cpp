#include "ember/sanitizer/sanitizer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/json_text.h"
#include "ember/base/mutex.h"
#include "ember/driver/simulation.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/sanitizer/at_end.h"
#include "ember/sanitizer/engine.h"
#include "ember/sanitizer/report.h"

namespace ember::inline v0::cuda {

using sanitizer::Conflict;
using sanitizer::Operation;
using sanitizer::Side;

namespace {

/// At most so many names of unchecked launches are kept.
constexpr std::size_t kMaxNames = 32;

const char* name_of(const char* name, Activity::Kind kind) noexcept {
  if (name != nullptr) return name;
  if (kind == Activity::Kind::copied) return "copy";
  return kind == Activity::Kind::filled ? "fill" : "host function";
}

bool matches(const std::string& pattern, const Operation& operation) {
  const char* const name = name_of(operation.name, operation.kind);
  if (pattern.empty() || pattern.back() != '*') return pattern == name;
  return std::strncmp(pattern.c_str(), name, pattern.size() - 1) == 0;
}

std::string plural(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

SanitizerError::SanitizerError(std::vector<Conflict> conflicts)
    : Error("detected " + std::to_string(conflicts.size()) + " errors"),
      conflicts_(std::make_shared<const std::vector<Conflict>>(std::move(conflicts))) {}

std::string SanitizerSummary::str() const {
  std::string text = plural(races, "race", "races");
  if (by_query != 0) text += ", " + std::to_string(by_query) + " ordered only by a query";
  if (possible != 0) text += ", " + std::to_string(possible) + " possible";
  if (unwritten != 0)
    text += ", " + plural(unwritten, "read", "reads") + " of what was never written";
  if (suppressed != 0) text += ", " + std::to_string(suppressed) + " suppressed";
  text += " in " + plural(checked, "operation", "operations");
  text += "; " + plural(unchecked, "unchecked launch", "unchecked launches");
  if (exposed != 0) text += ", " + plural(exposed, "unwatched pointer", "unwatched pointers");
  return text;
}

std::string SanitizerSummary::json() const {
  std::string text = "{\"process\": " + std::to_string(getpid());
  const auto field = [&](const char* name, std::uint64_t value) {
    text.append(", \"").append(name).append("\": ").append(std::to_string(value));
  };
  field("checked", checked);
  field("unchecked", unchecked);
  text += ", \"unchecked_names\": [";
  for (std::size_t i = 0; i < unchecked_names.size(); ++i) {
    if (i != 0) text += ", ";
    append_json_text(text, unchecked_names[i]);
  }
  text += "]";
  field("exposed", exposed);
  field("races", races);
  field("reuses", reuses);
  field("uses_after_free", uses_after_free);
  field("by_query", by_query);
  field("possible", possible);
  field("unwritten", unwritten);
  field("suppressed", suppressed);
  text.append(", \"clean\": ").append(clean() ? "true" : "false");
  return text + "}";
}

/// As EMBER_SANITIZER=guard has it; simulated devices do it.
static std::atomic<bool> guards_host{false};

/// Notifications come one at a time, so the engine needs no lock; what users ask for does.
class Sanitizer::Watcher final : public Observer {
 public:
  explicit Watcher(SanitizerOptions options)
      : options_(std::move(options)),
        engine_(options_.threads_apart ? sanitizer::Threads::apart : sanitizer::Threads::as_one) {
    if (!options_.json_path.empty()) {
      json_.reset(std::fopen(options_.json_path.c_str(), "ae"));
      if (!json_)
        throw ValueError("Sanitizer: json_path is '" + options_.json_path +
                         "', which cannot be opened; expected a file that can be written");
    }
    add_observer(*this);
  }
  ~Watcher() override { remove_observer(*this); }

  bool wants_stacks() const noexcept override { return true; }

  void notice(const Activity& activity) noexcept override {
    found_.clear();
    if (!asked_driver_) [[unlikely]]
      ask_driver();
    engine_.observe(activity, found_);
    const MutexLock lock(mutex_);
    summary_.checked = engine_.checked();
    if (summary_.unchecked != engine_.unchecked()) name_unchecked(activity);
    summary_.unchecked = engine_.unchecked();
    summary_.exposed = engine_.exposed();
    if (found_.empty()) [[likely]]
      return;
    std::vector<Conflict> fresh;
    for (const Conflict& conflict : found_)
      if (is_new(conflict)) fresh.push_back(conflict);
    for (const Conflict& conflict : fresh) report(conflict);
    if (options_.raise && !fresh.empty())
      fail_operation(activity.thread, std::make_exception_ptr(SanitizerError(std::move(fresh))));
  }

  SanitizerSummary summary() const {
    const MutexLock lock(mutex_);
    SanitizerSummary made = summary_;
    made.races += driver::guarded_accesses() - guarded_before_;
    return made;
  }
  std::vector<Conflict> conflicts() const {
    const MutexLock lock(mutex_);
    return conflicts_;
  }

 private:
  /// Memory is there once there is a driver.
  void ask_driver() {
    if (driver_if_made() == nullptr) return;
    asked_driver_ = true;
    if (options_.unwritten && tells_all_writes()) engine_.expect_writes();
    if (guards_host && tells_all_writes()) engine_.host_is_guarded();
  }
  /// Counts it, and says whether it is to be reported. The same two places in the program make one
  /// race, whatever memory it is about; without places the two operations' names and streams do.
  bool is_new(const Conflict& conflict) EMBER_REQUIRES(mutex_) {
    const auto key_of = [](const Side& side) {
      const Operation& operation = side.operation;
      return std::tuple(operation.stack, operation.name, static_cast<int>(operation.kind),
                        operation.stack != 0 ? nullptr : operation.stream, side.writes);
    };
    if (!known_.emplace(key_of(conflict.now), key_of(conflict.before)).second) return false;
    const bool alone = conflict.kind == Conflict::Kind::never_written;
    for (const std::string& pattern : options_.suppressed) {
      if (matches(pattern, conflict.now.operation) ||
          (!alone && matches(pattern, conflict.before.operation))) {
        ++summary_.suppressed;
        return false;
      }
    }
    if (alone)
      ++summary_.unwritten;
    else
      switch (conflict.certainty) {
        case Conflict::Certainty::certain:
          ++summary_.races;
          if (conflict.kind == Conflict::Kind::reuse) ++summary_.reuses;
          if (conflict.kind == Conflict::Kind::use_after_free) ++summary_.uses_after_free;
          break;
        case Conflict::Certainty::by_query: ++summary_.by_query; break;
        case Conflict::Certainty::possible: ++summary_.possible; break;
      }
    conflicts_.push_back(conflict);
    return true;
  }

  void name_unchecked(const Activity& activity) EMBER_REQUIRES(mutex_) {
    std::vector<std::string>& names = summary_.unchecked_names;
    if (names.size() == kMaxNames) return;
    const char* const name = name_of(activity.name, activity.kind);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  }

  void report(const Conflict& conflict) {
    if (options_.print) std::fputs(sanitizer::report_text(conflict).c_str(), stderr);
    if (json_) {
      std::fputs((sanitizer::report_json(conflict) + "\n").c_str(), json_.get());
      (void)std::fflush(json_.get());
    }
  }

  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  using Place = std::tuple<std::uint64_t, const char*, int, const void*, bool>;

  const SanitizerOptions options_;
  const std::uint64_t guarded_before_ = driver::guarded_accesses();
  std::unique_ptr<std::FILE, CloseFile> json_;
  bool asked_driver_ = false;  // notice()'s
  sanitizer::Engine engine_;   // used by notice() alone, as this is
  std::vector<Conflict> found_;
  mutable Mutex mutex_;
  std::set<std::pair<Place, Place>> known_ EMBER_GUARDED_BY(mutex_);
  std::vector<Conflict> conflicts_ EMBER_GUARDED_BY(mutex_);
  SanitizerSummary summary_ EMBER_GUARDED_BY(mutex_);
};

Sanitizer::Sanitizer(SanitizerOptions options)
    : watcher_(std::make_unique<Watcher>(std::move(options))) {}
Sanitizer::~Sanitizer() = default;
SanitizerSummary Sanitizer::summary() const { return watcher_->summary(); }
std::vector<Conflict> Sanitizer::conflicts() const { return watcher_->conflicts(); }
std::vector<std::string> Sanitizer::reports() const {
  std::vector<std::string> texts;
  for (const Conflict& conflict : conflicts()) texts.push_back(sanitizer::report_text(conflict));
  return texts;
}

// ---- For the whole process

namespace {

std::atomic<Sanitizer*> enabled{nullptr};
constinit Mutex enabling;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace

void detail::watch_as_asked() {
  sanitizer::AtEnd at_end = sanitizer::at_end_as_asked();
  const std::string own = env::get("EMBER_SANITIZER").value_or("");
  const bool asked = !own.empty() && own != "0";
  if (asked && own != "1" && own != "continue" && own != "guard")
    throw ValueError("EMBER_SANITIZER is '" + own + "', expected 0, 1, continue or guard");
  if (!asked && !env::flag("TORCH_CUDA_SANITIZER")) return;
  SanitizerOptions options;
  options.raise = own != "continue";
  options.json_path = env::get("EMBER_SANITIZER_JSON").value_or("");
  if (std::FILE* const file = std::fopen(options.json_path.c_str(), "ae"); file != nullptr)
    (void)std::fclose(file);
  else if (!options.json_path.empty())
    throw ValueError("EMBER_SANITIZER_JSON is '" + options.json_path +
                     "', which cannot be opened; expected a file that can be written");
  options.suppressed = split(env::get("EMBER_SANITIZER_SUPPRESS").value_or(""));
  enable_sanitizer(std::move(options));
  if (own == "guard") {
    guards_host = true;
    driver::guard_host_memory();
  }
  sanitizer::end_watched(std::move(at_end));
}

void enable_sanitizer() { enable_sanitizer({.raise = true}); }

void enable_sanitizer(SanitizerOptions options) {
  const MutexLock lock(enabling);
  if (enabled.load() != nullptr) return;
  // Never destroyed: threads may report until the process ends.
  enabled = new Sanitizer(std::move(options));
}

Sanitizer* enabled_sanitizer() noexcept { return enabled.load(); }

}  // namespace ember::inline v0::cuda
