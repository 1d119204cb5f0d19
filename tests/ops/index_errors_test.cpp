// What index_select, gather, scatter and their like refuse, and what an index out of bounds does.
#include "tests/ops/support.h"
#include "tests/support/child.h"

namespace ember::test {
namespace {

TEST(Index, SomeOperationsTakeNoInt32) {
  Tensor x = zeros({3});
  const Tensor index = zeros({1}, Dtype::int32);
  EXPECT_ERROR(take(x, index), Error, "take(): Expected a long tensor for index, but got Int");
  EXPECT_ERROR(x.put_(index, ones({1})), Error, "put_(): Expected a long tensor for index");
  EXPECT_ERROR(x.index_copy_(0, index, ones({1})), Error, "Expected a long tensor for index");
  EXPECT_ERROR(x.index_fill_(0, index, 1), IndexError, "Expected dtype int64 for index.");
  x.index_add_(0, index, ones({1}));
  EXPECT_EQ(values<double>(x), (std::vector<double>{1, 0, 0}));
}

TEST(Index, RefusesWhatDoesNotFit) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    Tensor x = zeros({3, 4}, place);
    const Tensor index = zeros({2}, {Dtype::int64, Device(place)});
    const Tensor square = zeros({4, 4}, {Dtype::int64, Device(place)});
    EXPECT_ERROR(index_select(x, 2, index), IndexError, "Dimension out of range");
    EXPECT_ERROR(index_select(x, 0, square), IndexError, "Index is supposed to be a vector");
    EXPECT_ERROR(gather(x, 0, index), Error,
                 "Index tensor must have the same number of dimensions as input tensor");
    EXPECT_ERROR(gather(x, 1, square), Error,
                 "Size does not match at dimension 0 expected index [4, 4] to be no larger than "
                 "self [3, 4] apart from dimension 1");
    EXPECT_ERROR(x.scatter_(1, square, 1), Error,
                 "Expected index [4, 4] to be no larger than self [3, 4] apart from dimension 1");
    EXPECT_ERROR(x.scatter_(0, square, zeros({2, 4}, place)), Error,
                 "and to be no larger size than src [2, 4]");
    EXPECT_ERROR(x.scatter_(0, square, square), Error,
                 "scatter(): Expected self.dtype to be equal to src.dtype");
    EXPECT_ERROR(x.scatter_(0, square, 1, "mean"), Error,
                 "reduce argument must be either add or multiply, got 'mean'");
    EXPECT_ERROR(x.scatter_(0, square, square, "add"), Error,
                 "scatter(): Expected self.dtype to be equal to src.dtype");
    EXPECT_ERROR(x.scatter_(0, square, zeros({4}, place)), Error, "number of dimensions as src");
    EXPECT_ERROR(x.index_add_(0, index, zeros({3, 4}, place)), Error,
                 "index_add_(): Number of indices (2) should be equal to source.size(dim): (3), "
                 "for dim: 0");
    EXPECT_ERROR(x.index_add_(0, index, zeros({2, 5}, place)), Error,
                 "source tensor shape must match self tensor shape");
    EXPECT_ERROR(x.index_copy_(0, index, zeros({2, 4}, {Dtype::float64, Device(place)})), Error,
                 "must have the same scalar type");
    EXPECT_ERROR(x.index_fill_(0, index, zeros({2}, place)), Error,
                 "index_fill_ only supports a 0-dimensional value tensor, but got tensor with 1");
    EXPECT_ERROR(x.put_(index, zeros({3}, place)), IndexError, "the same number of elements");
    EXPECT_ERROR(x.scatter_(0, zeros({3, 4}, {Dtype::int64, Device(place)}), x), Error,
                 "unsupported operation");
    EXPECT_ERROR(x.select(0, 0).unsqueeze(0).expand({3, 4}).index_fill_(0, index, 1), Error,
                 "single memory location");
    EXPECT_ERROR(take(zeros({0}, place), index), IndexError,
                 "take(): tried to take from an empty tensor");
    EXPECT_EQ(values<double>(x), std::vector<double>(12, 0.0));
  }
  Tensor out = zeros({2, 2});
  EXPECT_ERROR(index_select_out(out, out, 0, tensor({1})), Error,
               "output with shape [2, 2] doesn't match the result's shape [1, 2]");
}

TEST(Index, OutOfBoundsOnTheCpuChangesNothing) {
  const Tensor x = zeros({3, 2});
  const Tensor bad = tensor<std::int64_t>({0, 5});
  EXPECT_ERROR(index_select(x, 0, bad), IndexError,
               "index 5 is out of bounds for dimension 0 with size 3");
  EXPECT_ERROR(index_select(x, 1, tensor({-1})), IndexError,
               "index -1 is out of bounds for dimension 1 with size 2");
  EXPECT_ERROR(gather(x, 1, tensor({0, 7}).view({1, 2})), Error,
               "index 7 is out of bounds for dimension 1 with size 2");
  EXPECT_ERROR(take(x, tensor<std::int64_t>({-7})), IndexError, "index -7 is out of bounds");
  EXPECT_ERROR(take(x, tensor({INT64_MIN})), IndexError, "out of bounds");
  Tensor y = zeros({3});
  EXPECT_ERROR(y.scatter_(0, bad, 1), Error, "index 5 is out of bounds");
  EXPECT_ERROR(y.scatter_add_(0, bad, ones({2})), Error, "index 5 is out of bounds");
  EXPECT_ERROR(y.scatter_(0, bad, ones({2}), "multiply"), Error, "index 5 is out of bounds");
  EXPECT_ERROR(y.index_copy_(0, bad, ones({2})), IndexError, "index 5 is out of bounds");
  EXPECT_ERROR(y.index_add_(0, bad, ones({2})), IndexError, "index 5 is out of bounds");
  EXPECT_ERROR(y.index_fill_(0, tensor<std::int64_t>({0, -4}), 1), IndexError,
               "index -4 is out of bounds");
  EXPECT_ERROR(y.index_put_({bad}, 1), IndexError, "index 5 is out of bounds");
  EXPECT_EQ(values<double>(y), (std::vector<double>{0, 0, 0}));
}

/// Expects `call` to fault device 0, with a text that names the operation.
template <class Call>
void expect_assert(const char* name, const Call& call) {
  try {
    call();
    cuda::synchronize();
    ADD_FAILURE() << name << " should have reported the fault";
  } catch (const AcceleratorError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.error_code(), 710) << text;
    EXPECT_NE(text.find("device-side assert triggered"), std::string::npos) << text;
    EXPECT_NE(text.find(name), std::string::npos) << text;
    if (cuda::is_simulated()) {
      EXPECT_NE(text.find("index 5 is out of bounds for dimension 0 with size 3"),
                std::string::npos)
          << text;
    }
  }
}

TEST(Index, OutOfBoundsOnADeviceIsAFaultThatNamesTheOperation) {
  NEEDS_DEVICES(1);
  IN_CHILD({
    const Tensor x = zeros({3}, kDevice);
    const Tensor bad = tensor({0, 5}).to(kDevice);
    expect_assert("index_select", [&] { (void)index_select(x, 0, bad); });
  });
  IN_CHILD({
    const Tensor bad = tensor({0, 5}).to(kDevice);
    expect_assert("scatter_add",
                  [&] { zeros({3}, kDevice).scatter_add_(0, bad, ones({2}, kDevice)); });
  });
  IN_CHILD({
    const Tensor bad = tensor({0, 5}).to(kDevice);
    expect_assert("index_put", [&] { zeros({3}, kDevice).index_put_({bad}, 1); });
  });
}

TEST(Index, AfterAFaultASimulatedDeviceCanBeReset) {
  NEEDS_DEVICES(2);
  if (!cuda::is_simulated()) GTEST_SKIP() << "CUDA ends every device of the process";
  IN_CHILD({
    for (int i = 0; i < 2; ++i) {
      {
        const Tensor x = zeros({3}, kDevice);
        const Tensor bad = tensor({0, 5}).to(kDevice);
        expect_assert("gather", [&] { (void)gather(x, 0, bad); });
        const Tensor other = arange(3, "cuda:1");
        EXPECT_EQ(values<double>(gather(other, 0, tensor({2, 1}).to("cuda:1"))),
                  (std::vector<double>{2, 1}));
      }
      cuda::reset_device(0);
      const Tensor x = arange(3, kDevice);
      EXPECT_EQ(values<double>(gather(x, 0, tensor({2, 0}).to(kDevice))),
                (std::vector<double>{2, 0}));
    }
  });
}

// Kernels, allocator and streams come back after each of several resets.
TEST(Operations, WorkAgainAfterAReset) {
  NEEDS_DEVICES(1);
  IN_CHILD({
    const auto work = [](int index) {
      const Device device(Device::Type::cuda, index);
      const Tensor x = arange(3, device);
      const Tensor doubled = x + x;
      EXPECT_EQ(values<double>(cat({doubled, gather(x, 0, tensor({2, 0}).to(device))})),
                (std::vector<double>{0, 2, 4, 2, 0}));
      EXPECT_EQ(values<double>(doubled.sum()), (std::vector<double>{6}));
    };
    const int devices = std::min(2, cuda::device_count());
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < devices; ++i) work(i);
      cuda::reset_device(round % devices);
    }
    for (int i = 0; i < devices; ++i) work(i);
  });
}

}  // namespace
}  // namespace ember::test
