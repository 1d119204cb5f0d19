// The rules that all element-wise operations share: types, shapes, devices, outputs, memory.
#include <functional>

#include "ember/base/embedding.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

/// One element of each kind of operand, by its type.
Tensor dims(Dtype dtype) { return ones({2}, dtype); }
Tensor point(Dtype dtype) { return ones({}, dtype); }

TEST(Promotion, IsTorchs) {
  // From torch's documentation of result_type: categories first, then tensors with dimensions, then
  // those without, then numbers.
  EXPECT_EQ(result_type(dims(int32), 5), int32);
  EXPECT_EQ(result_type(dims(int32), 5.0), float32);
  EXPECT_EQ(result_type(dims(float16), 5.0), float16);
  EXPECT_EQ(result_type(dims(float64), 5), float64);
  EXPECT_EQ(result_type(dims(bool_), true), bool_);
  EXPECT_EQ(result_type(dims(bool_), 5), int64);
  EXPECT_EQ(result_type(dims(uint8), true), uint8);
  EXPECT_EQ(result_type(dims(float16), std::complex<float>(0, 1)), complex32);
  EXPECT_EQ(result_type(dims(bfloat16), std::complex<float>(0, 1)), complex64);
  EXPECT_EQ(result_type(dims(float16), point(complex128)), complex32);
  EXPECT_EQ(result_type(dims(float64), std::complex<float>(0, 1)), complex128);
  EXPECT_EQ(result_type(dims(int64), std::complex<double>(0, 1)), complex64);
  EXPECT_EQ(result_type(dims(int32), point(int64)), int32);
  EXPECT_EQ(result_type(dims(int32), point(float64)), float64);
  EXPECT_EQ(result_type(dims(float32), point(float64)), float32);
  EXPECT_EQ(result_type(dims(float32), point(complex128)), complex64);
  EXPECT_EQ(result_type(dims(int8), point(float16)), float16);
  EXPECT_EQ(result_type(dims(bool_), point(int8)), int8);
  EXPECT_EQ(result_type(point(int8), point(int32)), int32);
  EXPECT_EQ(result_type(point(int32), 5), int32);
  EXPECT_EQ(result_type(point(float64), 5.0), float64);
  EXPECT_EQ(result_type(2, 3.0), float32);
  EXPECT_EQ(result_type(2, true), int64);
  for (const Dtype a : dtypes_in(dtypes::every_number_or_bool))
    for (const Dtype b : dtypes_in(dtypes::every_number_or_bool)) {
      EXPECT_EQ((dims(a) == dims(b)).dtype(), bool_);
      EXPECT_EQ((dims(a) + dims(b)).dtype(), promote_types(a, b));
      EXPECT_EQ(result_type(dims(a), dims(b)), promote_types(a, b));
    }
}

// What is computed of which types: floating results of integers, booleans, moduli.
TEST(Promotion, OfResults) {
  EXPECT_EQ(exp(dims(int64)).dtype(), float32);
  EXPECT_EQ(exp(dims(bool_)).dtype(), float32);
  EXPECT_EQ((dims(int64) / 2).dtype(), float32);
  EXPECT_EQ((dims(uint8) / dims(int64)).dtype(), float32);
  EXPECT_EQ(floor_divide(dims(int16), 2).dtype(), int16);
  EXPECT_EQ(dims(complex128).abs().dtype(), float64);
  EXPECT_EQ(dims(int32).isnan().dtype(), bool_);
  EXPECT_ERROR(dims(bool_).floor(), NotImplementedError, "\"floor\" not implemented for 'Bool'");
  EXPECT_ERROR(dims(complex64).floor(), NotImplementedError,
               "\"floor\" not implemented for 'ComplexFloat'");
  EXPECT_ERROR(dims(float32) & dims(float32), NotImplementedError, "not implemented for 'Float'");
  EXPECT_ERROR(~dims(float64), NotImplementedError, "\"bitwise_not\" not implemented for 'Double'");
  // A number beside elements wraps as they do.
  EXPECT_EQ((full({1}, 250, uint8) + 10).item<int>(), 4);
  EXPECT_EQ((tensor<std::int64_t>({INT64_MAX}) + 1).item<std::int64_t>(), INT64_MIN);
}

TEST(Numbers, ThatStandForElementsMustFit) {
  NEEDS_DEVICES(1);
  const char* const refused = "without overflow";
  for (const char* place : {"cpu", kDevice}) {
    const Tensor x = tensor<std::uint8_t>({1, 200}).to(Device(place));
    const Tensor mask = tensor({1.F, 0.F}).to(Device(place)).to(bool_);
    EXPECT_ERROR(full({2}, 300, {uint8, Device(place)}), Error, refused);
    EXPECT_ERROR(full({2}, Complex<double>(0, 1), {float32, Device(place)}), Error, refused);
    EXPECT_ERROR(x.clone().fill_(-256), Error, refused);
    EXPECT_ERROR(clamp(x, 0, 300), Error, refused);
    EXPECT_ERROR(minimum(x, 300), Error, refused);
    EXPECT_ERROR(where(mask, x, 300), Error, refused);
    EXPECT_ERROR(pow(x, 256), Error, refused);
    EXPECT_ERROR(add(x, x, 300), Error, refused);
    EXPECT_ERROR(x.clone().masked_fill_(mask, 300), Error, refused);
    EXPECT_ERROR(clamp(x.to(float16), 0, 1e5), Error, refused);
    EXPECT_ERROR(lerp(x.to(float32), x.to(float32), 1e39), Error, refused);
    EXPECT_ERROR(pow(x.to(float16), 70000), Error, refused);
    EXPECT_ERROR(x.to(bfloat16).pow_(1e39), Error, refused);
    // Not those that are only computed with, nor those of tensors, which are converted.
    EXPECT_EQ(values<int>((x + 300).to(int32)), (std::vector<int>{45, 244}));
    EXPECT_EQ(values<int>(sub(x, x, 255).to(int32)), (std::vector<int>{2, 144}));
    EXPECT_EQ(values<int>(where(mask, x, tensor<std::int64_t>({300}).reshape({})).to(int32)),
              (std::vector<int>{1, 44}));
    EXPECT_EQ(values<int>(clamp(x, -1, 255).to(int32)), (std::vector<int>{255, 255}));
    EXPECT_EQ(values<float>(pow(x.to(float32), 300.0).isinf().to(float32)),
              (std::vector<float>{0, 1}));
    EXPECT_EQ(values<float>(pow(70000, x.to(float16)).isinf().to(float32)),
              (std::vector<float>{1, 1}));
  }
}

TEST(Numbers, AreComparedAsElements) {
  NEEDS_DEVICES(1);
  for (const char* place : {"cpu", kDevice})
    for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
      const Tensor x = tensor<double>({0.1, 3.3}).to({dtype, Device(place)});
      EXPECT_EQ(values<bool>(x == 0.1), (std::vector<bool>{true, false})) << dtype_name(dtype);
      EXPECT_EQ(values<bool>(x >= 3.3), (std::vector<bool>{false, true})) << dtype_name(dtype);
      EXPECT_EQ(values<bool>(x > 3.3), (std::vector<bool>{false, false})) << dtype_name(dtype);
      EXPECT_EQ(values<bool>(x <= 0.1), (std::vector<bool>{true, false})) << dtype_name(dtype);
      EXPECT_EQ(values<bool>(x.slice(0, 0, 2, 2) != 0.1), (std::vector<bool>{false}));
    }
}

TEST(Shapes, AreBroadcast) {
  const Tensor x = arange(3, float32).view({3, 1});
  const Tensor y = arange(4, float32).view({1, 1, 4}) * 10;
  const Tensor sum = x + y;
  EXPECT_EQ(sum.sizes(), Shape({1, 3, 4}));
  const auto found = values<float>(sum);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(found[static_cast<std::size_t>(i)], static_cast<float>(i / 4 + i % 4 * 10));
  EXPECT_EQ((empty({0, 3}) + ones({1})).sizes(), Shape({0, 3}));
  EXPECT_EQ((empty({0}) + scalar_tensor(1.0)).sizes(), Shape({0}));
  EXPECT_EQ((scalar_tensor(2) + scalar_tensor(3)).dim(), 0);
  EXPECT_EQ((scalar_tensor(2) + 3).item<int>(), 5);
  EXPECT_EQ(add(2, 3).item<int>(), 5);
  EXPECT_ERROR(ones({3}) + ones({2}), Error,
               "The size of tensor a (3) must match the size of tensor b (2) at non-singleton "
               "dimension 0");
  // More elements than there can be.
  const Tensor long_one = ones({1}).expand({std::int64_t{1} << 40});
  EXPECT_ERROR(long_one.view({1, -1}) + long_one.view({-1, 1}), ValueError, "more than 2^63");
  const Tensor wide = ones({1}, float64).expand({std::int64_t{1} << 31});
  EXPECT_ERROR(wide.view({1, -1}) + wide.view({-1, 1}), ValueError, "more than 2^64 bytes");
}

// The strides that torch 2.11 gives for the same calls: without gaps, in the inputs' order.
TEST(Layouts, FollowTheInputs) {
  const Tensor x = arange(6, float32).view({2, 3}).t();
  EXPECT_EQ((x + x).strides(), x.strides());
  EXPECT_EQ((x + 1).strides(), x.strides());
  EXPECT_EQ((x + x.contiguous()).strides(), Shape({1, 3})) << "the first input decides";
  EXPECT_EQ((x.contiguous() + x).strides(), Shape({2, 1}));
  EXPECT_EQ(x.slice(0, 0, 2).exp().strides(), Shape({1, 2})) << "its gaps are left out";
  EXPECT_EQ((x + ones({2})).strides(), Shape({1, 3})) << "a dimension of the second";
  EXPECT_EQ((ones({2}) + x).strides(), Shape({1, 3}));
  const Tensor turned = arange(24, float32).view({2, 3, 4}).permute({1, 2, 0});
  EXPECT_EQ(turned.exp().strides(), Shape({4, 1, 12}));
  EXPECT_EQ(turned.slice(1, 0, 4, 2).exp().strides(), Shape({2, 1, 6}));
  EXPECT_EQ((turned > ones({4, 1})).strides(), Shape({4, 1, 12}));
  EXPECT_EQ(pow(2, turned).strides(), Shape({8, 2, 1})) << "of a number, contiguous";
  Tensor out = empty({0});
  exp_out(out, turned);
  EXPECT_EQ(out.strides(), Shape({4, 1, 12})) << "also in an output that gets its shape";
  EXPECT_EQ(turned.tril().strides(), Shape({8, 2, 1}));
}

// Layouts of every kind against plain ones.
TEST(Layouts, DoNotMatter) {
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    for (const Dtype dtype : {float32, float16, int8, complex128}) {
      const Tensor base = arange(4 * 6 * 10, Options(dtype == int8 ? int32 : float32, place))
                              .remainder(100)
                              .to(dtype)
                              .view({4, 6, 10});
      const std::vector<Tensor> views{
          base.slice(0, 0, 3).slice(1, 0, 5).slice(2, 0, 7),
          base.slice(0, 1).slice(1, 0, 5).slice(2, 1, 8),
          base.permute({2, 0, 1})
              .slice(0, 0, 3)
              .slice(1, 0, 1)
              .expand({3, 5, 6})
              .permute({0, 1, 2})
              .narrow(2, 0, 1)
              .expand({3, 5, 7}),
          base.permute({1, 2, 0})
              .slice(0, 0, 6, 2)
              .slice(1, 0, 10, 2)
              .narrow(2, 0, 1)
              .expand({3, 5, 7}),
          base.select(2, 3).narrow(0, 0, 3).narrow(1, 0, 5).unsqueeze(-1).expand({3, 5, 7}),
          base.select(0, 2).narrow(0, 1, 5).narrow(1, 2, 7).expand({3, 5, 7}),
          base.view({240})[7].expand({3, 5, 7}),
      };
      for (const Tensor& x : views)
        for (const Tensor& y : views) {
          const Tensor found = x * 2 + y;
          const Tensor plain = x.contiguous() * 2 + y.contiguous();
          ASSERT_EQ(std::memcmp(found.cpu().contiguous().data_ptr(), plain.cpu().data_ptr(),
                                plain.nbytes()),
                    0)
              << dtype_name(dtype) << " on " << place << ": " << x.strides().str() << " and "
              << y.strides().str();
          Tensor into = empty({7, 5, 3}, Options(dtype, place)).permute({2, 1, 0});
          add_out(into, x * 2, y);
          ASSERT_EQ(std::memcmp(into.contiguous().cpu().data_ptr(), plain.cpu().data_ptr(),
                                plain.nbytes()),
                    0);
        }
    }
  }
}

// Outputs keep their memory and may be wider or strided; an empty one gets the shape.
TEST(Outputs, TakeTheResult) {
  const Tensor x = arange(3, float32);
  Tensor out = empty({3});
  const void* const memory = out.data_ptr();
  EXPECT_EQ(&add_out(out, x, 1), &out);
  EXPECT_EQ(out.data_ptr(), memory);
  EXPECT_EQ(values<float>(out), std::vector<float>({1, 2, 3}));
  Tensor wide = empty({3}, float64);
  add_out(wide, x, 1);
  EXPECT_EQ(values<double>(wide), std::vector<double>({1, 2, 3}));
  Tensor fresh = empty({0}, float64);  // without elements: gets the shape
  add_out(fresh, x.view({3, 1}), x);
  EXPECT_EQ(fresh.sizes(), Shape({3, 3}));
  EXPECT_EQ(fresh.dtype(), float64);
  Tensor none = empty({0});
  add_out(none, empty({0, 3}), 1);
  EXPECT_EQ(none.sizes(), Shape({0, 3}));
  Tensor strided = zeros({6}).slice(0, 0, 6, 2);
  mul_out(strided, x, 3);
  EXPECT_EQ(values<float>(strided), std::vector<float>({0, 3, 6}));
  Tensor flags = empty({3}, bool_);
  lt_out(flags, x, 2);
  EXPECT_EQ(values<bool>(flags), std::vector<bool>({true, true, false}));
  Tensor numbers = empty({3}, float32);
  lt_out(numbers, x, 2);
  EXPECT_EQ(values<float>(numbers), std::vector<float>({1, 1, 0}));
}

/// What was warned of since it was made, in place of stderr.
struct Warnings {
  static inline std::vector<std::string> texts;
  Warnings() {
    texts.clear();
    static const Embedding collects{
        .warn = [](Warning, const char* text) noexcept { texts.emplace_back(text); }};
    embed(collects);
  }
  ~Warnings() {
    static const Embedding none{};
    embed(none);
  }
};

// As in torch: with a warning, in their memory if it has room. Whatever hands results to an output.
TEST(Outputs, AreResizedWithAWarning) {
  const Warnings warnings;
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    const Tensor x = arange(12, Options(float32, place)).view({3, 4});
    const Options options(float32, place);
    const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> calls{
        {"exp", [&](Tensor& out) { exp_out(out, x); }},
        {"sum", [&](Tensor& out) { sum_out(out, x, 1); }},
        {"cat",
         [&](Tensor& out) {
           cat_out(out, std::vector<Tensor>{x, x}, 0);
         }},
        {"mm", [&](Tensor& out) { mm_out(out, x, x.t()); }},
        {"softmax", [&](Tensor& out) { softmax_out(out, x, 1); }},
        {"cumsum", [&](Tensor& out) { cumsum_out(out, x, 1); }},
        {"index_select",
         [&](Tensor& out) {
           index_select_out(out, x, 0, tensor({2, 0}).to(x.device()));
         }},
        {"tril", [&](Tensor& out) { tril_out(out, x); }},
        {"masked_select", [&](Tensor& out) { masked_select_out(out, x, x > 3); }}};
    for (const auto& [name, call] : calls) {
      SCOPED_TRACE(name);
      Tensor empty_one = empty({0}, options);
      Warnings::texts.clear();
      call(empty_one);
      EXPECT_TRUE(Warnings::texts.empty());
      // A view without elements: into the memory that it is a part of, and that is no mistake.
      const Tensor around = full({100}, 7, options);
      Tensor view = around.slice(0, 3, 3);
      call(view);
      EXPECT_TRUE(Warnings::texts.empty());
      EXPECT_EQ(view.storage(), around.storage());
      EXPECT_TRUE(view.eq(empty_one).all().item<bool>());
      EXPECT_TRUE(around.slice(0, 3, 3 + view.numel()).eq(view.flatten()).all().item<bool>());
      EXPECT_TRUE(around.slice(0, 0, 3).eq(7).all().item<bool>());
      EXPECT_TRUE(around.slice(0, 3 + view.numel()).eq(7).all().item<bool>());
      // There is no room at the end, nor behind it.
      for (const std::int64_t at : {100, 1000}) {
        Tensor last = around.as_strided({0}, {1}, at);
        call(last);
        EXPECT_NE(last.storage(), around.storage());
        EXPECT_TRUE(last.eq(empty_one).all().item<bool>());
      }
      for (const std::int64_t room : {5, 100}) {
        const Tensor whole = full({room}, 7, options);
        Tensor out = whole.alias();
        call(out);
        EXPECT_EQ(out.sizes(), empty_one.sizes());
        EXPECT_TRUE(out.eq(empty_one).all().item<bool>());
        EXPECT_EQ(out.storage() == whole.storage(), room == 100 || out.numel() <= room);
        ASSERT_EQ(Warnings::texts.size(), 1U);
        EXPECT_NE(
            Warnings::texts[0].find("An output with one or more elements was resized since it "
                                    "had shape [" +
                                    std::to_string(room) + "]"),
            std::string::npos)
            << Warnings::texts[0];
        Warnings::texts.clear();
      }
    }
  }
}

// What an output would reach when it is resized may be an input.
TEST(Outputs, AreResizedBesideInputs) {
  const Warnings warnings;
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    for (const std::int64_t size : {0, 1}) {
      const Tensor x = arange(6, Options(float32, place));
      Tensor out = x.slice(0, 1, 1 + size);
      cat_out(out, std::vector<Tensor>{x.slice(0, 4, 6), x.slice(0, 2, 4)}, 0);
      EXPECT_EQ(values<float>(out), std::vector<float>({4, 5, 2, 3}));
      EXPECT_EQ(values<float>(x), std::vector<float>({0, 1, 2, 3, 4, 5}));
      out = x.slice(0, 1, 1 + size);
      neg_out(out, x.slice(0, 2, 4));
      EXPECT_EQ(values<float>(out), std::vector<float>({-2, -3}));
      EXPECT_EQ(values<float>(x), std::vector<float>({0, 1, 2, 3, 4, 5}));
    }
  }
}

TEST(Masks, OfBytesAreWarnedOf) {
  const Warnings warnings;
  const Tensor x = arange(6).view({2, 3});
  const Tensor rows = tensor({1, 0}, uint8);
  EXPECT_EQ(x.index({rows}).sizes(), Shape({1, 3}));
  EXPECT_EQ(Warnings::texts.size(), 1U);
  x.index_put_({rows, tensor({1, 0, 0}, uint8)}, 7);
  EXPECT_EQ(Warnings::texts.size(), 3U);
  EXPECT_EQ(values<int>(where(rows.unsqueeze(1), 1, 0)), std::vector<int>({1, 0}));
  ASSERT_EQ(Warnings::texts.size(), 4U);
  for (const std::string& text : Warnings::texts)
    EXPECT_NE(text.find("uint8"), std::string::npos) << text;
  EXPECT_EQ(x.index({rows.to(bool_)}).sizes(), Shape({1, 3}));
  EXPECT_EQ(x.index({scalar_tensor(1, uint8)}).sizes(), Shape({1, 2, 3}));
  EXPECT_EQ(Warnings::texts.size(), 4U);
}

// New tensors and random numbers: as in torch, nobody is warned.
TEST(Outputs, OfNewTensorsAreResizedSilently) {
  const Warnings warnings;
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    const Options options(float32, place);
    const Tensor even = full({2, 3}, 0.5, options);
    const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> calls{
        {"empty", [&](Tensor& out) { empty_out(out, even.sizes()); }},
        {"zeros", [&](Tensor& out) { zeros_out(out, even.sizes()); }},
        {"ones", [&](Tensor& out) { ones_out(out, even.sizes()); }},
        {"full", [&](Tensor& out) { full_out(out, even.sizes(), 3); }},
        {"rand", [&](Tensor& out) { rand_out(out, even.sizes()); }},
        {"randn", [&](Tensor& out) { randn_out(out, even.sizes()); }},
        {"randint", [&](Tensor& out) { randint_out(out, 0, 9, even.sizes()); }},
        {"normal", [&](Tensor& out) { normal_out(out, 0, 1, even.sizes()); }},
        {"bernoulli", [&](Tensor& out) { bernoulli_out(out, even); }}};
    for (const auto& [name, call] : calls) {
      SCOPED_TRACE(name);
      for (const std::int64_t room : {5, 100}) {
        const Tensor whole = full({room}, 7, options);
        Tensor out = whole.alias();
        call(out);
        EXPECT_EQ(out.sizes(), even.sizes());
        EXPECT_EQ(out.storage() == whole.storage(), room == 100);
      }
    }
    Tensor order = zeros({5}, {int64, place});
    randperm_out(order, 6);
    EXPECT_EQ(order.sizes(), Shape({6}));
    Tensor drawn = zeros({5}, {int64, place});
    multinomial_out(drawn, even, 2);
    EXPECT_EQ(drawn.sizes(), Shape({2, 2}));
    EXPECT_TRUE(Warnings::texts.empty());
    // Parameters that are tensors make it an operation on them.
    Tensor out = zeros({5}, options);
    normal_out(out, even, even);
    EXPECT_EQ(Warnings::texts.size(), 1U);
    Warnings::texts.clear();
  }
}

// An input in the same memory is not overwritten by an output that grows.
TEST(Outputs, GrowBesideAnInputInNewMemory) {
  const Warnings warnings;
  const Tensor whole = arange(10, float32);
  const Tensor x = whole.slice(0, 2, 6);
  Tensor out = whole.slice(0, 0, 2);
  add_out(out, x, 1);
  EXPECT_EQ(values<float>(out), std::vector<float>({3, 4, 5, 6}));
  EXPECT_EQ(values<float>(x), std::vector<float>({2, 3, 4, 5}));
  EXPECT_FALSE(out.storage() == whole.storage());
}

TEST(Outputs, AreRefusedUnchanged) {
  const Tensor x = arange(3, float32);
  Tensor out = full({3}, 7, int64);
  EXPECT_ERROR(add_out(out, x, 1), Error,
               "result type Float can't be cast to the desired output type Long");
  EXPECT_ERROR(
      add_out(out, out.unsqueeze(1), 1), Error,
      "output with shape [3] doesn't match the result's shape [3, 1], and can't be resized");
  Tensor overlapping = scalar_tensor(1.0).expand({3});
  EXPECT_ERROR(add_out(overlapping, x, 1), Error,
               "more than one element of the written-to tensor refers to a single memory");
  Tensor flags = full({3}, true, bool_);
  EXPECT_ERROR(add_out(flags, out, 1), Error, "can't be cast to the desired output type Bool");
  EXPECT_EQ(values<int>(out), std::vector<int>(3, 7));
  EXPECT_EQ(overlapping.select(0, 0).item<float>(), 1);
  Tensor empty_out = empty({0}, int64);
  EXPECT_ERROR(add_out(empty_out, x, 1.5), Error, "can't be cast");
  EXPECT_EQ(empty_out.sizes(), Shape({0}));
}

TEST(Outputs, DifferencesOfBoolsAndNegativePowersOfIntegersAreRefused) {
  const Tensor flag = tensor({true});
  const Tensor one = ones({1}, int64);
  for (const Operand& other : {Operand(1), Operand(1.5), Operand(one)}) {
    EXPECT_ERROR(sub(flag, other), Error, "with a bool tensor is not supported. If you are trying");
    EXPECT_ERROR(sub(other, flag), Error, "with a bool tensor is not supported");
    EXPECT_ERROR(sub(flag, other, 2), Error, "with a bool tensor is not supported");
  }
  Tensor x = arange(3);
  EXPECT_ERROR(x -= true, Error, "with a bool tensor is not supported");
  EXPECT_ERROR(sub(flag, flag), Error, "with two bool tensors is not supported");
  EXPECT_ERROR(x.pow(-1), Error, "Integers to negative integer powers are not allowed.");
  EXPECT_ERROR(flag.pow(-1), Error, "Integers to negative integer powers are not allowed.");
  EXPECT_EQ(values<float>(x.add(1).pow(-1.0)), std::vector<float>({1, 0.5, 1.0F / 3}));
  EXPECT_EQ(values<int>(x.pow(tensor<std::int64_t>({-1, -1, 2}))), std::vector<int>({0, 1, 4}));
  EXPECT_EQ(values<int>(pow(2, x)), std::vector<int>({1, 2, 4}));
}

TEST(InPlace, KeepsTypeShapeAndMemory) {
  Tensor x = arange(4);
  const void* const memory = x.data_ptr();
  x += 2;
  x *= x;
  EXPECT_EQ(x.data_ptr(), memory);
  EXPECT_EQ(values<int>(x), std::vector<int>({4, 9, 16, 25}));
  x.add_(tensor<std::int8_t>({1}));
  EXPECT_EQ(x.dtype(), int64);
  EXPECT_ERROR(x += 0.5, Error, "result type Float can't be cast to the desired output type Long");
  EXPECT_ERROR(x /= 2, Error, "result type Float can't be cast");
  EXPECT_ERROR(x.add_(ones({2, 4}, int64)), Error,
               "output with shape [4] doesn't match the broadcast shape [2, 4]");
  EXPECT_ERROR(x.exp_(), Error, "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(values<int>(x), std::vector<int>({5, 10, 17, 26}));
  Tensor y = arange(3, float32);
  y.lt_(1.5);
  EXPECT_EQ(values<float>(y), std::vector<float>({1, 1, 0}));
  Tensor none = empty({0});
  EXPECT_ERROR(none.add_(empty({1, 0})), Error, "output with shape [0] doesn't match");
  EXPECT_EQ(none.dim(), 1);
}

TEST(InPlace, RefusesSharedElements) {
  Tensor x = arange(9, float32).view({3, 3});
  const auto before = values<float>(x);
  EXPECT_ERROR(x.add_(x.t()), Error, "some elements of the input tensor and the written-to tensor");
  Tensor upper = x.view({9}).narrow(0, 1, 8);
  EXPECT_ERROR(upper.add_(x.view({9}).narrow(0, 0, 8)), Error, "some elements of the input tensor");
  Tensor expanded = x.select(0, 0).expand({3, 3});
  EXPECT_ERROR(expanded.add_(1), Error, "more than one element of the written-to tensor");
  const Tensor numbers = tensor<std::complex<float>>({{1, 2}, {3, 4}});
  const Tensor parts = numbers.view_as_real().view({4});
  Tensor first = parts.narrow(0, 0, 2);
  EXPECT_ERROR(abs_out(first, numbers), Error, "some elements of the input tensor");
  EXPECT_ERROR(add_out(first, parts.narrow(0, 1, 2), 1), Error, "some elements");
  EXPECT_EQ(values<float>(parts), std::vector<float>({1, 2, 3, 4}));
  EXPECT_EQ(values<float>(x), before);
  x.add_(x);  // the same elements are no conflict
  EXPECT_EQ(values<float>(x)[8], 16);
}

TEST(Devices, MustBeOne) {
  NEEDS_DEVICES(1);
  const Tensor here = arange(3, float32);
  const Tensor there = here.to(kDevice);
  EXPECT_ERROR(there + here, Error,
               "Expected all tensors to be on the same device, but found at least two devices, "
               "cuda:0 and cpu!");
  EXPECT_ERROR(here + there, Error, "cpu and cuda:0!");
  Tensor out = empty({3});
  EXPECT_ERROR(add_out(out, there, there), Error, "at least two devices, cuda:0 and cpu!");
  EXPECT_ERROR(here + there[0], Error, "cpu and cuda:0!");
  EXPECT_ERROR(out.add_(there[0]), Error, "cpu and cuda:0!");
  // CPU tensors without dimensions go along.
  EXPECT_EQ(values<float>(there + scalar_tensor(2.0)), std::vector<float>({2, 3, 4}));
  EXPECT_EQ((scalar_tensor(2.0) + there).device().str(), kDevice);
  EXPECT_EQ((there[1] + scalar_tensor(1.0)).item<float>(), 2);
  EXPECT_EQ((there + scalar_tensor(2.0, float64)).dtype(), float32);
  EXPECT_EQ((there.to(int32) + scalar_tensor(2.5, float64)).dtype(), float64);
  Tensor point = scalar_tensor(1.0);
  EXPECT_ERROR(point.add_(there), Error, "at least two devices");
  EXPECT_ERROR(add_out(point, scalar_tensor(1.0), there[0]), Error, "at least two devices");
  if (cuda::device_count() < 2) return;
  EXPECT_ERROR(there + there.to("cuda:1"), Error, "cuda:0 and cuda:1!");
  EXPECT_ERROR(there + there.to("cuda:1")[0], Error, "cuda:0 and cuda:1!");
  const cuda::DeviceGuard guard(1);
  EXPECT_EQ((there * 2 + there).device().str(), kDevice);
}

// A number is only computed with, with a factor or without: integers wrap around, and 16-bit floats
// are infinite where what comes out is too large.
TEST(Numbers, WithAFactorAreComputedWithAsWithout) {
  const Tensor bytes = tensor<std::uint8_t>({1, 2});
  EXPECT_EQ(values<int>(add(bytes, 300, 3)), std::vector<int>({133, 134}));
  EXPECT_EQ(values<int>(sub(bytes, 300, 3)), std::vector<int>({125, 126}));
  EXPECT_EQ(values<int>(add(300, bytes, 2)), std::vector<int>({46, 48}));
  EXPECT_EQ(values<int>(add(bytes, INT64_MIN, 3)), std::vector<int>({1, 2}));
  const Tensor small = tensor<float>({1, 2}).to(float16);
  EXPECT_EQ(values<float>(add(small, 1e6, 1e-3)), values<float>(small + 1000));
  EXPECT_EQ(values<float>(add(small, 1e6, -3)), std::vector<float>({-INFINITY, -INFINITY}));
  EXPECT_EQ(add(bytes, 0.5, 2).dtype(), float32);
  EXPECT_EQ(values<float>(add(bytes, 0.5, 2.0)), std::vector<float>({2, 3}));
}

// It copies elements: NaN that is not chosen does not show; numbers decide the type.
TEST(Where, Chooses) {
  const Tensor condition = tensor<bool>({true, false, true});
  const Tensor x = tensor<float>({1, NAN, 3});
  EXPECT_EQ(values<float>(where(condition, x, 0)), std::vector<float>({1, 0, 3}));
  EXPECT_EQ(values<int>(where(condition, 1, 2)), std::vector<int>({1, 2, 1}));
  EXPECT_EQ(where(condition, 1, 2.5).dtype(), float32);
  EXPECT_EQ(where(condition, x.to(float16), x.to(float64)).dtype(), float64);
  EXPECT_EQ(where(condition.view({3, 1}), x, x).sizes(), Shape({3, 3}));
  // Numbers too large: 16-bit floats are infinite, all else refuses them.
  for (const Dtype dtype : {float16, bfloat16})
    EXPECT_EQ(values<float>(where(condition, ones({3}, dtype), -1e300)),
              std::vector<float>({1, -INFINITY, 1}));
  EXPECT_ERROR((void)where(condition, x, 1e300), Error,
               "value cannot be converted to type float32 without overflow: 1e+300");
  EXPECT_ERROR((void)where(condition, ones({3}, int8), 300), Error,
               "value cannot be converted to type int8 without overflow: 300");
  EXPECT_ERROR(
      where(x, 1, 2), Error,
      "where expected condition to be a boolean tensor, but got a tensor with dtype Float");
  for (const Dtype dtype : all_dtypes())
    EXPECT_EQ(values<double>(where(condition, ones({3}, dtype), zeros({3}, dtype))),
              std::vector<double>({1, 0, 1}));
}

// As the left operand, as bounds, and as all operands.
TEST(Numbers, MayStandAnywhere) {
  const Tensor x = tensor<float>({-3, 0, 3});
  EXPECT_EQ(values<float>(1 - x), std::vector<float>({4, 1, -2}));
  EXPECT_EQ(values<float>(clamp(x, -1, 1)), std::vector<float>({-1, 0, 1}));
  EXPECT_EQ(values<float>(addcmul(x, 2, 3)), std::vector<float>({3, 6, 9}));
  EXPECT_EQ(addcmul(1, 2, 3).item<int>(), 7);
  EXPECT_EQ(values<float>(lerp(x, 1, 0.5)), std::vector<float>({-1, 0.5, 2}));
  EXPECT_EQ(values<bool>(x < 1), std::vector<bool>({true, true, false}));
  if (cuda::device_count() > 0) {
    const Tensor there = x.to(kDevice);
    EXPECT_EQ(values<float>(addcmul(there, 2, 3)), std::vector<float>({3, 6, 9}));
    EXPECT_EQ(values<float>(where(there > 0, 1.5, 2)), std::vector<float>({2, 2, 1.5}));
  }
}

// What an observer is told: the memory that is read and written.
TEST(Observers, SeeTheAccesses) {
  NEEDS_DEVICES(1);
  struct Watch : cuda::Observer {
    std::vector<cuda::Access> accesses;
    std::string name;
    void notice(const cuda::Activity& activity) noexcept override {
      if (activity.kind != cuda::Activity::Kind::kernel_launched) return;
      name = activity.name;
      accesses.assign(activity.accesses.begin(), activity.accesses.end());
    }
  } watch;
  const Tensor x = zeros({10, 10}, kDevice);
  const Tensor y = zeros({10, 10}, kDevice);
  Tensor out = zeros({10, 10}, Options(bool_, kDevice));
  cuda::set_observer(&watch);
  lt_out(out, x, y);
  EXPECT_EQ(watch.name, "lt.float32");
  ASSERT_EQ(watch.accesses.size(), 3U);
  EXPECT_EQ(watch.accesses[0].address, out.data_ptr());
  EXPECT_EQ(watch.accesses[0].bytes, 100U);
  EXPECT_TRUE(watch.accesses[0].writes);
  EXPECT_EQ(watch.accesses[2].address, y.data_ptr());
  EXPECT_EQ(watch.accesses[2].bytes, 400U);
  EXPECT_FALSE(watch.accesses[2].writes);
  const Tensor sum = x.slice(1, 0, 10, 2) + 1;
  ASSERT_EQ(watch.accesses.size(), 2U);
  EXPECT_EQ(watch.accesses[1].bytes, 4U * 99);
  cuda::set_observer(nullptr);
}

TEST(Clamp, TakesOneBound) {
  for (const char* place : {"cpu", kDevice}) {
    if (Device(place).is_cuda() && cuda::device_count() == 0) continue;
    const Tensor x = tensor<float>({-3, 0, kNaN, 3}, place);
    const auto text = [](const Tensor& t) { return t.cpu().str(); };
    EXPECT_EQ(text(x.clamp(0)), "tensor([0., 0., nan, 3.])");
    EXPECT_EQ(text(clamp(x, 0)), "tensor([0., 0., nan, 3.])");
    EXPECT_EQ(text(x.clamp_min(0)), "tensor([0., 0., nan, 3.])");
    EXPECT_EQ(text(clamp_max(x, 1)), "tensor([-3.,  0., nan,  1.])");
    EXPECT_EQ(text(x.clamp({}, 1)), "tensor([-3.,  0., nan,  1.])");
    EXPECT_EQ(text(x.clamp(std::nullopt, 1)), "tensor([-3.,  0., nan,  1.])");
    EXPECT_EQ(text(x.clamp(std::optional<double>(-1), std::optional<double>(1))),
              "tensor([-1.,  0., nan,  1.])");
    EXPECT_EQ(text(clamp(x, {}, 1)), "tensor([-3.,  0., nan,  1.])");
    EXPECT_EQ(text(x.clamp(-1, 1)), "tensor([-1.,  0., nan,  1.])");
    // A number that is NaN bounds nothing alone, except by these names; a tensor's NaN does.
    EXPECT_EQ(text(x.clamp(kNaN)), "tensor([-3.,  0., nan,  3.])");
    EXPECT_EQ(text(x.clamp_min(kNaN)), "tensor([nan, nan, nan, nan])");
    EXPECT_EQ(text(x.clamp_max(full({}, kNaN, Device(place)))), "tensor([nan, nan, nan, nan])");
    const Tensor bounds = tensor<float>({1, 2, 3, 4}, place);
    EXPECT_EQ(text(x.clamp(bounds)), "tensor([1., 2., nan, 4.])");
    EXPECT_EQ(text(x.clamp(std::nullopt, bounds - 2)), "tensor([-3.,  0., nan,  2.])");
    EXPECT_EQ(text(x.clamp(bounds - 2, bounds)), "tensor([-1.,  0., nan,  3.])");
    EXPECT_EQ(clamp_min(ones({2}, {int64, place}), 2.5).dtype(), float32);
    EXPECT_ERROR(ones({2}, {int64, place}).clamp_min_(2.5), Error,
                 "result type Float can't be cast");
    Tensor y = x.clone();
    EXPECT_TRUE(y.clamp_(0).is(y));
    y.clamp_max_(2).clamp_min_(1).clamp_({}, 1.5);
    EXPECT_EQ(text(y), "tensor([1.0000, 1.0000,    nan, 1.5000])");
    Tensor out = empty({0}, place);
    EXPECT_EQ(text(clamp_out(out, x, 0)), "tensor([0., 0., nan, 3.])");
    EXPECT_EQ(text(clamp_max_out(out, x, 0)), "tensor([-3.,  0., nan,  0.])");
    EXPECT_ERROR(x.clamp(std::nullopt), Error,
                 "torch.clamp: At least one of 'min' or 'max' must not be None");
  }
}

TEST(Abs, OfBoolIsItself) {
  for (const char* place : {"cpu", kDevice}) {
    if (Device(place).is_cuda() && cuda::device_count() == 0) continue;
    const Tensor x = tensor({true, false}, place);
    EXPECT_EQ(x.abs().dtype(), bool_);
    EXPECT_EQ(values<bool>(x.abs()), (std::vector<bool>{true, false}));
  }
}

}  // namespace
}  // namespace ember::test
