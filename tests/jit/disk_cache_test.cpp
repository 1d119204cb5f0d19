// Compiled kernels on disk: whose they are, and what damage does.
#include "ember/jit/disk_cache.h"

#include "tests/jit/support.h"

namespace ember::test {
namespace {

using jit::DiskCache;

class Disk : public testing::Test {
 protected:
  DiskCache open() const {
    const Variable variable("EMBER_KERNEL_CACHE_PATH", folder_ / "kernels");
    DiskCache cache;
    EXPECT_TRUE(DiskCache::open(cache).ok());
    return cache;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  const Folder folder_;
};

TEST_F(Disk, KeepsEntries) {
  const DiskCache cache = open();
  ASSERT_TRUE(cache);
  std::string text;
  bool found = true;
  EXPECT_TRUE(cache.find("a.so", text, found).ok());
  EXPECT_FALSE(found);
  for (const std::string& contents :
       {std::string("some\0code", 9), std::string(), std::string(100000, 'x')}) {
    ASSERT_TRUE(cache.keep("a.so", contents));
    EXPECT_TRUE(open().find("a.so", text, found).ok());
    EXPECT_TRUE(found);
    EXPECT_EQ(text, contents);
  }
  // Under its own name alone.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "kernels"), {}), 1);
}

TEST_F(Disk, DamagedEntriesAreNone) {
  const DiskCache cache = open();
  ASSERT_TRUE(cache.keep("a", "the code of a kernel"));
  const std::string whole = read(cache.path("a"));
  std::vector<std::string> damaged = {"", "x", whole + " ", " " + whole};
  for (std::size_t cut = 1; cut < whole.size(); ++cut) damaged.push_back(whole.substr(0, cut));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    damaged.push_back(whole);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 1);
  }
  for (const std::string& contents : damaged) {
    write(cache.path("a"), contents);
    std::string text;
    bool found = true;
    EXPECT_TRUE(cache.find("a", text, found).ok());
    EXPECT_FALSE(found) << contents;
  }
  EXPECT_TRUE(cache.keep("a", "again"));
  std::string text;
  bool found = false;
  EXPECT_TRUE(cache.find("a", text, found).ok());
  EXPECT_TRUE(found);
}

TEST_F(Disk, LinksAndFoldersAreNoEntries) {
  const DiskCache cache = open();
  ASSERT_TRUE(cache.keep("a", "code"));
  std::filesystem::create_symlink(cache.path("a"), cache.path("link"));
  std::filesystem::create_directory(cache.path("folder"));
  std::string text;
  for (const char* name : {"link", "folder"}) {
    bool found = true;
    EXPECT_TRUE(cache.find(name, text, found).ok());
    EXPECT_FALSE(found) << name;
  }
}

TEST_F(Disk, WhatOthersMayWriteIsRefused) {
  const DiskCache cache = open();
  ASSERT_TRUE(cache.keep("a", "code"));
  std::string text;
  bool found = false;
  for (const mode_t mode : {0720, 0702, 0777}) {
    chmod(cache.path("a").c_str(), mode);
    const Status status = cache.find("a", text, found);
    EXPECT_EQ(status.code(), Code::not_permitted);
    EXPECT_NE(status.detail().find(cache.path("a")), std::string::npos) << status.detail();
    EXPECT_FALSE(found);
  }
  chmod(cache.path("a").c_str(), 0700);
  EXPECT_TRUE(cache.find("a", text, found).ok());
  EXPECT_TRUE(found);
  if (geteuid() != 0) GTEST_SKIP() << "the rest needs root, who can give files away";
  ASSERT_EQ(chown(cache.path("a").c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache.find("a", text, found).code(), Code::not_permitted);
}

/// An error, and not a quiet way around: the user has to know.
TEST_F(Disk, FoldersThatOthersMayEnterAreRefused) {
  const std::string path = folder_ / "kernels";
  (void)open();
  const Variable variable("EMBER_KERNEL_CACHE_PATH", path);
  for (const mode_t mode : {0755, 0770, 0701}) {
    chmod(path.c_str(), mode);
    DiskCache cache;
    const Status status = DiskCache::open(cache);
    EXPECT_EQ(status.code(), Code::not_permitted);
    EXPECT_NE(status.detail().find(path), std::string::npos) << status.detail();
    const auto f = jiterator::create_jit_fn("template <typename T> T f(T x) { return x - 91; }");
    EXPECT_ERROR(f({ones({2})}), Error, "jiterator: the folder " + path);
  }
  chmod(path.c_str(), 0700);
  DiskCache cache;
  EXPECT_TRUE(DiskCache::open(cache).ok());
  EXPECT_TRUE(cache);
}

TEST_F(Disk, IsWhereTheEnvironmentSays) {
  const Variable own("EMBER_KERNEL_CACHE_PATH", "");
  const Variable home("HOME", folder_ / "home");
  DiskCache cache;
  {
    const Variable torch("PYTORCH_KERNEL_CACHE_PATH", folder_ / "torch");
    const Variable general("XDG_CACHE_HOME", folder_ / "general");
    ASSERT_TRUE(DiskCache::open(cache).ok());
    EXPECT_EQ(cache.path("a"), folder_ / "torch/ember/a");
    const Variable off("USE_PYTORCH_KERNEL_CACHE", "0");
    ASSERT_TRUE(DiskCache::open(cache).ok());
    EXPECT_FALSE(cache);
    EXPECT_FALSE(cache.keep("a", "code"));
  }
  const Variable torch("PYTORCH_KERNEL_CACHE_PATH", std::nullopt);
  {
    const Variable general("XDG_CACHE_HOME", folder_ / "general");
    ASSERT_TRUE(DiskCache::open(cache).ok());
    EXPECT_EQ(cache.path("a"), folder_ / "general/ember/kernels/a");
  }
  const Variable general("XDG_CACHE_HOME", std::nullopt);
  ASSERT_TRUE(DiskCache::open(cache).ok());
  EXPECT_EQ(cache.path("a"), folder_ / "home/.cache/ember/kernels/a");
}

/// Where none can be made, kernels are compiled and not kept.
TEST_F(Disk, WorksWithoutAFolder) {
  write(folder_ / "file", "");
  const Variable variable("EMBER_KERNEL_CACHE_PATH", folder_ / "file/kernels");
  DiskCache cache;
  EXPECT_TRUE(DiskCache::open(cache).ok());
  EXPECT_FALSE(cache);
  const auto f = jiterator::create_jit_fn("template <typename T> T f(T x) { return x - 92; }");
  EXPECT_EQ(values<float>(f({full({2}, 92)})[0]), std::vector<float>(2, 0));
}

}  // namespace
}  // namespace ember::test
