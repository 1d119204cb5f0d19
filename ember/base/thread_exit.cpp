#include "ember/base/thread_exit.h"

#include <vector>

namespace ember::inline v0 {
namespace {

// Trivial, so that it can still be read when the destructors have run.
constinit thread_local bool ended = false;

struct Ends {
  std::vector<void (*)() noexcept> calls;

  ~Ends() {
    ended = true;
    while (!calls.empty()) {
      const auto end = calls.back();
      calls.pop_back();
      end();
    }
  }
};

}  // namespace

bool at_thread_exit(void (*end)() noexcept) {
  if (ended) return false;
  static thread_local Ends ends;
  ends.calls.push_back(end);
  return true;
}

}  // namespace ember::inline v0
