// What a page of everyday code does (page.h). compiles.sh compiles it as users would.
#include <sys/mman.h>

#include <array>
#include <cmath>

#include "ember/comm/comm.h"
#include "tests/everyday/page.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

using Doubles = std::vector<double>;

TEST(Everyday, AssignsToViews) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    EXPECT_EQ(values<double>(everyday::assign_to_views(place)), (Doubles{8, 8, 2, 8, 8, 2.5}));
}

TEST(Everyday, AssignsToVariables) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    EXPECT_EQ(values<double>(everyday::assign_to_variables(place)), Doubles(3, 1));
}

TEST(Everyday, TakesSizesWithoutBraces) { EXPECT_EQ(everyday::sizes_without_braces(), Shape{1}); }

TEST(Everyday, TakesSizesOfAnyKind) {
  EXPECT_EQ(everyday::sizes_of_any_kind(), (std::vector<Shape>{{2, 3}, {3, 2}, {1, 6}, {3, 2}}));
  EXPECT_ERROR(zeros(std::vector<int>{2, -1}), ValueError, "negative dimension -1");
  EXPECT_ERROR(zeros(std::vector<int>(65)), ValueError, "");
  static_assert(!std::is_constructible_v<Shape, std::string>);
  static_assert(!std::is_constructible_v<Shape, std::vector<char>>);
}

TEST(Everyday, GivesOneOfTwoResults) {
  const auto made = everyday::one_of_two_results();
  EXPECT_EQ(values<double>(made[0]), (Doubles{2, 5, 7}));
  EXPECT_EQ(values<double>(made[1]), Doubles{1});
}

TEST(Everyday, TakesNumbersOf16Bits) {
  const auto made = everyday::numbers_of_16_bits();
  EXPECT_EQ(values<double>(made[0]), (Doubles{2, 4}));
  EXPECT_EQ(values<double>(made[1]), (Doubles{2.5, 4}));
  EXPECT_EQ(values<double>(made[2]), (Doubles{0, 1}));
  EXPECT_EQ(made[0].dtype(), float32);
}

TEST(Everyday, TakesNumbersInBraces) {
  const auto made = everyday::numbers_in_braces();
  const std::vector<Dtype> dtypes{float32, int64, float32, bool_,   complex64,
                                  int64,   int8,  float64, float64, float32};
  const std::vector<Shape> sizes{{2, 2}, {3}, {2}, {2}, {1}, {}, {2, 2, 1}, {2}, {2}, {0}};
  ASSERT_EQ(made.size(), dtypes.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].dtype(), dtypes[i]) << i;
    EXPECT_EQ(made[i].sizes(), sizes[i]) << i;
  }
  EXPECT_EQ(values<double>(made[0]), (Doubles{1, 2.5, 3, 4}));
  EXPECT_EQ(values<double>(made[6]), (Doubles{1, 2, 3, 4}));
}

TEST(Everyday, RefusesUnevenBraces) {
  EXPECT_ERROR(tensor({{1, 2}, {3}}), ValueError,
               "expected a list of length 2 at dim 1, got a list of length 1");
  EXPECT_ERROR(tensor({{1, 2}, 3}), ValueError,
               "got a number beside lists, expected a list of length 2 at dim 1");
  EXPECT_ERROR(tensor({1, {2, 3}}), ValueError,
               "expected a number at dim 1, got a list of length 2");
  EXPECT_ERROR(tensor({{}, {1}}), ValueError, "expected a list of length 0 at dim 1");
  EXPECT_ERROR(tensor({300}, int8), Error, "value cannot be converted to type int8");
  EXPECT_EQ(tensor({{}, {}}).sizes(), (Shape{2, 0}));
}

TEST(Everyday, TakesOptionsInEitherOrder) {
  NEEDS_DEVICES(1);
  for (const Tensor& made : everyday::options(kDevice)) {
    EXPECT_EQ(made.dtype(), float64);
    EXPECT_EQ(made.device(), Device(kDevice));
  }
}

TEST(Everyday, ReadsElementsOnTheHost) {
  Tensor x = ones({3, 4}).t();
  EXPECT_EQ(everyday::by_accessor(x), 12);
  EXPECT_EQ(x.sum().item<double>(), 11);
  EXPECT_ERROR((x.accessor<double, 2>()), TypeError, "elements are float32, asked for as float64");
  EXPECT_ERROR((x.accessor<float, 1>()), Error, "the tensor has 2 dimensions, expected 1");
  NEEDS_DEVICES(1);
  const Tensor there = ones(1, kDevice);
  EXPECT_ERROR((there.accessor<float, 1>()), Error,
               "the tensor is on cuda:0, expected one on the CPU");
}

TEST(Everyday, ChangesInPlace) {
  const Tensor x = tensor({1, 2, 80});
  everyday::in_place(x);
  EXPECT_EQ(values<double>(x), (Doubles{4, 6, 100}));
}

TEST(Everyday, HasOtherNames) {
  const auto made = everyday::other_names();
  const std::vector<Doubles> expected{{3.5, 4}, {0, 1},       {3.5, 4},         {3.5, 2},    {3.5},
                                      {10.5},   {1, 0, 1, 2}, Doubles(4, 10.5), {1, 1, 1, 1}};
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    EXPECT_EQ(values<double>(made[i]), expected[i]) << i;
}

TEST(Everyday, HasViewsAsFunctions) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = arange(24, {float32, place}).view({2, 1, 3, 4});
    const std::vector<Shape> sizes{{2, 3, 4},    {2, 3, 4},    {2, 3, 4},    {1, 2, 1, 3, 4},
                                   {4, 1, 3, 2}, {4, 3, 2, 1}, {1, 3, 4},    {2, 1, 2, 4},
                                   {2, 1, 3, 2}, {2, 1, 1, 4}, {2, 1, 1, 4}, {2, 1, 3},
                                   {24},         {6, 4},       {4, 3},       {4, 3},
                                   {2, 1, 3},    {3},          {12}};
    const auto made = everyday::views_as_functions(x);
    ASSERT_EQ(made.size(), sizes.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].sizes(), sizes[i]) << i;
      EXPECT_EQ(made[i].storage(), x.storage()) << i;
    }
  }
}

TEST(Everyday, MakesRangesAndExtremes) {
  const auto made = everyday::ranges_and_extremes();
  const std::vector<Dtype> dtypes{int32, float64, int64, float32, int64, int64, int64, int64};
  const std::vector<Doubles> expected{{1, 2}, {0, 1, 2}, {0, 2}, {0, 0.5},
                                      {3, 2}, {1, 2},    {3, 2}, {1, 2}};
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].dtype(), dtypes[i]) << i;
    EXPECT_EQ(values<double>(made[i]), expected[i]) << i;
  }
  EXPECT_ERROR(arange(0, 5, 0), Error, "step must be nonzero");
}

TEST(Everyday, PrintsNumbers) { EXPECT_EQ(everyday::printed_numbers(), "1 -7 2.5 (1,-2) 255"); }

TEST(Everyday, Prints) {
  EXPECT_EQ(everyday::printed("cuda:1"),
            "[2, 3] float64 cuda:1 tensor([1., 1., 1.], dtype=torch.float64)");
  NEEDS_DEVICES(1);
  const cuda::Stream stream = cuda::default_stream(0);
  std::ostringstream out;
  out << stream;
  EXPECT_EQ(out.str(), stream.str());
}

TEST(Everyday, KeepsAVectorOnADevice) {
  NEEDS_DEVICES(1);
  EXPECT_EQ(everyday::vector_on_device(), (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(Everyday, RefusesWhatIsNotInAVector) {
  NEEDS_DEVICES(1);
  cuda::DeviceVector<int> none;
  EXPECT_TRUE(none.empty() && none.data() == nullptr && none.to_host().empty() && !none.stream());
  cuda::DeviceVector<int> x(3);
  EXPECT_ERROR(x.element(3), IndexError, "index 3 is out of bounds for a vector of 3 elements");
  EXPECT_ERROR(x.set_element(3, 1), IndexError, "out of bounds");
  EXPECT_ERROR(x.copy_from(std::vector<int>(2)), ValueError,
               "copy_from: got 2 elements, expected as many as the vector has: 3");
  std::vector<int> two(2);
  EXPECT_ERROR(x.copy_to(two), ValueError, "copy_to: got 2 elements");
  EXPECT_ERROR(cuda::DeviceVector<double>(SIZE_MAX / 4), OutOfMemoryError, "");
  EXPECT_ERROR(x.resize(SIZE_MAX), OutOfMemoryError, "");
  EXPECT_EQ(x.size(), 3U) << "nothing has happened";
  const std::vector<int> host{7, 8, 9};
  x.copy_from(host);
  x.resize(2);
  x.shrink_to_fit();
  cuda::DeviceVector<int> moved(std::move(x));
  EXPECT_EQ(moved.to_host(), (std::vector<int>{7, 8}));
  EXPECT_TRUE(x.empty() && x.data() == nullptr);  // NOLINT(bugprone-use-after-move)
  const cuda::DeviceBuffer memory = moved.release();
  EXPECT_TRUE(moved.empty());
  EXPECT_EQ(memory.size(), 2 * sizeof(int));
}

TEST(Everyday, AllocatesThroughResources) {
  NEEDS_DEVICES(1);
  EXPECT_EQ(everyday::resources(), 100U);
  cuda::DeviceResource there;
  cuda::PinnedResource pinned;
  EXPECT_TRUE(there == cuda::DeviceResource(cuda::Stream(0)));
  EXPECT_TRUE(pinned == cuda::PinnedResource());
  EXPECT_FALSE(there == static_cast<std::pmr::memory_resource&>(pinned));
  EXPECT_ERROR(there.allocate(8, 1024), ValueError, "alignment is 1024, expected at most 512");
  EXPECT_ERROR(pinned.allocate(8, 8192), ValueError, "alignment is 8192, expected at most 4096");
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2)
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{600}}) {
      void* const memory = pinned.allocate(bytes, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0U);
      pinned.deallocate(memory, bytes, alignment);
      if (alignment > 512) continue;
      void* const on_device = there.allocate(bytes, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(on_device) % alignment, 0U);
      there.deallocate(on_device, bytes, alignment);
    }
  // Beside others that are not aligned.
  std::vector<std::pair<void*, std::size_t>> held;
  for (std::size_t alignment = 4096; alignment > 0; alignment /= 2)
    for (int i = 0; i < 3; ++i) {
      held.emplace_back(pinned.allocate(100, alignment), alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().first) % alignment, 0U) << alignment;
    }
  for (const auto& [memory, alignment] : held) pinned.deallocate(memory, 100, alignment);
}

TEST(Everyday, PinsMemoryOfOnesOwn) {
  NEEDS_DEVICES(1);
  std::vector<float> mine(4096);
  EXPECT_TRUE(everyday::is_pinned_for_a_while(mine));
  EXPECT_FALSE(from_blob(mine.data(), 4).is_pinned());
  cuda::HostRegistration first(mine.data(), mine.size() * sizeof(float));
  EXPECT_ERROR(cuda::HostRegistration(mine.data(), mine.size() * sizeof(float)), AcceleratorError,
               "");
  cuda::HostRegistration second(std::move(first));
  EXPECT_EQ(second.data(), mine.data());
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  second = cuda::HostRegistration();
  // What another lock takes the place of is unlocked at once, not when that one ends.
  std::vector<float> other(4096);
  first = cuda::HostRegistration(mine.data(), mine.size() * sizeof(float));
  second = cuda::HostRegistration(other.data(), other.size() * sizeof(float));
  first = std::move(second);
  EXPECT_FALSE(from_blob(mine.data(), 4).is_pinned());
  EXPECT_TRUE(from_blob(other.data(), 4).is_pinned());
  cuda::HostRegistration& self = first;
  first = std::move(self);
  EXPECT_EQ(first.data(), other.data());
}

// What is no memory of the host cannot be locked: whoever copied from it would end the process.
TEST(Everyday, PinsNothingElse) {
  NEEDS_DEVICES(1);
  const Tensor there = zeros({4096}, kDevice);
  EXPECT_ERROR(cuda::HostRegistration(there.data_ptr(), 4096), AcceleratorError, "");
  void* const nowhere = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nowhere, MAP_FAILED);
  munmap(nowhere, 8192);
  EXPECT_ERROR(cuda::HostRegistration(nowhere, 8192), AcceleratorError, "");
  cuda::synchronize();
}

TEST(Everyday, TakesWhatLibtorchDoes) {
  NEEDS_DEVICES(1);
  const std::string name = "cuda:0";
  EXPECT_EQ(zeros({2}, name).device().str(), name);
  EXPECT_EQ(ones(2, {float64, name}).to(name).device().str(), name);
  const Tensor x = arange(5);
  EXPECT_EQ(x.index({Slice(None, 2)}).numel(), 2);
  EXPECT_EQ(x.index({Slice(1, None, 2)}).numel(), 2);
  EXPECT_EQ(x.sort(0, true).values[0].item<int>(), 4);
  EXPECT_EQ(x.topk(2).indices[1].item<int>(), 3);
  EXPECT_EQ(tensor(std::array<float, 2>{1, 2}).dtype(), float32);
  EXPECT_TRUE(tensor(std::vector<bool>{false, true})[1].item<bool>());
  EXPECT_EQ(cuda::comm::broadcast(x, std::vector<Device>{Device(name)}).size(), 1U);
}

// As in libtorch: a number that has no place in the type is no other number.
TEST(Everyday, ItemsFitTheirType) {
  const char* const text = "without overflow";
  EXPECT_ERROR(static_cast<void>(tensor<double>({1e20}).item<int>()), Error, text);
  EXPECT_ERROR(static_cast<void>(tensor({300}).item<std::int8_t>()), Error, text);
  EXPECT_ERROR(static_cast<void>(tensor<double>({NAN}).item<std::int64_t>()), Error, text);
  EXPECT_ERROR(static_cast<void>(tensor<double>({1e300}).item<float>()), Error, text);
  const Tensor z = tensor(std::vector<std::complex<float>>{{1, 2}});
  EXPECT_ERROR(static_cast<void>(z.item<float>()), Error, text);
  EXPECT_EQ(z.item<std::complex<double>>(), std::complex<double>(1, 2));
  EXPECT_EQ(tensor<double>({-2.75}).item<int>(), -2);
  EXPECT_EQ(tensor<double>({2.75}).item<long long>(), 2);
  EXPECT_TRUE(tensor<double>({300}).item<bool>());
  EXPECT_TRUE(std::isinf(tensor<double>({INFINITY}).item<float>()));
}

TEST(Everyday, HandsStreamsOn) {
  NEEDS_DEVICES(1);
  static_assert(std::is_trivially_copyable_v<cuda::StreamRef>);
  static_assert(sizeof(cuda::StreamRef) == sizeof(void*));
  const cuda::Stream stream(0);
  EXPECT_TRUE(everyday::hand_on(stream));
  const cuda::StreamRef ref = stream;
  EXPECT_TRUE(ref == stream && stream == ref && ref == cuda::StreamRef(stream));
  EXPECT_FALSE(ref == cuda::default_stream(0));
  EXPECT_EQ(ref.native(), stream.native());
  EXPECT_EQ(ref.stream_id(), stream.stream_id());
  EXPECT_EQ(ref.device(), stream.device());
}

TEST(Everyday, CountsByDevice) { EXPECT_EQ(everyday::by_device("cuda:3"), 2); }

TEST(Everyday, GrowsAVectorThatHasRoom) {
  NEEDS_DEVICES(1);
  cuda::DeviceVector<int> x{1, 2, 3};
  x.reserve(100);
  EXPECT_EQ(x.to_host(), (std::vector<int>{1, 2, 3}));
  EXPECT_GE(x.capacity(), 100U);
  const int* const place = x.cbegin();
  x.resize(100);
  EXPECT_EQ(x.begin(), place) << "there was room";
  x.set_element(99, 7);
  x.resize(1);
  EXPECT_EQ(x.begin(), place);
  EXPECT_EQ(x.cend() - x.cbegin(), 1);
  EXPECT_EQ(x.clone().capacity(), 1U) << "a copy is of the elements alone";
  x.shrink_to_fit();
  EXPECT_EQ(x.capacity(), 1U);
  EXPECT_EQ(x.to_host(), (std::vector<int>{1}));
  const cuda::DeviceVector<int> five{5};
  EXPECT_EQ(five.to_host(), (std::vector<int>{5}));
  cuda::DeviceVector<float> empty;
  empty.reserve(10);
  EXPECT_TRUE(empty.empty() && empty.capacity() >= 10);
  EXPECT_ERROR(x.reserve(SIZE_MAX), OutOfMemoryError, "");
}

TEST(Everyday, KeepsThingsByDevice) { EXPECT_EQ(everyday::by_device(), "cpu cuda:0 cuda:1 "); }

TEST(Everyday, CallsWhatCanOnlyBeMoved) {
  NEEDS_DEVICES(1);
  EXPECT_EQ(everyday::move_only_host_function(), 42);
}

TEST(Everyday, MakesAndComparesTensors) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice}) EXPECT_TRUE(everyday::made_and_compared(place));
}

}  // namespace
}  // namespace ember::test
