#include "ember/jit/traps.h"

#include <csetjmp>
#include <csignal>

namespace ember::inline v0::jit {
namespace {

/// Where the calling thread goes on when what it runs is stopped; null while it runs nothing.
thread_local sigjmp_buf* landing = nullptr;

struct sigaction earlier_division, earlier_instruction;

void on_trap(int signal, siginfo_t* info, void* /*context*/) {
  // Entries have neither locks nor destructors, so they may be left anywhere.
  if (landing != nullptr && info->si_code > 0) siglongjmp(*landing, signal);
  (void)sigaction(signal, signal == SIGFPE ? &earlier_division : &earlier_instruction, nullptr);
  // What the processor raised it raises again; what somebody sent has to be sent again.
  if (info->si_code <= 0) (void)raise(signal);
}

bool take_over() noexcept {
  struct sigaction action {};
  action.sa_sigaction = &on_trap;
  // The jump does not come back from the handler, so the signal must not stay blocked.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGFPE, &action, &earlier_division) == 0 &&
         sigaction(SIGILL, &action, &earlier_instruction) == 0;
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

Status call(HostEntry entry, const void* arguments, void* const* data, long long first,
            long long last) noexcept {
  static const bool taken = take_over();
  (void)taken;  // without, the process ends as it would have
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
