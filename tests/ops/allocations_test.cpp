// Operations that were run before ask the heap for nothing: what they need is recycled.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "ember/sanitizer/sanitizer.h"
#include "tests/ops/support.h"
#include "tests/support/counted_heap.h"
#include "tests/support/gate.h"

// The sanitizers have an allocator of their own, and nothing is recycled under them.
#if !defined(EMBER_SANITIZED_HEAP)

namespace ember::test {
namespace {

/// Who watches keeps what it saw.
#define NEEDS_NO_SANITIZER()                                              \
  do {                                                                    \
    (void)cuda::device_count();                                           \
    if (cuda::enabled_sanitizer() != nullptr)                             \
      GTEST_SKIP() << "counts allocations, and the sanitizer makes some"; \
  } while (false)

// The counter itself works: an allocation is seen.
TEST(Allocations, AreCountedHere) {
  long* made = nullptr;
  EXPECT_EQ(allocations_of([&] { delete std::exchange(made, new long(1)); }), 1);
  delete made;
}

TEST(Allocations, OperationsMakeNoneOnceWarm) {
  NEEDS_NO_SANITIZER();
  NEEDS_CACHING();
  const Device device("cuda:0");
  const Tensor a = ones({8, 8}, device);
  const Tensor b = ones({8, 8}, device);
  Tensor out = empty({8, 8}, device);
  EXPECT_EQ(allocations_of([&] { const Tensor made = empty({8, 8}, device); }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor view = a.t(); }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor view = a[0]; }), 0);
  EXPECT_EQ(allocations_of([&] { add_out(out, a, b); }), 0);
  EXPECT_EQ(allocations_of([&] { out += b; }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor sum = a + b; }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor sum = a + 2; }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor sum = a + b[0]; }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor root = a.sqrt(); }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor less = a < b; }), 0);
}

TEST(Allocations, OtherStreamsMakeNoneEither) {
  NEEDS_NO_SANITIZER();
  NEEDS_CACHING();
  const cuda::StreamGuard guard{cuda::Stream(0)};
  const Tensor a = ones({8, 8}, "cuda:0");
  Tensor out = empty({8, 8}, "cuda:0");
  EXPECT_EQ(allocations_of([&] { add_out(out, a, a); }), 0);
  EXPECT_EQ(allocations_of([&] { const Tensor sum = a + a; }), 0);
}

TEST(Allocations, LaunchesWithAnyArgumentsMakeNoneEither) {
  NEEDS_NO_SANITIZER();
  const cuda::Stream stream(0);
  const cuda::Kernel kernel{"nothing",
                            [](const cuda::Params&, const cuda::HostLaunch&) { return Status(); },
                            [](const cuda::Params&, const cuda::CudaLaunch&) { return Status(); }};
  const std::array<std::byte, cuda::Params::kCapacity> bytes{};
  for (const std::size_t size : {0, 8, 256, 257, 4096}) {
    // As many as fill several chunks of a simulated stream's queue.
    const auto launch_all = [&] {
      for (int i = 0; i < 7; ++i) cuda::launch(stream, kernel, {bytes.data(), size});
    };
    {
      // How far the worker lags behind is chance: held, the queue is once as long as it can get.
      const Gate gate(stream);
      launch_all();
    }
    EXPECT_EQ(allocations_of([&] {
                launch_all();
                stream.synchronize();
              }),
              0)
        << size;
  }
}

}  // namespace
}  // namespace ember::test

#endif
