#include "ember/driver/kernels.h"

#include <chrono>

namespace ember::inline v0::driver::kernels {
namespace {

Status sleep_host(const Params& params, const HostLaunch&) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::nanoseconds(params.as<SleepArgs>().cycles);
  while (Clock::now() < until) {
  }
  return {};
}

// Filled while libraries are loaded, which is one thread's work.
constinit Table* first = nullptr;

}  // namespace

constinit Kernel sleep{"sleep", &sleep_host, nullptr};

Table::Table(std::span<Kernel> all) noexcept : kernels_(all), next_(first) { first = this; }

void bind(CudaImplementation (*implementation)(const char* name)) noexcept {
  sleep.cuda = implementation(sleep.name.c_str());
  for (Table* table = first; table != nullptr; table = table->next_)
    for (Kernel& kernel : table->kernels_) kernel.cuda = implementation(kernel.name.c_str());
}

}  // namespace ember::inline v0::driver::kernels
