// The variants in which the host's transforms are compiled give the same bits.
#include <cstring>

#include "ember/fft/host/variants.h"
#include "tests/fft/support.h"

namespace ember::test {
namespace {

#ifndef EMBER_FFT_WITH_AVX2

TEST(HostTransforms, AreTheSameWithVectorsAndWithout) {
  GTEST_SKIP() << "this build has no variant with AVX2";
}

#else

driver::FftGeometry geometry_of(driver::FftKind kind, bool is_wide, const Shape& batch,
                                const Shape& sizes, bool turned) {
  driver::FftGeometry g;
  g.kind = kind;
  g.real_bytes = is_wide ? 8 : 4;
  g.dims = sizes.size();
  g.batch_dims = batch.size();
  std::int64_t in = 1;
  std::int64_t out = 1;
  const auto set_batch = [&] {
    for (int d = g.batch_dims - 1; d >= 0; --d) {
      g.batch_sizes[d] = batch[d];
      g.in_batch_strides[d] = in;
      g.out_batch_strides[d] = out;
      in *= batch[d];
      out *= batch[d];
    }
  };
  if (turned) set_batch();
  for (int d = g.dims - 1; d >= 0; --d) {
    const std::int64_t half = d == g.dims - 1 ? sizes[d] / 2 + 1 : sizes[d];
    g.sizes[d] = sizes[d];
    g.in_strides[d] = in;
    g.out_strides[d] = out;
    in *= kind == driver::FftKind::c2r ? half : sizes[d];
    out *= kind == driver::FftKind::r2c ? half : sizes[d];
  }
  if (!turned) set_batch();
  return g;
}

template <class T>
void expect_same_bits(const driver::FftGeometry& g) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> number(-1, 1);
  std::size_t count = 2 * static_cast<std::size_t>(g.transforms());
  for (int d = 0; d < g.dims; ++d) count *= static_cast<std::size_t>(g.sizes[d] + 2);
  std::vector<T> in(count);
  for (T& value : in) value = static_cast<T>(number(random));
  std::vector<T> plain(count);
  std::vector<T> vectors(count);
  driver::FftArgs args;
  args.in = in.data();
  args.scale = 0.3;
  args.geometry = g;
  args.forward = g.kind != driver::FftKind::c2r;
  args.out = plain.data();
  ASSERT_TRUE(fft::host::plain::transform<T>(args, 1).ok());
  args.out = vectors.data();
  ASSERT_TRUE(fft::host::avx2::transform<T>(args, 3).ok());
  EXPECT_EQ(std::memcmp(plain.data(), vectors.data(), count * sizeof(T)), 0)
      << "kind " << static_cast<int>(g.kind) << " of " << g.sizes[0] << " and " << g.sizes[1]
      << ", batch " << g.batch_sizes[0];
}

TEST(HostTransforms, AreTheSameWithVectorsAndWithout) {
  NEEDS_HOST_FFT();
  if (!fft::host::has_avx2()) GTEST_SKIP() << "this processor has no AVX2";
  using driver::FftKind;
  std::vector<Shape> signals;
  for (std::int64_t n = 1; n <= 64; ++n) signals.push_back({n});
  for (const std::int64_t n :
       {100, 301, 304, 1000, 1021, 1024, 1155, 4096, 10'007, 12'000, 20'000, 65'536, 100'000,
        131'072, 262'144, 262'147, 300'030, 371'293, 393'216})
    signals.push_back({n});
  for (const Shape& sizes : {Shape{7, 9}, Shape{12, 400}, Shape{32, 16}, Shape{3, 4, 5}})
    signals.push_back(sizes);
  for (const Shape& sizes : signals)
    for (const Shape& batch : {Shape{}, Shape{3}, Shape{17}, Shape{3, 5}}) {
      if (element_count(sizes) * element_count(batch) > 400'000) continue;
      for (const FftKind kind : {FftKind::c2c, FftKind::r2c, FftKind::c2r})
        for (const bool turned : {false, true}) {
          expect_same_bits<float>(geometry_of(kind, false, batch, sizes, turned));
          expect_same_bits<double>(geometry_of(kind, true, batch, sizes, turned));
        }
    }
}

#endif

}  // namespace
}  // namespace ember::test
