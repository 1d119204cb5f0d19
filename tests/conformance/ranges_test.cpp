// Ranges of addresses, with memory behind them in chunks, of every driver.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/devices.h"

namespace ember::driver {
namespace {

using test::machine;

class Ranges : public testing::Test {
 protected:
  void SetUp() override {
    check(machine().device_activate(0));
    const Status status = machine().range_reserve(0, epoch(), 8 * kMiB, base_, unit_);
    if (status.code() == Code::not_supported) GTEST_SKIP() << status.text();
    check(status);
    chunk_ = unit_;
    ASSERT_LE(4 * chunk_, 8 * kMiB);
  }
  void TearDown() override {
    if (base_ == nullptr) return;
    cuda::synchronize(0);
    for (std::size_t i = 0; i < 4; ++i) (void)unmap(i);
    check(machine().range_release(0, epoch(), base_));
  }
  static std::uint32_t epoch() { return machine().device_epoch(0); }
  std::byte* at(std::size_t chunk) const { return static_cast<std::byte*>(base_) + chunk * chunk_; }
  Status map(std::size_t chunk) { return machine().range_map(0, epoch(), at(chunk), chunk_); }
  Status unmap(std::size_t chunk) { return machine().range_unmap(0, epoch(), at(chunk), chunk_); }
  static std::size_t free_bytes() {
    MemoryInfo info;
    check(machine().memory_info(0, info));
    return info.free;
  }
  std::vector<std::uint32_t> read(const std::byte* from, std::size_t count) {
    std::vector<std::uint32_t> values(count);
    cuda::copy(values.data(), from, 4 * count, stream_);
    return values;
  }

  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  const cuda::Stream stream_{0};
  void* base_ = nullptr;
  std::size_t unit_ = 0, chunk_ = 0;
};

TEST_F(Ranges, ChunksThatFollowEachOtherAreOneAllocation) {
  check(map(1));
  check(map(2));
  // The last word of the first one, and the first of the second.
  std::byte* const across = at(2) - 4;
  check(machine().fill(stream_.handle(), at(1), 7, 4, 2 * chunk_ / 4));
  launch(stream_, test::affine_kernel,
         test::AffineArgs{reinterpret_cast<std::uint32_t*>(across), 2, 10, 1});
  stream_.synchronize();
  EXPECT_EQ(read(across - 4, 4), (std::vector<std::uint32_t>{7, 71, 71, 7}));
  PointerInfo info;
  check(machine().pointer_info(across, info));
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.base, at(1));
  EXPECT_EQ(info.bytes, 2 * chunk_);
  check(machine().pointer_info(at(0), info));
  EXPECT_NE(info.kind, PointerInfo::Kind::device) << "there is no memory behind it";
}

// Another process gets the memory in pieces, and so can this one.
TEST_F(Ranges, OpenInPieces) {
  check(map(2));
  check(map(0));
  check(map(1));
  IpcExport exported;
  if (const Status status = machine().ipc_export_memory(at(0), exported);
      status.code() == Code::not_supported)
    GTEST_SKIP() << status.text();
  EXPECT_TRUE(exported.in_pieces);
  std::byte* const inside = at(0) + chunk_ - 400;
  const std::size_t bytes = chunk_ + 800;
  check(machine().fill(stream_.handle(), inside, 7, 4, bytes / 4));
  stream_.synchronize();
  std::vector<IpcPiece> pieces;
  std::size_t in_front = 0;
  check(machine().ipc_export_pieces(inside, bytes, pieces, in_front));
  EXPECT_EQ(in_front, chunk_ - 400);
  std::size_t total = 0;
  for (const IpcPiece& piece : pieces) total += piece.bytes;
  EXPECT_EQ(total, 3 * chunk_);
  void* opened = nullptr;
  check(machine().ipc_open_pieces(0, pieces, in_front, bytes, opened));
  auto* const there = static_cast<std::byte*>(opened);
  EXPECT_EQ(read(there + bytes - 4, 1), std::vector<std::uint32_t>{7});
  launch(stream_, test::affine_kernel,
         test::AffineArgs{reinterpret_cast<std::uint32_t*>(there + 396), 2, 10, 1});
  stream_.synchronize();
  EXPECT_EQ(read(inside + 392, 4), (std::vector<std::uint32_t>{7, 71, 71, 7}));
  EXPECT_EQ(machine().ipc_open_pieces(0, pieces, in_front, total, opened).code(),
            Code::invalid_value);
  EXPECT_EQ(machine().ipc_open_pieces(0, {}, 0, 1, opened).code(), Code::invalid_value);
  EXPECT_EQ(machine().ipc_export_pieces(inside, 4 * chunk_, pieces, in_front).code(),
            Code::invalid_value);
  int last = -1;
  for (const IpcPiece& piece : pieces)
    if (std::exchange(last, piece.file) != piece.file) (void)close(piece.file);
  check(machine().ipc_close_memory(0, there));
  EXPECT_EQ(machine().ipc_close_memory(0, there).code(), Code::invalid_value);
}

TEST_F(Ranges, MemoryComesAndGoesWithChunks) {
  const std::size_t before = free_bytes();
  check(map(0));
  check(map(3));
  EXPECT_GE(before - free_bytes(), 2 * chunk_);
  check(machine().fill(stream_.handle(), at(3), 9, 4, chunk_ / 4));
  stream_.synchronize();
  check(unmap(0));
  EXPECT_EQ(read(at(3), 1), std::vector<std::uint32_t>{9}) << "the other chunk stays as it is";
  check(unmap(3));
  EXPECT_EQ(free_bytes(), before);
  check(map(3));
  check(machine().fill(stream_.handle(), at(3), 5, 4, 1));
  EXPECT_EQ(read(at(3), 1), std::vector<std::uint32_t>{5});
}

TEST_F(Ranges, RefuseWhatIsNoChunk) {
  const auto refused = [](const Status& status) {
    EXPECT_EQ(status.code(), Code::invalid_value) << status.text();
  };
  Driver& driver = machine();
  refused(driver.range_map(0, epoch(), at(0), chunk_ / 2));
  refused(driver.range_map(0, epoch(), at(0) + chunk_ / 2, chunk_));
  refused(driver.range_map(0, epoch(), at(0), 8 * kMiB + chunk_));
  refused(driver.range_map(0, epoch(), at(0) + 8 * kMiB, chunk_));
  refused(driver.range_map(0, epoch(), at(0), 0));
  refused(driver.range_map(0, epoch(), &driver, chunk_));
  refused(unmap(0));
  check(map(0));
  refused(map(0));
  refused(driver.range_map(0, epoch(), at(0), 2 * chunk_));
  refused(driver.range_unmap(0, epoch(), at(0), 2 * chunk_));
  refused(driver.range_unmap(0, epoch(), at(0) + 512, chunk_));
  refused(driver.free(0, at(0)));
  refused(driver.range_release(0, epoch(), base_));
  refused(driver.range_release(0, epoch(), at(1)));
  void* range = nullptr;
  refused(driver.range_reserve(0, epoch(), 1000, range, unit_));
  refused(driver.range_reserve(0, epoch(), 0, range, unit_));
  EXPECT_EQ(range, nullptr);
}

TEST_F(Ranges, OfAnotherEpochAreRefused) {
  Driver& driver = machine();
  const std::uint32_t other = epoch() + 1;
  void* range = nullptr;
  check(map(0));
  EXPECT_EQ(driver.range_reserve(0, other, 8 * kMiB, range, unit_).code(),
            Code::context_is_destroyed);
  EXPECT_EQ(driver.range_map(0, other, at(1), chunk_).code(), Code::context_is_destroyed);
  EXPECT_EQ(driver.range_unmap(0, other, at(0), chunk_).code(), Code::context_is_destroyed);
  EXPECT_EQ(driver.range_release(0, other, base_).code(), Code::context_is_destroyed);
}

TEST_F(Ranges, RunOutOfMemoryAsAllocationsDo) {
  Driver& driver = machine();
  MemoryInfo info;
  check(driver.memory_info(0, info));
  const std::size_t bytes = (info.total + unit_ - 1) / unit_ * unit_;
  void* range = nullptr;
  std::size_t unit = 0;
  check(driver.range_reserve(0, epoch(), bytes, range, unit));
  EXPECT_EQ(driver.range_map(0, epoch(), range, bytes).code(), Code::out_of_memory)
      << "the context has some of it";
  check(driver.range_map(0, epoch(), range, unit));
  check(driver.range_unmap(0, epoch(), range, unit));
  check(driver.range_release(0, epoch(), range));
}

TEST_F(Ranges, ReachFurtherThanTheMemory) {
  Driver& driver = machine();
  MemoryInfo info;
  check(driver.memory_info(0, info));
  const std::size_t bytes = (info.total + unit_ - 1) / unit_ * unit_;
  std::vector<void*> ranges(3);
  for (void*& range : ranges) check(driver.range_reserve(0, epoch(), bytes, range, unit_));
  for (void* const range : ranges) check(driver.range_release(0, epoch(), range));
}

// A chunk needs no memory in one piece.
TEST_F(Ranges, UseMemoryFromWhereverThereIsSome) {
  if (!machine().simulated()) GTEST_SKIP() << "a real device does not say where its memory lies";
  Driver& driver = machine();
  std::vector<void*> pieces;
  const std::size_t bytes = std::max(4 * unit_, free_bytes() / 16);
  for (void* piece = nullptr; driver.malloc(0, bytes, piece).ok();) pieces.push_back(piece);
  ASSERT_GE(pieces.size(), 8U);
  for (std::size_t i = 0; i < pieces.size(); i += 2) check(driver.free(0, pieces[i]));
  const std::size_t wanted = 2 * bytes / unit_ * unit_;
  void* range = nullptr;
  check(driver.range_reserve(0, epoch(), wanted, range, unit_));
  check(driver.range_map(0, epoch(), range, wanted));
  check(driver.fill(stream_.handle(), range, 3, 4, wanted / 4));
  const auto* last = static_cast<std::byte*>(range) + wanted - 4;
  EXPECT_EQ(read(last, 1), std::vector<std::uint32_t>{3});
  check(driver.range_unmap(0, epoch(), range, wanted));
  check(driver.range_release(0, epoch(), range));
  for (std::size_t i = 1; i < pieces.size(); i += 2) check(driver.free(0, pieces[i]));
}

TEST_F(Ranges, AreCopiedToOtherDevicesWithoutAccess) {
  NEEDS_DEVICES(2);
  Driver& driver = machine();
  (void)driver.peer_disable(1, 0);
  (void)driver.peer_disable(0, 1);
  const test::Words<std::uint32_t> there(16, 1);
  check(map(0));
  check(map(1));
  std::byte* const across = at(1) - 32;
  check(driver.fill(stream_.handle(), across, 8, 4, 16));
  check(driver.copy(stream_.handle(), there.get(), across, 64, {1, driver.device_epoch(1)}));
  check(driver.stream_synchronize(stream_.handle()));
  EXPECT_EQ(there.read(), std::vector<std::uint32_t>(16, 8));
  const cuda::Stream other(1);
  check(driver.fill(other.handle(), there.get(), 6, 4, 16));
  check(driver.copy(other.handle(), across, there.get(), 64, {0, epoch()}));
  check(driver.stream_synchronize(other.handle()));
  EXPECT_EQ(read(across, 16), std::vector<std::uint32_t>(16, 6));
}

TEST_F(Ranges, PeersReachChunksFromBeforeAndAfter) {
  NEEDS_PEERS();
  Driver& driver = machine();
  (void)driver.peer_disable(1, 0);
  const cuda::Stream stream(1);
  check(map(0));
  check(driver.peer_enable(1, 0));
  check(map(1));
  check(driver.fill(stream_.handle(), at(0), 0, 4, 2 * chunk_ / 4));
  stream_.synchronize();
  launch(stream, test::affine_kernel,
         test::AffineArgs{reinterpret_cast<std::uint32_t*>(at(1) - 4), 2, 1, 6});
  stream.synchronize();
  EXPECT_EQ(read(at(1) - 4, 2), (std::vector<std::uint32_t>{6, 6}));
}

}  // namespace
}  // namespace ember::driver
