#include "ember/base/embedding.h"

#include <atomic>
#include <cstdio>
#include <set>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"

namespace ember::inline v0 {
namespace {

constinit std::atomic<const Embedding*> language{nullptr};

struct Shown {
  Mutex mutex;
  std::set<std::string> texts EMBER_GUARDED_BY(mutex);
};

/// Whether this is the first time.
bool note(const std::string& text) {
  // Warnings may come while the process exits.
  static NoDestructor<Shown> shown;
  const MutexLock lock(shown->mutex);
  return shown->texts.insert(text).second;
}

}  // namespace

void embed(const Embedding& embedding) noexcept {
  language.store(&embedding, std::memory_order_release);
}

void warn(Warning kind, const std::string& text) noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  if (of != nullptr && of->warn != nullptr) return of->warn(kind, text.c_str());
  if (note(text))
    std::fprintf(stderr, "%s%s\n", kind == Warning::future ? "FutureWarning: " : "", text.c_str());
}

std::string call_stack() noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  return of != nullptr && of->call_stack != nullptr ? of->call_stack() : std::string();
}

std::uint64_t embedded_stack_number() noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  return of != nullptr && of->stack_number != nullptr ? of->stack_number() : 0;
}

std::string embedded_stack(std::uint64_t number) noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  return of != nullptr && of->stack_of_number != nullptr ? of->stack_of_number(number)
                                                         : std::string();
}

std::vector<StackFrame> embedded_frames(std::uint64_t number) noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  return of != nullptr && of->frames_of_number != nullptr ? of->frames_of_number(number)
                                                          : std::vector<StackFrame>();
}

const void* embedded_interpreter() noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  return of != nullptr && of->interpreter != nullptr ? of->interpreter() : nullptr;
}

bool interrupted() noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  return of != nullptr && of->interrupted != nullptr && of->interrupted();
}

UnexpectedWait::UnexpectedWait() noexcept {
  const Embedding* of = language.load(std::memory_order_acquire);
  if (of == nullptr || of->begin_wait == nullptr) return;
  end_ = of->end_wait;
  begun_ = of->begin_wait();
}

UnexpectedWait::~UnexpectedWait() {
  if (end_ != nullptr) end_(begun_);
}

}  // namespace ember::inline v0
