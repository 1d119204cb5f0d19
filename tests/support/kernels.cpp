#include "tests/support/kernels.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace ember::test {

using driver::HostLaunch;
using driver::Kernel;
using driver::Params;

#if EMBER_TEST_CUDA
#define EMBER_IMPLEMENTATION(name) &name
#define EMBER_DECLARE(name) Status name(const Params&, const driver::CudaLaunch&);
#else
#define EMBER_IMPLEMENTATION(name) nullptr
#define EMBER_DECLARE(name)
#endif
EMBER_DECLARE(gate_cuda)
EMBER_DECLARE(affine_cuda)
EMBER_DECLARE(log_cuda)
EMBER_DECLARE(busy_cuda)
EMBER_DECLARE(move_cuda)
EMBER_DECLARE(bad_access_cuda)
EMBER_DECLARE(nop_cuda)

namespace {

Status gate_host(const Params& params, const HostLaunch& on) {
  GateFlags* flags = on.at(params.as<GateArgs>().flags, 1);
  if (flags == nullptr) return on.fault();
  std::atomic_ref(flags->running).store(1);
  while (std::atomic_ref(flags->open).load() == 0) std::this_thread::yield();
  return {};
}

Status affine_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<AffineArgs>();
  std::uint32_t* data = on.at(args.data, args.count);
  if (data == nullptr) return on.fault();
  for (std::size_t i = 0; i < args.count; ++i) data[i] = data[i] * args.factor + args.summand;
  return {};
}

Status append(std::uint32_t* device_log, std::uint32_t tag, const HostLaunch& on) {
  std::uint32_t* log = on.at(device_log, 1);
  if (log == nullptr) return on.fault();
  const std::uint32_t entry = std::atomic_ref(log[0]).fetch_add(1);
  if (on.at(device_log, entry + 2) == nullptr) return on.fault();
  std::atomic_ref(log[entry + 1]).store(tag);
  return {};
}

Status log_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<LogArgs>();
  return append(args.log, args.tag, on);
}

Status busy_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<BusyArgs>();
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::microseconds(args.microseconds);
  while (Clock::now() < until) {
  }
  return append(args.log, args.tag, on);
}

Status move_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<MoveArgs>();
  std::uint32_t* target = on.at(args.target, args.count);
  if (target == nullptr) return on.fault();
  const std::uint32_t* source = on.at(args.source, args.count);
  if (source == nullptr) return on.fault();
  for (std::size_t i = 0; i < args.count; ++i) target[i] = source[i];
  return {};
}

Status bad_access_host(const Params& params, const HostLaunch& on) {
  std::uint32_t* address = on.at(params.as<BadAccessArgs>().address, 1);
  if (address == nullptr) return on.fault();
  *address = 1;
  return {};
}

Status nop_host(const Params&, const HostLaunch&) { return {}; }

}  // namespace

const Kernel gate_kernel{"gate", &gate_host, EMBER_IMPLEMENTATION(gate_cuda)};
const Kernel affine_kernel{"affine", &affine_host, EMBER_IMPLEMENTATION(affine_cuda)};
const Kernel log_kernel{"log", &log_host, EMBER_IMPLEMENTATION(log_cuda)};
const Kernel busy_kernel{"busy", &busy_host, EMBER_IMPLEMENTATION(busy_cuda)};
const Kernel move_kernel{"move", &move_host, EMBER_IMPLEMENTATION(move_cuda)};
const Kernel bad_access_kernel{"bad_access", &bad_access_host,
                               EMBER_IMPLEMENTATION(bad_access_cuda)};
const Kernel nop_kernel{"nop", &nop_host, EMBER_IMPLEMENTATION(nop_cuda)};

}  // namespace ember::test
