// The host code of the CUDA driver: ranges of addresses and their chunks.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fake_machine.h"

namespace ember::driver {
namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;
std::string hex(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%zx", reinterpret_cast<std::size_t>(pointer));
  return text;
}

constexpr int kNoMemory = 2, kInvalid = 1;  // CUDA's numbers

class RangesOnFakeCuda : public OnFakeCuda {
 protected:
  void SetUp() override {
    OnFakeCuda::SetUp();
    fake().largest_allocation = 16 * kUnit;
    std::size_t unit = 0;
    ASSERT_TRUE(cuda().range_reserve(0, 0, 8 * kUnit, base_, unit).ok());
    ASSERT_EQ(unit, kUnit);
  }
  /// The fake is one for all tests: what this one left ends with its epoch.
  void TearDown() override { EXPECT_TRUE(cuda().device_reset(0).ok()); }
  void* at(std::size_t chunk) const { return static_cast<std::byte*>(base_) + chunk * kUnit; }
  Status map(std::size_t chunk) { return cuda().range_map(0, 0, at(chunk), kUnit); }
  Status unmap(std::size_t chunk) { return cuda().range_unmap(0, 0, at(chunk), kUnit); }
  void fail(const char* call, int result) {
    fake().failing_call = call;
    fake().next_failure = result;
  }
  void* base_ = nullptr;
};

// As when a pool has slept: whoever could reach the memory before, can.
TEST_F(RangesOnFakeCuda, ChunksComeBackWithTheAccessOfPeers) {
  ASSERT_TRUE(map(0).ok());
  ASSERT_TRUE(cuda().peer_enable(1, 0).ok());
  ASSERT_TRUE(unmap(0).ok());
  EXPECT_EQ(fake().chunks, 0);
  const int before = fake().access_set;
  ASSERT_TRUE(map(0).ok());
  EXPECT_EQ(fake().access_set, before + 2) << "the device, and its peer";
  EXPECT_EQ(fake().chunks, 1);
}

TEST_F(RangesOnFakeCuda, OpenInPieces) {
  ASSERT_TRUE(map(0).ok());
  ASSERT_TRUE(map(1).ok());
  ASSERT_TRUE(map(2).ok());
  IpcExport exported;
  EXPECT_EQ(cuda().ipc_export_memory(at(1), exported).code(), Code::not_supported)
      << "the memory was made without descriptors";
  fake().handle_types = 1;
  ASSERT_TRUE(cuda().ipc_export_memory(at(1), exported).ok());
  EXPECT_TRUE(exported.in_pieces);
  auto* const inside = static_cast<std::byte*>(at(1)) - 300;
  std::vector<IpcPiece> pieces;
  std::size_t in_front = 0;
  for (const char* call : {"cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"}) {
    fail(call, kInvalid);
    EXPECT_FALSE(cuda().ipc_export_pieces(inside, 500, pieces, in_front).ok());
  }
  EXPECT_EQ(cuda().ipc_export_pieces(inside, 3 * kUnit, pieces, in_front).code(),
            Code::invalid_value);
  ASSERT_TRUE(cuda().ipc_export_pieces(inside, 500, pieces, in_front).ok());
  ASSERT_EQ(pieces.size(), 2U) << "the third chunk has none of it";
  EXPECT_EQ(in_front, kUnit - 300);
  void* opened = nullptr;
  for (const char* call : {"cuMemAddressReserve", "cuMemImportFromShareableHandle", "cuMemMap",
                           "cuMemSetAccess", "cuMemGetAllocationGranularity"}) {
    fail(call, kNoMemory);
    EXPECT_EQ(cuda().ipc_open_pieces(1, pieces, in_front, 500, opened).code(), Code::out_of_memory)
        << call;
    EXPECT_EQ(fake().ranges, 1) << call;
    EXPECT_EQ(fake().chunks, 3) << call;
  }
  EXPECT_EQ(cuda().ipc_open_pieces(1, pieces, in_front, kUnit + 301, opened).code(),
            Code::invalid_value);
  ASSERT_TRUE(cuda().ipc_open_pieces(1, pieces, in_front, 500, opened).ok());
  EXPECT_EQ(fake().ranges, 2);
  EXPECT_EQ(fake().chunks, 5);
  PointerInfo info;
  ASSERT_TRUE(cuda().pointer_info(opened, info).ok());
  EXPECT_EQ(info.device, 1);
  EXPECT_EQ(static_cast<std::byte*>(opened) - static_cast<std::byte*>(info.base),
            static_cast<std::ptrdiff_t>(in_front));
  EXPECT_EQ(cuda().ipc_close_memory(0, opened).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().ipc_close_memory(1, opened).ok());
  EXPECT_EQ(cuda().ipc_close_memory(1, opened).code(), Code::invalid_value);
  EXPECT_EQ(fake().ranges, 1);
  EXPECT_EQ(fake().chunks, 3);
  // With a reset it goes, and is closed all the same.
  ASSERT_TRUE(cuda().ipc_open_pieces(1, pieces, in_front, 500, opened).ok());
  EXPECT_TRUE(cuda().device_reset(1).ok());
  EXPECT_EQ(fake().ranges, 1);
  EXPECT_TRUE(cuda().ipc_close_memory(1, opened).ok());
  for (const IpcPiece& piece : pieces) (void)close(piece.file);
  fake().handle_types = 0;
}

TEST_F(RangesOnFakeCuda, ChunksComeAndGo) {
  EXPECT_EQ(fake().ranges, 1);
  ASSERT_TRUE(map(0).ok());
  ASSERT_TRUE(map(1).ok());
  EXPECT_EQ(fake().chunks, 2);
  PointerInfo info;
  ASSERT_TRUE(cuda().pointer_info(static_cast<std::byte*>(at(1)) + 5, info).ok());
  EXPECT_EQ(info.base, base_);
  EXPECT_EQ(info.bytes, 2 * kUnit);
  EXPECT_EQ(info.device, 0);
  expect(cuda().range_release(0, 0, base_), Code::invalid_value,
         "the range at " + hex(base_) + " still has memory behind it");
  EXPECT_TRUE(unmap(0).ok());
  EXPECT_EQ(unmap(0).code(), Code::invalid_value);
  EXPECT_TRUE(unmap(1).ok());
  EXPECT_EQ(fake().chunks, 0);
  EXPECT_TRUE(cuda().range_release(0, 0, base_).ok());
  EXPECT_EQ(fake().ranges, 0);
  EXPECT_EQ(cuda().range_release(0, 0, base_).code(), Code::invalid_value);
}

TEST_F(RangesOnFakeCuda, AFailedCallChangesNothing) {
  for (const char* const call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    fail(call, kNoMemory);
    EXPECT_EQ(map(0).code(), Code::out_of_memory) << call;
    EXPECT_EQ(fake().chunks, 0) << call;
    PointerInfo info;
    ASSERT_TRUE(cuda().pointer_info(base_, info).ok());
    EXPECT_EQ(info.kind, PointerInfo::Kind::unregistered) << call;
    EXPECT_TRUE(map(0).ok()) << call;
    fail("cuMemUnmap", kInvalid);
    EXPECT_EQ(unmap(0).code(), Code::invalid_value) << call;
    EXPECT_EQ(fake().chunks, 1) << call;
    EXPECT_TRUE(unmap(0).ok()) << call;
  }
  fail("cuMemAddressFree", kInvalid);
  EXPECT_EQ(cuda().range_release(0, 0, base_).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().range_release(0, 0, base_).ok());
  for (const char* const call : {"cuMemGetAllocationGranularity", "cuMemAddressReserve"}) {
    fail(call, kNoMemory);
    std::size_t unit = 0;
    EXPECT_EQ(cuda().range_reserve(0, 0, kUnit, base_, unit).code(), Code::out_of_memory);
    EXPECT_EQ(unit, 0U);
  }
  EXPECT_EQ(fake().ranges, 0);
}

TEST_F(RangesOnFakeCuda, PeersReachChunksFromBeforeAndAfter) {
  ASSERT_TRUE(map(0).ok());
  EXPECT_EQ(fake().access_set, 1) << "the device's own";
  ASSERT_TRUE(cuda().peer_enable(1, 0).ok());
  EXPECT_EQ(fake().access_set, 2) << "the chunk that there is";
  ASSERT_TRUE(cuda().peer_enable(1, 0).ok());
  EXPECT_EQ(fake().access_set, 2) << "it has it already";
  ASSERT_TRUE(map(1).ok());
  EXPECT_EQ(fake().access_set, 4) << "both devices'";
  ASSERT_TRUE(cuda().peer_disable(1, 0).ok());
  EXPECT_EQ(fake().access_set, 6) << "taken back of both chunks";
  ASSERT_TRUE(map(2).ok());
  EXPECT_EQ(fake().access_set, 7);
  fail("cuMemSetAccess", kInvalid);
  EXPECT_EQ(cuda().peer_enable(1, 0).code(), Code::invalid_value);
  EXPECT_EQ(cuda().peer_disable(1, 0).code(), Code::peer_access_not_enabled)
      << "what failed was taken back";
}

// For memory of cuMemAlloc CUDA finds a way by itself.
TEST_F(RangesOnFakeCuda, CopiesToOtherDevicesSayWhoseMemoryItIs) {
  ASSERT_TRUE(map(0).ok());
  const StreamHandle stream = stream_on(0);
  void* const here = memory_on(0, 64);
  void* const there = memory_on(1, 64);
  ASSERT_TRUE(cuda().copy(stream, there, here, 64).ok());
  ASSERT_TRUE(cuda().copy(stream, at(0), here, 64).ok());
  EXPECT_EQ(fake().peer_copies, 0);
  ASSERT_TRUE(cuda().copy(stream, there, at(0), 64).ok());
  ASSERT_TRUE(cuda().copy(stream, at(0), there, 64).ok());
  EXPECT_EQ(fake().peer_copies, 2);
  char ordinary[64] = {};
  ASSERT_TRUE(cuda().copy(stream, at(0), ordinary, 64).ok());
  EXPECT_EQ(fake().peer_copies, 2);
}

TEST_F(RangesOnFakeCuda, EndWithAReset) {
  ASSERT_TRUE(map(0).ok());
  ASSERT_TRUE(cuda().device_reset(0).ok());
  EXPECT_EQ(fake().chunks, 0);
  EXPECT_EQ(fake().ranges, 0);
  EXPECT_EQ(map(1).code(), Code::context_is_destroyed);
  EXPECT_EQ(unmap(0).code(), Code::context_is_destroyed);
  EXPECT_EQ(cuda().range_release(0, 0, base_).code(), Code::context_is_destroyed);
}

}  // namespace
}  // namespace ember::driver
