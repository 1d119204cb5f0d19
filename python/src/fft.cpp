// ember.fft, short-time Fourier transforms, and the plans of both.
#include <string>

#include "define.h"

namespace ember::python {
namespace {

using fft::Count;
using fft::NormName;
using fft::Shapes;
using Norm = std::optional<std::string>;

NormName name_of(const Norm& norm) { return norm ? NormName(*norm) : NormName(); }

/// A transform along one dimension.
template <class Make, class Into>
void define_1d(nb::module_& m, const char* name, Make make, Into into, const char* doc) {
  m.def(
      name,
      [make, into](const Tensor& input, Count n, std::int64_t dim, const Norm& norm, Tensor* out) {
        return maybe_into(
            out, [&] { return make(input, n, dim, name_of(norm)); },
            [&](Tensor& result) { (void)into(result, input, n, dim, name_of(norm)); });
      },
      nb::arg("input"), nb::arg("n") = nb::none(), nb::arg("dim") = -1,
      nb::arg("norm") = nb::none(), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(("def " + std::string(name) +
               "(input: ember._C.Tensor, n: int | None = None, dim: int = -1, norm: str | None = "
               "None, *, out: ember._C.Tensor | None = None) -> ember._C.Tensor")
                  .c_str()),
      doc);
}

Shapes shapes_of(const std::optional<Sizes>& sizes) {
  return sizes ? Shapes(sizes->shape()) : Shapes();
}

/// The same along several: the last two, or all of them, unless told otherwise.
template <class Make, class Into>
void define_nd(nb::module_& m, const char* name, bool two, Make make, Into into, const char* doc) {
  const auto call = [make, into](const Tensor& input, const std::optional<Sizes>& s,
                                 const std::optional<Sizes>& dim, const Norm& norm, Tensor* out) {
    const Shapes sizes = shapes_of(s);
    const Shapes dims = shapes_of(dim);
    return maybe_into(
        out, [&] { return make(input, sizes, dims, name_of(norm)); },
        [&](Tensor& result) { (void)into(result, input, sizes, dims, name_of(norm)); });
  };
  const std::string list = "int | collections.abc.Sequence[int] | None";
  const std::string signature =
      "def " + std::string(name) + "(input: ember._C.Tensor, s: " + list + " = None, dim: " + list +
      " = " + (two ? "(-2, -1)" : "None") +
      ", norm: str | None = None, *, out: ember._C.Tensor | None = None) -> ember._C.Tensor";
  const nb::object dim = two ? nb::object(nb::make_tuple(-2, -1)) : nb::none();
  m.def(name, call, nb::arg("input"), nb::arg("s") = nb::none(), nb::arg("dim") = dim,
        nb::arg("norm") = nb::none(), nb::kw_only(), nb::arg("out") = nb::none(),
        nb::sig(signature.c_str()), doc);
}

#define EMBER_FFT(name) \
#name, [](auto&&... arguments) { return fft::name(arguments...); }, \
      [](auto&&... arguments) { return fft::name##_out(arguments...); }
#define EMBER_FFT_ND(name, two) \
#name, two, [](auto&&... arguments) { return fft::name(arguments...); }, \
      [](auto&&... arguments) { return fft::name##_out(arguments...); }

void bind_transforms(nb::module_& m) {
  define_1d(m, EMBER_FFT(fft), "The discrete Fourier transform along a dimension.");
  define_1d(m, EMBER_FFT(ifft), "Its inverse.");
  define_1d(m, EMBER_FFT(rfft), "The first half of the transform of a real signal.");
  define_1d(m, EMBER_FFT(irfft), "The real signal of such a half.");
  define_1d(m, EMBER_FFT(hfft), "The real transform of a Hermitian signal, given as its half.");
  define_1d(m, EMBER_FFT(ihfft), "The first half of the signal of a real transform.");
  define_nd(m, EMBER_FFT_ND(fft2, true), "fft along two dimensions.");
  define_nd(m, EMBER_FFT_ND(ifft2, true), "ifft along two dimensions.");
  define_nd(m, EMBER_FFT_ND(rfft2, true), "rfft along two dimensions; half along the last.");
  define_nd(m, EMBER_FFT_ND(irfft2, true), "irfft along two dimensions.");
  define_nd(m, EMBER_FFT_ND(hfft2, true), "hfft along two dimensions.");
  define_nd(m, EMBER_FFT_ND(ihfft2, true), "ihfft along two dimensions.");
  define_nd(m, EMBER_FFT_ND(fftn, false), "fft along several dimensions.");
  define_nd(m, EMBER_FFT_ND(ifftn, false), "ifft along several dimensions.");
  define_nd(m, EMBER_FFT_ND(rfftn, false), "rfft along several dimensions; half along the last.");
  define_nd(m, EMBER_FFT_ND(irfftn, false), "irfft along several dimensions.");
  define_nd(m, EMBER_FFT_ND(hfftn, false), "hfft along several dimensions.");
  define_nd(m, EMBER_FFT_ND(ihfftn, false), "ihfft along several dimensions.");
}

#undef EMBER_FFT
#undef EMBER_FFT_ND

template <class Make, class Into>
void define_frequencies(nb::module_& m, const char* name, Make make, Into into, const char* doc) {
  m.def(
      name,
      [make, into](std::int64_t n, double d, Tensor* out, std::optional<Dtype> dtype,
                   const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = new_options(dtype, device, pin_memory);
        return made_or_into(
            out, options, [&] { return make(n, d, options); },
            [&](Tensor& result) { (void)into(result, n, d); });
      },
      nb::arg("n"), nb::arg("d") = 1.0, nb::kw_only(), nb::arg("out") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      nb::sig(("def " + std::string(name) +
               "(n: int, d: float = 1.0, *, out: ember._C.Tensor | None = None, dtype: "
               "ember._C.dtype | None = None, device: ember._C.device | int | str | None = None, "
               "pin_memory: bool | None = False) -> ember._C.Tensor")
                  .c_str()),
      doc);
}

template <class Call>
void define_shift(nb::module_& m, const char* name, Call call, const char* doc) {
  m.def(
      name,
      [call](const Tensor& input, const std::optional<Sizes>& dim) {
        const Shapes dims = shapes_of(dim);
        return unlocked([&] { return call(input, dims); });
      },
      nb::arg("input"), nb::arg("dim") = nb::none(),
      nb::sig(("def " + std::string(name) +
               "(input: ember._C.Tensor, dim: int | collections.abc.Sequence[int] | None = None) "
               "-> ember._C.Tensor")
                  .c_str()),
      doc);
}

void bind_short_time(nb::class_<Tensor>& tensor, nb::module_& m) {
  const auto make = [](const Tensor& input, std::int64_t n_fft, Count hop_length, Count win_length,
                       const std::optional<Tensor>& window, bool center,
                       const std::string& pad_mode, bool normalized, std::optional<bool> onesided,
                       std::optional<bool> return_complex, std::optional<bool> align_to_window) {
    StftOptions options{hop_length, win_length, window,         center,          pad_mode,
                        normalized, onesided,   return_complex, align_to_window, {}};
    return unlocked_warning([&] { return stft(input, n_fft, options); });
  };
  both(tensor, m, "stft", make,
       "The transforms of overlapping pieces of a signal: (batch, frequencies, pieces).",
       nb::arg("n_fft"), nb::arg("hop_length") = nb::none(), nb::arg("win_length") = nb::none(),
       nb::arg("window") = nb::none(), nb::arg("center") = true, nb::arg("pad_mode") = "reflect",
       nb::arg("normalized") = false, nb::arg("onesided") = nb::none(),
       nb::arg("return_complex") = nb::none(), nb::arg("align_to_window") = nb::none());
  const auto invert = [](const Tensor& input, std::int64_t n_fft, Count hop_length,
                         Count win_length, const std::optional<Tensor>& window, bool center,
                         bool normalized, std::optional<bool> onesided, Count length,
                         bool return_complex) {
    StftOptions options{hop_length, win_length, window,         center, "reflect",
                        normalized, onesided,   return_complex, {},     length};
    return unlocked_warning([&] { return istft(input, n_fft, options); });
  };
  both(tensor, m, "istft", invert,
       "The signal of such transforms. Waits until it is known that the windows leave no gap.",
       nb::arg("n_fft"), nb::arg("hop_length") = nb::none(), nb::arg("win_length") = nb::none(),
       nb::arg("window") = nb::none(), nb::arg("center") = true, nb::arg("normalized") = false,
       nb::arg("onesided") = nb::none(), nb::arg("length") = nb::none(),
       nb::arg("return_complex") = false);
}

// ---- Plans

using cuda::FftPlanCache;

/// All caches: itself that of the current device.
struct PlanCaches : FftPlanCache {};

std::int64_t limit_from(nb::handle value, const char* name) {
  if (is_beyond_64_bits(value)) throw ValueError("Overflow when unpacking long long");
  const auto number = index_from(value);
  if (!number)
    throw TypeError(std::string("argument '") + name + "' must be int, not " +
                    Py_TYPE(value.ptr())->tp_name);
  return *number;
}

}  // namespace

void bind_fft(nb::class_<Tensor>& tensor, nb::module_& m) {
  nb::module_ fft = m.def_submodule("fft", "Discrete Fourier transforms.");
  bind_transforms(fft);
  define_frequencies(
      fft, "fftfreq", [](auto&&... arguments) { return fft::fftfreq(arguments...); },
      [](auto&&... arguments) { return fft::fftfreq_out(arguments...); },
      "The frequencies of a transform of n points that lie d apart.");
  define_frequencies(
      fft, "rfftfreq", [](auto&&... arguments) { return fft::rfftfreq(arguments...); },
      [](auto&&... arguments) { return fft::rfftfreq_out(arguments...); },
      "Those of its first half.");
  define_shift(
      fft, "fftshift", [](auto&&... arguments) { return fft::fftshift(arguments...); },
      "A transform with the zero frequency in the middle.");
  define_shift(
      fft, "ifftshift", [](auto&&... arguments) { return fft::ifftshift(arguments...); },
      "The inverse of fftshift.");
  bind_short_time(tensor, m);
}

void bind_fft_plans(nb::module_& cuda) {
  nb::class_<FftPlanCache>(cuda, "_cuFFTPlanCache", "The plans of one device's transforms.")
      .def_prop_rw(
          "size", [](const FftPlanCache& self) { return unlocked([&] { return self.size(); }); },
          [](const FftPlanCache&, nb::handle) {
            throw Error(
                ".size is a read-only property showing the number of plans currently in the cache. "
                "To change the cache capacity, set cufft_plan_cache.max_size.");
          },
          "How many plans there are.")
      .def_prop_rw(
          "max_size",
          [](const FftPlanCache& self) { return unlocked([&] { return self.max_size(); }); },
          [](const FftPlanCache& self, nb::handle value) {
            const std::int64_t most = limit_from(value, "max_size");
            unlocked([&] { self.set_max_size(most); });
          },
          nb::for_setter(nb::sig("def max_size(self, arg: int, /) -> None")),
          "How many there may be: 4096 at first, 0 for none.")
      .def_prop_ro(
          "bytes", [](const FftPlanCache& self) { return unlocked([&] { return self.bytes(); }); },
          "About what the tables of these plans take.")
      .def_prop_rw(
          "max_bytes",
          [](const FftPlanCache& self) { return unlocked([&] { return self.max_bytes(); }); },
          [](const FftPlanCache& self, nb::handle value) {
            const std::int64_t most = limit_from(value, "max_bytes");
            unlocked([&] { self.set_max_bytes(most); });
          },
          nb::for_setter(nb::sig("def max_bytes(self, arg: int, /) -> None")),
          "How much of that there may be: 0, as at first, for no limit.")
      .def(
          "clear", [](const FftPlanCache& self) { unlocked([&] { self.clear(); }); },
          "Drops all plans. Waits until their work is done.");
  nb::class_<PlanCaches, FftPlanCache>(cuda, "_cuFFTPlanCacheManager",
                                       "The plans of all devices; by itself, of the current one.")
      .def(
          "__getitem__",
          [](const PlanCaches&, const DeviceLike& device) {
            const cuda::DeviceArg given = device.arg();
            return unlocked_warning(
                [&] { return FftPlanCache(cuda::DeviceArg(given.required_index())); });
          },
          nb::arg("device").none(), "Those of one device.");
  cuda.attr("_cufft_plan_cache") = PlanCaches();
}

}  // namespace ember::python
