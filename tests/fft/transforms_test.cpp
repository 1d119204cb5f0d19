// Transforms: right by the definition, and the same bits on the CPU and on the device, whatever the
// number of threads and the strides.
#include <functional>

#include "ember/fft/transform.h"
#include "tests/fft/support.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

constexpr double kUlp = 512;  // between cuFFT and the CPU, of numbers of the size of a row's

class Transforms : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Each, Transforms, ::testing::Values(Dtype::float32, Dtype::float64),
                         [](const auto& param) { return dtype_name(param.param); });

/// Lengths with every kind of factor.
std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> list;
  for (std::int64_t n = 1; n <= 70; ++n) list.push_back(n);
  for (const std::int64_t n : {97,  100, 121, 128, 169, 210,  243,  251,  256,  300,
                               343, 509, 512, 600, 625, 1000, 1009, 1024, 1100, 1155})
    list.push_back(n);
  return list;
}

/// What is said of one tensor holds where it is and on the device.
void on_each(const Tensor& x, const std::function<void(const Tensor&, const std::string&)>& body) {
  for (const Tensor& place : places(x)) body(place, place.device().str());
}

TEST_P(Transforms, AreRightByTheDefinition) {
  NEEDS_HOST_FFT();
  const Dtype complex = complex_dtype(GetParam());
  for (const std::int64_t n : lengths()) {
    const Tensor x = signal(complex, {n}, static_cast<unsigned>(n));
    const auto forward = dft(wide(x), true);
    const auto backward = dft(wide(x), false);
    on_each(x, [&](const Tensor& here, const std::string& where) {
      EXPECT_LE(error_of(fft::fft(here), forward), bound_of(n)) << where << " " << n;
      EXPECT_LE(error_of(fft::ifft(here, {}, -1, "forward"), backward), bound_of(n))
          << where << " " << n;
    });
  }
}

TEST_P(Transforms, OfRealSignalsAreHalves) {
  NEEDS_HOST_FFT();
  for (const std::int64_t n : lengths()) {
    const Tensor x = signal(GetParam(), {n}, static_cast<unsigned>(n));
    auto expected = dft(wide(x), true);
    on_each(x, [&](const Tensor& here, const std::string& where) {
      const Tensor whole = fft::fft(here);
      EXPECT_LE(error_of(whole, expected), bound_of(n)) << where << " " << n;
      for (std::int64_t k = 1; k < n; ++k) {
        const auto a = whole.select(0, k).item<std::complex<double>>();
        const auto b = whole.select(0, n - k).item<std::complex<double>>();
        if (n > 40) break;
        if (2 * k == n)  // its own other half: real, but for what cuFFT leaves
          EXPECT_LE(std::abs(a.imag()), bound_of(n) * std::abs(a)) << where << " " << n;
        else
          EXPECT_EQ(a, std::conj(b)) << where << " " << n << ", " << k;
      }
      const Tensor half = fft::rfft(here);
      EXPECT_EQ(half.numel(), n / 2 + 1);
      EXPECT_LE(error_of(half, {expected.begin(), expected.begin() + n / 2 + 1}), bound_of(n))
          << where << " " << n;
      const Tensor back = fft::irfft(half, n);
      EXPECT_LE(error_of(back, wide(x)), 2 * bound_of(n)) << where << " " << n;
      EXPECT_LE(error_of(fft::hfft(fft::ihfft(here), n), wide(x)), 2 * bound_of(n))
          << where << " " << n;
    });
  }
}

TEST_P(Transforms, AreNormalised) {
  NEEDS_HOST_FFT();
  const Tensor x = signal(complex_dtype(GetParam()), {12});
  const double n = 12;
  struct Row {
    const char* norm;
    double forward, backward;
  };
  on_each(x, [&](const Tensor& here, const std::string& where) {
    const Tensor plain = fft::fft(here);
    const Tensor back = fft::ifft(here, {}, -1, "forward");
    for (const Row& row : {Row{"backward", 1, 1 / n}, Row{"forward", 1 / n, 1},
                           Row{"ortho", 1 / std::sqrt(n), 1 / std::sqrt(n)}}) {
      EXPECT_LE(error_of(fft::fft(here, {}, -1, row.norm), wide(plain.cpu() * row.forward)), 4)
          << where << " " << row.norm;
      EXPECT_LE(error_of(fft::ifft(here, {}, -1, row.norm), wide(back.cpu() * row.backward)), 4)
          << where << " " << row.norm;
    }
  });
}

/// Along several dimensions one after the other.
Tensor one_by_one(Tensor x, const Shape& dims, bool forward) {
  for (const std::int64_t dim : dims) x = forward ? fft::fft(x, {}, dim) : fft::ifft(x, {}, dim);
  return x;
}

TEST_P(Transforms, GoAlongSeveralDimensions) {
  NEEDS_HOST_FFT();
  const Dtype complex = complex_dtype(GetParam());
  const Tensor x = signal(complex, {3, 1, 4, 5, 2, 6});
  for (const Shape& dims : std::vector<Shape>{
           {0}, {2}, {5}, {0, 5}, {2, 3}, {3, 2, 0}, {0, 2, 3, 5}, {0, 1, 2, 3, 4, 5}, {1}, {}}) {
    on_each(x, [&](const Tensor& here, const std::string& where) {
      const std::string what = where + " " + dims.str();
      const Tensor expected = one_by_one(here, dims, true);
      EXPECT_LE(error_of(fft::fftn(here, {}, dims), wide(expected)), 16) << what;
      EXPECT_LE(error_of(fft::ifftn(here, {}, dims), wide(one_by_one(here, dims, false))), 16)
          << what;
      if (dims.empty()) return;
      const Tensor real = here.real().contiguous();
      const Tensor half = fft::rfftn(real, {}, dims);
      const std::int64_t last = dims.back();
      const std::int64_t size = real.size(last);
      const Tensor whole = one_by_one(real.to(complex), dims, true);
      EXPECT_LE(error_of(half, wide(whole.narrow(last, 0, size / 2 + 1))), 16) << what;
      Shape sizes;
      for (const std::int64_t dim : dims) sizes.push_back(real.size(dim));
      EXPECT_LE(error_of(fft::irfftn(half, sizes, dims), wide(real)), 16) << what;
      EXPECT_LE(error_of(fft::hfftn(fft::ihfftn(real, {}, dims), sizes, dims), wide(real)), 16)
          << what;
    });
  }
}

TEST_P(Transforms, AreTheSameOnTheDevice) {
  NEEDS_HOST_FFT();
  NEEDS_DEVICES(1);
  const Dtype complex = complex_dtype(GetParam());
  const auto same = [&](const Tensor& x, const char* what, const auto& call) {
    const Tensor here = call(x);
    const double size = here.abs().max().item<double>();
    expect_same(call(x.to(kDevice)), here, kUlp, std::string(what) + x.sizes().str(), size);
  };
  for (const std::int64_t n : {1, 2, 7, 16, 45, 263, 1024, 4096, 5000}) {
    for (const Shape& sizes : {Shape{n}, Shape{5, n}, Shape{2, n, 3}}) {
      const Tensor x = signal(complex, sizes);
      const int dim = sizes.size() == 3 ? 1 : -1;
      same(x, "fft", [&](const Tensor& t) { return fft::fft(t, {}, dim); });
      same(x, "ifft", [&](const Tensor& t) { return fft::ifft(t, {}, dim, "ortho"); });
      same(x.real(), "fft of reals", [&](const Tensor& t) { return fft::fft(t, {}, dim); });
      same(x.real(), "rfft", [&](const Tensor& t) { return fft::rfft(t, {}, dim); });
      same(x.real(), "irfft",
           [&](const Tensor& t) { return fft::irfft(fft::rfft(t, n + 1, dim), n + 1, dim); });
    }
  }
  same(signal(complex, {90, 1024}), "fft along pages",
       [](const Tensor& t) { return fft::fft(t, {}, 0); });
  const Tensor x = signal(complex, {4, 5, 6, 7, 2});
  same(x, "fftn", [](const Tensor& t) { return fft::fftn(t); });
  same(x.real(), "rfftn", [](const Tensor& t) { return fft::rfftn(t); });
  same(x.real(), "irfftn", [](const Tensor& t) {
    return fft::irfftn(fft::rfftn(t, Shape{4, 5, 6, 7, 3}), Shape{4, 5, 6, 7, 3});
  });
}

/// Views of one content that lie differently.
std::vector<Tensor> views_of(const Tensor& x) {
  std::vector<Tensor> list{x};
  const Tensor turned = x.transpose(0, 2).contiguous().transpose(0, 2);
  list.push_back(turned);
  Shape larger = x.sizes();
  for (int d = 0; d < larger.size(); ++d) larger[d] = larger[d] * 2 + 1;
  Tensor gaps = zeros(larger, x.options());
  for (int d = 0; d < larger.size(); ++d) gaps = gaps.slice(d, 1, std::nullopt, 2);
  gaps.copy_(x);
  list.push_back(gaps);
  // Behind one element, so that no pair of them is aligned.
  const Tensor behind = zeros({x.numel() + 1}, x.options()).narrow(0, 1, x.numel());
  behind.copy_(x.reshape({-1}));
  list.push_back(behind.view(x.sizes()));
  return list;
}

TEST_P(Transforms, DoNotDependOnStrides) {
  NEEDS_HOST_FFT();
  const Tensor complex = signal(complex_dtype(GetParam()), {6, 9, 8});
  for (const Tensor& x : {complex, complex.real().contiguous()}) {
    on_each(x, [&](const Tensor& here, const std::string& where) {
      for (const Shape& dims : std::vector<Shape>{{0}, {1}, {2}, {0, 1}, {2, 0}, {0, 1, 2}}) {
        const auto check = [&](const Tensor& got, const Tensor& expected, const char* what) {
          const double error = error_of(got, wide(expected));
          EXPECT_LE(error, here.is_cuda() && !cuda::is_simulated() ? 16
                           : dims.size() > 1                       ? 8
                                                                   : 0)
              << what << " " << where << " " << dims.str();
        };
        for (const Tensor& view : views_of(here)) {
          check(fft::fftn(view, {}, dims), fft::fftn(here, {}, dims), "fftn");
          // Of what is no half of a real signal cuFFT makes what it likes.
          if (here.is_complex() && here.is_cuda() && !cuda::is_simulated()) continue;
          if (here.is_complex())
            check(fft::irfftn(view, {}, dims), fft::irfftn(here, {}, dims), "irfftn");
          else
            check(fft::rfftn(view, {}, dims), fft::rfftn(here, {}, dims), "rfftn");
          if (here.is_complex()) check(view, here, "what it was");
        }
      }
      const Tensor row = here.select(0, 0).select(0, 0);
      const Tensor rows = row.expand({4, 5, 8});
      EXPECT_LE(error_of(fft::fft(rows), wide(fft::fft(row).expand({4, 5, 8}))), 4) << where;
    });
  }
}

TEST_P(Transforms, DoNotDependOnThreads) {
  NEEDS_HOST_FFT();
  const int threads = get_num_threads();
  const Dtype complex = complex_dtype(GetParam());
  const auto check = [&](const Tensor& x, const auto& call) {
    set_num_threads(1);
    const Tensor expected = call(x);
    for (const int count : {2, 3, 7}) {
      set_num_threads(count);
      const Tensor got = call(x);
      EXPECT_EQ(std::memcmp(got.contiguous().data_ptr(), expected.contiguous().data_ptr(),
                            expected.nbytes()),
                0)
          << x.sizes().str() << " on " << count << " threads";
    }
  };
  const std::vector<Shape> all{{262'144},  {100, 1000},   {17, 4096},  {5, 131'072},
                               {301, 307}, {262'147},     {5, 20'011}, {1023, 257},
                               {131'072},  {3, 399, 100}, {3, 65'536}};
  for (const Shape& sizes : one_of_three_if_sanitized(all)) {
    check(signal(complex, sizes), [](const Tensor& t) { return fft::fft(t); });
    check(signal(complex, sizes), [](const Tensor& t) { return fft::fftn(t); });
    check(signal(GetParam(), sizes), [](const Tensor& t) { return fft::rfftn(t); });
    check(signal(complex, sizes), [](const Tensor& t) { return fft::irfft(t); });
    check(signal(GetParam(), sizes), [](const Tensor& t) { return fft::fft(t, {}, 0); });
  }
  set_num_threads(threads);
}

/// Threads take whole signals of such a batch, each its own: those of any strides are the right
/// ones.
TEST(Transforms, LongOnesOfABatchAreThoseOfEachAlone) {
  NEEDS_HOST_FFT();
  const int threads = get_num_threads();
  const Tensor x = signal(Dtype::complex64, {3, 2, 131'072}).transpose(0, 1);
  const Tensor real = signal(Dtype::float32, {3, 262'144});
  Tensor wide_rows = empty({2, 3, 262'144}, Dtype::complex64);
  for (const int count : {1, 2, 4}) {
    set_num_threads(count);
    Tensor every_other = wide_rows.slice(2, 0, std::nullopt, 2);
    fft::fft_out(every_other, x);
    const Tensor half = fft::rfft(real);
    const Tensor back = fft::irfft(half);
    for (int i = 0; i < 3; ++i) {
      for (int k = 0; k < 2; ++k)
        EXPECT_TRUE(
            equal(every_other.select(1, i).select(0, k), fft::fft(x.select(1, i).select(0, k))))
            << "signal " << k << ", " << i << " on " << count << " threads";
      EXPECT_TRUE(equal(half.select(0, i), fft::rfft(real.select(0, i)))) << i << ", " << count;
      EXPECT_TRUE(equal(back.select(0, i), fft::irfft(half.select(0, i)))) << i << ", " << count;
    }
  }
  set_num_threads(threads);
}

TEST_P(Transforms, CutOffAndPad) {
  NEEDS_HOST_FFT();
  const Tensor x = signal(complex_dtype(GetParam()), {5, 6});
  on_each(x, [&](const Tensor& here, const std::string& where) {
    const Tensor padded = zeros({5, 9}, here.options());
    padded.narrow(1, 0, 6).copy_(here);
    EXPECT_EQ(error_of(fft::fft(here, 9), wide(fft::fft(padded))), 0) << where;
    EXPECT_EQ(error_of(fft::fft(here, 4), wide(fft::fft(here.narrow(1, 0, 4).contiguous()))), 0)
        << where;
    const Tensor mixed = zeros({7, 3}, here.options());
    mixed.narrow(0, 0, 5).copy_(here.narrow(1, 0, 3));
    EXPECT_LE(error_of(fft::fft2(here, Shape{7, 3}), wide(fft::fft2(mixed))), 1) << where;
  });
}

TEST(Transforms, WriteToOutputs) {
  NEEDS_HOST_FFT();
  const Tensor x = signal(Dtype::complex64, {4, 6});
  on_each(x, [&](const Tensor& here, const std::string& where) {
    const Tensor expected = fft::fft(here);
    Tensor empty_out = empty({0}, {Dtype::complex64, here.device()});
    EXPECT_EQ(error_of(fft::fft_out(empty_out, here), wide(expected)), 0) << where;
    Tensor wider = empty({4, 6}, {Dtype::complex128, here.device()});
    EXPECT_LE(error_of(fft::fft_out(wider, here).to(Dtype::complex64), wide(expected)), 0) << where;
    Tensor itself = here.clone();
    EXPECT_EQ(error_of(fft::fft_out(itself, itself), wide(expected)), 0) << where;
    Tensor half = empty({4, 6}, {Dtype::float16, here.device()});
    EXPECT_LE(error_of(fft::irfft_out(half, here.narrow(1, 0, 4)),
                       wide(fft::irfft(here.narrow(1, 0, 4)))),
              2)
        << where;
  });
}

TEST(Transforms, OfNothingAreNothing) {
  NEEDS_HOST_FFT();
  on_each(zeros({0, 5}), [&](const Tensor& here, const std::string& where) {
    EXPECT_EQ(fft::fft(here).sizes(), (Shape{0, 5})) << where;
    EXPECT_EQ(fft::rfft(here).sizes(), (Shape{0, 3})) << where;
    EXPECT_EQ(fft::irfft(here).sizes(), (Shape{0, 8})) << where;
    EXPECT_EQ(fft::fftn(here, {}, Shape{}).sizes(), (Shape{0, 5})) << where;
  });
}

TEST(Transforms, LieInTorchsOrder) {
  NEEDS_HOST_FFT();
  const Tensor x = signal(Dtype::complex64, {4, 5, 6});
  on_each(x, [&](const Tensor& here, const std::string& where) {
    EXPECT_EQ(fft::fft(here).strides(), (Shape{30, 6, 1})) << where;
    EXPECT_EQ(fft::fft(here, {}, 0).strides(), (Shape{1, 24, 4})) << where;
    EXPECT_EQ(fft::fft(here, {}, 1).strides(), (Shape{30, 1, 5})) << where;
    EXPECT_EQ(fft::fftn(here, {}, Shape{0, 2}).strides(), (Shape{6, 24, 1})) << where;
    EXPECT_EQ(fft::fft(here.transpose(0, 2)).strides(), (Shape{4, 24, 1})) << where;
    EXPECT_EQ(fft::rfft(here.real().transpose(0, 2), {}, 0).strides(), (Shape{1, 4, 20})) << where;
    EXPECT_EQ(fft::irfftn(here, {}, Shape{0, 1}).strides(), (Shape{8, 1, 32})) << where;
    EXPECT_EQ(fft::ihfftn(here.real()).strides(), (Shape{5, 1, 20})) << where;
  });
}

TEST(Transforms, HaveFrequencies) {
  EXPECT_EQ(values<double>(fft::fftfreq(5, 0.5, Dtype::float64)),
            (std::vector<double>{0, 0.4, 0.8, -0.8, -0.4}));
  EXPECT_EQ(values<double>(fft::fftfreq(4)), (std::vector<double>{0, 0.25, -0.5, -0.25}));
  EXPECT_EQ(values<double>(fft::rfftfreq(4)), (std::vector<double>{0, 0.25, 0.5}));
  EXPECT_EQ(fft::fftfreq(0).numel(), 0);
  on_each(arange(30, Dtype::float32).view({5, 6}), [&](const Tensor& here, const std::string& at) {
    EXPECT_EQ(values<int>(fft::ifftshift(fft::fftshift(here))), values<int>(here)) << at;
    EXPECT_EQ(values<int>(fft::fftshift(here, Shape{1})), values<int>(here.roll({3}, {1}))) << at;
  });
}

/// Real signals that are computed as complex ones of half their length, by their definition in
/// terms of those of the whole length.
TEST_P(Transforms, OfLongRealSignals) {
  NEEDS_HOST_FFT();
  if (kThreadSanitizer && GetParam() == Dtype::float64)
    GTEST_SKIP() << "its threads do what those of float32 do, in a minute";
  const Dtype complex = complex_dtype(GetParam());
  // Long enough with halves that are even, odd and prime; and one that is just too short.
  const std::vector<std::int64_t> all{262'144, 262'142, 300'030, 524'294, 262'140};
  const std::vector<std::int64_t> lengths =
      kThreadSanitizer ? std::vector{all[0]} : one_of_three_if_sanitized(all);
  for (const std::int64_t n : lengths) {
    const Tensor x = signal(GetParam(), {n});
    on_each(x, [&](const Tensor& here, const std::string& where) {
      const Tensor whole = fft::fft(here.to(complex));
      const Tensor half = fft::rfft(here);
      const double bound = 4 * bound_of(n);
      EXPECT_LE(error_of(half, wide(whole.narrow(0, 0, n / 2 + 1))), bound) << where << " " << n;
      EXPECT_EQ(half.select(0, 0).item<std::complex<double>>().imag(), 0) << where;
      EXPECT_EQ(half.select(0, n / 2).item<std::complex<double>>().imag(), 0) << where;
      EXPECT_LE(error_of(fft::irfft(half), wide(here)), bound) << where << " " << n;
      EXPECT_LE(error_of(fft::ihfft(here, {}, -1, "forward"), wide(half.conj())), bound) << where;
      EXPECT_LE(error_of(fft::rfft(here, {}, -1, "ortho"),
                         wide(half / std::sqrt(static_cast<double>(n)))),
                bound)
          << where;
      // With gaps on either side, and a half that belongs to no real signal.
      if (here.is_cuda() && !cuda::is_simulated()) return;
      const Tensor gaps = zeros({n, 2}, here.options()).select(1, 0);
      Tensor(gaps).copy_(here);
      EXPECT_EQ(error_of(fft::rfft(gaps), wide(half)), 0) << where;
      const Tensor half_gaps = zeros({n / 2 + 1, 3}, half.options()).select(1, 1);
      Tensor(half_gaps).copy_(half);
      half_gaps.select(0, 0).add_(std::complex<double>(0, 7));
      half_gaps.select(0, n / 2).add_(std::complex<double>(0, -7));
      EXPECT_EQ(error_of(fft::irfft(half_gaps), wide(fft::irfft(half))), 0) << where;
      Tensor apart = zeros({n, 2}, here.options()).select(1, 0);
      EXPECT_EQ(error_of(fft::irfft_out(apart, half), wide(fft::irfft(half))), 0) << where;
    });
  }
}

TEST(Transforms, OfLongSignals) {
  NEEDS_HOST_FFT();
  // By their energy, and there and back.
  for (const std::int64_t n :
       one_of_three_if_sanitized(std::vector{1 << 20, 1'000'003, 3'000'000})) {
    const Tensor x = signal(Dtype::complex128, {n});
    on_each(x, [&](const Tensor& here, const std::string& where) {
      const Tensor y = fft::fft(here, {}, -1, "ortho");
      const auto energy = [](const Tensor& t) { return t.view_as_real().norm().item<double>(); };
      EXPECT_NEAR(energy(y) / energy(here), 1, 1e-13) << where << " " << n;
      const Tensor error = (fft::ifft(y, {}, -1, "ortho") - here).view_as_real().norm();
      EXPECT_LE(error.item<double>() / energy(here), 2 * bound_of(n) * 0x1p-52) << where;
    });
  }
}

}  // namespace
}  // namespace ember::test
