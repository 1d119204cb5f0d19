#include "ember/base/file_identity.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace ember {
namespace {

class FileIdentity : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "ember-test-XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder_ = std::filesystem::canonical(made);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Its time of change is always the same.
  std::string file(const std::string& contents, long seconds = 1000) const {
    std::ofstream(folder_ / "file", std::ios::binary | std::ios::trunc) << contents;
    const timespec times[2] = {{seconds, 5}, {seconds, 5}};
    EXPECT_EQ(utimensat(AT_FDCWD, (folder_ / "file").c_str(), times, 0), 0);
    return folder_ / "file";
  }
  std::filesystem::path folder_;
};

/// An ELF file of nothing but two notes, of which the second one is a build-id (elf(5)).
std::string elf_with(const std::string& id) {
  const auto bytes = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const Elf64_Nhdr other{4, 3, 1};
  const Elf64_Nhdr note{4, static_cast<Elf64_Word>(id.size()), NT_GNU_BUILD_ID};
  const std::string notes =
      bytes(other) + std::string("GNU\0abc\0", 8) + bytes(note) + std::string("GNU\0", 4) + id;
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_phoff = sizeof head;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 2;
  Elf64_Phdr code{}, part{};
  code.p_type = PT_LOAD;
  part.p_type = PT_NOTE;
  part.p_offset = sizeof head + 2 * sizeof part;
  part.p_filesz = notes.size();
  return bytes(head) + bytes(code) + bytes(part) + notes;
}

TEST_F(FileIdentity, OfOrdinaryFiles) {
  const std::string path = file("four");
  EXPECT_EQ(file_identity(path), path + " 4 1000.5");
  std::filesystem::create_symlink(path, folder_ / "link");
  EXPECT_EQ(file_identity(folder_ / "link"), path + " 4 1000.5");
  EXPECT_EQ(file_identity(file("four", 1001)), path + " 4 1001.5");
  EXPECT_EQ(file_identity(folder_ / "none"), (folder_ / "none").string());
}

TEST_F(FileIdentity, HasTheBuildId) {
  const std::string whole = elf_with("\x01\xab\x03\x7f");
  const std::string path = file(whole);
  EXPECT_EQ(file_identity(path), path + " " + std::to_string(whole.size()) + " 1000.5 01ab037f");
  EXPECT_NE(file_identity(file(elf_with("\x02\xab\x03\x7f"))), file_identity(file(whole)));
}

TEST_F(FileIdentity, DamagedFilesHaveNone) {
  const std::string whole = elf_with("\x01\xab\x03\x7f");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string path = file(whole.substr(0, size));
    EXPECT_EQ(file_identity(path), path + " " + std::to_string(size) + " 1000.5");
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = '\xff';
    EXPECT_FALSE(file_identity(file(damaged)).empty());
  }
}

}  // namespace
}  // namespace ember
