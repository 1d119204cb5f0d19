// What the driver for real GPUs does with CUDA's handles for other processes, on the fake CUDA.
#include <cstring>

#include "fake_machine.h"

namespace ember::driver {
namespace {

TEST_F(OnFakeCuda, OpensAnotherProcessesMemoryOnce) {
  auto* memory = static_cast<char*>(memory_on(0, 5000));
  IpcExport exported;
  ASSERT_TRUE(cuda().ipc_export_memory(memory + 700, exported).ok());
  EXPECT_EQ(exported.file, -1);
  EXPECT_EQ(exported.offset, 700U);
  EXPECT_EQ(exported.extent, 5000U);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_TRUE(cuda().ipc_open_memory(1, exported.handle, -1, 700, 100, first).ok());
  ASSERT_TRUE(cuda().ipc_open_memory(1, exported.handle, -1, 900, 4100, second).ok());
  EXPECT_EQ(fake().imports, 1);
  EXPECT_EQ(static_cast<char*>(second) - static_cast<char*>(first), 200);
  PointerInfo info;
  ASSERT_TRUE(cuda().pointer_info(first, info).ok());
  EXPECT_EQ(info.kind, PointerInfo::Kind::device);
  EXPECT_EQ(info.device, 1);
  EXPECT_EQ(info.bytes, 5000U);
  // It is not this process's: neither to be freed nor to be shared again.
  EXPECT_EQ(cuda().free(1, info.base).code(), Code::invalid_value);
  EXPECT_EQ(cuda().ipc_export_memory(first, exported).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().ipc_close_memory(1, first).ok());
  EXPECT_EQ(fake().imports, 1);
  EXPECT_TRUE(cuda().ipc_close_memory(1, second).ok());
  EXPECT_EQ(fake().imports, 0);
  EXPECT_EQ(cuda().ipc_close_memory(1, second).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().free(0, memory).ok());
}

TEST_F(OnFakeCuda, RefusesWhatLiesBeyondAnotherProcessesMemory) {
  void* memory = memory_on(0, 5000);
  IpcExport exported;
  ASSERT_TRUE(cuda().ipc_export_memory(memory, exported).ok());
  void* opened = nullptr;
  EXPECT_EQ(cuda().ipc_open_memory(0, exported.handle, -1, 0, 5001, opened).code(),
            Code::invalid_value);
  EXPECT_EQ(cuda().ipc_open_memory(0, exported.handle, -1, 5001, 1, opened).code(),
            Code::invalid_value);
  EXPECT_EQ(cuda().ipc_open_memory(0, exported.handle, -1, ~std::size_t{0}, 1, opened).code(),
            Code::invalid_value);
  EXPECT_EQ(fake().imports, 0);
  EXPECT_FALSE(cuda().ipc_open_memory(0, IpcHandle(), -1, 0, 1, opened).ok());
  char host[8];
  EXPECT_EQ(cuda().ipc_export_memory(host, exported).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().free(0, memory).ok());
}

TEST_F(OnFakeCuda, SaysHowMemoryCanBeShared) {
  using Way = MemorySharing::Way;
  constexpr int kFabric = 128, kDescriptor = 103, kRdma = 116;  // CUDA's numbers of attributes
  auto* memory = static_cast<char*>(memory_on(0, 5000));
  MemorySharing found;
  ASSERT_TRUE(cuda().memory_sharing(memory + 700, found).ok());
  EXPECT_EQ(found.legacy_ipc, Way::yes);
  EXPECT_EQ(found.fd, Way::other_memory);
  EXPECT_EQ(found.fabric, Way::other_memory);
  EXPECT_EQ(found.rdma, Way::yes);
  fake().handle_types = 1 | 8;
  ASSERT_TRUE(cuda().memory_sharing(memory, found).ok());
  EXPECT_EQ(found.fd, Way::yes);
  EXPECT_EQ(found.fabric, Way::yes);
  fake().handle_types = 0;
  for (const int attribute : {kFabric, kDescriptor}) {
    fake().absent_attribute = attribute;
    ASSERT_TRUE(cuda().memory_sharing(memory, found).ok());
    EXPECT_EQ(found.fabric, attribute == kFabric ? Way::no : Way::other_memory);
    EXPECT_EQ(found.fd, attribute == kDescriptor ? Way::no : Way::other_memory);
  }
  // A chunk is no memory of cuMemAlloc.
  constexpr std::size_t kUnit = std::size_t{2} << 20;
  fake().largest_allocation = kUnit;
  void* base = nullptr;
  std::size_t unit = 0;
  ASSERT_TRUE(cuda().range_reserve(0, 0, kUnit, base, unit).ok());
  ASSERT_TRUE(cuda().range_map(0, 0, base, kUnit).ok());
  for (const int attribute : {0, kRdma}) {
    fake().absent_attribute = attribute;
    ASSERT_TRUE(cuda().memory_sharing(static_cast<char*>(base) + 5, found).ok());
    EXPECT_EQ(found.legacy_ipc, Way::other_memory);
    EXPECT_EQ(found.rdma, attribute == kRdma ? Way::no : Way::other_memory);
  }
  EXPECT_TRUE(cuda().range_unmap(0, 0, base, kUnit).ok());
  EXPECT_EQ(cuda().memory_sharing(base, found).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().range_release(0, 0, base).ok());
  // What another process's memory allows is for that one to say.
  IpcExport exported;
  void* opened = nullptr;
  ASSERT_TRUE(cuda().ipc_export_memory(memory, exported).ok());
  ASSERT_TRUE(cuda().ipc_open_memory(1, exported.handle, -1, 0, 5000, opened).ok());
  fake().handle_types = 1;
  ASSERT_TRUE(cuda().memory_sharing(opened, found).ok());
  EXPECT_EQ(found.legacy_ipc, Way::other_memory);
  EXPECT_EQ(found.fd, Way::other_memory);
  EXPECT_TRUE(cuda().ipc_close_memory(1, opened).ok());
  char host[8];
  EXPECT_EQ(cuda().memory_sharing(host, found).code(), Code::invalid_value);
  EXPECT_TRUE(cuda().free(0, memory).ok());
}

TEST_F(OnFakeCuda, SharesInterprocessEvents) {
  EventHandle event;
  ASSERT_TRUE(cuda().event_create(0, {.interprocess = true}, event).ok());
  IpcHandle handle;
  ASSERT_TRUE(cuda().ipc_export_event(event, handle).ok());
  EventHandle opened;
  ASSERT_TRUE(cuda().ipc_open_event(1, handle, opened).ok());
  EXPECT_EQ(opened.device, 1);
  EXPECT_TRUE(cuda().event_destroy(opened).ok());
  EXPECT_TRUE(cuda().event_destroy(event).ok());
  const EventHandle plain = event_on(0);
  EXPECT_FALSE(cuda().ipc_export_event(plain, handle).ok());
}

TEST_F(OnFakeCuda, WritesAndAwaitsWords) {
  alignas(4096) static Word words[512];
  ASSERT_TRUE(cuda().words_open(words, sizeof words).ok());
  EXPECT_TRUE(cuda().word_write(kDefault, &words[3], 7).ok());
  EXPECT_EQ(words[3].load(), 7U);
  EXPECT_TRUE(cuda().word_wait(kDefault, &words[3], 7, {}).ok());
  EXPECT_TRUE(cuda().words_close(words).ok());
  EXPECT_EQ(cuda().words_close(words).code(), Code::host_memory_not_registered);
}

}  // namespace
}  // namespace ember::driver
