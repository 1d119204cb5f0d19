#include "tests/comm/support.h"

namespace ember::test {
namespace {

using Scatter = OnDevices;
using Gather = OnDevices;

// Without sizes pieces are those of chunk(), along every dimension and from every kind of memory.
TEST_P(Scatter, EqualPieces) {
  for (const std::string from : {"cpu", "pinned", "cuda:0"})
    for (const std::int64_t dim : {0, 1, -1})
      for (const std::int64_t size : {0, 1, 3, 8, 9}) {
        Shape sizes{4, 4};
        sizes[dim == 0 ? 0 : 1] = size;
        Tensor source = numbers(sizes, float32, Device::Type::cpu, 1);
        if (from == "pinned") source = source.pin_memory();
        if (from == "cuda:0") source = source.to(cuda_device(0));
        const auto expected = source.chunk(count(), dim);
        const auto pieces = comm::scatter(source, first_devices(count()), {}, dim);
        ASSERT_EQ(pieces.size(), expected.size());
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          EXPECT_EQ(pieces[i].get_device(), static_cast<int>(i));
          expect_equal(pieces[i], expected[i], from + " piece " + std::to_string(i));
          EXPECT_EQ(pieces[i].storage() == source.storage(), from == "cuda:0" && i == 0);
        }
      }
}

// Pieces have the sizes that were given, and are there when the streams that were given are done.
TEST_P(Scatter, GivenSizesAndStreams) {
  const Tensor source = numbers({4 + count(), 3}, int64, cuda_device(0), 2);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count()), 1);
  sizes.back() += 4;
  comm::Streams streams;
  for (int i = 0; i < count(); ++i)
    streams.push_back(i % 2 == 0 ? std::optional<cuda::Stream>() : cuda::Stream(i));
  const auto pieces = comm::scatter(source, first_devices(count()), sizes, 0, streams);
  for (int i = 0; i < count(); ++i)
    if (streams[static_cast<std::size_t>(i)]) streams[static_cast<std::size_t>(i)]->synchronize();
  const auto expected = source.split(sizes, 0);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    expect_equal(pieces[i], expected[i], "piece " + std::to_string(i));
}

// Outputs say how large the pieces are, and are what comes back.
TEST_P(Scatter, IntoOutputs) {
  for (const bool on_device : {false, true}) {
    const Tensor plain = numbers({3, 2 * count() + 1}, float32, Device::Type::cpu, 3);
    const Tensor source = on_device ? plain.to(cuda_device(0)) : plain;
    std::vector<Tensor> out;
    for (int i = 0; i < count(); ++i) out.push_back(zeros({3, i == 0 ? 3 : 2}, cuda_device(i)));
    const auto same = comm::scatter(source, {}, {}, 1, {}, out);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(same[i].is(out[i]));
      expect_equal(out[i], plain.narrow(1, start, out[i].size(1)), "out " + std::to_string(i));
      start += out[i].size(1);
    }
  }
}

TEST_P(Gather, PutsPiecesTogether) {
  for (const Dtype dtype : {float32, bool_, complex128, float16})
    for (const std::int64_t dim : {0, 1, -1}) {
      std::vector<Tensor> pieces;
      for (int i = 0; i < count(); ++i) {
        Shape sizes{3, 4};
        sizes[dim == 0 ? 0 : 1] = 2 + i % 3;
        pieces.push_back(numbers(sizes, dtype, cuda_device(i), i));
      }
      std::vector<Tensor> here;
      for (const Tensor& piece : pieces) here.push_back(piece.cpu());
      const Tensor expected = cat(here, dim);
      for (const comm::Destination& place :
           {comm::Destination("cpu"), comm::Destination(-1), comm::Destination(count() - 1),
            comm::Destination(), comm::Destination("cuda")}) {
        const Tensor whole = comm::gather(pieces, dim, place);
        EXPECT_EQ(whole.device(), place.device());
        expect_equal(whole, expected, dtype_name(dtype));
      }
      Tensor out = zeros({expected.size(1), expected.size(0)}, {dtype, cuda_device(0)}).t();
      EXPECT_TRUE(comm::gather(pieces, dim, {}, out).is(out));
      expect_equal(out, expected, "out");
      Tensor on_cpu = zeros(expected.sizes(), dtype);
      (void)comm::gather(pieces, dim, {}, on_cpu);
      expect_equal(on_cpu, expected, "out on the CPU");
    }
}

// Large pieces arrive; the result has the pieces' memory format if it is one, else the usual.
TEST_P(Gather, LargePiecesAndMemoryFormat) {
  std::vector<Tensor> pieces;
  std::vector<Tensor> images;
  std::vector<Tensor> here;
  std::vector<Tensor> images_here;
  for (int i = 0; i < count(); ++i) {
    pieces.push_back(numbers({300, 1001}, float32, cuda_device(i), i));
    images.push_back(numbers({2, 4, 5, 3}, float32, cuda_device(i), i).permute({0, 3, 1, 2}));
    here.push_back(pieces.back().cpu());
    images_here.push_back(images.back().cpu());
  }
  expect_equal(comm::gather(pieces, 0, 0), cat(here), "large");
  const Tensor whole = comm::gather(images, 0, 0);
  expect_equal(whole, cat(images_here), "images");
  EXPECT_EQ(whole.strides()[1], 1);
  if (count() > 1) {
    images[0] = images[0].contiguous();
    EXPECT_TRUE(comm::gather(images, 0, 0).is_contiguous());
  }
}

TEST_P(Gather, IsTheInverseOfScatter) {
  const Tensor source = numbers({7, 2 * count() + 3, 4}, float64, cuda_device(0), 5);
  for (const std::int64_t dim : {0, 1, 2})
    expect_equal(comm::gather(comm::scatter(source, first_devices(count()), {}, dim), dim, 0),
                 source, "there and back");
}

INSTANTIATE_TEST_SUITE_P(Devices, Scatter, ::testing::Range(1, 5));
INSTANTIATE_TEST_SUITE_P(Devices, Gather, ::testing::Range(1, 5));

}  // namespace
}  // namespace ember::test
