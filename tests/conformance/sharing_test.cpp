// What the seam offers for sharing between processes, within one: the tests between processes are
// in tests/ipc.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/support/devices.h"

namespace ember::driver {
namespace {

using test::Gate;
using test::machine;

/// Memory of the kind that processes share, opened for words.
class SeamWords : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    words_ = static_cast<Word*>(memory);
    const Status status = machine().words_open(memory, kBytes);
    if (status.code() == Code::not_supported) GTEST_SKIP() << status.text();
    check(status);
  }
  void TearDown() override {
    EXPECT_TRUE(machine().words_close(words_).ok());
    (void)munmap(words_, kBytes);
  }

  static constexpr std::size_t kBytes = 4096;
  Word* words_ = nullptr;
};

TEST_F(SeamWords, OrderTheWorkOfTwoStreams) {
  const cuda::Stream first(0);
  const cuda::Stream second(0);
  {
    Gate gate(first);
    check(machine().word_write(first.handle(), &words_[1], 5));
    check(machine().word_wait(second.handle(), &words_[1], 5, {}));
    check(machine().word_write(second.handle(), &words_[2], 1));
    EXPECT_FALSE(second.query());
    EXPECT_EQ(words_[1].load(), 0U);
  }
  second.synchronize();
  EXPECT_EQ(words_[1].load(), 5U);
  EXPECT_EQ(words_[2].load(), 1U);
}

TEST_F(SeamWords, AWaitForWhatIsThereAlreadyDoesNotWait) {
  const cuda::Stream stream(0);
  words_[0].store(9);
  check(machine().word_wait(stream.handle(), &words_[0], 3, {}));
  check(machine().word_wait(stream.handle(), &words_[0], 9, {}));
  stream.synchronize();
  EXPECT_EQ(words_[0].load(), 9U);
}

TEST_F(SeamWords, AreOwnedUntilTheWaitIsOver) {
  if (!machine().simulated()) GTEST_SKIP() << "a device looks at the word itself";
  struct Kept : Context {
    explicit Kept(std::atomic<bool>& gone) : gone_(gone) {}
    ~Kept() override { gone_ = true; }
    std::atomic<bool>& gone_;
  };
  std::atomic<bool> gone{false};
  const cuda::Stream first(0);
  const cuda::Stream second(0);
  Gate gate(first);
  check(machine().word_write(first.handle(), &words_[0], 1));
  check(machine().word_wait(second.handle(), &words_[0], 1, Ref<const Context>(new Kept(gone))));
  EXPECT_FALSE(gone);
  gate.open();
  second.synchronize();
  EXPECT_TRUE(gone);
}

TEST_F(SeamWords, WaitsEndWithAReset) {
  if (!machine().simulated()) GTEST_SKIP() << "CUDA does not reset a device that waits";
  const cuda::Stream stream(0);
  check(machine().word_wait(stream.handle(), &words_[0], 1, {}));
  EXPECT_FALSE(stream.query());
  cuda::reset_device(0);
}

TEST_F(SeamWords, ThatAreLostAreAFault) {
  if (!machine().simulated()) GTEST_SKIP() << "on a real device the wait just ends";
  const cuda::Stream stream(0);
  check(machine().word_wait(stream.handle(), &words_[0], 1, {}));
  words_[0].store(kWordLost);
  EXPECT_ERROR(stream.synchronize(), AcceleratorError, "wait for another process");
  cuda::reset_device(0);
}

TEST_F(SeamWords, OfDroppedWorkAreLost) {
  if (!machine().simulated()) GTEST_SKIP() << "CUDA says nothing of it";
  const cuda::Stream stream(0);
  Gate gate(stream);
  gate.await_running();
  check(machine().word_write(stream.handle(), &words_[0], 1));
  std::thread opener([&] {
    while (machine().device_epoch(0) == stream.handle().epoch) std::this_thread::yield();
    gate.open();
  });
  cuda::reset_device(0);
  opener.join();
  EXPECT_EQ(words_[0].load(), kWordLost);
}

TEST(SeamSharing, NamesMemoryAndRefusesWhatIsNone) {
  Driver& driver = machine();
  void* memory = nullptr;
  check(driver.malloc(0, 100000, memory));
  auto* bytes = static_cast<std::byte*>(memory);
  IpcExport first;
  IpcExport inside;
  const Status status = driver.ipc_export_memory(memory, first);
  if (status.ok()) {
    check(driver.ipc_export_memory(bytes + 1234, inside));
    EXPECT_EQ(inside.offset, first.offset + 1234);
  } else {
    EXPECT_EQ(status.code(), Code::not_supported) << status.text();
  }
  char host[16];
  EXPECT_EQ(driver.ipc_export_memory(host, inside).code(), Code::invalid_value);
  EXPECT_EQ(driver.ipc_close_memory(0, memory).code(), Code::invalid_value);
  EXPECT_EQ(driver.ipc_close_memory(1000, memory).code(), Code::invalid_device);
  check(driver.free(0, memory));
}

TEST(SeamSharing, OpensAPieceOfAFileAsMemoryOfADevice) {
  Driver& driver = machine();
  if (!driver.simulated()) GTEST_SKIP() << "CUDA opens memory of other processes only";
  void* memory = nullptr;
  check(driver.malloc(0, 100000, memory));
  IpcExport exported;
  check(driver.ipc_export_memory(memory, exported));
  void* again = nullptr;
  check(driver.ipc_open_memory(0, exported.handle, exported.file, exported.offset, 5000, again));
  const cuda::Stream stream(0);
  check(driver.fill(stream.handle(), again, 7, 1, 5000));
  EXPECT_EQ(driver.fill(stream.handle(), again, 7, 1, 5001).code(), Code::invalid_value);
  stream.synchronize();
  unsigned char found[2] = {};
  cuda::copy(found, static_cast<std::byte*>(memory) + 4999, 1, stream);
  EXPECT_EQ(found[0], 7);
  EXPECT_EQ(driver.free(0, again).code(), Code::invalid_value)
      << "it is not this process's to free";
  check(driver.ipc_close_memory(0, again));
  EXPECT_EQ(driver.ipc_close_memory(0, again).code(), Code::invalid_value);
  EXPECT_EQ(driver.fill(stream.handle(), again, 7, 1, 1).code(), Code::invalid_value);
  // Files that could take the memory away again, or that have less, are refused.
  EXPECT_EQ(driver.ipc_open_memory(0, {}, exported.file, ~std::size_t{0}, 1, again).code(),
            Code::invalid_value);
  EXPECT_EQ(driver.ipc_open_memory(0, {}, exported.file, 0, std::size_t{1} << 50, again).code(),
            Code::invalid_value);
  EXPECT_FALSE(driver.ipc_open_memory(0, {}, -1, 0, 100, again).ok());
  const int plain = memfd_create("unsealed", MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(plain, 4096), 0);
  EXPECT_EQ(driver.ipc_open_memory(0, {}, plain, 0, 100, again).code(), Code::invalid_value);
  close(plain);
  check(driver.free(0, memory));
}

// Memory can be shared exactly in the ways that are said of it.
TEST(SeamMemory, SaysHowItCanBeShared) {
  using Way = MemorySharing::Way;
  Driver& driver = machine();
  void* memory = nullptr;
  check(driver.malloc(0, 5000, memory));
  MemorySharing found;
  check(driver.memory_sharing(static_cast<std::byte*>(memory) + 4999, found));
  IpcExport exported;
  const Status status = driver.ipc_export_memory(memory, exported);
  EXPECT_EQ(found.legacy_ipc == Way::yes || found.fd == Way::yes, status.ok()) << status.text();
  if (driver.simulated()) {
    EXPECT_EQ(found.legacy_ipc, Way::no);
    EXPECT_EQ(found.fabric, Way::no);
    EXPECT_EQ(found.rdma, Way::no);
  }
  check(driver.free(0, memory));
  EXPECT_EQ(driver.memory_sharing(memory, found).code(), Code::invalid_value);
  EXPECT_EQ(driver.memory_sharing(&memory, found).code(), Code::invalid_value);
  EXPECT_EQ(driver.memory_sharing(nullptr, found).code(), Code::invalid_value);
  const test::Pinned<int> pinned(4);
  EXPECT_EQ(driver.memory_sharing(pinned.get(), found).code(), Code::invalid_value);
  // A chunk of a range in pieces.
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  void* base = nullptr;
  std::size_t unit = 0;
  const std::uint32_t epoch = driver.device_epoch(0);
  if (driver.range_reserve(0, epoch, kBytes, base, unit).code() == Code::not_supported) return;
  check(driver.range_map(0, epoch, base, kBytes));
  MemorySharing of_chunk;
  check(driver.memory_sharing(base, of_chunk));
  EXPECT_NE(of_chunk.legacy_ipc, Way::yes);
  const Status of_range = driver.ipc_export_memory(base, exported);
  EXPECT_EQ(of_chunk.fd == Way::yes, of_range.ok() && exported.in_pieces) << of_range.text();
  check(driver.range_unmap(0, epoch, base, kBytes));
  check(driver.range_release(0, epoch, base));
}

}  // namespace
}  // namespace ember::driver
