// Copies: every direction, layout and type against elements found by the test, and the rules of
// chapter 15 about who waits for whom, shown by work that is held at a gate.
#include <thread>

#include "ember/runtime/guard.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

using cuda::StreamGuard;

enum class Place { cpu, pinned, device, other };
enum class Arrangement { contiguous, transposed, gaps, expanded };

Options options(Place place, Dtype dtype) {
  switch (place) {
    case Place::cpu: return dtype;
    case Place::pinned: return {dtype, "cpu", true};
    case Place::device: return {dtype, "cuda:0"};
    case Place::other: break;
  }
  return {dtype, "cuda:1"};
}

/// A tensor of these sizes with a layout, contents undefined.
Tensor laid_out(const Shape& sizes, Arrangement layout, const Options& where) {
  if (sizes.size() != 2) return empty(sizes, where);
  switch (layout) {
    case Arrangement::contiguous: return empty(sizes, where);
    case Arrangement::transposed: return empty({sizes[1], sizes[0]}, where).t();
    case Arrangement::gaps:
      return empty({sizes[0], 2 * sizes[1] + 1}, where).slice(1, 1, {}, 2).narrow(1, 0, sizes[1]);
    case Arrangement::expanded: break;
  }
  return empty({sizes[0], 1}, where).expand(sizes);
}

/// The elements of any layout, through the memory's bytes alone.
void write_elements(const Tensor& x) {
  const Tensor flat =
      Tensor(x.storage(), x.dtype(),
             {static_cast<std::int64_t>(x.storage()->bytes() / x.element_size())}, {1});
  const Tensor numbers = arange(flat.numel()).remainder(97).to(x.dtype());
  if (x.is_cuda())
    cuda::copy(flat.data_ptr(), numbers.data_ptr(), flat.nbytes(),
               cuda::current_stream(x.device()));
  else
    std::memcpy(flat.data_ptr(), numbers.data_ptr(), flat.nbytes());
}
/// What write_elements put at each place of x, in the order of the dimensions.
std::vector<double> elements(const Tensor& x) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i;
    std::int64_t offset = x.storage_offset();
    for (int d = x.dim() - 1; d >= 0; --d) {
      offset += rest % x.sizes()[d] * x.strides()[d];
      rest /= x.sizes()[d];
    }
    const auto number = static_cast<double>(offset % 97);
    list.push_back(x.dtype() == bool_ ? number != 0 : number);
  }
  return list;
}

class EveryDirection : public ::testing::TestWithParam<std::tuple<int, int>> {};

// CPU, pinned, device and another device, with and without conversion, for every pair of layouts.
TEST_P(EveryDirection, BringsTheElements) {
  const auto from = static_cast<Place>(std::get<0>(GetParam()));
  const auto to = static_cast<Place>(std::get<1>(GetParam()));
  NEEDS_DEVICES(from == Place::other || to == Place::other ? 2 : 1);
  const std::vector<std::pair<Dtype, Dtype>> types{
      {float32, float32},  {float32, float16},      {int64, float64},   {float64, int8},
      {bool_, int32},      {bfloat16, bfloat16},    {int16, complex64}, {uint8, bool_},
      {float16, bfloat16}, {complex128, complex128}};
  for (const auto& [given, wanted] : types)
    for (const Shape& sizes : {Shape{5, 7}, Shape{}, Shape{0, 3}, Shape{130, 67}})
      for (const Arrangement source : {Arrangement::contiguous, Arrangement::transposed,
                                       Arrangement::gaps, Arrangement::expanded})
        for (const Arrangement target :
             {Arrangement::contiguous, Arrangement::transposed, Arrangement::gaps})
          for (const bool non_blocking : {false, true}) {
            if (sizes.size() != 2 && (source != Arrangement::contiguous || target != source))
              continue;
            if (sizes.size() == 2 && sizes[0] > 100 && given != float32) continue;
            const Tensor x = laid_out(sizes, source, options(from, given));
            Tensor y = laid_out(sizes, target, options(to, wanted));
            if (x.numel() > 0) write_elements(x);
            y.copy_(x, non_blocking);
            for (int device = 0; device < cuda::device_count() && device < 2; ++device)
              cuda::synchronize(device);
            std::vector<double> expected = elements(x);
            if (wanted == bool_)
              for (double& number : expected) number = number != 0 ? 1 : 0;
            const Tensor found =
                y.to("cpu").to(wanted == complex64 || wanted == complex128 ? complex128 : float64);
            ASSERT_EQ(values<double>(found.is_complex() ? found.real() : found), expected)
                << dtype_name(given) << " to " << dtype_name(wanted) << ", sizes " << sizes.str()
                << ", layouts " << static_cast<int>(source) << " to " << static_cast<int>(target)
                << (non_blocking ? ", non-blocking" : "");
          }
}

std::string direction_name(const ::testing::TestParamInfo<std::tuple<int, int>>& info) {
  static constexpr const char* kNames[] = {"Cpu", "Pinned", "Device", "OtherDevice"};
  return std::string(kNames[std::get<0>(info.param)]) + "To" + kNames[std::get<1>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(All, EveryDirection,
                         ::testing::Combine(::testing::Range(0, 4), ::testing::Range(0, 4)),
                         direction_name);

// Every pair of types, within the host and within the device.
TEST(Copies, ConvertEveryTypeToEveryOther) {
  const Tensor numbers = tensor<double>({0, 1, 2, 3, 100, 7, 0, 5, 1, 1, 1, 2, 3});
  const auto expected = values<double>(numbers);
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    for (const Dtype from : all_dtypes())
      for (const Dtype to : all_dtypes()) {
        const Tensor found = numbers.to(from).to(Device(place), from).to(to).to("cpu");
        const auto list = values<double>(found);
        for (std::size_t i = 0; i < list.size(); ++i)
          ASSERT_EQ(list[i], from == bool_ || to == bool_ ? expected[i] != 0 : expected[i])
              << dtype_name(from) << " to " << dtype_name(to) << " on " << place;
      }
  }
}

// Shapes that are no multiple of a tile, for every size of element.
TEST(Copies, TransposeByTiles) {
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    for (const Dtype dtype : {int8, int16, int32, int64, complex128})
      for (const Shape& sizes : {Shape{3, 37, 70}, Shape{2, 130, 129}, Shape{1, 16, 1000}}) {
        const Tensor x = arange(element_count(sizes), Options(int64, place))
                             .remainder(101)
                             .to(dtype)
                             .view(sizes);
        const Tensor found = x.transpose(1, 2).contiguous().to("cpu").to(float64);
        const double* numbers = found.data<double>();
        std::int64_t i = 0;
        for (std::int64_t b = 0; b < sizes[0]; ++b)
          for (std::int64_t c = 0; c < sizes[2]; ++c)
            for (std::int64_t r = 0; r < sizes[1]; ++r)
              ASSERT_EQ(numbers[i++],
                        static_cast<double>(((b * sizes[1] + r) * sizes[2] + c) % 101))
                  << dtype_name(dtype) << " on " << place;
      }
  }
}

TEST(Copies, BroadcastTheSource) {
  Tensor x = zeros({2, 3}, int64);
  x.copy_(arange(3));
  EXPECT_EQ(values<int>(x), std::vector<int>({0, 1, 2, 0, 1, 2}));
  x.copy_(scalar_tensor(5));
  EXPECT_EQ(values<int>(x), std::vector<int>(6, 5));
  x.copy_(zeros({1, 1, 3}, int64).select(0, 0));
  EXPECT_EQ(values<int>(x), std::vector<int>(6, 0));
}

TEST(Copies, RefuseAndChangeNothing) {
  Tensor x = arange(6).view({2, 3});
  const auto before = values<int>(x);
  EXPECT_ERROR(x.copy_(arange(4)), Error,
               "The size of tensor a (3) must match the size of tensor b "
               "(4) at non-singleton dimension 1");
  EXPECT_ERROR(x.copy_(zeros({1, 2, 3})), Error,
               "output with shape [2, 3] doesn't match the broadcast shape [1, 2, 3]");
  EXPECT_ERROR(x.select(0, 0).copy_(x), Error, "output with shape [3] doesn't match");
  Tensor square = arange(9).view({3, 3});
  EXPECT_ERROR(square.copy_(square.t()), Error,
               "some elements of the input tensor and the written-to tensor refer to a single");
  EXPECT_ERROR(x.view({6}).narrow(0, 1, 5).copy_(x.view({6}).narrow(0, 0, 5)), Error,
               "some elements of the input tensor");
  EXPECT_ERROR(scalar_tensor(1).expand({3}).copy_(arange(3)), Error,
               "more than one element of the written-to tensor refers to a single memory location");
  EXPECT_EQ(values<int>(x), before);
  EXPECT_EQ(&x.copy_(x), &x);
  x.view({6}).copy_(x.view({6}));  // the same elements
  EXPECT_EQ(values<int>(x), before);
}

TEST(Copies, FillElementsThatShareMemory) {
  for (const char* place : {"cpu", "cuda:0"}) {
    Tensor base = zeros({2, 1, 3}, place);
    base.expand({2, 4, 3}).fill_(7);
    EXPECT_EQ(values<float>(base), std::vector<float>(6, 7.0F));
    base.select(2, 1).expand({5, 2, 4}).zero_();
    EXPECT_EQ(values<float>(base), (std::vector<float>{7, 0, 7, 7, 0, 7}));
    base.narrow(0, 0, 0).expand({0, 4, 3}).fill_(1);
    EXPECT_EQ(values<float>(base), (std::vector<float>{7, 0, 7, 7, 0, 7}));
  }
}

TEST(To, GivesItselfIfNothingChanges) {
  const Tensor x = arange(6, float32).view({2, 3}).t();
  EXPECT_TRUE(x.to(float32).is(x));
  EXPECT_TRUE(x.to("cpu").is(x));
  EXPECT_TRUE(x.cpu().is(x));
  EXPECT_TRUE(x.to(Options()).is(x));
  const Tensor copy = x.to(float32, false, true);
  EXPECT_FALSE(copy.is(x));
  EXPECT_EQ(copy.strides(), x.strides());
  EXPECT_EQ(values<float>(copy), values<float>(x));
  EXPECT_EQ(x.to(float64).strides(), Shape({1, 3}));
  EXPECT_EQ(x.slice(1, 0, 1).to(float64).strides(), Shape({1, 3}));
  EXPECT_EQ(x.expand({2, 3, 2}).clone().strides(), Shape({6, 1, 3}));
  NEEDS_DEVICES(1);
  const Tensor there = x.to(kDevice);
  EXPECT_EQ(there.device().str(), kDevice);
  EXPECT_EQ(there.strides(), x.strides());
  EXPECT_TRUE(there.to("cuda").is(there));
  EXPECT_TRUE(there.cuda().is(there));
  EXPECT_TRUE(there.to(Device("cuda:0"), float32).is(there));
  EXPECT_TRUE(there.to(there).is(there));
  EXPECT_EQ(x.to(there.to(float64)).dtype(), float64);
  EXPECT_ERROR(x.to("cuda:99"), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(x.cuda(INT64_C(1) << 32), AcceleratorError, "device 4294967296 was asked for");
}

TEST(To, FollowsTheCurrentDevice) {
  NEEDS_DEVICES(2);
  const cuda::DeviceGuard guard(1);
  EXPECT_EQ(arange(3).cuda().device().str(), "cuda:1");
  EXPECT_EQ(empty({2}, "cuda").device().str(), "cuda:1");
  const Tensor stays = ones({2}, "cuda:0");
  EXPECT_EQ((stays + 1).device().str(), "cuda:0");
  EXPECT_EQ(stays.new_zeros({2}).device().str(), "cuda:0");
}

// pin_memory, its views, and what non_blocking copies to the CPU come in.
TEST(PinnedMemory, IsWhereItIsPromised) {
  NEEDS_DEVICES(1);
  const Tensor x = arange(6, float32).view({2, 3}).t();
  EXPECT_FALSE(x.is_pinned());
  const Tensor pinned = x.pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_TRUE(pinned.pin_memory().is(pinned));
  EXPECT_TRUE(pinned[1].is_pinned());
  EXPECT_EQ(values<float>(pinned), values<float>(x));
  const Tensor there = pinned.cuda();
  EXPECT_FALSE(there.is_pinned());
  EXPECT_ERROR(there.pin_memory(), Error,
               "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned");
  EXPECT_TRUE(there.to("cpu", true).is_pinned());
  EXPECT_FALSE(there.to("cpu").is_pinned());
  EXPECT_FALSE(there.cpu().is_pinned());
  cuda::synchronize();
  EXPECT_TRUE(empty({3}, Options(int8, "cpu", true)).is_pinned());
}

// Every dtype, from every device; anything but one element is refused.
TEST(Item, BringsOneElement) {
  for (const Dtype dtype : all_dtypes()) {
    EXPECT_EQ(full({1, 1}, 1, dtype).item<double>(), 1);
    if (cuda::device_count() == 0) continue;
    EXPECT_EQ(full({}, 1, Options(dtype, kDevice)).item<double>(), 1);
  }
  EXPECT_EQ(arange(5).slice(0, 3, 4).item<int>(), 3);
  EXPECT_ERROR(arange(2).item(), Error, "a Tensor with 2 elements cannot be converted to Scalar");
  EXPECT_ERROR(empty({0}).item(), Error, "a Tensor with 0 elements cannot be converted");
}

// ---- Who waits for whom

TEST(AsynchronousCopies, DoNotHoldUpTheHost) {
  NEEDS_DEVICES(1);
  const Tensor source = arange(1000, float32).pin_memory();
  Tensor target = empty({1000}, Options(float32, "cpu", true));
  target.fill_(-1);
  Tensor there = empty({1000}, kDevice);
  const cuda::Stream stream(0);
  {
    const StreamGuard on(stream);
    Gate gate(stream);
    gate.await_running();
    there.copy_(source, true);
    there += 1;
    target.copy_(there, true);
    const Tensor also = there.to("cpu", true);
    EXPECT_FALSE(stream.query());  // everything is queued behind the gate, and the host is here
    gate.open();
    stream.synchronize();
    EXPECT_EQ(values<float>(also)[999], 1000);
  }
  EXPECT_EQ(values<float>(target)[999], 1000);
}

TEST(BlockingCopies, WaitForTheirStream) {
  NEEDS_DEVICES(1);
  Tensor there = zeros({1000}, kDevice);
  const cuda::Stream stream(0);
  stream.wait_stream(cuda::current_stream(0));
  const StreamGuard on(stream);
  Gate gate(stream);
  gate.await_running();
  there.fill_(7);
  std::thread opener([&] { gate.open(); });
  const Tensor here = there.cpu();
  EXPECT_TRUE(stream.query());
  EXPECT_EQ(values<float>(here), std::vector<float>(1000, 7));
  opener.join();
  there.copy_(zeros({1000}));
  EXPECT_TRUE(stream.query());
}

TEST(AsynchronousCopies, KeepTheirPinnedMemory) {
  NEEDS_DEVICES(1);
  const cuda::Stream stream(0);
  const StreamGuard on(stream);
  Tensor there = empty({1000}, kDevice);
  Tensor source = full({1000}, 3.0, Options(float32, "cpu", true));
  const void* const used = source.data_ptr();
  Gate gate(stream);
  gate.await_running();
  there.copy_(source, true);
  source = Tensor();
  // Freed while the copy has not begun: nobody else gets the memory.
  const Tensor next = full({1000}, 9.0, Options(float32, "cpu", true));
  EXPECT_NE(next.data_ptr(), used);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(values<float>(there), std::vector<float>(1000, 3));
}

// A copy between devices runs on the source's current stream and waits for the target's.
TEST(CopiesBetweenDevices, WaitForTheTargetsStream) {
  NEEDS_CACHING();
  NEEDS_PEERS();
  for (const bool converts : {false, true}) {
    const cuda::Stream from(0);
    const cuda::Stream to(1);
    const cuda::MultiStreamGuard on({from, to});
    const Tensor source = full({1000}, 5.0, Options(converts ? float64 : float32, "cuda:0"));
    Tensor target = full({1000}, 1.0, Options(float32, "cuda:1"));
    cuda::synchronize(0);
    cuda::synchronize(1);
    Gate gate(to);
    gate.await_running();
    const Tensor before = target.clone();
    target.copy_(source, true);
    EXPECT_FALSE(from.query());  // the copy waits there, for what the target's stream still does
    gate.open();
    EXPECT_EQ(values<float>(before)[999], 1) << converts;
    EXPECT_EQ(values<float>(target)[999], 5) << converts;
  }
}

TEST(CopiesBetweenDevices, HoldUpTheTargetsStream) {
  NEEDS_CACHING();
  NEEDS_PEERS();
  for (const bool converts : {false, true}) {
    const cuda::Stream from(0);
    const cuda::Stream to(1);
    const cuda::MultiStreamGuard on({from, to});
    Tensor source = full({1000}, 5.0, Options(converts ? float64 : float32, "cuda:0"));
    Tensor target = full({1000}, 1.0, Options(float32, "cuda:1"));
    cuda::synchronize(0);
    cuda::synchronize(1);
    Gate gate(from);
    gate.await_running();
    source.fill_(6);
    target.copy_(source, true);
    const Tensor after = target.clone();
    EXPECT_FALSE(to.query());
    gate.open();
    EXPECT_EQ(values<float>(after)[0], 6) << converts;
  }
}

// The temporaries of a converting copy may be freed before it has begun.
TEST(CopiesBetweenDevices, MayBeManyAtOnce) {
  NEEDS_PEERS();
  std::vector<Tensor> targets;
  Tensor source = arange(5000, Options(int64, "cuda:0"));
  for (int i = 0; i < 20; ++i) {
    targets.push_back(empty({5000}, Options(float32, "cuda:1")));
    targets.back().copy_(source + i, true);
  }
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(values<float>(targets[static_cast<std::size_t>(i)])[4999],
              4999.0F + static_cast<float>(i));
}

}  // namespace
}  // namespace ember::test
