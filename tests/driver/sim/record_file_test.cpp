// Records of shared machines that are not what they should be.
#include "ember/driver/sim/record_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "ember/driver/sim/shared_machine.h"
#include "forked.h"

namespace ember::driver::sim {
namespace {

using test::Forked;

class Record : public testing::Test {
 protected:
  void SetUp() override {
    char made[] = "/tmp/ember-test-XXXXXX";
    ASSERT_NE(mkdtemp(made), nullptr);
    spec_.count = 3;
    spec_.memory_bytes = std::uint64_t{8} << 20;
    spec_.machine = "bad";
    spec_.folder = made;
    path_ = record_path(spec_.folder, spec_.machine);
  }
  void TearDown() override { std::filesystem::remove_all(spec_.folder); }

  Status join() const { return join(spec_); }
  static Status join(const SimulatedSpec& spec) {
    std::unique_ptr<SharedMachine> made;
    return SharedMachine::join(spec, made);
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  }
  /// What is there is refused, by name, and stays as it is.
  void expect_refused(const std::string& why) const {
    SCOPED_TRACE(why);
    const Status status = join();
    EXPECT_EQ(status.code(), Code::not_permitted) << status.text();
    EXPECT_NE(status.detail().find("simulated machine 'bad': " + path_), std::string::npos)
        << status.detail();
    EXPECT_NE(status.detail().find(why), std::string::npos) << status.detail();
    EXPECT_TRUE(std::filesystem::symlink_status(path_).type() !=
                std::filesystem::file_type::not_found);
  }
  /// The bytes of a good record in which nobody lives.
  std::string good() const {
    Forked other([this](const Forked::Side&) { return join().ok() ? 0 : 1; });
    EXPECT_EQ(other.reap(), 0);
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  SimulatedSpec spec_;
  std::string path_;
};

TEST_F(Record, OfNobodyIsMadeAnew) {
  const std::string bytes = good();
  SimulatedSpec other = spec_;
  other.count = 1;
  EXPECT_TRUE(join(other).ok()) << "its last process was killed";
  for (const std::string& half_made :
       {std::string(), std::string(10, '\0'), std::string(bytes.size(), '\0')}) {
    write(half_made);
    const Status status = join();
    EXPECT_TRUE(status.ok()) << status.text();
  }
}

TEST_F(Record, OfOtherDevicesIsRefused) {
  Forked other([this](const Forked::Side& side) {
    std::unique_ptr<SharedMachine> made;
    side.say(SharedMachine::join(spec_, made).ok() ? 'y' : 'n');
    return static_cast<int>(side.hear());
  });
  ASSERT_EQ(other.side().hear(), 'y');
  SimulatedSpec wanted = spec_;
  wanted.count = 1;
  Status status = join(wanted);
  EXPECT_EQ(status.code(), Code::invalid_value);
  EXPECT_EQ(
      status.detail(),
      "simulated machine 'bad': it has 3 devices of 8.00 MiB (8388608 bytes), but this process "
      "asks for 1 device of 8.00 MiB (8388608 bytes); EMBER_DEVICES has to be the same for all "
      "processes of a machine");
  wanted = spec_;
  wanted.memory_bytes += 1;
  EXPECT_EQ(join(wanted).code(), Code::invalid_value);
  EXPECT_TRUE(join().ok());
}

TEST_F(Record, ThatIsCorruptIsRefused) {
  const std::string bytes = good();
  write("no record, but more than a header has: some text that somebody has put here");
  expect_refused("it does not begin as one");
  write(std::string("embrMach"));
  expect_refused("it is too short");
  write(bytes.substr(0, bytes.size() - 1));
  expect_refused("it was cut off or extended");
  write(bytes + "x");
  expect_refused("it was cut off or extended");
  const auto changed = [&](std::size_t offset, auto value) {
    std::string text = bytes;
    std::memcpy(text.data() + offset, &value, sizeof value);
    return text;
  };
  write(changed(offsetof(RecordHeader, version), std::uint32_t{2}));
  expect_refused("another ember made it: version 2, expected 1");
  write(changed(offsetof(RecordHeader, layout), std::uint32_t{2}));
  expect_refused("another ember made it: layout 2");
  write(changed(offsetof(RecordHeader, slots), std::uint32_t{1}));
  expect_refused("another ember made it");
  write(changed(offsetof(RecordHeader, devices), std::uint32_t{0}));
  expect_refused("its number of devices is 0");
  write(changed(offsetof(RecordHeader, devices), std::uint32_t{65}));
  expect_refused("its number of devices is 65");
  write(changed(offsetof(RecordHeader, devices), std::uint32_t{10}));
  expect_refused("its size is said to be");
  write(changed(offsetof(RecordHeader, bytes), std::uint64_t{1}));
  expect_refused("memory per simulated device is 1 bytes");
  write(bytes);
  EXPECT_TRUE(join().ok());
}

TEST_F(Record, WithOtherNumbersInItHarmsNobody) {
  std::string bytes = good();
  for (std::size_t i = sizeof(RecordHeader); i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(0x5a ^ (i * 31));
  std::memset(bytes.data() + sizeof(RecordHeader), 0xff, 100'000);
  // Somebody lives there, so it is used as it is: what others are said to hold counts for nobody.
  Forked other([&](const Forked::Side& side) {
    std::unique_ptr<SharedMachine> made;
    if (!SharedMachine::join(spec_, made).ok()) return 1;
    side.say('y');
    return static_cast<int>(side.hear());
  });
  ASSERT_EQ(other.side().hear(), 'y');
  const int file = open(path_.c_str(), O_WRONLY);
  const auto rest = bytes.size() - sizeof(RecordHeader);
  ASSERT_EQ(pwrite(file, bytes.data() + sizeof(RecordHeader), rest, sizeof(RecordHeader)),
            static_cast<ssize_t>(rest));
  close(file);
  std::unique_ptr<SharedMachine> mine;
  ASSERT_TRUE(SharedMachine::join(spec_, mine).ok());
  EXPECT_FALSE(mine->claim(0, 1).ok()) << "the living one is said to hold more than there is";
  EXPECT_EQ(mine->processes(0).size(), 1u);
  EXPECT_GE(mine->share(0, &RecordMeters::busy), 0);
  other.end(SIGKILL);
  other.reap();
  EXPECT_EQ(mine->used(0), 0u);
  EXPECT_TRUE(mine->claim(0, spec_.memory_bytes).ok());
}

TEST_F(Record, ThatIsNoFileOfTheUsersIsRefused) {
  const std::string bytes = good();
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  expect_refused("with mode 0644");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  ASSERT_EQ(link(path_.c_str(), (spec_.folder + "/second").c_str()), 0);
  expect_refused("has 2 names");
  ASSERT_EQ(unlink((spec_.folder + "/second").c_str()), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path_.c_str(), 1234, 0), 0);
    expect_refused("it belongs to user 1234");
  }
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_refused("it is no ordinary file");
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  const Status status = join();
  EXPECT_EQ(status.code(), Code::not_permitted);
  EXPECT_NE(status.detail().find(path_), std::string::npos) << status.detail();
  ASSERT_EQ(rmdir(path_.c_str()), 0);
  ASSERT_EQ(symlink("/etc/hostname", path_.c_str()), 0);
  EXPECT_EQ(join().code(), Code::not_permitted);
}

TEST_F(Record, WhoseLockSomebodyHoldsIsSaidSo) {
  Forked other([this](const Forked::Side& side) {
    RecordFile file;
    if (!RecordFile::open_locked(path_, spec_, file).ok() || !file.attach().ok()) return 1;
    side.say('y');
    return static_cast<int>(side.hear());
  });
  ASSERT_EQ(other.side().hear(), 'y');
  RecordFile::set_patience(std::chrono::milliseconds(50));
  const Status status = join();
  RecordFile::set_patience(std::chrono::seconds(10));
  EXPECT_EQ(status.code(), Code::not_permitted);
  EXPECT_NE(status.detail().find("process " + std::to_string(other.process()) +
                                 " has held its lock for 50 ms"),
            std::string::npos)
      << status.detail();
}

}  // namespace
}  // namespace ember::driver::sim
