// Handles, requests and replies that nobody made: the owner lives on and leases nothing.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "ember/base/error.h"
#include "ember/ipc/messages.h"
#include "ember/ipc/process.h"
#include "ember/ipc/record.h"
#include "ember/ipc/socket.h"
#include "ember/ipc/words.h"
#include "ember/runtime/runtime.h"
#include "peer.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using ipc::Record;
using test::Peer;

ipc::Handle bytes(const Record& record) {
  ipc::Handle handle;
  std::memcpy(handle.data(), &record, sizeof record);
  return handle;
}

Record record_of(const ipc::Handle& handle) {
  Record record;
  std::memcpy(&record, handle.data(), sizeof record);
  return record;
}

class BadHandle : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(On, BadHandle, testing::Values("cpu", "cuda:0"),
                         [](const auto& parameter) {
                           return std::string(parameter.param).substr(0, 3);
                         });

TEST_P(BadHandle, WithAnyBitChangedIsRefused) {
  cuda::init();
  Peer owner;
  ASSERT_EQ(owner.ask("make x " + std::string(GetParam()) + " 5000 1"), "ok");
  const ipc::Handle good = test::to_handle(owner.ask("send x 100000"));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const std::uint8_t change : {1, 128, 255}) {
      ipc::Handle bad = good;
      bad[i] ^= change;
      EXPECT_ERROR(ipc::receive(bad), Error, "cannot receive");
    }
  }
  // Every field of eight bytes as something absurd.
  for (std::size_t i = 0; i + 8 <= good.size(); i += 8)
    for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63,
                                      (std::uint64_t{random()} << 32) | random()}) {
      ipc::Handle bad = good;
      std::memcpy(bad.data() + i, &value, sizeof value);
      if (bad == good) continue;
      EXPECT_ERROR(ipc::receive(bad), Error, "cannot receive");
    }
  EXPECT_EQ(owner.ask("leases"), "0");
  EXPECT_EQ(owner.ask("unreceived"), "100000");
  EXPECT_TRUE(test::has_bytes(*ipc::receive(good), 1)) << "and the good one is";
}

TEST_P(BadHandle, OfAnotherLengthIsRefused) {
  const ipc::Handle good = ipc::send(test::make_memory(Device(GetParam()), 100, 1));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_ERROR(ipc::receive(std::span(good.data(), size)), Error, "cannot receive");
  std::vector<std::uint8_t> longer(good.begin(), good.end());
  longer.push_back(0);
  EXPECT_ERROR(ipc::receive(longer), Error, "expected 176");
  ipc::withdraw(good);
}

TEST(BadRecord, SaysWhatIsWrong) {
  cuda::init();
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 5000 1"), "ok");
  const Record good = record_of(test::to_handle(owner.ask("send x")));
  Record bad = good;
  bad.magic = 1;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "none of ember's");
  bad = good;
  bad.version = 99;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "has version 99, expected 2");
  bad = good;
  bad.machine ^= 1;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "another machine");
  bad = good;
  bad.start += 1;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "has ended");
  bad = good;
  bad.owner = 1;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "cannot receive");
  bad = good;
  bad.device[3] ^= 1;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "which this process does not have");
  bad = good;
  bad.secret[0] ^= 1;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "knows no memory by this handle");
  bad = good;
  bad.slot = 999;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "knows no memory by this handle");
  bad = good;
  bad.serial = 999;
  EXPECT_ERROR(ipc::receive(bytes(bad)), Error, "knows no memory by this handle");
  EXPECT_EQ(owner.ask("leases"), "0");
}

// ---- What is said to an owner

class Owner : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(peer_.ask("make x cpu 5000 1"), "ok");
    good_.record = record_of(test::to_handle(peer_.ask("send x 100000")));
    good_.start = ipc::this_process().start;
    good_.lease = 7;
  }
  void TearDown() override {
    EXPECT_EQ(peer_.ask("leases"), "0");
    EXPECT_EQ(peer_.ask("check x 1"), "ok");
  }
  /// The answer to these bytes; nothing if there is none.
  std::vector<std::uint8_t> say(std::span<const std::uint8_t> message) {
    File socket;
    EXPECT_EQ(ipc::connect_to(good_.record.process(), 2000, socket), ipc::Met::yes);
    EXPECT_TRUE(ipc::send_message(socket, message));
    std::vector<std::uint8_t> reply;
    std::vector<File> files;
    EXPECT_TRUE(ipc::await_message(socket, 2000));
    if (!ipc::receive_message(socket, reply, 4096, files)) return {};
    return reply;
  }
  ipc::Answer answer_to(const ipc::Request& request) {
    ipc::Reply reply;
    if (!ipc::parse_reply(say(ipc::bytes_of(request)), reply)) return ipc::Answer::malformed;
    return reply.answer;
  }

  Peer peer_;
  ipc::Request good_;
};

TEST_F(Owner, LeasesNothingToRequestsThatMakeNoSense) {
  std::vector<std::uint8_t> message(ipc::bytes_of(good_).begin(), ipc::bytes_of(good_).end());
  std::mt19937 random(2);
  for (std::size_t i = 0; i < message.size(); ++i) {
    std::vector<std::uint8_t> bad = message;
    bad[i] ^= static_cast<std::uint8_t>(1U << random() % 8);
    const auto at = [&](std::size_t from, std::size_t count) {
      return i >= from && i < from + count;
    };
    // The number of a lease, the files that are wanted and those that are there are the sender's.
    if (at(offsetof(ipc::Request, lease), 8) || at(offsetof(ipc::Request, wants), 1) ||
        at(offsetof(ipc::Request, words), 8))
      continue;
    ipc::Reply reply;
    if (ipc::parse_reply(say(bad), reply)) {
      EXPECT_NE(reply.answer, ipc::Answer::granted) << i;
    }
  }
  for (std::size_t size = 1; size < message.size() + 40; size += 13) {
    if (size == message.size()) continue;
    std::vector<std::uint8_t> bad = message;
    bad.resize(size);
    ipc::Reply reply;
    if (ipc::parse_reply(say(bad), reply)) {
      EXPECT_NE(reply.answer, ipc::Answer::granted);
    }
  }
}

TEST_F(Owner, GivesNothingToAnotherProcessByName) {
  ipc::Request bad = good_;
  bad.start += 1;
  EXPECT_EQ(answer_to(bad), ipc::Answer::malformed) << "another process than the kernel says";
  bad = good_;
  bad.verb = ipc::Verb::forward;
  bad.record = Record();
  EXPECT_EQ(answer_to(bad), ipc::Answer::not_yours) << "a lease that there is not";
}

TEST_F(Owner, TakesALeasesNumberOnce) {
  EXPECT_EQ(answer_to(good_), ipc::Answer::granted);
  EXPECT_EQ(answer_to(good_), ipc::Answer::malformed);
  ipc::Request back = good_;
  back.verb = ipc::Verb::give_back;
  back.record = Record();
  (void)say(ipc::bytes_of(back));
  (void)say(ipc::bytes_of(back));
  EXPECT_EQ(peer_.ask("leases"), "0");
}

TEST_F(Owner, OutlivesThoseThatSayNothing) {
  std::vector<File> sockets(200);
  for (File& socket : sockets)
    EXPECT_EQ(ipc::connect_to(good_.record.process(), 100, socket), ipc::Met::yes);
  sockets.clear();
  EXPECT_TRUE(test::has_bytes(*ipc::receive(bytes(good_.record)), 1));
  while (peer_.ask("leases") != "0") {
  }
}

/// Whoever leases memory may write to its owner's words.
TEST(Words, ThatAHolderOverwritesHurtNobodyElse) {
  cuda::init();
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 5000 1"), "ok");
  ASSERT_EQ(owner.ask("hold"), "ok");
  ASSERT_EQ(owner.ask("write x 2"), "ok");  // behind the gate, so that there is a word to wait for
  ipc::Request request;
  request.record = record_of(test::to_handle(owner.ask("send x")));
  request.start = ipc::this_process().start;
  request.lease = 7;
  File socket;
  ASSERT_EQ(ipc::connect_to(request.record.process(), 2000, socket), ipc::Met::yes);
  ASSERT_TRUE(ipc::send_message(socket, ipc::bytes_of(request)));
  ASSERT_TRUE(ipc::await_message(socket, 2000));
  std::vector<std::uint8_t> bytes;
  std::vector<File> files;
  ipc::Reply reply;
  ASSERT_TRUE(ipc::receive_message(socket, bytes, 4096, files) && ipc::parse_reply(bytes, reply));
  ASSERT_EQ(reply.answer, ipc::Answer::granted);
  ASSERT_EQ(reply.files, ipc::kWordsFile);
  ASSERT_EQ(files.size(), 1U);
  Ref<ipc::WordsFile> words;
  ASSERT_TRUE(ipc::WordsFile::map(files[0], words).ok());
  std::mt19937_64 random(3);
  const auto overwrite = [&](auto&& number) {
    for (std::uint64_t cell = 0; cell < ipc::WordsFile::kCells; ++cell)
      for (std::size_t i = 0; i < ipc::WordsFile::kCellWords; ++i)
        words->cell(cell)[i].store(number());
  };
  for (const std::uint64_t number :
       {std::uint64_t{0}, ~std::uint64_t{0}, driver::kWordLost, driver::kWordLost - 1})
    overwrite([&] { return number; });
  for (int i = 0; i < 20; ++i) {
    overwrite(random);
    ASSERT_EQ(owner.ask("leases"), "1");
  }
  ASSERT_EQ(owner.ask("open"), "ok");
  EXPECT_EQ(owner.ask("check x 2"), "ok");
  // It shares its memory as before, for which it may take words that mean nothing any more.
  for (unsigned i = 0; i < 20; ++i) {
    if (i % 2 == 0) overwrite([&] { return ~std::uint64_t{0} - random() % 3; });
    ASSERT_EQ(owner.ask("make y cuda:0 5000 3"), "ok");
    const Ref<Storage> mine = ipc::receive(test::to_handle(owner.ask("send y")));
    EXPECT_TRUE(test::has_bytes(*mine, 3));
  }
  request.verb = ipc::Verb::give_back;
  request.record = ipc::Record();
  ASSERT_EQ(ipc::connect_to({owner.process(), ipc::start_of(owner.process())}, 2000, socket),
            ipc::Met::yes);
  ASSERT_TRUE(ipc::send_message(socket, ipc::bytes_of(request)));
  while (owner.ask("leases") != "0") {
  }
}

TEST(Folder, OfSomebodyElseIsRefused) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string before = runtime != nullptr ? runtime : "";
  char place[] = "/tmp/ember-test-XXXXXX";
  ASSERT_NE(mkdtemp(place), nullptr);
  setenv("XDG_RUNTIME_DIR", place, 1);
  const std::string folder = std::string(place) + "/ember";
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  File socket;
  const Status status = ipc::listen_here(ipc::this_process(), socket);
  EXPECT_EQ(status.code(), Code::not_permitted);
  EXPECT_NE(status.detail().find("closed to others (0700)"), std::string::npos) << status.detail();
  ASSERT_EQ(rmdir(folder.c_str()), 0);
  rmdir(place);
  if (runtime != nullptr)
    setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
  else
    unsetenv("XDG_RUNTIME_DIR");
}

TEST(Folder, IsSweptOfProcessesThatEnded) {
  int killed = 0;
  {
    Peer peer;
    ASSERT_EQ(peer.ask("make x cpu 5000 1"), "ok");
    ASSERT_NE(peer.ask("send x"), "killed");
    killed = peer.process();
    peer.kill_now();
  }
  test::Counts none = test::Counts::now();
  none.sockets = 0;  // this process's own one goes a while after the tests before
  EXPECT_EQ(test::await_counts(none), "") << killed;
}

// One descriptor is enough to list the folder, and too little to look whose the sockets are.
TEST(Folder, KeepsTheSocketsOfTheLivingWithoutDescriptors) {
  Peer peer;
  ASSERT_EQ(peer.ask("make x cpu 5000 1"), "ok");
  const ipc::Process owner = {peer.process(), ipc::start_of(peer.process())};
  const ipc::Handle handle = test::to_handle(peer.ask("send x"));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<File> taken;
  for (int i = 0; i < 3; ++i) taken.emplace_back(dup(0));
  const rlimit few = {static_cast<rlim_t>(taken.back().get()) + 1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int more = dup(0); more >= 0; more = dup(0)) taken.emplace_back(more);
  EXPECT_TRUE(ipc::exists(owner));
  taken.pop_back();
  ipc::sweep_sockets();
  EXPECT_TRUE(ipc::exists(owner));
  EXPECT_FALSE(ipc::exists({owner.id, owner.start + 1}));
  taken.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(test::has_bytes(*ipc::receive(handle), 1));
}

}  // namespace
}  // namespace ember
