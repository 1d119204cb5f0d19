// Handles of cuBLAS on the fakes of the NVIDIA libraries: whose they are, and what they are set to.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "ember/base/error.h"
#include "ember/linalg/linalg.h"
#include "ember/linalg/precision.h"
#include "ember/linalg/workspace.h"
#include "ember/runtime/guard.h"
#include "fake_cublas.h"
#include "fake_libcuda.h"
#include "tests/support/child.h"

namespace ember::cuda {
namespace {

/// Every test is a process: the library is opened once.
class BlasHandleDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  static void prepare() {
    auto* cuda =
        static_cast<FakeCuda*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), kFakeCuda));
    cuda->largest_allocation = std::size_t{1} << 30;
  }
  static FakeCublas& fake() {
    static auto* found = static_cast<FakeCublas*>(
        dlsym(dlopen(std::getenv("EMBER_CUBLAS"), RTLD_NOW | RTLD_LOCAL), kFakeCublas));
    return *found;
  }
  static FakeHandle& current() { return *reinterpret_cast<FakeHandle*>(current_blas_handle()); }
};

constexpr std::size_t kWorkspace = (std::size_t{8} << 20) + (std::size_t{128} << 10);

TEST_F(BlasHandleDeathTest, IsSetToTheCurrentStream) {
  IN_CHILD({
    prepare();
    FakeHandle& handle = current();
    EXPECT_EQ(handle.stream, nullptr);
    EXPECT_EQ(handle.bytes, kWorkspace) << "set behind the stream, which takes it away";
    void* const first = handle.workspace;
    EXPECT_NE(first, nullptr);
    const Stream side;
    const StreamGuard on(side);
    EXPECT_EQ(&current(), &handle) << "the same one for every stream";
    EXPECT_EQ(handle.stream, side.native());
    EXPECT_NE(handle.workspace, nullptr);
    EXPECT_NE(handle.workspace, first) << "streams work beside each other";
    EXPECT_EQ(fake().made, 1);
  });
}

TEST_F(BlasHandleDeathTest, IsOnePerThreadAndDevice) {
  IN_CHILD({
    prepare();
    FakeHandle* const mine = &current();
    FakeHandle* theirs = nullptr;
    std::thread([&] {
      theirs = &current();
      EXPECT_EQ(&current(), theirs);
    }).join();
    EXPECT_NE(theirs, mine);
    std::thread([&] { EXPECT_EQ(&current(), theirs) << "of a thread that has ended"; }).join();
    const DeviceGuard on(1);
    EXPECT_NE(&current(), mine);
    EXPECT_EQ(fake().made, 3);
  });
}

TEST_F(BlasHandleDeathTest, IsAnotherOneAfterAReset) {
  IN_CHILD({
    prepare();
    FakeHandle* const before = &current();
    std::thread([] { current(); }).join();
    reset_device(0);
    FakeHandle* const after = &current();
    EXPECT_NE(after, before);
    EXPECT_EQ(&current(), after);
    EXPECT_EQ(fake().made, 3) << "one that waited for a thread is forgotten, too";
  });
}

TEST_F(BlasHandleDeathTest, HasTheSettingsOfPrecision) {
  IN_CHILD({
    prepare();
    EXPECT_EQ(current().mode, 0);
    backends::cuda::matmul::set_allow_tf32(true);
    EXPECT_EQ(current().mode, 3);
    backends::cuda::matmul::set_allow_fp16_reduced_precision_reduction(false);
    EXPECT_EQ(current().mode, 3 | 16);
    set_float32_matmul_precision("highest");
    EXPECT_EQ(current().mode, 16);
  });
}

TEST_F(BlasHandleDeathTest, WorksAnewAfterWorkspacesWereCleared) {
  IN_CHILD({
    prepare();
    EXPECT_EQ(current().bytes, kWorkspace);
    clear_blas_workspaces();
    EXPECT_EQ(current().bytes, kWorkspace);
  });
}

TEST_F(BlasHandleDeathTest, SaysWhatFails) {
  IN_CHILD({
    prepare();
    fake().no_more_handles = true;
    EXPECT_THROW(current_blas_handle(), Error);
    fake().no_more_handles = false;
    EXPECT_NE(current_blas_handle(), nullptr);
  });
}

TEST_F(BlasHandleDeathTest, NamesTheLibraryThatIsMissing) {
  IN_CHILD({
    setenv("EMBER_CUBLAS", "no_such_library.so", 1);
    prepare();
    try {
      current_blas_handle();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("a cuBLAS handle needs cuBLAS (libcublas.so.13 or .12), which could not "
                           "be opened: no_such_library.so",
                           0),
                0U)
          << text;
      EXPECT_NE(text.find("EMBER_CUBLAS"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace ember::cuda
