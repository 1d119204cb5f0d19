#include "tests/support/gate.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/work.h"

namespace ember::test {
namespace {

constexpr std::size_t kBlock = 1024;
std::mutex mutex;
GateFlags* block = nullptr;
std::size_t used = kBlock;
std::uint64_t resets_before = 0;

/// Flags are never freed: the kernel may look at them after the gate is gone.
GateFlags* new_flags() {
  const std::lock_guard lock(mutex);
  // Memory that was pinned before a reset may not be pinned any more.
  std::uint64_t resets = 0;
  for (int i = 0; i < cuda::device_count(); ++i) resets += cuda::device_epoch(i);
  if (used == kBlock || resets != resets_before) {
    resets_before = resets;
    void* memory = nullptr;
    check(cuda::active_driver().pinned_malloc(kBlock * sizeof(GateFlags), memory));
    block = static_cast<GateFlags*>(memory);
    used = 0;
  }
  return new (block + used++) GateFlags();
}

/// Never freed either.
driver::Word* new_word() {
  const std::lock_guard lock(mutex);
  static auto* const words = new std::deque<driver::Word>;
  return &words->emplace_back(0);
}

}  // namespace

Gate::Gate(const cuda::Stream& stream) {
  if (sim::seeded()) {
    word_ = new_word();
    check(cuda::active_driver().word_wait(stream.handle(), word_, 1, {}));
    return;
  }
  flags_ = new_flags();
  const GateArgs args{flags_};
  const cuda::Access flags = cuda::writes(flags_, 1);
  cuda::launch(stream, gate_kernel, cuda::Params(args), {&flags, 1});
}

void Gate::await_running() const {
  if (word_ != nullptr) return;
  while (std::atomic_ref(flags_->running).load() == 0) std::this_thread::yield();
}

void Gate::open() noexcept {
  if (word_ != nullptr) {
    word_->store(1);
  } else {
    std::atomic_ref(flags_->open).store(1);
  }
}

}  // namespace ember::test
