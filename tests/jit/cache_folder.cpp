// The suite's compiled kernels lie in a folder of their own: with those of other runs it would not
// be seen whether anything compiles, and what it makes is of no use to others.
#include "tests/jit/support.h"

namespace ember::test {
namespace {

class CacheFolder : public testing::Environment {
 public:
  void SetUp() override {
    folder_.emplace();
    path_.emplace("EMBER_KERNEL_CACHE_PATH", folder_->path());
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
