#include "ember/nvtx/nvtx.h"

#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/nvtx/tool.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::cuda::nvtx {
namespace {

using detail::DomainState;

/// Held while a name is looked up: of a domain, or of a category or a string in one.
constinit Mutex naming;

/// Made when the library is loaded: no fork waits for that lock.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { renew_in_child(naming); });

/// What ranges are called that observers see and no tool numbers.
constinit std::atomic<RangeId> ranges_started{0};

}  // namespace

namespace detail {
struct DomainState {
  std::string name;
  tool::DomainHandle handle = nullptr;
  std::map<std::string, std::uint32_t, std::less<>> categories EMBER_GUARDED_BY(naming) = {};
  std::map<std::string, StringState, std::less<>> strings EMBER_GUARDED_BY(naming) = {};
};
}  // namespace detail

namespace {

/// By name; the one without a name is "".
std::map<std::string, DomainState, std::less<>>& domains() EMBER_REQUIRES(naming) {
  // Ranges may be reported until the process ends, and states are pointed to.
  static NoDestructor<std::map<std::string, DomainState, std::less<>>> made;
  return *made;
}

DomainState& domain_of(const std::string& name) EMBER_REQUIRES(naming) {
  const auto [place, is_new] = domains().try_emplace(name);
  if (is_new) {
    place->second.name = name;
    if (!name.empty()) place->second.handle = tool::make_domain(name.c_str());
  }
  return place->second;
}

tool::DomainHandle tool_handle(const DomainState* state) noexcept {
  return state == nullptr ? nullptr : state->handle;
}

/// With the message alone, or with all that is said.
Attributes as_attributes(const tool::Said& said) noexcept {
  Attributes made = said.attributes;
  made.message = text_of(made);
  return made;
}
Attributes as_attributes(const char* message) noexcept { return {.message = message}; }

/// Attributes with a message of their own.
struct Kept : Attributes {
  explicit Kept(const Attributes& said)
      : Attributes(said), text(said.message != nullptr ? said.message : "") {
    if (said.message != nullptr) message = text.c_str();
  }
  static void release(const Attributes* kept) noexcept { delete static_cast<const Kept*>(kept); }
  std::string text;
};

template <class Said>
[[gnu::noinline]] void tell(Activity::Kind kind, Domain domain, const Said& said, RangeId range) {
  // Another thread may tell it, after this call.
  auto kept = std::make_unique<Kept>(as_attributes(said));
  // Not notify(): what begins to be recorded is released, also if nobody watches any more.
  cuda::detail::notify_slow({.kind = kind,
                             .domain = domain.name(),
                             .annotation = kept.release(),
                             .release = &Kept::release,
                             .range = range});
}

template <class Said>
RangeId start(Domain domain, tool::DomainHandle handle, const Said& said) noexcept {
  RangeId range = tool::start(handle, said);
  if (observed()) [[unlikely]] {
    if (range == 0) range = ranges_started.fetch_add(1, std::memory_order_relaxed) + 1;
    tell(Activity::Kind::range_started, domain, said, range);
  }
  return range;
}

template <class Said>
int push(Domain domain, tool::DomainHandle handle, const Said& said) noexcept {
  const int depth = tool::push(handle, said);
  if (observed()) [[unlikely]]
    tell(Activity::Kind::range_pushed, domain, said, 0);
  return depth;
}

template <class Said>
void report_mark(Domain domain, tool::DomainHandle handle, const Said& said) noexcept {
  tool::mark(handle, said);
  if (observed()) [[unlikely]]
    tell(Activity::Kind::marked, domain, said, 0);
}

}  // namespace

Domain::Domain(const std::string& name) {
  if (name.empty()) throw ValueError("name of a domain is empty, expected some text");
  const MutexLock lock(naming);
  state_ = &domain_of(name);
}

const char* Domain::name() const noexcept { return state_ == nullptr ? "" : state_->name.c_str(); }

std::uint32_t Domain::category(const std::string& name) const {
  if (name.empty()) throw ValueError("name of a category is empty, expected some text");
  const MutexLock lock(naming);
  DomainState& state = state_ != nullptr ? *state_ : domain_of("");
  const auto next = static_cast<std::uint32_t>(state.categories.size() + 1);
  const auto [place, is_new] = state.categories.try_emplace(name, next);
  if (is_new) tool::name_category(state.handle, next, name.c_str());
  return place->second;
}

RegisteredString Domain::registered(const std::string& text) const {
  const MutexLock lock(naming);
  DomainState& state = state_ != nullptr ? *state_ : domain_of("");
  const auto [place, is_new] = state.strings.try_emplace(text);
  if (is_new) place->second = {state_, text, tool::register_string(state.handle, text.c_str())};
  return RegisteredString(&place->second);
}

const char* RegisteredString::text() const noexcept {
  return state_ == nullptr ? "" : state_->text.c_str();
}

void* Domain::handle_of(RegisteredString message) const noexcept {
  const detail::StringState* string = message.state_;
  return string != nullptr && string->domain == state_ ? string->handle : nullptr;
}

void Domain::mark(const Attributes& attributes) const noexcept {
  report_mark(*this, tool_handle(state_), tool::Said{attributes, handle_of(attributes.registered)});
}
void Domain::mark(const char* message) const noexcept {
  report_mark(*this, tool_handle(state_), message);
}

int Domain::range_push(const Attributes& attributes) const noexcept {
  return push(*this, tool_handle(state_), tool::Said{attributes, handle_of(attributes.registered)});
}
int Domain::range_push(const char* message) const noexcept {
  return push(*this, tool_handle(state_), message);
}
int Domain::range_pop() const noexcept {
  const int depth = tool::pop(tool_handle(state_));
  notify([&]() -> Activity { return {.kind = Activity::Kind::range_popped, .domain = name()}; });
  return depth;
}

RangeId Domain::range_start(const Attributes& attributes) const noexcept {
  return start(*this, tool_handle(state_),
               tool::Said{attributes, handle_of(attributes.registered)});
}
RangeId Domain::range_start(const char* message) const noexcept {
  return start(*this, tool_handle(state_), message);
}
void Domain::range_end(RangeId range) const noexcept {
  tool::end(tool_handle(state_), range);
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::range_ended, .domain = name(), .range = range};
  });
}

}  // namespace ember::inline v0::cuda::nvtx
