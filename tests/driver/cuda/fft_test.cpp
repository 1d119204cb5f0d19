// Transforms on real devices without one: the fake libcuda, whose device memory is the host's, and
// a fake libcufft. No kernel runs there, so that what needs one besides is left to tests on GPUs.
#include <dlfcn.h>

#include "ember/base/error.h"
#include "ember/fft/kernels.h"
#include "ember/fft/plans.h"
#include "ember/runtime/runtime.h"
#include "fake_cufft.h"
#include "fake_libcuda.h"
#include "tests/fft/support.h"

namespace ember::test {
namespace {

class FftOnFakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    auto* cuda = static_cast<FakeCuda*>(symbol("libcuda.so.1", kFakeCuda));
    cuda->largest_allocation = std::size_t{1} << 30;
    fake_ = static_cast<FakeCufft*>(symbol(std::getenv("EMBER_CUFFT"), kFakeCufft));
    plans_.emplace(0);
    plans_->clear();
    plans_->set_max_size(4096);
    *fake_ = FakeCufft();
  }
  static void* symbol(const char* library, const char* name) {
    void* const found = dlsym(dlopen(library, RTLD_NOW | RTLD_LOCAL), name);
    if (found == nullptr) throw Error(std::string(library) + " is not the fake one");
    return found;
  }
  static Tensor on_device(const Tensor& x) { return x.to("cuda:0"); }

  std::optional<cuda::FftPlanCache> plans_;
  FakeCufft* fake_ = nullptr;
};

TEST_F(FftOnFakeCuda, DescribesTransformsToTheLibrary) {
  for (const Dtype dtype : {Dtype::complex64, Dtype::complex128}) {
    const Tensor x = signal(dtype, {3, 4, 6});
    const Tensor y = on_device(x);
    const Tensor real = on_device(signal(real_dtype(dtype), {3, 4, 7}));
    for (const Shape& dims : std::vector<Shape>{{2}, {1}, {0}, {1, 2}, {0, 2}, {0, 1, 2}}) {
      Tensor expected = x;
      for (const std::int64_t dim : dims) {
        // By the definition, one row after the other.
        const Tensor turned = expected.transpose(dim, 2).contiguous().clone();
        for (std::int64_t i = 0; i < turned.size(0); ++i)
          for (std::int64_t j = 0; j < turned.size(1); ++j) {
            const Tensor row = turned.select(0, i).select(0, j);
            std::vector<std::complex<double>> numbers;
            for (const Wide& number : dft(wide(row), true)) numbers.emplace_back(number);
            Tensor(row).copy_(tensor(numbers));
          }
        expected = turned.transpose(dim, 2);
      }
      EXPECT_LE(error_of(fft::fftn(y, {}, dims).cpu(), wide(expected)), 64) << dims.str();
      const Tensor half = fft::rfftn(real, {}, dims);
      const Tensor whole = fft::fftn(on_device(real.cpu().to(dtype)), {}, dims);
      const std::int64_t last = dims.back();
      EXPECT_LE(error_of(half.cpu(), wide(whole.cpu().narrow(last, 0, real.size(last) / 2 + 1))),
                64)
          << dims.str();
    }
  }
}

/// Halves of signals are copied first, by a kernel; here the transform is launched by itself.
TEST_F(FftOnFakeCuda, DescribesHalvesToTheLibrary) {
  const Tensor x = signal(Dtype::float64, {2, 4, 7});
  const Tensor in = on_device(fft::rfft2(x));
  const Tensor out = on_device(zeros({2, 4, 7}, Dtype::float64));
  driver::FftArgs args;
  args.in = in.data_ptr();
  args.out = out.data_ptr();
  driver::FftGeometry& g = args.geometry;
  g.kind = driver::FftKind::c2r;
  g.real_bytes = 8;
  g.dims = 2;
  g.sizes[0] = 4, g.sizes[1] = 7;
  g.in_strides[0] = 4, g.in_strides[1] = 1;
  g.out_strides[0] = 7, g.out_strides[1] = 1;
  g.batch_dims = 1;
  g.batch_sizes[0] = 2;
  g.in_batch_strides[0] = 16, g.out_batch_strides[0] = 28;
  const fft::PlanLease plan = fft::plan_for(0, cuda::device_epoch(0), g);
  const Tensor work = empty({4096}, {Dtype::uint8, in.device()});
  args.plan = &plan->state;
  args.work = work.data_ptr();
  driver::Kernel kernel = fft::transform_kernel(g);
  kernel.context = plan.plan();
  cuda::launch(cuda::current_stream(0), kernel, args);
  EXPECT_LE(error_of(out.cpu().div(28), wide(x)), 64);
}

TEST_F(FftOnFakeCuda, GivesTheLibraryStreamAndWorkArea) {
  const cuda::Stream stream(0);
  const cuda::StreamGuard guard(stream);
  const Tensor x = on_device(signal(Dtype::complex64, {16}));
  const std::size_t before = cuda::memory_allocated(0);
  const Tensor y = fft::fft(x);
  EXPECT_EQ(fake_->stream, stream.native());
  EXPECT_NE(fake_->work, nullptr);
  EXPECT_EQ(cuda::memory_allocated(0), before + 512);  // the result; the work area went
  EXPECT_GE(cuda::max_memory_allocated(0), before + 512 + fake_->work_bytes);
}

TEST_F(FftOnFakeCuda, GivesThemAgainWhereTheyHaveChanged) {
  fake_->work_bytes = 0;
  const Tensor x = on_device(signal(Dtype::complex64, {16}));
  const cuda::Stream streams[] = {cuda::Stream(0), cuda::Stream(0)};
  int expected = 0;
  for (const int turn : {0, 0, 1, 1, 0}) {
    const cuda::StreamGuard guard(streams[turn]);
    if (fake_->stream != streams[turn].native()) ++expected;
    (void)fft::fft(x);
    EXPECT_EQ(fake_->stream, streams[turn].native());
    EXPECT_EQ(fake_->settings, expected);
  }
  EXPECT_EQ(expected, 3);
  (void)fft::fft(x);
  EXPECT_EQ(fake_->stream, cuda::current_stream(0).native());
  EXPECT_EQ(fake_->made, 1);
}

TEST_F(FftOnFakeCuda, MakesEachPlanOnce) {
  const Tensor x = on_device(signal(Dtype::complex64, {4, 16}));
  for (int i = 0; i < 3; ++i) (void)fft::fft(x);
  (void)fft::ifft(x, {}, -1, "forward");
  EXPECT_EQ(fake_->made, 1);
  EXPECT_EQ(fake_->executions, 4);
  EXPECT_EQ(plans_->size(), 1);
}

TEST_F(FftOnFakeCuda, DestroysPlansThatWereDropped) {
  const Tensor x = on_device(signal(Dtype::complex64, {64}));
  plans_->set_max_size(1);
  for (int n = 1; n <= 64; ++n) {
    (void)fft::fft(x.narrow(0, 0, n));
    EXPECT_LE(fake_->plans, 1 + 17) << n;
  }
  EXPECT_EQ(fake_->made, 64);
  plans_->clear();
  EXPECT_EQ(fake_->plans, 0);
  plans_->set_max_size(0);
  for (int i = 0; i < 40; ++i) (void)fft::fft(x);
  EXPECT_EQ(fake_->made, 104);
  plans_->clear();
  EXPECT_EQ(fake_->plans, 0);
}

TEST_F(FftOnFakeCuda, MakesRoomForPlans) {
  const Tensor x = on_device(signal(Dtype::complex64, {64}));
  const auto fill = [&] {
    for (int n = 1; n <= 8; ++n) (void)fft::fft(x.narrow(0, 0, n));
    EXPECT_EQ(plans_->size(), 8);
  };
  fill();
  fake_->without_memory = 1;
  (void)fft::fft(x);
  EXPECT_EQ(plans_->size(), 5);  // half of them went
  EXPECT_EQ(fake_->plans, 5);
  plans_->clear();
  fill();
  fake_->without_memory = 2;
  (void)fft::fft(x);
  EXPECT_EQ(plans_->size(), 1);
  EXPECT_EQ(fake_->plans, 1);
  fake_->without_memory = 3;
  EXPECT_ERROR(fft::fft(x.narrow(0, 0, 60)), OutOfMemoryError,
               "CUDA out of memory. The plan of a Fourier transform needs memory beside that of "
               "tensors");
  EXPECT_EQ(fake_->plans, 0);
  EXPECT_LE(error_of(fft::fft(x).cpu(), dft(wide(x.cpu()), true)), 64);
}

TEST_F(FftOnFakeCuda, NamesWhatFailed) {
  const Tensor x = on_device(signal(Dtype::complex64, {2, 12}));
  fake_->next_execution = 6;
  EXPECT_ERROR(fft::fft(x), AcceleratorError,
               "launching kernel 'fft_c2c.float32': 2 transforms of 12: CUFFT_EXEC_FAILED");
}

TEST_F(FftOnFakeCuda, PlansGoWithAReset) {
  (void)fft::fft(on_device(signal(Dtype::complex64, {12})));
  EXPECT_EQ(plans_->size(), 1);
  cuda::reset_device(0);
  EXPECT_EQ(plans_->size(), 0);
  const Tensor x = signal(Dtype::complex64, {12});
  EXPECT_LE(error_of(fft::fft(on_device(x)).cpu(), dft(wide(x), true)), 64);
  EXPECT_EQ(fake_->made, 2);
}

TEST(FftWithoutLibrary, NamesIt) {
  auto* cuda = static_cast<FakeCuda*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), kFakeCuda));
  ASSERT_NE(cuda, nullptr);
  cuda->largest_allocation = std::size_t{1} << 30;
  EXPECT_ERROR(fft::fft(ones({4}, Dtype::complex64).to("cuda:0")), AcceleratorError,
               "Fourier transforms need cuFFT (libcufft.so.12 or .11), which could not be opened");
}

}  // namespace
}  // namespace ember::test
