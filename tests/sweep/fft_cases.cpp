// Fourier transforms. In a build without what they are made of each is refused.
#include "ember/base/error.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

/// Numbers are sums of some thirty, each of the size of one or two.
constexpr Traits kTraits{.ulp = 64, .view_ulp = 64, .floor = 32};

bool there_are_any() {
  static const bool any = [] {
    try {
      (void)fft::fft(ones({1}));
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return any;
}

void add_transform(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
                   const std::function<Tensor(Tensors&)>& call,
                   const std::function<void(Tensor& out, Tensors&)>& call_out,
                   const std::string& note = "") {
  Traits traits = kTraits;
  if (there_are_any() && call_out != nullptr)
    return add_with_out(cases, op, inputs, call, call_out, traits, note);
  traits.may_refuse = !there_are_any();
  add(cases, op, inputs, call, traits, note);
  if (call_out != nullptr)
    add(
        cases, op + "_out", inputs,
        [call](Tensors& t) {
          (void)call(t);
          return Tensor();
        },
        traits, note);
}

template <class Call, class CallOut>
void add_1d(Cases& cases, const std::string& op, const Input& x, Call call, CallOut call_out) {
  for (const std::int64_t dim : {0, -1})
    for (const fft::Count n : {fft::Count(), fft::Count(7), fft::Count(2)})
      add_transform(
          cases, op, {x}, [=](Tensors& t) { return call(t[0], n, dim, "ortho"); },
          [=](Tensor& out, Tensors& t) { call_out(out, t[0], n, dim, "ortho"); },
          "dim " + std::to_string(dim) + (n ? ", n " + std::to_string(*n) : ""));
}

template <class Call, class CallOut>
void add_nd(Cases& cases, const std::string& op, const Input& x, Call call, CallOut call_out) {
  for (const fft::Shapes& dim : {fft::Shapes(Shape{-2, -1}), fft::Shapes(Shape{1, 0})})
    for (const fft::Shapes& s : {fft::Shapes(), fft::Shapes(Shape{3, 8})})
      add_transform(
          cases, op, {x}, [=](Tensors& t) { return call(t[0], s, dim, fft::NormName()); },
          [=](Tensor& out, Tensors& t) { call_out(out, t[0], s, dim, fft::NormName()); },
          "dim " + dim->str() + (s ? ", s " + s->str() : ""));
}

/// The inverses of transforms of real signals, of what those give: of anything else each device may
/// make what it likes.
template <class Half, class Call, class CallOut>
void add_inverse(Cases& cases, const std::string& op, const Input& x, Half half, Call call,
                 CallOut call_out) {
  const fft::Shapes no_sizes;
  const fft::NormName no_name;
  for (const Shape& dim : {Shape{-2, -1}, Shape{1, 0}}) {
    const auto sizes = [=](const Tensor& t) { return Shape{t.size(dim[0]), t.size(dim[1])}; };
    add_transform(
        cases, op, {x},
        [=](Tensors& t) {
          return call(half(t[0], no_sizes, dim, no_name), sizes(t[0]), dim, no_name);
        },
        [=](Tensor& out, Tensors& t) {
          call_out(out, half(t[0], no_sizes, dim, no_name), sizes(t[0]), dim, no_name);
        },
        "dim " + dim.str());
  }
}

void add_frequencies(Cases& cases) {
  for (const std::int64_t n : {6, 7}) {
    const Input like = input(Dtype::float32, {2});
    add_with_out(
        cases, "fftfreq", {like}, [=](Tensors& t) { return fft::fftfreq(n, 0.5, t[0].device()); },
        [=](Tensor& out, Tensors&) { fft::fftfreq_out(out, n, 0.5); }, {}, std::to_string(n));
    add_with_out(
        cases, "rfftfreq", {like}, [=](Tensors& t) { return fft::rfftfreq(n, 0.5, t[0].device()); },
        [=](Tensor& out, Tensors&) { fft::rfftfreq_out(out, n, 0.5); }, {}, std::to_string(n));
  }
  const Input x = input(Dtype::int32, {3, 4});
  add(cases, "fftshift", {x}, [](Tensors& t) { return fft::fftshift(t[0]); });
  add(cases, "ifftshift", {x}, [](Tensors& t) { return fft::ifftshift(t[0], Shape{0}); });
}

void add_short_time(Cases& cases) {
  const Input x = input(Dtype::float32, {2, 12});
  const Input window = input(Dtype::float32, {4});
  const auto options = [](const Tensor& given) {
    StftOptions made;
    made.hop_length = 2;
    made.window = given;
    made.return_complex = true;
    return made;
  };
  add_transform(
      cases, "stft", {x, window}, [=](Tensors& t) { return stft(t[0], 4, options(t[1])); },
      nullptr);
  add_transform(
      cases, "istft", {x, window},
      [=](Tensors& t) {
        StftOptions made = options(t[1].abs() + 1);
        const Tensor pieces = stft(t[0], 4, made);
        made.return_complex = false;
        return istft(pieces, 4, made);
      },
      nullptr);
}

}  // namespace

#define EMBER_NAMED(name) \
  [](auto&&... arguments) -> decltype(auto) { return fft::name(arguments...); }
#define EMBER_CALLS(name) #name, x, EMBER_NAMED(name), EMBER_NAMED(name##_out)

void add_fft_cases(Cases& cases) {
  for (const Dtype dtype : {Dtype::float32, Dtype::complex64, Dtype::float64, Dtype::int32}) {
    const Input x = input(dtype, {4, 5});
    add_1d(cases, EMBER_CALLS(fft));
    add_1d(cases, EMBER_CALLS(ifft));
    if (is_complex_dtype(dtype)) continue;
    add_1d(cases, EMBER_CALLS(irfft));
    add_1d(cases, EMBER_CALLS(hfft));
    add_1d(cases, EMBER_CALLS(rfft));
    add_1d(cases, EMBER_CALLS(ihfft));
  }
  for (const Dtype dtype : {Dtype::float32, Dtype::complex128}) {
    const Input x = input(dtype, {4, 3, 5});
    add_nd(cases, EMBER_CALLS(fft2));
    add_nd(cases, EMBER_CALLS(ifft2));
    add_nd(cases, EMBER_CALLS(fftn));
    add_nd(cases, EMBER_CALLS(ifftn));
    if (is_complex_dtype(dtype)) continue;
    add_nd(cases, EMBER_CALLS(rfft2));
    add_nd(cases, EMBER_CALLS(ihfft2));
    add_nd(cases, EMBER_CALLS(rfftn));
    add_nd(cases, EMBER_CALLS(ihfftn));
    add_inverse(cases, "irfft2", x, EMBER_NAMED(rfft2), EMBER_NAMED(irfft2),
                EMBER_NAMED(irfft2_out));
    add_inverse(cases, "irfftn", x, EMBER_NAMED(rfftn), EMBER_NAMED(irfftn),
                EMBER_NAMED(irfftn_out));
    add_inverse(cases, "hfft2", x, EMBER_NAMED(ihfft2), EMBER_NAMED(hfft2), EMBER_NAMED(hfft2_out));
    add_inverse(cases, "hfftn", x, EMBER_NAMED(ihfftn), EMBER_NAMED(hfftn), EMBER_NAMED(hfftn_out));
  }
  add_frequencies(cases);
  add_short_time(cases);
}

#undef EMBER_CALLS
#undef EMBER_NAMED

}  // namespace ember::test
