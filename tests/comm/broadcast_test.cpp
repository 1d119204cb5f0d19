#include "tests/comm/support.h"

namespace ember::test {
namespace {

using Broadcast = OnDevices;

// Below and above what is copied by a kernel, and what travels in chunks.
constexpr std::int64_t kLarge = (std::int64_t{3} << 20) + 7;

TEST_P(Broadcast, EveryDeviceGetsTheTensor) {
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, std::int64_t{100001}, kLarge})
    for (int root = 0; root < count(); ++root) {
      const Tensor source = numbers({size}, float32, cuda_device(root), root);
      const auto copies = comm::broadcast(source, first_devices(count()));
      ASSERT_EQ(copies.size(), static_cast<std::size_t>(count()));
      for (int device = 0; device < count(); ++device) {
        const Tensor& copy = copies[static_cast<std::size_t>(device)];
        EXPECT_EQ(copy.get_device(), device);
        EXPECT_EQ(copy.is(source), device == root);
        expect_equal(copy, source, std::to_string(size) + " to " + std::to_string(device));
      }
    }
}

// From ordinary, pinned and device memory, every dtype arrives unchanged on every device.
TEST_P(Broadcast, AllDtypesAndTheCpu) {
  for (const Dtype dtype : all_dtypes())
    for (const bool pinned : {false, true}) {
      const Tensor plain = numbers({5, 7}, dtype, Device::Type::cpu, 3);
      const Tensor source = pinned ? plain.pin_memory() : plain;
      for (const Tensor& copy : comm::broadcast(source, first_devices(count())))
        expect_equal(copy, source, dtype_name(dtype));
      const Tensor there = source.to(cuda_device(0));
      for (const Tensor& copy : comm::broadcast(there, first_devices(count())))
        expect_equal(copy, source, dtype_name(dtype));
    }
}

// Copies have the strides of a dense source, and the shape and values of any other.
TEST_P(Broadcast, MemoryFormatIsKept) {
  const Tensor packed = numbers({2, 4, 5, 3}, float32, cuda_device(0), 1);
  const Tensor channels_last = packed.permute({0, 3, 1, 2});
  const Tensor transposed = numbers({6, 5}, float32, cuda_device(0), 2).t();
  const Tensor gaps = numbers({6, 8}, float32, cuda_device(0), 3).slice(1, 0, {}, 2);
  const Tensor expanded = numbers({1, 8}, float32, cuda_device(0), 4).expand({3, 8});
  const Tensor point = numbers({}, float64, cuda_device(0), 5);
  for (const Tensor& source : {channels_last, transposed, gaps, expanded, point}) {
    const auto copies = comm::broadcast(source, first_devices(count()));
    for (const Tensor& copy : copies) {
      expect_equal(copy, source, source.strides().str());
      if (copy.is(source)) continue;
      if (&source == &channels_last || source.dim() == 4) {
        EXPECT_EQ(copy.strides(), source.strides());
      } else {
        EXPECT_TRUE(copy.is_contiguous());
      }
    }
  }
}

// Given outputs are what comes back, whatever their strides.
TEST_P(Broadcast, IntoOutputs) {
  for (const std::int64_t size : {std::int64_t{40}, kLarge * 2}) {
    const Tensor source = numbers({2, size / 2}, float32, cuda_device(0), 1);
    std::vector<Tensor> out;
    for (int device = 0; device < count(); ++device)
      out.push_back(zeros({2, size / 2}, cuda_device(device)));
    out.push_back(zeros({size / 2, 2}, cuda_device(count() - 1)).t());
    const auto same = comm::broadcast(source, {}, out);
    ASSERT_EQ(same.size(), out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(same[i].is(out[i]));
      expect_equal(out[i], source, "out " + std::to_string(i));
    }
  }
}

TEST_P(Broadcast, DevicesMayRepeat) {
  const int last = count() - 1;
  const Tensor source = numbers({300}, int64, cuda_device(0), 1);
  const auto copies = comm::broadcast(source, std::vector<int>{last, 0, last});
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_TRUE(copies[1].is(source));
  EXPECT_EQ(copies[0].data_ptr() == copies[2].data_ptr(), last == 0);
  for (const Tensor& copy : copies) expect_equal(copy, source, "repeated");
}

// Many tensors of mixed dtypes and shapes are the same whatever the size of the buffer.
TEST_P(Broadcast, Coalesced) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 60; ++i) {
    const Dtype dtype = i % 3 == 0 ? float32 : i % 3 == 1 ? int64 : bool_;
    tensors.push_back(numbers({i % 7, 3 + i % 5}, dtype, cuda_device(0), i));
  }
  tensors.push_back(numbers({8, 6}, float32, cuda_device(0), 9).t());
  tensors.push_back(numbers({}, float32, cuda_device(0), 10));
  tensors.push_back(numbers({(std::int64_t{3} << 20) + 1}, float32, cuda_device(0), 11));
  tensors.push_back(numbers({0}, complex64, cuda_device(0), 12));
  for (const std::size_t buffer : {std::size_t{1}, std::size_t{200}, comm::kBufferSize}) {
    const auto lists = comm::broadcast_coalesced(tensors, first_devices(count()), buffer);
    ASSERT_EQ(lists.size(), static_cast<std::size_t>(count()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(lists[0][i].is(tensors[i]));
      for (int device = 1; device < count(); ++device) {
        const Tensor& copy = lists[static_cast<std::size_t>(device)][i];
        EXPECT_EQ(copy.get_device(), device);
        expect_equal(copy, tensors[i], "tensor " + std::to_string(i));
      }
    }
  }
  EXPECT_EQ(comm::broadcast_coalesced({}, first_devices(count())).size(),
            static_cast<std::size_t>(count()));
}

// 500 small tensors take one packing kernel and a copy for each target, not 500.
TEST_P(Broadcast, SmallTensorsTravelTogether) {
  NEEDS_CACHING();
  if (count() < 2) GTEST_SKIP() << "nothing to send to one device";
  std::vector<Tensor> tensors;
  for (int i = 0; i < 500; ++i) tensors.push_back(numbers({1000 + i}, float32, cuda_device(0), i));
  // Once before, for the events and streams that are made at their first use.
  auto lists = comm::broadcast_coalesced(tensors, first_devices(count()));
  {
    const Counts counts;
    lists = comm::broadcast_coalesced(tensors, first_devices(count()));
    // One kernel packs them. Then 2.5 MB go out.
    EXPECT_EQ(counts[Counts::Kind::kernel_launched], 1);
    EXPECT_EQ(counts[Counts::Kind::copied], count() - 1);
    // A vector on each device.
    EXPECT_EQ(counts[Counts::Kind::memory_allocated], count());
    EXPECT_EQ(counts[Counts::Kind::event_created], 0);
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{250}, std::size_t{499}})
    expect_equal(lists.back()[i], tensors[i], "tensor " + std::to_string(i));
}

TEST_P(Broadcast, OfOneSmallTensorIsOneKernelPerTarget) {
  NEEDS_CACHING();
  if (count() < 2) GTEST_SKIP() << "nothing to send to one device";
  const Tensor source = numbers({1000}, float32, cuda_device(0), 1);
  auto copies = comm::broadcast(source, first_devices(count()));
  {
    const Counts counts;
    copies = comm::broadcast(source, first_devices(count()));
    const int targets = count() - 1;
    EXPECT_EQ(counts[Counts::Kind::kernel_launched], targets);
    EXPECT_EQ(counts[Counts::Kind::copied], 0);
    EXPECT_EQ(counts[Counts::Kind::memory_allocated], targets);
    EXPECT_EQ(counts[Counts::Kind::event_created], 0);
    // The targets wait for the source, and the source's stream for each of them.
    EXPECT_EQ(counts[Counts::Kind::event_recorded], 1 + targets);
    EXPECT_EQ(counts[Counts::Kind::event_waited], 2 * targets);
  }
  expect_equal(copies.back(), source, "copy");
}

INSTANTIATE_TEST_SUITE_P(Devices, Broadcast, ::testing::Range(1, 5));

}  // namespace
}  // namespace ember::test
