// Small programs whose order a seed decides.
#pragma once

#include <cstdint>
#include <vector>

#include "ember/base/sanitizer.h"
#include "ember/runtime/event.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/work.h"
#include "tests/support/devices.h"
#include "tests/support/kernels.h"

namespace ember::test {

/// affine_kernel for work that nothing orders, on purpose: out of the thread sanitizer's sight.
inline Status unordered_affine_host(const driver::Params& params, const driver::HostLaunch& on) {
  const Unseen on_purpose;
  return affine_kernel.host.run(params, on);
}
inline const driver::Kernel unordered_affine_kernel{"affine", &unordered_affine_host};

/// `streams` streams that append their number to one log, `each` times: the order in which they
/// ran.
inline std::vector<std::uint32_t> order_of(const std::vector<cuda::Stream>& streams, int each,
                                           const Words<std::uint32_t>& log) {
  const cuda::Stream& first = streams.front();
  cuda::fill_async(log.get(), 0, sizeof(std::uint32_t), first);
  first.synchronize();
  for (int i = 0; i < each; ++i)
    for (std::uint32_t s = 0; s < streams.size(); ++s)
      cuda::launch(streams[s], log_kernel, LogArgs{log.get(), s});
  std::vector<std::uint32_t> entries = log.read();
  entries.resize(1 + streams.size() * static_cast<std::size_t>(each));
  return entries;
}

/// 1 + 41 by one stream, times 10 by another; right (420) only in that order, for which the wait
/// is there.
inline std::uint32_t add_then_multiply(bool with_wait, const cuda::Stream& adds,
                                       const cuda::Stream& multiplies,
                                       const Words<std::uint32_t>& value) {
  cuda::fill_async(value.get(), 0, sizeof(std::uint32_t), adds);
  adds.synchronize();
  cuda::launch(adds, unordered_affine_kernel, AffineArgs{value.get(), 1, 1, 42});
  if (with_wait) multiplies.wait_stream(adds);
  cuda::launch(multiplies, unordered_affine_kernel, AffineArgs{value.get(), 1, 10, 0});
  return value.read()[0];
}

}  // namespace ember::test
