// Texts that are no names of kernels, because they may change or go before the name does. Each case
// has to fail to compile; tests/driver/CMakeLists.txt tries them. Case 0 compiles.
#include <string>

#if CASE == 0 || CASE > 8
#include "ember/runtime/work.h"
#else
#include "ember/driver/kernel.h"
#endif

namespace {
using ember::driver::Kernel;
using ember::driver::Name;

constexpr char constant[] = "constant";
[[maybe_unused]] char variable[] = "variable";
[[maybe_unused]] const char* pointer = "pointer";

void names() {
  [[maybe_unused]] char local[] = "local";
  [[maybe_unused]] const char fixed[] = "fixed";
  [[maybe_unused]] const std::string text = "text";
#if CASE == 0
  const Kernel literal{"literal"};
  const Kernel array{constant};
  const Kernel made{Name::intern(text)};
  ember::cuda::launch(ember::cuda::Stream(), "literal", [](const ember::driver::HostLaunch&) {});
  (void)literal, (void)array, (void)made;
#elif CASE == 1
  const Kernel kernel{local};
#elif CASE == 2
  const Kernel kernel{fixed};
#elif CASE == 3
  const Kernel kernel{variable};
#elif CASE == 4
  const Kernel kernel{pointer};
#elif CASE == 5
  const Kernel kernel{text.c_str()};
#elif CASE == 6
  const Kernel kernel{text};
#elif CASE == 7
  const Kernel kernel{""};
#elif CASE == 8
  const Kernel kernel{nullptr};
#elif CASE == 9
  ember::cuda::launch(ember::cuda::Stream(), text.c_str(), [](const ember::driver::HostLaunch&) {});
#elif CASE == 10
  ember::cuda::launch(ember::cuda::Stream(), pointer, [](const ember::driver::HostLaunch&) {});
#endif
}
}  // namespace

int main() { names(); }
