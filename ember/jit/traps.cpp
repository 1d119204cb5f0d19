#include "ember/jit/traps.h"

#include <ucontext.h>

#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <iterator>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"

namespace ember::inline v0::jit {
namespace {

/// Where the calling thread goes on when what it runs is stopped; null while it runs nothing.
thread_local sigjmp_buf* landing = nullptr;
/// Whether it hands a signal on: whoever had it may hand it back.
thread_local bool handing_on = false;

constexpr int kSignals[] = {SIGFPE, SIGILL};
/// Whose they are otherwise, in the order of kSignals.
struct sigaction others[2];

void on_trap(int signal, siginfo_t* info, void* context) {
  // Entries have neither locks nor destructors, so they may be left anywhere.
  if (landing != nullptr && info->si_code > 0) {
    // The jump does not come back from the handler, which others (thread sanitizer) run with all
    // signals blocked.
    (void)pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(*landing, signal);
  }
  const struct sigaction& other = others[signal == SIGFPE ? 0 : 1];
  const bool detailed = (other.sa_flags & SA_SIGINFO) != 0;
  if (!handing_on && (detailed || (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN))) {
    handing_on = true;
    if (detailed)
      other.sa_sigaction(signal, info, context);
    else
      other.sa_handler(signal);
    handing_on = false;
    return;
  }
  if (!detailed && other.sa_handler == SIG_IGN && info->si_code <= 0) return;
  // What the processor raised it raises again; what somebody sent has to be sent again.
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  (void)sigaction(signal, &none, nullptr);
  if (info->si_code <= 0) (void)raise(signal);
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_trap;
}

/// The signal that stopped it; 0 if none did. Nothing here has a destructor.
int run(HostEntry entry, const void* arguments, void* const* data, long long first, long long last,
        sigjmp_buf& here) noexcept {
  sigjmp_buf* const outer = landing;
  const int signal = sigsetjmp(here, 0);
  if (signal == 0) {
    landing = &here;
    entry(arguments, data, first, last);
  }
  landing = outer;
  return signal;
}

}  // namespace

void take_traps() noexcept {
  struct sigaction now {};
  bool taken = true;
  for (const int signal : kSignals)
    taken = taken && sigaction(signal, nullptr, &now) == 0 && is_ours(now);
  if (taken) [[likely]]
    return;
  static NoDestructor<Mutex> mutex;
  const MutexLock lock(*mutex);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (sigaction(kSignals[i], nullptr, &now) != 0 || is_ours(now)) continue;
    others[i] = now;
    struct sigaction action {};
    action.sa_sigaction = &on_trap;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;  // what is handed on may come back
    sigemptyset(&action.sa_mask);
    (void)sigaction(kSignals[i], &action, nullptr);  // without, the process ends as it would have
  }
}

Status call(HostEntry entry, const void* arguments, void* const* data, long long first,
            long long last) noexcept {
  sigjmp_buf here;
  switch (run(entry, arguments, data, first, last, here)) {
    case 0: return {};
    case SIGFPE:
      return Status(Code::device_assert,
                    "an integer was divided by zero, or the least one by -1; on a real device the "
                    "result would be some number");
    default:
      return Status(Code::device_assert,
                    "the text does what C++ leaves undefined, such as dividing by a constant zero");
  }
}

}  // namespace ember::inline v0::jit
