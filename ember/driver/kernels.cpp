#include "ember/driver/kernels.h"

#include <chrono>
#include <string>

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
namespace {
const Table sleep_table({&sleep, 1}, arguments<SleepArgs>());
}

Table::Table(std::span<Kernel> all, std::uint64_t arguments) noexcept
    : kernels_(all), arguments_(arguments), next_(first) {
  first = this;
}

Status check(Found (*find)(const char* name)) {
  for (const Table* table = first; table != nullptr; table = table->next_)
    for (const Kernel& kernel : table->kernels_) {
      const Found found = find(kernel.name.c_str());
      if (found.implementation.run != nullptr && found.arguments != table->arguments_)
        return Status(Code::not_initialized,
                      std::string(kernel.name.c_str()) + " takes other arguments there");
    }
  return {};
}

void bind(Found (*find)(const char* name)) noexcept {
  for (Table* table = first; table != nullptr; table = table->next_)
    for (Kernel& kernel : table->kernels_) kernel.cuda = find(kernel.name.c_str()).implementation;
}

}  // namespace ember::inline v0::driver::kernels
