// Chapter 6: every rule by its words.
#include "tests/comm/support.h"

namespace ember::test {
namespace {

// Each refused call has torch's text and exception.
TEST(BroadcastErrors, Words) {
  NEEDS_DEVICES(1);
  const Tensor t = ones({2, 3}, "cuda:0");
  EXPECT_ERROR(comm::broadcast(t, {}), Error,
               "Exactly one of 'devices' and 'out' must be specified, but got devices=None and "
               "out=None");
  EXPECT_ERROR(comm::broadcast(t, {0}, std::vector<Tensor>{t}), Error,
               "Exactly one of 'devices' and 'out' must be specified, but got devices=[0] and "
               "out=[1 tensors]");
  EXPECT_ERROR(comm::broadcast(t, {0, -1}), Error,
               "Expected non-negative device index, but got -1");
  EXPECT_ERROR(comm::broadcast(t, {0, 99}), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(comm::broadcast(t, {"cuda"}), ValueError,
               "Expected a torch.device with a specified index or an integer, but got:cuda");
  EXPECT_ERROR(comm::broadcast(t, {"cpu"}), ValueError, "Expected a cuda device, but got: cpu");
  EXPECT_ERROR(comm::broadcast(t, {}, std::vector<Tensor>{t, ones({2, 3})}), Error,
               "Expected all output tensors to be CUDA tensors, but output tensor at index 1 has "
               "device 'cpu'");
  EXPECT_ERROR(comm::broadcast(t, {}, std::vector<Tensor>{ones({3, 2}, "cuda:0")}), Error,
               "Expected all output tensors to have same shape as the source tensor [2, 3], but "
               "output tensor at index 0 has shape [3, 2]");
  EXPECT_ERROR(comm::broadcast_coalesced({t, ones({1})}, {0}), Error,
               "All tensors must be on devices[0]: 0");
  EXPECT_ERROR(comm::broadcast_coalesced({ones({1})}, {-1}), Error,
               "Expected non-negative device index, but got -1");
  EXPECT_ERROR(comm::broadcast(t, {0, std::int64_t{1} << 40}), AcceleratorError,
               "device 1099511627776 was asked for");
}

// Each refused call has torch's text and exception.
TEST(ReduceAddErrors, Words) {
  NEEDS_DEVICES(1);
  const Tensor t = ones({2, 3}, "cuda:0");
  EXPECT_ERROR(comm::reduce_add({}), ValueError, "expected at least one tensor");
  EXPECT_ERROR(comm::reduce_add({t, ones({2, 3})}), AssertionError,
               "reduce_add expects all inputs to be on GPUs");
  EXPECT_ERROR(comm::reduce_add({t, ones({4, 5}, "cuda:0")}), ValueError,
               "input 1 has invalid size: got 4x5, but expected 2x3");
  EXPECT_ERROR(comm::reduce_add_coalesced({{t}, {}}), ValueError, "expected 1 as in list 0");
  NEEDS_DEVICES(2);
  EXPECT_ERROR(comm::reduce_add({t, t}, 1), Error,
               "reduce_add expects destination to be on the same GPU with one of the tensors");
}

// Each refused call has torch's text and exception.
TEST(ScatterErrors, Words) {
  NEEDS_DEVICES(1);
  const Tensor t = ones({4, 3}, "cuda:0");
  const Tensor on_cpu = ones({4, 3});
  EXPECT_ERROR(comm::scatter(t, std::vector<int>{}), Error,
               "Expected at least one device to scatter to");
  EXPECT_ERROR(comm::scatter(t, {0, 0}, std::vector<std::int64_t>{4}), Error,
               "Expected devices and chunk_sizes to be of same length, but got len(devices) = 2 "
               "and len(chunk_sizes) = 1");
  EXPECT_ERROR(comm::scatter(on_cpu, {-2}), Error,
               "Expected non-negative device index, but got -2");
  // -1 is what a tensor of the CPU says of its device, and no way to ask for the CPU.
  EXPECT_ERROR(comm::scatter(on_cpu, {-1, 0}), Error,
               "Expected non-negative device index, but got -1");
  EXPECT_ERROR(comm::scatter(on_cpu, {-1}, {}, 0, {cuda::Stream(0)}), Error,
               "Expected non-negative device index, but got -1");
  EXPECT_ERROR(comm::scatter(t, {0}, {}, 2), IndexError,
               "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
  EXPECT_ERROR(comm::scatter(t, {0}, {}, 0, {}, std::vector<Tensor>{t}), Error,
               "'devices' must not be specified when 'out' is specified, but got devices=[0]");
  EXPECT_ERROR(
      comm::scatter(t, {}, std::vector<std::int64_t>{4}, 0, {}, std::vector<Tensor>{t}), Error,
      "'chunk_sizes' must not be specified when 'out' is specified, but got chunk_sizes=[4]");
  EXPECT_ERROR(comm::scatter(t, {}, {}, 0, {}, std::vector<Tensor>{}), Error,
               "Expected at least one output tensor to scatter to");
  EXPECT_ERROR(comm::scatter(t, {}, {}, 0, {}, std::vector<Tensor>{on_cpu}), Error,
               "Expected all output tensors to be CUDA tensors, but output tensor at index 0 has "
               "device 'cpu'");
  EXPECT_ERROR(
      comm::scatter(t, {}, {}, 0, {}, std::vector<Tensor>{ones({4, 2}, "cuda:0")}), Error,
      "Output tensor at index 0 has incorrect shape: [4, 2]. Expected same shape except for "
      "scatter dim 0 as the source tensor: [4, 3]");
  EXPECT_ERROR(
      comm::scatter(t, {}, {}, 0, {}, std::vector<Tensor>{ones({3, 3}, "cuda:0")}), Error,
      "Total size for output tensors along scatter dim 0 does not match the source tensor size at "
      "dim 0. Expected 4, but got total size 3");
  const Tensor half = ones({2, 3}, "cuda:0");
  EXPECT_ERROR(comm::scatter(t, {}, {}, 0, {}, std::vector<Tensor>{half, half}), Error,
               "some elements of two outputs refer to a single memory location");
  NEEDS_DEVICES(2);
  const comm::Streams streams{{}, cuda::Stream(0)};
  EXPECT_ERROR(comm::scatter(t, {0, 1}, {}, 0, streams), Error,
               "Expected the device associated with the stream at index 1 (was 0) to match the "
               "device supplied at that index (expected 1)");
}

// Each refused call has torch's text and exception.
TEST(GatherErrors, Words) {
  NEEDS_DEVICES(1);
  const Tensor t = ones({4, 3}, "cuda:0");
  EXPECT_ERROR(comm::gather({}), Error, "Expected at least one tensor to gather from");
  EXPECT_ERROR(comm::gather({t}, 0, "cpu", t), Error,
               "'destination' must not be specified when 'out' is specified, but got "
               "destination=cpu");
  EXPECT_ERROR(comm::gather({t, ones({4, 3})}), Error,
               "Expected all input tensors to be CUDA tensors, but tensor at index 1 has device "
               "'cpu'");
  EXPECT_ERROR(comm::gather({t, ones({4}, "cuda:0")}), Error,
               "Expected all input tensors to have the same number of dimensions, but tensor at "
               "index 1has 1 dimensions, (expected 2)");
  EXPECT_ERROR(comm::gather({t, ones({4, 4}, "cuda:0")}), Error,
               "Input tensor at index 1 has invalid shape [4, 4], but expected [4, 3]");
  EXPECT_ERROR(comm::gather({t, t}, 0, {}, t), Error,
               "Expected out tensor to have shape [8, 3], but got [4, 3]");
  EXPECT_ERROR(comm::gather({t}, 2), IndexError, "Dimension out of range");
  EXPECT_ERROR(comm::gather({t}, 0, 99), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(comm::gather({t}, 0, std::int64_t{1} << 40), AcceleratorError,
               "device 1099511627776 was asked for");
  EXPECT_ERROR(comm::gather({t}, 0, -2), Error, "Expected non-negative device index, but got -2");
}

}  // namespace
}  // namespace ember::test
