// The suite's compiled kernels lie in a folder of their own: with those of other runs it would not
// be seen whether anything compiles, and what it makes is of no use to others. But the same suite,
// run once more in another way, need not compile the same again: EMBER_TEST_KERNELS names a folder
// for all of them.
#include <cstdlib>

#include "tests/jit/support.h"

namespace ember::test {
namespace {

class CacheFolder : public testing::Environment {
 public:
  void SetUp() override {
    const char* const shared = std::getenv("EMBER_TEST_KERNELS");
    if (shared == nullptr) folder_.emplace();
    path_.emplace("EMBER_KERNEL_CACHE_PATH", shared != nullptr ? shared : folder_->path());
    on_.emplace("USE_PYTORCH_KERNEL_CACHE", std::nullopt);
  }
  void TearDown() override {
    on_.reset();
    path_.reset();
    folder_.reset();
  }

 private:
  std::optional<Folder> folder_;
  std::optional<Variable> path_, on_;
};

[[maybe_unused]] const testing::Environment* const registered =
    testing::AddGlobalTestEnvironment(new CacheFolder);

}  // namespace
}  // namespace ember::test
