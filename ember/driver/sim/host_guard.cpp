#include "ember/driver/sim/host_guard.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <mutex>

#include "ember/driver/sim/executor.h"
#include "ember/driver/sim/pinned.h"

namespace ember::inline v0::driver::sim::host_guard {
namespace {

/// One side of a copy in flight. Written under the mutex; the handler reads it without: what is in
/// use was published by `first`, which is zero otherwise.
struct Guarded {
  std::atomic<std::uintptr_t> first{0};
  std::atomic<std::uintptr_t> last{0};
  std::atomic<bool> is_target{false};
  std::atomic<const Stream*> stream{nullptr};
  std::atomic<const void*> handle{nullptr};
  std::atomic<int> device{0};
  std::atomic<bool> told{false};

  std::uintptr_t first_page() const noexcept { return first.load() / kPage * kPage; }
  std::uintptr_t end_page() const noexcept { return (last.load() + kPage - 1) / kPage * kPage; }
  int protection() const noexcept { return is_target.load() ? PROT_NONE : PROT_READ; }
};

constexpr std::size_t kMost = 1024;
std::array<Guarded, kMost> guarded;
std::atomic<std::size_t> ever_used{0};  // none beyond was ever in use
std::mutex mutex;
std::atomic<bool> is_enabled{false};
std::atomic<std::uint64_t> reports{0};
std::atomic<pid_t> process{0};  // of forked children no copy is in flight
struct sigaction earlier;

void protect(std::uintptr_t first, std::uintptr_t last, int protection) noexcept {
  if (first < last)
    (void)mprotect(reinterpret_cast<void*>(first), last - first, protection);  // NOLINT
}

/// Text without allocating: the program may stand in malloc().
class Line {
 public:
  Line& operator<<(const char* text) noexcept {
    for (; *text != '\0' && length_ < sizeof text_; ++text) text_[length_++] = *text;
    return *this;
  }
  Line& number(std::uint64_t value, unsigned base) noexcept {
    char digits[24];
    std::size_t count = sizeof digits;
    digits[--count] = '\0';
    do {
      digits[--count] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return *this << (digits + count);
  }
  Line& address(std::uintptr_t value) noexcept { return (*this << "0x").number(value, 16); }
  void write() const noexcept {
    for (std::size_t done = 0; done < length_;) {
      const ssize_t some = ::write(STDERR_FILENO, text_ + done, length_ - done);
      if (some <= 0) return;
      done += static_cast<std::size_t>(some);
    }
  }

 private:
  char text_[400];
  std::size_t length_ = 0;
};

/// "writes" or "reads", where the machine says which.
const char* what_it_does(const Guarded& by, [[maybe_unused]] const void* context) noexcept {
  if (!by.is_target.load()) return "writes";
#ifdef __x86_64__
  constexpr greg_t kWrite = 2;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return (registers[REG_ERR] & kWrite) != 0 ? "writes" : "reads";
#else
  return "uses";
#endif
}

void report(const Guarded& by, std::uintptr_t address, const void* context) noexcept {
  reports.fetch_add(1);
  const std::uintptr_t first = by.first.load();
  Line line;
  line << "ember: EMBER_SANITIZER=guard: the host " << what_it_does(by, context) << " ";
  line.address(address) << ", which a copy " << (by.is_target.load() ? "to " : "from ");
  line.address(first) << " (";
  line.number(by.last.load() - first, 10) << " bytes) on stream ";
  line.address(reinterpret_cast<std::uintptr_t>(by.handle.load())) << " of cuda:";
  line.number(static_cast<std::uint64_t>(by.device.load()), 10);
  line << (by.is_target.load() ? " has not written yet" : " has not read yet");
  line << "; wait for it first\n";
  line.write();
}

/// Whether the address is on a guarded page, which it lets go.
bool let_go(std::uintptr_t address, const void* context) noexcept {
  bool found = false;
  const std::size_t count = ever_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    Guarded& each = guarded[i];
    const std::uintptr_t first = each.first.load(std::memory_order_acquire);
    if (first == 0 || address < each.first_page() || address >= each.end_page()) continue;
    found = true;
    if (address < first || address >= each.last.load() || on_worker() || process.load() != getpid())
      continue;
    if (!each.told.exchange(true)) report(each, address, context);
  }
  const std::uintptr_t page = address / kPage * kPage;
  if (found) protect(page, page + kPage, PROT_READ | PROT_WRITE);
  return found;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool ours = info->si_code == SEGV_ACCERR && let_go(address, context);
  errno = error;
  if (ours) return;
  if ((earlier.sa_flags & SA_SIGINFO) != 0 && earlier.sa_sigaction != nullptr) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler == SIG_DFL || earlier.sa_handler == SIG_IGN) {
    // The access faults again, and then ends the process.
    (void)sigaction(signal, &earlier, nullptr);
  } else {
    earlier.sa_handler(signal);
  }
}

void add(std::uintptr_t first, std::size_t bytes, bool is_target, const Stream& stream,
         const void* handle) {
  const auto free = std::find_if(guarded.begin(), guarded.end(),
                                 [](const Guarded& each) { return each.first.load() == 0; });
  if (free == guarded.end()) return;
  free->last = first + bytes;
  free->is_target = is_target;
  free->stream = &stream;
  free->handle = handle;
  free->device = stream.device();
  free->told = false;
  free->first.store(first, std::memory_order_release);
  const auto used = static_cast<std::size_t>(free - guarded.begin()) + 1;
  if (used > ever_used.load()) ever_used.store(used, std::memory_order_release);
}

/// Gives the pages of a range the protection that those in flight ask for.
void settle(std::uintptr_t first, std::uintptr_t last) {
  protect(first, last, PROT_READ | PROT_WRITE);
  for (const int protection : {PROT_READ, PROT_NONE})  // the stricter one last
    for (std::size_t i = 0; i < ever_used.load(); ++i) {
      const Guarded& each = guarded[i];
      if (each.first.load() == 0 || each.protection() != protection) continue;
      protect(std::max(first, each.first_page()), std::min(last, each.end_page()), protection);
    }
}

void remove(std::uintptr_t first, std::size_t bytes, bool is_target, const Stream& stream) {
  for (std::size_t i = 0; i < ever_used.load(); ++i) {
    Guarded& each = guarded[i];
    if (each.first.load() != first || each.last.load() != first + bytes ||
        each.is_target.load() != is_target || each.stream.load() != &stream)
      continue;
    const std::uintptr_t first_page = each.first_page();
    const std::uintptr_t end_page = each.end_page();
    each.first.store(0);
    settle(first_page, end_page);
    return;
  }
}

}  // namespace

void enable() {
  const std::lock_guard lock(mutex);
  if (is_enabled.load()) return;
  process = getpid();
  struct sigaction action = {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  (void)sigemptyset(&action.sa_mask);
  is_enabled = sigaction(SIGSEGV, &action, &earlier) == 0;
}

bool enabled() noexcept { return is_enabled.load(std::memory_order_relaxed); }

void begin(const CopyArgs& copy, bool target_is_pinned, bool source_is_pinned, const Stream& stream,
           const void* handle) {
  if (!is_enabled.load(std::memory_order_relaxed)) [[likely]]
    return;
  const std::lock_guard lock(mutex);
  const auto guard = [&](const void* pointer, bool is_target) {
    const auto first = reinterpret_cast<std::uintptr_t>(pointer);
    add(first, copy.bytes, is_target, stream, handle);
    settle(first / kPage * kPage, (first + copy.bytes + kPage - 1) / kPage * kPage);
  };
  if (target_is_pinned) guard(copy.target, true);
  if (source_is_pinned) guard(copy.source, false);
}

void end(const CopyArgs& copy, const Stream& stream) {
  if (!is_enabled.load(std::memory_order_relaxed)) [[likely]]
    return;
  const std::lock_guard lock(mutex);
  remove(reinterpret_cast<std::uintptr_t>(copy.target), copy.bytes, true, stream);
  remove(reinterpret_cast<std::uintptr_t>(copy.source), copy.bytes, false, stream);
}

std::uint64_t reported() noexcept { return reports.load(); }

}  // namespace ember::inline v0::driver::sim::host_guard
