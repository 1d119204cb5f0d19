// Views: each against the elements that it should show, which the test finds by itself.
#include "ember/tensor/views.h"

#include <numeric>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

using Numbers = std::vector<std::int64_t>;

Tensor numbered(const Shape& sizes) { return arange(element_count(sizes)).view(sizes); }

/// The element at an index, straight from the storage.
std::int64_t at(const Tensor& x, const Shape& index) {
  std::int64_t offset = 0;
  for (int i = 0; i < index.size(); ++i) offset += index[i] * x.strides()[i];
  return x.data<std::int64_t>()[offset];
}

/// Expects `view` to be a view of `base` with these elements.
void expect_view(const Tensor& view, const Tensor& base, const Shape& sizes,
                 const Numbers& elements) {
  EXPECT_EQ(view.sizes(), sizes);
  EXPECT_TRUE(view.storage() == base.storage());
  EXPECT_FALSE(view.is(base));
  EXPECT_EQ(view.is_contiguous(), is_contiguous(view.sizes(), view.strides()));
  Shape index = Shape::repeat(view.dim(), 0);
  Numbers found;
  for (std::int64_t i = 0; i < view.numel(); ++i) {
    std::int64_t rest = i;
    for (int d = view.dim() - 1; d >= 0; --d) {
      index[d] = rest % view.sizes()[d];
      rest /= view.sizes()[d];
    }
    found.push_back(at(view, index));
  }
  EXPECT_EQ(found, elements);
}

TEST(Views, Transpose) {
  const Tensor x = numbered({2, 3});
  expect_view(x.t(), x, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_view(x.transpose(-1, 0), x, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_view(x.transpose(1, 1), x, {2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_FALSE(x.t().is_contiguous());
  EXPECT_TRUE(x.t().t().is_contiguous());
  EXPECT_EQ(scalar_tensor(1).t().dim(), 0);
  EXPECT_EQ(scalar_tensor(1).transpose(0, -1).dim(), 0);
}

TEST(Views, TransposeErrors) {
  EXPECT_ERROR(numbered({1, 1, 1}).t(), Error,
               "t() expects a tensor with <= 2 dimensions, but self is 3D");
  EXPECT_ERROR(numbered({2, 3}).transpose(0, 2), IndexError,
               "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
}

TEST(Views, Permute) {
  const Tensor x = numbered({2, 1, 3});
  expect_view(x.permute({2, 0, 1}), x, {3, 2, 1}, {0, 3, 1, 4, 2, 5});
  expect_view(x.permute({-1, 1, 0}), x, {3, 1, 2}, {0, 3, 1, 4, 2, 5});
  EXPECT_ERROR(x.permute({0, 1}), Error, "input.dim() = 3 is not equal to len(dims) = 2");
  EXPECT_ERROR(x.permute({0, 1, -3}), Error, "permute(): duplicate dims are not allowed.");
  EXPECT_ERROR(x.permute({0, 1, 3}), IndexError, "but got 3)");
  EXPECT_EQ(scalar_tensor(1).permute({}).dim(), 0);
}

// view() only where no copy is needed; reshape() copies elsewhere.
TEST(Views, ViewAndReshape) {
  const Tensor x = numbered({2, 3});
  expect_view(x.view({3, -1}), x, {3, 2}, {0, 1, 2, 3, 4, 5});
  expect_view(x.view({1, 6, 1}), x, {1, 6, 1}, {0, 1, 2, 3, 4, 5});
  expect_view(x.t().view({3, 2, 1}), x, {3, 2, 1}, {0, 3, 1, 4, 2, 5});
  const Tensor cut = numbered({4, 6}).slice(1, 0, 4);  // rows with gaps
  expect_view(cut.view({2, 2, 2, 2}), cut, {2, 2, 2, 2},
              {0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21});
  EXPECT_EQ(numbered({1}).view({}).dim(), 0);
  EXPECT_EQ(scalar_tensor(1).view({1, 1}).dim(), 2);
  EXPECT_EQ(empty({0, 3}).view({3, -1}).sizes(), Shape({3, 0}));
  EXPECT_EQ(empty({0}).view({5, 0}).sizes(), Shape({5, 0}));
  EXPECT_ERROR(x.t().view({6}), Error,
               "view size is not compatible with input tensor's size and stride");
  EXPECT_ERROR(cut.view({16}), Error, "Use .reshape(...) instead.");
  EXPECT_ERROR(x.view({4}), Error, "shape '[4]' is invalid for input of size 6");
  EXPECT_ERROR(x.view({-1, 4}), Error, "shape '[-1, 4]' is invalid for input of size 6");
  EXPECT_ERROR(x.view({-1, -1}), Error, "only one dimension can be inferred");
  EXPECT_ERROR(x.view({-2, 3}), Error, "invalid shape dimension -2");
  EXPECT_ERROR(empty({0}).view({0, -1}), Error,
               "cannot reshape tensor of 0 elements into shape [0, -1]");
  EXPECT_ERROR(x.view({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error,
               "is invalid for input");

  expect_view(x.reshape({6}), x, {6}, {0, 1, 2, 3, 4, 5});
  const Tensor copied = x.t().reshape({6});
  EXPECT_FALSE(copied.storage() == x.storage());
  EXPECT_EQ(values<std::int64_t>(copied), Numbers({0, 3, 1, 4, 2, 5}));
  EXPECT_ERROR(x.reshape({5}), Error, "is invalid for input of size 6");
}

TEST(Views, Flatten) {
  const Tensor x = numbered({2, 3, 2});
  expect_view(x.flatten(), x, {12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(x.flatten(1).sizes(), Shape({2, 6}));
  EXPECT_EQ(x.flatten(0, -2).sizes(), Shape({6, 2}));
  EXPECT_EQ(x.flatten(1, 1).sizes(), Shape({2, 3, 2}));
  EXPECT_EQ(scalar_tensor(5).flatten().sizes(), Shape({1}));
  EXPECT_EQ(empty({2, 0, 3}).flatten(0, 1).sizes(), Shape({0, 3}));
  EXPECT_ERROR(x.flatten(2, 1), Error,
               "flatten() has invalid args: start_dim cannot come after end_dim");
}

TEST(Views, Expand) {
  const Tensor x = numbered({2, 1});
  expect_view(x.expand({2, 3}), x, {2, 3}, {0, 0, 0, 1, 1, 1});
  expect_view(x.expand({2, -1, 2}), x, {2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1});
  EXPECT_EQ(x.expand({2, 3}).strides(), Shape({1, 0}));
  EXPECT_EQ(x.expand({2, 0}).numel(), 0);
  // A dimension of size one is one of unsqueeze().
  const Tensor row = arange(5);
  EXPECT_EQ(row.expand({1, 1, 5}).strides(), row.unsqueeze(0).unsqueeze(1).strides());
  EXPECT_EQ(row.expand({1, 3, 1, 5}).strides(), Shape({0, 0, 5, 1}));
  EXPECT_EQ(scalar_tensor(3).expand({1, 1}).strides(), Shape({1, 1}));
  EXPECT_EQ(scalar_tensor(3).expand({2, 2}).strides(), Shape({0, 0}));
  EXPECT_EQ(x.expand_as(empty({5, 2, 4})).sizes(), Shape({5, 2, 4}));
  EXPECT_ERROR(x.expand({3, 3}), Error,
               "The expanded size of the tensor (3) must match the existing size (2) at "
               "non-singleton dimension 0.  Target sizes: [3, 3].  Tensor sizes: [2, 1]");
  EXPECT_ERROR(x.expand({3}), Error,
               "the number of sizes provided (1) must be greater or equal to the number of "
               "dimensions in the tensor (2)");
  EXPECT_ERROR(x.expand({-1, 2, 3}), Error,
               "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
               "dimension 0");
  EXPECT_ERROR(x.expand({-2, 3}), Error, "expand: size -2 of dimension 0");
  EXPECT_ERROR(scalar_tensor(1).expand({std::int64_t{1} << 40, std::int64_t{1} << 40}), ValueError,
               "has more than 2^63 elements");
}

TEST(Views, SqueezeAndUnsqueeze) {
  const Tensor x = numbered({1, 3, 1});
  expect_view(x.squeeze(), x, {3}, {0, 1, 2});
  expect_view(x.squeeze(0), x, {3, 1}, {0, 1, 2});
  expect_view(x.squeeze(1), x, {1, 3, 1}, {0, 1, 2});
  EXPECT_EQ(scalar_tensor(1).squeeze(0).dim(), 0);
  expect_view(x.unsqueeze(-1), x, {1, 3, 1, 1}, {0, 1, 2});
  EXPECT_EQ(numbered({2, 3}).unsqueeze(1).strides(), Shape({3, 3, 1}));
  EXPECT_EQ(scalar_tensor(1).unsqueeze(0).sizes(), Shape({1}));
  EXPECT_ERROR(x.squeeze(3), IndexError, "[-3, 2], but got 3)");
  EXPECT_ERROR(x.unsqueeze(4), IndexError, "[-4, 3], but got 4)");
  const Tensor full = empty(Shape::repeat(kMaxDims, 1));
  EXPECT_ERROR(full.unsqueeze(0), ValueError, "a tensor of 65 dimensions");
  EXPECT_EQ(full.squeeze().dim(), 0);
  // Strides without a meaning, beside a size of zero, must not overflow.
  const Tensor odd = x.as_strided({0, 4}, {1, INT64_MAX / 2});
  EXPECT_EQ(odd.unsqueeze(1).numel(), 0);
  EXPECT_EQ(odd.select(1, 3).numel(), 0);
  EXPECT_EQ(odd.slice(1, 3).numel(), 0);
}

TEST(Views, SelectAndSlice) {
  const Tensor x = numbered({3, 4});
  expect_view(x.select(0, 1), x, {4}, {4, 5, 6, 7});
  expect_view(x.select(-1, -1), x, {3}, {3, 7, 11});
  expect_view(x[2], x, {4}, {8, 9, 10, 11});
  expect_view(x[2][1], x, {}, {9});
  expect_view(x.slice(1, 1, 4, 2), x, {3, 2}, {1, 3, 5, 7, 9, 11});
  expect_view(x.slice(0, -2), x, {2, 4}, {4, 5, 6, 7, 8, 9, 10, 11});
  expect_view(x.slice(0, {}, -2), x, {1, 4}, {0, 1, 2, 3});
  expect_view(x.slice(1, 3, 1), x, {3, 0}, {});
  expect_view(x.slice(0, -100, 100, 2), x, {2, 4}, {0, 1, 2, 3, 8, 9, 10, 11});
  EXPECT_EQ(x.slice(0, 0, 3, INT64_MAX).sizes(), Shape({1, 4}));
  EXPECT_ERROR(x.slice(0, 0, 3, 0), ValueError, "slice step cannot be zero");
  EXPECT_ERROR(x.slice(0, 0, 3, -1), ValueError, "step must be greater than zero, got -1");
  EXPECT_ERROR(x.select(0, 3), IndexError,
               "select(): index 3 out of range for tensor of size [3, 4] at dimension 0");
  EXPECT_ERROR(x.select(1, -5), IndexError, "select(): index -5 out of range");
  EXPECT_ERROR(x.select(2, 0), IndexError, "Dimension out of range");
  EXPECT_ERROR(scalar_tensor(1).select(0, 0), IndexError,
               "select() cannot be applied to a 0-dim tensor.");
  EXPECT_ERROR(scalar_tensor(1).slice(0), IndexError,
               "slice() cannot be applied to a 0-dim tensor.");
  EXPECT_ERROR(empty({0})[0], IndexError, "select(): index 0 out of range");
}

TEST(Views, Narrow) {
  const Tensor x = numbered({3, 2});
  expect_view(x.narrow(0, 1, 2), x, {2, 2}, {2, 3, 4, 5});
  expect_view(x.narrow(0, -1, 1), x, {1, 2}, {4, 5});
  expect_view(x.narrow(1, 2, 0), x, {3, 0}, {});
  EXPECT_ERROR(x.narrow(0, 1, 3), Error, "start (1) + length (3) exceeds dimension size (3).");
  EXPECT_ERROR(x.narrow(0, 1, INT64_MAX), Error, "exceeds dimension size (3).");
  EXPECT_ERROR(x.narrow(0, 0, -1), Error, "narrow(): length must be non-negative.");
  EXPECT_ERROR(x.narrow(0, 4, 0), IndexError,
               "start out of range (expected to be in range of [-3, 3], but got 4)");
  EXPECT_ERROR(scalar_tensor(1).narrow(0, 0, 1), Error,
               "narrow() cannot be applied to a 0-dim tensor.");
}

std::vector<Shape> sizes_of(const std::vector<Tensor>& pieces) {
  std::vector<Shape> sizes;
  for (const Tensor& piece : pieces) sizes.push_back(piece.sizes());
  return sizes;
}

TEST(Views, SplitChunkAndUnbind) {
  const Tensor x = numbered({5, 2});
  using Sizes = std::vector<Shape>;
  EXPECT_EQ(sizes_of(x.split(2)), Sizes({{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(sizes_of(x.split(INT64_MAX)), Sizes({{5, 2}}));
  expect_view(x.split(2)[2], x, {1, 2}, {8, 9});
  EXPECT_EQ(sizes_of(x.split(std::vector<std::int64_t>{1, 0, 4})), Sizes({{1, 2}, {0, 2}, {4, 2}}));
  EXPECT_EQ(sizes_of(x.chunk(2)), Sizes({{3, 2}, {2, 2}}));
  EXPECT_EQ(sizes_of(x.chunk(4)), Sizes({{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(sizes_of(x.chunk(9, 1)), Sizes({{5, 1}, {5, 1}}));
  EXPECT_EQ(sizes_of(empty({0, 2}).chunk(3)), Sizes({{0, 2}, {0, 2}, {0, 2}}));
  EXPECT_EQ(sizes_of(empty({0}).split(4)), Sizes({{0}}));
  EXPECT_EQ(sizes_of(empty({0}).split(0)), Sizes({{0}}));
  EXPECT_EQ(sizes_of(x.unbind(1)), Sizes({{5}, {5}}));
  EXPECT_EQ(empty({0, 2}).unbind().size(), 0U);
  EXPECT_ERROR(x.split(-1), Error,
               "split expects split_size be non-negative, but got split_size=-1");
  EXPECT_ERROR(x.split(0), Error,
               "split_size can only be 0 if dimension size is 0, but got dimension size of 5");
  EXPECT_ERROR(x.split(std::vector<std::int64_t>{2, 2}), Error,
               "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at "
               "dimension 0)");
  EXPECT_ERROR(x.split(std::vector<std::int64_t>{INT64_MAX, INT64_MAX, 7}), Error,
               "to sum exactly to 5");
  EXPECT_ERROR(x.split(std::vector<std::int64_t>{6, -1}), Error,
               "split_with_sizes expects split_sizes have only non-negative entries, but got -1");
  EXPECT_ERROR(x.chunk(0), Error, "chunk expects `chunks` to be greater than 0, got: 0");
  EXPECT_ERROR(scalar_tensor(1).chunk(1), Error, "chunk expects at least a 1-dimensional tensor");
  EXPECT_ERROR(scalar_tensor(1).split(1), Error, "split expects at least a 1-dimensional tensor");
  EXPECT_ERROR(scalar_tensor(1).unbind(), IndexError,
               "Dimension specified as 0 but tensor has no dimensions");
}

// numpy.array_split and numpy.lib.stride_tricks.sliding_window_view give these sizes and elements.
TEST(Views, TensorSplit) {
  const Tensor x = numbered({5, 2});
  using Sizes = std::vector<Shape>;
  using Indices = std::vector<std::int64_t>;
  EXPECT_EQ(sizes_of(tensor_split(x, 3)), Sizes({{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(sizes_of(tensor_split(x, 3, -1)), Sizes({{5, 1}, {5, 1}, {5, 0}}));
  expect_view(tensor_split(x, 4)[1], x, {1, 2}, {4, 5});
  EXPECT_EQ(sizes_of(tensor_split(x, Indices{1, -1})), Sizes({{1, 2}, {3, 2}, {1, 2}}));
  expect_view(tensor_split(x, Indices{1, -1})[2], x, {1, 2}, {8, 9});
  EXPECT_EQ(sizes_of(tensor_split(x, Indices{3, 1, 9})), Sizes({{3, 2}, {0, 2}, {4, 2}, {0, 2}}));
  EXPECT_EQ(sizes_of(tensor_split(x, Indices{})), Sizes({{5, 2}}));
  EXPECT_EQ(sizes_of(tensor_split(x, Indices{INT64_MIN, INT64_MAX})),
            Sizes({{0, 2}, {5, 2}, {0, 2}}));
  EXPECT_EQ(sizes_of(tensor_split(x, {2})), Sizes({{2, 2}, {3, 2}}));
  EXPECT_EQ(sizes_of(vsplit(x, {1})), Sizes({{1, 2}, {4, 2}}));
  EXPECT_EQ(sizes_of(tensor_split(x, tensor({1, -1}))), Sizes({{1, 2}, {3, 2}, {1, 2}}));
  EXPECT_EQ(sizes_of(tensor_split(x, scalar_tensor(2, {int64}))), Sizes({{3, 2}, {2, 2}}));
  EXPECT_ERROR(tensor_split(x, tensor({1}).to(int32)), Error,
               "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
               "Int");
  EXPECT_ERROR(tensor_split(x, tensor({1}).view({1, 1})), Error, "one-dimensional tensor, but got");
  EXPECT_ERROR(tensor_split(x, 0), Error, "number of sections must be larger than 0, got 0");
  EXPECT_ERROR(tensor_split(x, 1, 2), IndexError, "Dimension out of range");
  EXPECT_ERROR(tensor_split(scalar_tensor(1), Indices{1}), Error,
               "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 "
               "dims");

  const Tensor y = numbered({2, 4, 6});
  EXPECT_EQ(sizes_of(hsplit(y, 2)), Sizes({{2, 2, 6}, {2, 2, 6}}));
  EXPECT_EQ(sizes_of(hsplit(numbered({4}), 2)), Sizes({{2}, {2}}));
  EXPECT_EQ(sizes_of(hsplit(y, Indices{1})), Sizes({{2, 1, 6}, {2, 3, 6}}));
  EXPECT_EQ(sizes_of(vsplit(x, Indices{2})), Sizes({{2, 2}, {3, 2}}));
  EXPECT_EQ(sizes_of(vsplit(y, 2)), Sizes({{1, 4, 6}, {1, 4, 6}}));
  EXPECT_EQ(sizes_of(dsplit(y, 3)), Sizes({{2, 4, 2}, {2, 4, 2}, {2, 4, 2}}));
  EXPECT_EQ(sizes_of(dsplit(y, Indices{5})), Sizes({{2, 4, 5}, {2, 4, 1}}));
  EXPECT_ERROR(hsplit(scalar_tensor(1), 1), Error,
               "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 "
               "dimensions!");
  EXPECT_ERROR(vsplit(numbered({4}), Indices{1}), Error, "torch.vsplit requires a tensor with");
  EXPECT_ERROR(dsplit(x, 2), Error, "at least 3 dimension, but got a tensor with 2 dimensions!");
  EXPECT_ERROR(vsplit(x, 2), Error,
               "torch.vsplit attempted to split along dimension 0, but the size of the dimension 5 "
               "is not divisible by the split_size 2!");
  EXPECT_ERROR(hsplit(x, 0), Error, "is not divisible by the split_size 0!");
  EXPECT_ERROR(hsplit(x, -2), Error, "number of sections must be larger than 0, got -2");
}

TEST(Views, Unfold) {
  const Tensor x = numbered({5, 2});
  expect_view(unfold(x, 0, 3, 2), x, {2, 2, 3}, {0, 2, 4, 1, 3, 5, 4, 6, 8, 5, 7, 9});
  expect_view(unfold(x, -1, 1, 1), x, {5, 2, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(unfold(x, 0, 0, 2).sizes(), Shape({3, 2, 0}));
  EXPECT_EQ(unfold(x, 0, 5, INT64_MAX).sizes(), Shape({1, 2, 5}));
  EXPECT_EQ(unfold(scalar_tensor(1), 0, 1, 1).sizes(), Shape({1}));
  EXPECT_EQ(unfold(scalar_tensor(1), -1, 0, 1).sizes(), Shape({0}));
  EXPECT_ERROR(unfold(x, 2, 1, 1), IndexError, "Dimension out of range");
  EXPECT_ERROR(unfold(x, 0, 6, 1), Error,
               "maximum size for tensor at dimension 0 is 5 but size is 6");
  EXPECT_ERROR(unfold(x, 0, -1, 1), Error, "size is -1 but must be >= 0");
  EXPECT_ERROR(unfold(x, 0, 1, 0), Error, "step is 0 but must be > 0");
  EXPECT_ERROR(unfold(scalar_tensor(1), 0, 2, 1), Error, "at dimension 0 is 1 but size is 2");
}

// Real and imaginary parts share memory with the tensor, and with its view as pairs.
TEST(Views, Complex) {
  const Tensor z = tensor<std::complex<float>>({{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(values<float>(z.view_as_real()), std::vector<float>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values<float>(z.imag()), std::vector<float>({2, 4, 6}));
  EXPECT_EQ(values<float>(z[1].real()), std::vector<float>({3}));
  EXPECT_TRUE(z.imag().storage() == z.storage());
  EXPECT_EQ(z.slice(0, 0, 3, 2).real().strides(), Shape({4}));
  const Tensor back = z.view_as_real().slice(0, 1).view_as_complex();
  EXPECT_EQ(back.dtype(), complex64);
  EXPECT_EQ(back[1].item<Complex<float>>(), Complex<float>(5, 6));
  EXPECT_EQ(back[1].item<std::complex<double>>(), std::complex<double>(5, 6));
  const Tensor x = arange(8, float64);
  EXPECT_TRUE(x.real().is(x));
  EXPECT_ERROR(x.imag(), Error, "imag is not implemented for tensors with non-complex dtypes.");
  EXPECT_ERROR(x.view_as_real(), Error, "view_as_real is only supported for complex tensors");
  EXPECT_EQ(x.to(float16).view({-1, 2}).view_as_complex().dtype(), complex32);
  EXPECT_ERROR(ones({2}, bfloat16).view_as_complex(), Error,
               "got a tensor of scalar type: BFloat16");
  EXPECT_ERROR(
      arange(2).view_as_complex(), Error,
      "view_as_complex is only supported for half, float and double tensors, but got a tensor "
      "of scalar type: Long");
  EXPECT_ERROR(scalar_tensor(1.0).view_as_complex(), Error, "must have one or more dimensions");
  EXPECT_ERROR(x.view_as_complex(), Error, "Tensor must have a last dimension of size 2");
  EXPECT_ERROR(x.slice(0, 0, 4, 2).view_as_complex(), Error,
               "Tensor must have a last dimension with stride 1");
  EXPECT_ERROR(x.as_strided({2, 2}, {3, 1}).view_as_complex(), Error,
               "Tensor must have a stride divisible by 2 for all but last dimension");
  EXPECT_ERROR(x.slice(0, 1, 3).view_as_complex(), Error,
               "Tensor must have a storage_offset divisible by 2");
}

TEST(Views, Diagonal) {
  const Tensor x = numbered({3, 4});
  expect_view(x.diagonal(), x, {3}, {0, 5, 10});
  expect_view(x.diagonal(2), x, {2}, {2, 7});
  expect_view(x.diagonal(-1), x, {2}, {4, 9});
  expect_view(x.diagonal(4), x, {0}, {});
  expect_view(x.diagonal(INT64_MIN), x, {0}, {});
  expect_view(x.diagonal(INT64_MAX), x, {0}, {});
  expect_view(x.diagonal(1, 1, 0), x, {2}, {4, 9});
  EXPECT_EQ(numbered({2, 3, 4}).diagonal(0, 0, 2).sizes(), Shape({3, 2}));
  EXPECT_ERROR(x.diagonal(0, 1, -1), Error, "diagonal dimensions cannot be identical 1, -1");
}

// Overlapping rows, offsets, and nothing beyond the storage.
TEST(Views, AsStrided) {
  const Tensor x = numbered({8});
  expect_view(x.as_strided({3, 3}, {2, 1}), x, {3, 3}, {0, 1, 2, 2, 3, 4, 4, 5, 6});
  expect_view(x.slice(0, 2).as_strided({2}, {1}), x, {2}, {2, 3});  // its own offset
  expect_view(x.slice(0, 2).as_strided({2}, {1}, 0), x, {2}, {0, 1});
  EXPECT_ERROR(x.as_strided({9}, {1}), Error, "out of bounds for storage of size 64");
  EXPECT_ERROR(x.as_strided({2}, {-1}, 1), Error, "Negative strides are not supported");
}

// Whatever is done to views is done to the base, on devices too.
TEST(Views, WriteThrough) {
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu") NEEDS_DEVICES(1);
    const Tensor x = arange(12, Options(int64, place)).view({3, 4});
    x.t()[1].fill_(7);
    Tensor corner = x.slice(0, 1).slice(1, 2);
    corner += 100;
    x.diagonal().zero_();
    EXPECT_EQ(values<std::int64_t>(x), Numbers({0, 7, 2, 3, 4, 0, 106, 107, 8, 7, 0, 111}))
        << place;
  }
}

}  // namespace
TEST(Views, ShowBytesAsAnotherDtype) {
  const Tensor x = arange(6).view({2, 3});
  const Tensor same = x.t().view(Dtype::float64);
  EXPECT_EQ(same.dtype(), Dtype::float64);
  EXPECT_EQ(same.strides(), Shape({1, 3}));
  EXPECT_EQ(same.data_ptr(), x.data_ptr());
  expect_view(same.view(Dtype::int64), x, {3, 2}, {0, 3, 1, 4, 2, 5});

  const Tensor halves = x.narrow(0, 1, 1).view(Dtype::int32);
  EXPECT_EQ(halves.sizes(), Shape({1, 6}));
  EXPECT_EQ(halves.strides(), Shape({6, 1}));
  EXPECT_EQ(halves.storage_offset(), 6);
  EXPECT_EQ(halves.data_ptr(), x.select(0, 1).data_ptr());
  expect_view(halves.view(Dtype::int64), x, {1, 3}, {3, 4, 5});
  EXPECT_EQ(x.expand({4, 2, 3}).view(Dtype::bool_).strides(), Shape({0, 24, 1}));
  EXPECT_EQ(zeros({2, 0}).view(Dtype::int16).sizes(), Shape({2, 0}));
  EXPECT_EQ(scalar_tensor(1, float32).view(Dtype::int32).item<int>(), 0x3f800000);
}

TEST(Views, RefuseDtypesThatDoNotFit) {
  const Tensor x = arange(6).view({2, 3});
  EXPECT_ERROR(scalar_tensor(1).view(Dtype::int16), Error,
               "self.dim() cannot be 0 to view Long as");
  EXPECT_ERROR(
      x.t().view(Dtype::int32), Error,
      "self.stride(-1) must be 1 to view Long as Int (different element sizes), but got 3");
  EXPECT_ERROR(x.view(Dtype::complex128), Error, "self.size(-1) must be divisible by 2");
  EXPECT_ERROR(x.narrow(1, 0, 2).view(Dtype::complex128), Error,
               "self.stride(0) must be divisible by 2");
  EXPECT_ERROR(x.narrow(1, 1, 2).view(Dtype::complex128), Error,
               "self.storage_offset() must be divisible by 2");
}

TEST(Views, SqueezeSeveralDimensions) {
  const Tensor x = numbered({1, 2, 1, 3});
  EXPECT_EQ(x.squeeze({0, -2}).sizes(), Shape({2, 3}));
  EXPECT_EQ(x.squeeze({0, 1}).sizes(), Shape({2, 1, 3}));
  EXPECT_EQ(x.squeeze(Shape()).sizes(), x.sizes());
  EXPECT_EQ(scalar_tensor(1).squeeze(Shape({0})).sizes(), Shape());
  EXPECT_ERROR(x.squeeze({0, -4}), Error, "dim 0 appears multiple times in the list of dims");
  EXPECT_ERROR(x.squeeze({0, 7}), IndexError, "but got 7");
}

TEST(Views, OfTheTensorObjectItself) {
  const Tensor x = numbered({2, 3});
  const Tensor same = x;
  const Tensor other = x.alias();
  EXPECT_EQ(x.t_().sizes(), Shape({3, 2}));
  EXPECT_EQ(same.sizes(), Shape({3, 2}));  // all who share the object
  EXPECT_EQ(same.strides(), Shape({1, 3}));
  EXPECT_EQ(other.sizes(), Shape({2, 3}));
  EXPECT_EQ(x.data_ptr(), other.data_ptr());
  EXPECT_EQ(x[2][1].item<int>(), other[1][2].item<int>());
  EXPECT_EQ(x.unsqueeze_(1).unsqueeze_(0).sizes(), Shape({1, 3, 1, 2}));
  EXPECT_EQ(x.squeeze_(0).sizes(), Shape({3, 1, 2}));
  EXPECT_EQ(x.transpose_(0, -1).sizes(), Shape({2, 1, 3}));
  EXPECT_EQ(x.squeeze_({0, 1}).sizes(), Shape({2, 3}));
  EXPECT_EQ(x.unsqueeze_(-1).squeeze_().sizes(), Shape({2, 3}));
  EXPECT_EQ(x.is_contiguous(), other.is_contiguous());
  EXPECT_ERROR(numbered({2, 2, 2}).t_(), Error, "t_() expects a tensor with <= 2 dimensions");
  EXPECT_ERROR(x.transpose_(0, 2), IndexError, "but got 2");
  EXPECT_ERROR(x.unsqueeze_(4), IndexError, "but got 4");
  EXPECT_EQ(x.sizes(), Shape({2, 3}));
}

TEST(Views, OfSoManyDimensionsAtLeast) {
  const Tensor number = scalar_tensor(1);
  const Tensor row = numbered({3});
  const Tensor matrix = numbered({2, 3});
  EXPECT_EQ(atleast_1d(number).sizes(), Shape({1}));
  EXPECT_TRUE(atleast_1d(row).is(row));
  EXPECT_EQ(atleast_2d(number).sizes(), Shape({1, 1}));
  EXPECT_EQ(atleast_2d(row).sizes(), Shape({1, 3}));
  EXPECT_TRUE(atleast_2d(matrix).is(matrix));
  EXPECT_EQ(atleast_3d(number).sizes(), Shape({1, 1, 1}));
  EXPECT_EQ(atleast_3d(row).sizes(), Shape({1, 3, 1}));
  EXPECT_EQ(atleast_3d(matrix).sizes(), Shape({2, 3, 1}));
  const std::vector<Tensor> all{number, row, matrix};
  EXPECT_EQ(atleast_1d(all).size(), 3U);
  EXPECT_EQ(atleast_2d(all)[1].sizes(), Shape({1, 3}));
  EXPECT_EQ(atleast_3d(all)[2].sizes(), Shape({2, 3, 1}));
}

TEST(Views, InTheSizesThatTheyHaveTogether) {
  const Tensor x = numbered({2, 1});
  const Tensor y = numbered({3});
  const std::vector<Tensor> both = broadcast_tensors({x, y});
  EXPECT_EQ(both[0].sizes(), Shape({2, 3}));
  EXPECT_EQ(both[1].strides(), Shape({0, 1}));
  EXPECT_EQ(both[0].data_ptr(), x.data_ptr());
  EXPECT_ERROR(broadcast_tensors({y, numbered({4})}), Error, "must match the size of tensor b (4)");
  const std::vector<Shape> shapes{{2, 1}, {}, {3}, {1, 1, 1}};
  EXPECT_EQ(broadcast_shapes(shapes), Shape({1, 2, 3}));
  EXPECT_EQ(broadcast_shapes(std::vector<Shape>()), Shape());
  EXPECT_EQ(broadcast_shapes(std::vector<Shape>{{0}, {1}}), Shape({0}));
  EXPECT_ERROR(broadcast_shapes(std::vector<Shape>{{2, 3}, {4}}), Error,
               "a dimension of length 4 at -1! Mismatching argument at index 1 had [4]");
  EXPECT_ERROR(broadcast_shapes(std::vector<Shape>{{2}, {-1, 2}}), ValueError, "at index 1");
}

TEST(Views, MoveDimensions) {
  const Tensor x = numbered({2, 3, 4});
  EXPECT_EQ(x.movedim(0, 2).sizes(), Shape({3, 4, 2}));
  EXPECT_EQ(x.movedim({0, 2}, {-1, 0}).sizes(), Shape({4, 3, 2}));
  EXPECT_EQ(movedim(x, {}, {}).sizes(), x.sizes());
  EXPECT_EQ(x.movedim(1, 0)[2][1][3].item<int>(), x[1][2][3].item<int>());
  EXPECT_EQ(scalar_tensor(1).movedim(0, -1).sizes(), Shape());
  EXPECT_ERROR(x.movedim({0, 1}, {2}), Error, "should contain the same number of dims");
  EXPECT_ERROR(x.movedim({0, -3}, {1, 2}), Error, "movedim: repeated dim in `source`");
  EXPECT_ERROR(x.movedim({0, 1}, {2, 2}), Error, "movedim: repeated dim in `destination`");
  EXPECT_ERROR(x.movedim(3, 0), IndexError, "but got 3");
}

TEST(Views, UnflattenAndRavel) {
  const Tensor x = numbered({2, 12});
  EXPECT_EQ(x.unflatten(1, {3, -1}).sizes(), Shape({2, 3, 4}));
  EXPECT_EQ(unflatten(x, -1, {12}).sizes(), x.sizes());
  EXPECT_EQ(x.unflatten(0, {1, 2}).data_ptr(), x.data_ptr());
  EXPECT_EQ(x.t().ravel().sizes(), Shape({24}));
  EXPECT_EQ(ravel(x).data_ptr(), x.data_ptr());
  EXPECT_EQ(x[0][0].expand({5}).ravel().strides(), Shape({1})) << "without gaps";
  EXPECT_EQ(x[0].broadcast_to({5, 12}).strides(), Shape({0, 1}));
  EXPECT_EQ(x.detach().data_ptr(), x.data_ptr());
  EXPECT_FALSE(x.requires_grad());
  EXPECT_ERROR(x.unflatten(1, {5, -1}), Error, "is invalid for input of size 12");
  EXPECT_ERROR(x.unflatten(1, {}), Error, "unflatten: sizes must be non-empty");
  EXPECT_ERROR(x[0][0].unflatten(-1, {2, -1}), Error, "has no dimension");
  EXPECT_ERROR(x[0][0].unflatten(0, {1}), Error, "has no dimension");
}

}  // namespace ember::test
