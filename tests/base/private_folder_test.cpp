#include "ember/base/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace ember {
namespace {

class PrivateFolder : public testing::Test {
 protected:
  void SetUp() override {
    char made[] = "/tmp/ember-test-XXXXXX";
    ASSERT_NE(mkdtemp(made), nullptr);
    place_ = made;
    setenv("XDG_RUNTIME_DIR", made, 1);
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(place_);
  }
  std::string place_;
};

TEST_F(PrivateFolder, IsLookedForInOrder) {
  const std::string usual = "/tmp/ember-" + std::to_string(geteuid());
  EXPECT_EQ(private_folders(), (std::vector<std::string>{place_ + "/ember", usual}));
  for (const std::string& none : {std::string(), std::string(60, 'x')}) {
    setenv("XDG_RUNTIME_DIR", none.c_str(), 1);
    EXPECT_EQ(private_folders(), std::vector<std::string>{usual}) << none;
  }
}

TEST_F(PrivateFolder, IsMadeClosedToOthers) {
  const std::string folder = private_folders().front();
  for (int time = 0; time < 2; ++time) {
    const Status status = make_private_folder(folder);
    EXPECT_TRUE(status.ok()) << status.text();
    struct stat about {};
    ASSERT_EQ(stat(folder.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0700U);
  }
}

TEST_F(PrivateFolder, IsRefusedByNameWhenItIsNot) {
  const std::string folder = private_folders().front();
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0750), 0);
  Status status = make_private_folder(folder);
  EXPECT_EQ(status.code(), Code::not_permitted);
  EXPECT_EQ(status.detail(), "the folder " + folder + " belongs to user " +
                                 std::to_string(geteuid()) + " with mode 0750, expected user " +
                                 std::to_string(geteuid()) + "'s own, closed to others (0700)");
  int calls = 0;
  EXPECT_EQ(in_private_folder([&](const std::string&) { return ++calls, Status(); }).code(),
            Code::not_permitted);
  EXPECT_EQ(calls, 0) << "nothing else is taken in its place";

  ASSERT_EQ(rmdir(folder.c_str()), 0);
  ASSERT_EQ(symlink("/tmp", folder.c_str()), 0);
  EXPECT_EQ(make_private_folder(folder).code(), Code::not_supported);
  std::string found;
  EXPECT_TRUE(in_private_folder([&](const std::string& in) { return found = in, Status(); }).ok());
  EXPECT_EQ(found, private_folders().back());
}

}  // namespace
}  // namespace ember
