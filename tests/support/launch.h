// Launching the test kernels with what they access, so that suites can be watched by the stream
// sanitizer. Found by the arguments: `launch(stream, test::affine_kernel, test::AffineArgs{...})`.
#pragma once

#include <array>

#include "ember/runtime/work.h"
#include "tests/support/kernels.h"

namespace ember::test {

inline void launch(const cuda::Stream& stream, const driver::Kernel& kernel,
                   const AffineArgs& args) {
  const cuda::Access data = cuda::writes(args.data, args.count);
  cuda::launch(stream, kernel, driver::Params(args), {&data, 1});
}
inline void launch(const cuda::Stream& stream, const driver::Kernel& kernel, const LogArgs& args) {
  const cuda::Access log = cuda::writes(args.log, args.entries + 1);
  cuda::launch(stream, kernel, driver::Params(args), {&log, 1});
}
inline void launch(const cuda::Stream& stream, const driver::Kernel& kernel, const BusyArgs& args) {
  const cuda::Access log = cuda::writes(args.log, args.entries + 1);
  cuda::launch(stream, kernel, driver::Params(args), {&log, 1});
}
inline void launch(const cuda::Stream& stream, const driver::Kernel& kernel, const MoveArgs& args) {
  const std::array<cuda::Access, 2> accesses{cuda::writes(args.target, args.count),
                                             cuda::reads(args.source, args.count)};
  cuda::launch(stream, kernel, driver::Params(args), accesses);
}
/// There is no memory, so that it cannot be anybody else's.
inline void launch(const cuda::Stream& stream, const driver::Kernel& kernel,
                   const BadAccessArgs& args) {
  const cuda::Access address = cuda::writes(args.address, 1);
  cuda::launch(stream, kernel, driver::Params(args), {&address, 1});
}
inline void launch(const cuda::Stream& stream, const driver::Kernel& kernel, const NopArgs& args) {
  cuda::launch(stream, kernel, driver::Params(args), cuda::no_accesses());
}

}  // namespace ember::test
