// Shapes, storages, and tensors as objects.
#include <functional>
#include <sstream>
#include <thread>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

TEST(Shapes, HoldUpToSixteenNumbers) {
  Shape shape{2, 3};
  EXPECT_EQ(shape.str(), "[2, 3]");
  EXPECT_EQ(Shape().str(), "[]");
  shape.insert(0, 7);
  shape.insert(3, 9);
  EXPECT_EQ(shape, Shape({7, 2, 3, 9}));
  shape.erase(1);
  EXPECT_EQ(shape, Shape({7, 3, 9}));
  EXPECT_EQ(shape.back(), 9);
  EXPECT_NE(shape, Shape({7, 3}));
  const Shape copy = shape;
  shape[0] = 1;
  EXPECT_EQ(copy[0], 7);
  Shape most = Shape::repeat(kMaxDims, 1);
  EXPECT_EQ(most.size(), 64);
  EXPECT_ERROR(most.push_back(1), ValueError, "a tensor of 65 dimensions, expected at most 64");
  EXPECT_ERROR(Shape(std::vector<std::int64_t>(65)), ValueError, "a tensor of 65 dimensions");
  EXPECT_EQ(most.size(), 64);
}

TEST(Shapes, CountTheirElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 0, 5}), 0);
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_EQ(element_count({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(element_count({0, kHuge, kHuge}), 0);
  EXPECT_ERROR(element_count({kHuge, kHuge}), ValueError, "has more than 2^63 elements");
  EXPECT_ERROR(element_count({2, -3}), ValueError,
               "Trying to create tensor with negative dimension -3: [2, -3]");
  EXPECT_ERROR(element_count({kHuge, kHuge, -1}), ValueError, "negative dimension -1");
}

TEST(Shapes, WrapDimensions) {
  EXPECT_EQ(wrap_dim(-1, 3), 2);
  EXPECT_EQ(wrap_dim(2, 3), 2);
  EXPECT_EQ(wrap_dim(-1, 0), 0);
  EXPECT_ERROR(wrap_dim(2, 2), IndexError,
               "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
  EXPECT_ERROR(wrap_dim(1, 0), IndexError, "[-1, 0], but got 1)");
  EXPECT_ERROR(wrap_dim(INT64_MIN, 2), IndexError, "Dimension out of range");
}

TEST(Shapes, Broadcast) {
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {0}), Shape({0}));
  EXPECT_EQ(broadcast_shapes({1}, {0}), Shape({0}));
  EXPECT_ERROR(broadcast_shapes({3}, {2}), Error,
               "The size of tensor a (3) must match the size of tensor b (2) at non-singleton "
               "dimension 0");
  EXPECT_ERROR(broadcast_shapes({2, 0}, {2, 3}), Error, "at non-singleton dimension 1");
}

TEST(Shapes, KnowTheirStrides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), Shape({12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), Shape({4, 4, 1}));
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 99, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_TRUE(is_contiguous({0, 5}, {9, 9}));
  EXPECT_TRUE(is_dense({2, 3}, {1, 2}));
  EXPECT_FALSE(is_dense({2, 3}, {0, 1}));
  EXPECT_FALSE(is_dense({2, 3}, {4, 1}));
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_TRUE(is_contiguous({0, kHuge, kHuge}, contiguous_strides({0, kHuge, kHuge})));
}

// T1-T3: what a tensor is made with, it says.
TEST(Tensors, SayWhatTheyAre) {
  const Tensor x = empty({2, 3}, float64);
  EXPECT_TRUE(x.defined());
  EXPECT_EQ(x.dtype(), float64);
  EXPECT_EQ(x.device().str(), "cpu");
  EXPECT_FALSE(x.is_cuda());
  EXPECT_EQ(x.get_device(), -1);
  EXPECT_EQ(x.dim(), 2);
  EXPECT_EQ(x.numel(), 6);
  EXPECT_EQ(x.nbytes(), 48U);
  EXPECT_EQ(x.size(-1), 3);
  EXPECT_EQ(x.stride(0), 3);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_TRUE(x.is_floating_point());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 64, 0U);
  EXPECT_EQ(x.data<double>(), x.data_ptr());
  EXPECT_EQ(x.data<const double>(), x.data_ptr());
  EXPECT_ERROR(x.data<float>(), TypeError,
               "the tensor's elements are float64, asked for as float32");
  EXPECT_ERROR(x.size(2), IndexError, "but got 2)");
  EXPECT_ERROR(scalar_tensor(1).size(0), IndexError,
               "Dimension specified as 0 but tensor has no dimensions");
  EXPECT_EQ(empty({0, 3}).data_ptr(), nullptr);
  const Tensor copy = x;
  EXPECT_TRUE(copy.is(x));
  EXPECT_FALSE(x.alias().is(x));
}

TEST(Tensors, WithoutAValueSaySo) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_ERROR(none.dtype(), Error, "this Tensor is undefined");
  EXPECT_ERROR(none + 1, Error, "this Tensor is undefined");
  EXPECT_ERROR(empty({1}).copy_(none), Error, "this Tensor is undefined");
}

TEST(Tensors, LieWithinTheirStorage) {
  const Tensor x = empty({10}, int32);
  const auto made = [&](const Shape& sizes, const Shape& strides, std::int64_t offset) {
    return Tensor(x.storage(), int32, sizes, strides, offset);
  };
  EXPECT_EQ(made({3}, {3}, 3).data_ptr(), x.data<int>() + 3);
  EXPECT_ERROR(made({3}, {3}, 4), Error, "are out of bounds for storage of size 40");
  EXPECT_ERROR(made({2}, {-1}, 4), Error, "Negative strides are not supported");
  EXPECT_ERROR(made({2}, {1}, -1), Error, "invalid storage offset -1");
  EXPECT_ERROR(made({2}, {1, 1}, 0), Error, "mismatch in length of strides and shape");
  EXPECT_ERROR(made({2, 3}, {INT64_MAX, INT64_MAX}, 0), Error, "are out of bounds");
  EXPECT_ERROR(made({1}, {1}, INT64_MAX), Error, "are out of bounds");
  EXPECT_EQ(made({0, 5}, {7, 7}, 100).numel(), 0);  // without elements anything goes
}

TEST(Tensors, ShareAndAreSet) {
  Tensor x = arange(4);
  Tensor same = x;
  const Tensor other = arange(6).view({2, 3});
  x.set_(other);
  EXPECT_EQ(same.sizes(), Shape({2, 3}));
  EXPECT_EQ(same.data_ptr(), other.data_ptr());
  EXPECT_ERROR(x.set_(Tensor()), Error, "undefined");
  EXPECT_ERROR(x.set_(ones({2}, float32)), Error, "source is float32 on cpu, expected int64");
  EXPECT_ERROR(x.set_(arange(2, "cuda:0")), Error, "on cuda:0, expected int64 on cpu");
  EXPECT_EQ(x.sizes(), Shape({2, 3}));
  const Tensor halves = full({2}, 0.5, {float64, "cuda:0"});
  EXPECT_TRUE(x.set_data(halves).is(same));
  EXPECT_EQ(same.dtype(), float64);
  EXPECT_EQ(same.device(), halves.device());
  EXPECT_EQ(same[1].item<double>(), 0.5);
  EXPECT_EQ(other[1][2].item<std::int64_t>(), 5);
  EXPECT_ERROR(x.set_data(Tensor()), Error, "undefined");
}

TEST(Storages, AreReleasedOnce) {
  float values[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    Tensor kept;
    {
      const Tensor x = from_blob(values, {2, 3}, float32, [&] { ++released; });
      kept = x.select(0, 1);
    }
    EXPECT_EQ(released, 0);
    EXPECT_EQ(kept.data_ptr(), values + 3);
  }
  EXPECT_EQ(released, 1);
  const auto never = [&] { ++released; };
  EXPECT_ERROR(from_blob(values, {2}, float32, never, Shape{-1}), Error, "Negative strides");
  EXPECT_ERROR(from_blob(nullptr, {2}, float32, never), ValueError, "from_blob: data is null");
  EXPECT_ERROR(from_blob(values, {2}, float32, never, Shape{1, 1}), Error, "mismatch in length");
  EXPECT_ERROR(from_blob(values, {3, 3}, float32, never, Shape{INT64_MAX, 1}), ValueError,
               "spans more than 2^63 elements");
  EXPECT_EQ(released, 1);
  EXPECT_EQ(from_blob(nullptr, {0}).numel(), 0);
}

TEST(Storages, ThatAreNone) {
  EXPECT_ERROR(Tensor(Ref<Storage>(), float32, {2}, {1}), ValueError, "storage is null");
  EXPECT_ERROR(Tensor(Ref<Storage>(), float32, {0}, {1}), ValueError, "storage is null");
  Ref<Storage> storage = Storage::allocate(Device("cpu"), 16);
  const Ref<Storage> taken = std::move(storage);
  EXPECT_ERROR(Tensor(storage, float32, {2}, {1}), ValueError, "storage is null");
  EXPECT_EQ(Tensor(taken, float32, {2}, {1}).numel(), 2);
  bool released = false;
  EXPECT_ERROR(Storage::adopt(Device("cpu"), nullptr, 8, [&] { released = true; }), ValueError,
               "data is null, expected 8 bytes");
  EXPECT_FALSE(released);
  EXPECT_EQ(Storage::adopt(Device("cpu"), nullptr, 0, {})->data(), nullptr);
}

TEST(Tensors, FromNullDeviceStringsAreRefused) {
  const char* const none = nullptr;
  EXPECT_ERROR(empty({2}, none), Error, "Invalid device string: got a null pointer");
  EXPECT_ERROR(ones({2}).to(none), Error, "Invalid device string: got a null pointer");
  EXPECT_ERROR(ones({2}).cuda(none), Error, "Invalid device string: got a null pointer");
}

TEST(Objects, ThatWereMovedFromSayOrAreEmpty) {
  NEEDS_DEVICES(1);
  // Every type of the interface that can be moved.
  Tensor x = ones({2});
  const Tensor y = std::move(x);
  EXPECT_FALSE(x.defined());  // NOLINT(bugprone-use-after-move): what is asked here
  EXPECT_ERROR(x.sizes(), Error, "this Tensor is undefined");
  EXPECT_ERROR(x + y, Error, "this Tensor is undefined");
  EXPECT_ERROR(y.index({x}), Error, "this Tensor is undefined");
  EXPECT_ERROR(cat({y, x}), Error, "this Tensor is undefined");
  cuda::Stream stream;
  const cuda::Stream same = std::move(stream);
  EXPECT_EQ(stream, same);
  stream.synchronize();
  cuda::Event event(true);
  event.record(stream);
  cuda::Event other = std::move(event);
  EXPECT_FALSE(event.is_created());
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.wait(stream);
  EXPECT_ERROR(event.elapsed_time(other), ValueError, "must be recorded");
  event.record(stream);
  event.synchronize();
  cuda::DeviceBuffer buffer = cuda::allocate(64);
  const cuda::DeviceBuffer bytes = std::move(buffer);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_FALSE(buffer.stream());
  EXPECT_EQ(buffer.device().str(), "cuda");
  cuda::record_stream(buffer, same);
  EXPECT_EQ(cuda::clone(buffer).size(), 0U);
  buffer.reset();
  cuda::PinnedBuffer pinned = cuda::allocate_pinned(64);
  const cuda::PinnedBuffer page = std::move(pinned);
  EXPECT_EQ(pinned.data(), nullptr);
  EXPECT_FALSE(cuda::pinned_record_event(pinned, same));
  pinned.reset();
  Generator generator;
  generator.manual_seed(5);
  const Generator moved = std::move(generator);
  EXPECT_EQ(generator, moved);
  EXPECT_EQ(generator.initial_seed(), 5U);
  EXPECT_EQ(generator.device().str(), "cpu");
  (void)rand({2}, {}, generator);
  EXPECT_EQ(moved.get_offset(), 4U);
  Index index(ones({2}));
  const Index item = std::move(index);
  EXPECT_ERROR(y.index({index}), Error, "this Tensor is undefined");
}

TEST(Storages, RefuseWhatIsTooLarge) {
  EXPECT_ERROR(empty({std::int64_t{1} << 61}, uint8), Error,
               "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
               "2305843009213693952 bytes.");
  EXPECT_ERROR(empty({std::int64_t{1} << 62}, float64), ValueError, "more than 2^64 bytes");
  NEEDS_DEVICES(1);
  EXPECT_THROW((void)empty({std::int64_t{1} << 45}, {uint8, kDevice}), OutOfMemoryError);
  EXPECT_ERROR(empty({2}, Options(float32, kDevice, true)), ValueError,
               "Only dense CPU tensors can be pinned");
}

// Their memory is recycled by thread: whatever thread frees it.
TEST(Tensors, GoFromThreadToThread) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Tensor> made;
    std::thread([&] {
      for (int i = 0; i < 300; ++i) made.push_back(empty({i}).view({1, i}));
    }).join();
    std::thread([&] { made.resize(100); }).join();
    for (int i = 0; i < 100; ++i) made.push_back(made[static_cast<std::size_t>(i)].t());
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(made[static_cast<std::size_t>(i)].sizes(), Shape({1, i}));
      ASSERT_EQ(made[static_cast<std::size_t>(i + 100)].sizes(), Shape({i, 1}));
    }
  }
}

/// Lives longer than every thread_local object that is made after it.
struct Last {
  Tensor tensor;
};
// A thread_local tensor outlives the lists that its memory would go to.
TEST(Tensors, MayDieWithTheirThread) {
  std::thread([] {
    thread_local Last last;
    last.tensor = arange(5).t();
    last.tensor = last.tensor.alias();
  }).join();
}

/// Works when its thread's variables are destroyed. Made first, so that it dies last.
struct WorksAtTheEnd {
  std::function<void()> work;
  ~WorksAtTheEnd() { work(); }
};
// What the library keeps for a thread has gone by then: lists of freed tensors, current streams,
// the events that copies between devices are ordered with.
TEST(Tensors, MayBeComputedInTheLastDestructorsOfAThread) {
  NEEDS_DEVICES(2);
  Tensor result;
  std::thread([&] {
    thread_local WorksAtTheEnd last;
    const auto work = [&] {
      const Tensor here = arange(4, {float32, kDevice}) + 1;
      result = (here.to(Device(Device::Type::cuda, 1)) * 2).to(Device(Device::Type::cpu));
    };
    work();  // so that everything has been made
    result = Tensor();
    last.work = work;
  }).join();
  ASSERT_TRUE(result.defined());
  EXPECT_EQ(values<float>(result), (std::vector<float>{2, 4, 6, 8}));
}

TEST(Tensors, GoIntoStreams) {
  std::ostringstream text;
  text << arange(3) << ' ' << ones({2, 1});
  EXPECT_EQ(text.str(), "tensor([0, 1, 2]) tensor([[1.],\n        [1.]])");
}

// What torch writes with these options.
TEST(Tensors, AreWrittenAsTheProgramSays) {
  struct Restored {
    ~Restored() { set_print_options({}); }
  } const restored;
  const Tensor x = arange(6.0).div(8);
  EXPECT_EQ(x.str(), "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250])");
  set_print_options({.precision = 2, .threshold = 5, .edgeitems = 1});
  EXPECT_EQ(print_options().edgeitems, 1);
  EXPECT_EQ(x.str(), "tensor([0.00,  ..., 0.62])");
  set_print_options({.precision = 1, .linewidth = 20, .sci_mode = true});
  EXPECT_EQ(x.narrow(0, 0, 2).str(), "tensor([0.0e+00,\n        1.2e-01])");
  EXPECT_ERROR(set_print_options({.linewidth = 0}), ValueError,
               "set_print_options: linewidth is 0, expected at least 1");
  EXPECT_EQ(print_options().precision, 1) << "nothing has changed";
}

}  // namespace
}  // namespace ember::test
