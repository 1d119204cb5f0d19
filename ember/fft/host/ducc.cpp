// The transforms of ducc0, a library of headers. This source, with complex_rows.h, is the only one
// that includes them; it stands for what they expect to be linked with: threads, which are ember's
// team, and errors, which here need no streams. It is compiled twice: for any processor and, where
// the compiler can, with AVX2 (EMBER_FFT_AVX2). The bits are the same: vectors hold numbers of
// several transforms, or of several parts of one, and nothing is contracted.
#include <atomic>
#include <complex>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/team.h"
#include "ember/fft/host/plan_table.h"
#include "ember/fft/host/variants.h"

// In place of ducc0/infra/error_handling.h, which writes its texts into streams.
#define DUCC0_ERROR_HANDLING_H
#define MR_fail(...) throw std::runtime_error("ducc0: an argument that it does not take")
#define MR_assert(condition, ...)       \
  do {                                  \
    if (!(condition)) MR_fail("ducc0"); \
  } while (0)
// A program that uses ducc0 itself has other definitions of what follows.
#ifdef EMBER_FFT_AVX2
#define EMBER_FFT_VARIANT avx2
#define DUCC0_NAMESPACE ember_ducc0_avx2
#else
#define EMBER_FFT_VARIANT plain
#define DUCC0_NAMESPACE ember_ducc0
#endif
// Not its threads but those below; and not its table of plans, which would need a lock of theirs.
#define DUCC0_NO_LOWLEVEL_THREADING
#define DUCC0_NO_FFT_CACHE

#include <ducc0/fft/fft.h>
#include <ducc0/fft/fftnd_impl.h>
#include <ducc0/infra/threading.h>

#include <ducc0/infra/mav.cc>  // NOLINT(bugprone-suspicious-include): it is their one other source

#include "ember/fft/host/complex_rows.h"

namespace {

namespace ducc = DUCC0_NAMESPACE;

/// What a thread is told of its part.
class Part final : public ducc::detail_threading::Scheduler {
 public:
  Part(std::size_t threads, std::size_t thread, std::size_t work = 0)
      : threads_(threads),
        thread_(thread),
        next_(work * thread / threads, work * (thread + 1) / threads) {}
  std::size_t num_threads() const override { return threads_; }
  std::size_t thread_num() const override { return thread_; }
  ducc::detail_threading::Range getNext() override {
    const ducc::detail_threading::Range range = next_;
    next_ = {};
    return range;
  }

 private:
  std::size_t threads_;
  std::size_t thread_;
  ducc::detail_threading::Range next_;
};

/// How many threads share the work of the transform that this thread computes.
thread_local int sharers = 1;

/// Calls `body(part)` for every part, by ember's team. What it throws, for want of memory, is
/// thrown here.
template <class Body>
void in_parts(std::size_t parts, const Body& body) {
  if (parts <= 1) return body(0);
  std::exception_ptr failure;
  std::atomic_flag failed;
  ember::share(static_cast<std::int64_t>(parts), sharers, [&](std::int64_t i) {
    try {
      body(static_cast<std::size_t>(i));
    } catch (...) {
      if (!failed.test_and_set()) failure = std::current_exception();
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
}

/// Whether the transform that the thread computes is a single one, of no more than what ducc0
/// computes in one piece. Only that is computed by vectors within itself: where there are several,
/// some of them would be and others not, depending on how they are shared out.
thread_local bool single = false;

/// Those of double would be computed so where there are vectors of four of them only.
template <class Plan>
constexpr bool has_wide_vectors = false;
template <>
constexpr bool has_wide_vectors<ducc::detail_fft::pocketfft_c<float>> = true;
template <>
constexpr bool has_wide_vectors<ducc::detail_fft::pocketfft_r<float>> = true;

struct ThisSource {};
template <class Plan>
std::shared_ptr<Plan> kept_plan(std::size_t length, bool vectorize) {
  vectorize = vectorize && single && has_wide_vectors<Plan>;
  return ember::fft::host::PlanTable<Plan, ThisSource>::get(
      length, vectorize, [&] { return std::make_shared<Plan>(length, vectorize); });
}

}  // namespace

namespace DUCC0_NAMESPACE {
namespace detail_threading {

// What ducc0/infra/threading.cc defines.
std::size_t adjust_nthreads(std::size_t threads) { return threads; }
void execParallel(std::size_t threads, std::function<void(Scheduler&)> body) {
  in_parts(threads, [&](std::size_t i) {
    Part part(threads, i);
    body(part);
  });
}
// NOLINTNEXTLINE(performance-unnecessary-value-param): as they declare it
void execParallel(std::size_t threads, std::function<void(std::size_t)> body) {
  in_parts(threads, body);
}
void execParallel(std::size_t first, std::size_t last, std::size_t threads,
                  std::function<void(std::size_t, std::size_t)> body) {
  const std::size_t work = last - first;
  in_parts(threads, [&](std::size_t i) {
    body(first + work * i / threads, first + work * (i + 1) / threads);
  });
}
void execParallel(std::size_t first, std::size_t last, std::size_t threads,
                  std::function<void(std::size_t, std::size_t, std::size_t)> body) {
  const std::size_t work = last - first;
  in_parts(threads, [&](std::size_t i) {
    body(i, first + work * i / threads, first + work * (i + 1) / threads);
  });
}
void execStatic(std::size_t work, std::size_t threads, std::size_t,
                std::function<void(Scheduler&)> body) {
  in_parts(threads, [&](std::size_t i) {
    Part part(threads, i, work);
    body(part);
  });
}
void execDynamic(std::size_t work, std::size_t threads, std::size_t chunk,
                 std::function<void(Scheduler&)> body) {
  execStatic(work, threads, chunk, std::move(body));
}

}  // namespace detail_threading

namespace detail_fft {
namespace {

#define EMBER_KEPT_PLAN(Plan)                                                \
  template <>                                                                \
  std::shared_ptr<Plan> get_plan<Plan>(std::size_t length, bool vectorize) { \
    return kept_plan<Plan>(length, vectorize);                               \
  }
EMBER_KEPT_PLAN(pocketfft_c<float>)
EMBER_KEPT_PLAN(pocketfft_c<double>)
EMBER_KEPT_PLAN(pocketfft_r<float>)
EMBER_KEPT_PLAN(pocketfft_r<double>)
EMBER_KEPT_PLAN(Long1dPlan<float>)
EMBER_KEPT_PLAN(Long1dPlan<double>)
#undef EMBER_KEPT_PLAN

}  // namespace
}  // namespace detail_fft
}  // namespace DUCC0_NAMESPACE

namespace ember::inline v0::fft::host::EMBER_FFT_VARIANT {
namespace {

using driver::FftArgs;
using driver::FftGeometry;
using driver::FftKind;
using Lengths = std::vector<std::size_t>;
using Steps = std::vector<std::ptrdiff_t>;

/// A geometry as ducc0 has it: batch dimensions, then those that are transformed.
struct View {
  Lengths sizes;  ///< of the signal
  Lengths half;   ///< of the complex side of a real transform
  Steps in, out;
  Lengths axes;

  explicit View(const FftGeometry& g) {
    for (int d = 0; d < g.batch_dims; ++d)
      add(g.batch_sizes[d], g.in_batch_strides[d], g.out_batch_strides[d]);
    for (int d = 0; d < g.dims; ++d) {
      axes.push_back(sizes.size());
      add(g.sizes[d], g.in_strides[d], g.out_strides[d]);
    }
    half = sizes;
    half.back() = half.back() / 2 + 1;
  }
  void add(std::int64_t size, std::int64_t from, std::int64_t to) {
    sizes.push_back(static_cast<std::size_t>(size));
    in.push_back(from);
    out.push_back(to);
  }
};

template <class T>
using Scratch = ducc::detail_fft::Scratch<T>;

template <class T>
void complex_pass(const ducc::cfmav<std::complex<T>>& in, const ducc::vfmav<std::complex<T>>& out,
                  std::size_t axis, bool forward, T factor, std::size_t parts,
                  Scratch<T>& scratch) {
  using Numbers = ducc::Cmplx<T>;
  ducc::detail_fft::transform_rows(reinterpret_cast<const ducc::cfmav<Numbers>&>(in),
                                   reinterpret_cast<const ducc::vfmav<Numbers>&>(out), axis,
                                   forward, factor, parts, scratch);
}

/// From `in` to `out` along some dimensions, the last one first. ducc0 would choose the order by
/// the strides, and it shows in the last bits.
template <class T>
void complex_passes(const ducc::cfmav<std::complex<T>>& in, const ducc::vfmav<std::complex<T>>& out,
                    const Lengths& axes, bool forward, T factor, std::size_t parts,
                    Scratch<T>& scratch) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const bool first = axis == axes.rbegin();
    complex_pass(first ? in : static_cast<const ducc::cfmav<std::complex<T>>&>(out), out, *axis,
                 forward, first ? factor : T(1), parts, scratch);
  }
}

// ---- Single, long signals of real numbers
//
// ducc0 computes them as they are, in one thread. As complex numbers, two real ones each, they are
// half as long, and cut to fit the cache like other long signals; a pass over pairs of the result
// makes the transform of the real signal of it, or undoes that beforehand.

bool may_be_halved(const FftArgs& args) {
  const FftGeometry& g = args.geometry;
  return g.kind != FftKind::c2c && args.forward == (g.kind == FftKind::r2c) && g.dims == 1 &&
         g.sizes[0] % 2 == 0;
}
bool is_long_and_real(const FftArgs& args) {
  const FftGeometry& g = args.geometry;
  return may_be_halved(args) && g.batch_dims == 0 && g.sizes[0] / 2 >= kLong;
}

/// Calls `body(k, root)` for k from 1 to half of `half`, with exp(2 pi i k / (2 half)).
template <class T, class Body>
void for_pairs(std::int64_t half, std::size_t parts, const Body& body) {
  const auto roots = ducc::detail_fft::get_plan<ducc::detail_fft::Long1dPlan<T>>(
      static_cast<std::size_t>(2 * half), false);
  const std::int64_t pairs = half / 2;
  in_parts(parts, [&](std::size_t part) {
    const auto begin = pairs * static_cast<std::int64_t>(part) / static_cast<std::int64_t>(parts);
    const auto end = pairs * static_cast<std::int64_t>(part + 1) / static_cast<std::int64_t>(parts);
    for (std::int64_t k = begin + 1; k <= end; ++k) body(k, (*roots)[static_cast<std::size_t>(k)]);
  });
}

template <class T>
std::complex<T> times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class T>
std::complex<T> times_i(std::complex<T> a) {
  return {-a.imag(), a.real()};
}

template <class T>
void long_r2c(const FftGeometry& g, const T* in, std::complex<T>* out, T factor, std::size_t parts,
              Scratch<T>& scratch) {
  using Complex = std::complex<T>;
  const std::int64_t half = g.sizes[0] / 2;
  std::vector<T> beside;
  if (g.in_strides[0] != 1) {
    beside.resize(static_cast<std::size_t>(2 * half));
    for (std::int64_t i = 0; i < 2 * half; ++i)
      beside[static_cast<std::size_t>(i)] = in[i * g.in_strides[0]];
    in = beside.data();
  }
  const Lengths sizes{static_cast<std::size_t>(half)};
  const std::int64_t step = g.out_strides[0];
  const ducc::cfmav<Complex> from(reinterpret_cast<const Complex*>(in), sizes, {1});
  const ducc::vfmav<Complex> to(out, sizes, {step});
  complex_pass(from, to, 0, true, factor, parts, scratch);
  const Complex first = out[0];
  for_pairs<T>(half, parts, [&](std::int64_t k, Complex root) {
    Complex& low = out[k * step];
    Complex& high = out[(half - k) * step];
    const Complex even = T(0.5) * (low + std::conj(high));
    const Complex odd = times_i(times(std::conj(root), T(0.5) * (low - std::conj(high))));
    high = std::conj(even + odd);
    low = even - odd;
  });
  out[0] = first.real() + first.imag();
  out[half * step] = first.real() - first.imag();
}

template <class T>
void long_c2r(const FftGeometry& g, const std::complex<T>* in, T* out, T factor, std::size_t parts,
              Scratch<T>& scratch) {
  using Complex = std::complex<T>;
  const std::int64_t half = g.sizes[0] / 2;
  std::vector<T> beside;
  T* signal = out;
  if (g.out_strides[0] != 1) {
    beside.resize(static_cast<std::size_t>(2 * half));
    signal = beside.data();
  }
  auto* const pairs = reinterpret_cast<Complex*>(signal);
  const std::int64_t step = g.in_strides[0];
  const T zero = in[0].real();
  const T middle = in[half * step].real();
  pairs[0] = {zero + middle, zero - middle};
  for_pairs<T>(half, parts, [&](std::int64_t k, Complex root) {
    const Complex low = in[k * step];
    const Complex high = std::conj(in[(half - k) * step]);
    const Complex even = low + high;
    const Complex odd = times_i(times(root, low - high));
    pairs[half - k] = std::conj(even - odd);
    pairs[k] = even + odd;
  });
  const Lengths sizes{static_cast<std::size_t>(half)};
  const ducc::vfmav<Complex> both(pairs, sizes, {1});
  complex_pass(static_cast<const ducc::cfmav<Complex>&>(both), both, 0, false, factor, parts,
               scratch);
  if (signal == out) return;
  for (std::int64_t i = 0; i < 2 * half; ++i) out[i * g.out_strides[0]] = signal[i];
}

bool are_alone(const FftArgs& args) {
  const FftGeometry& g = args.geometry;
  if (g.dims != 1 || g.batch_dims == 0) return false;
  return g.kind == FftKind::c2c ? g.sizes[0] >= kLong
                                : may_be_halved(args) && g.sizes[0] / 2 >= kLong;
}

template <class T>
void compute(const FftArgs& args, Scratch<T>& scratch);

/// Signal `i` of a batch.
template <class T>
FftArgs signal_of(const FftArgs& args, std::int64_t i) {
  const FftGeometry& g = args.geometry;
  std::int64_t from = 0, to = 0;
  for (int dim = g.batch_dims - 1; dim >= 0; i /= g.batch_sizes[dim--]) {
    from += i % g.batch_sizes[dim] * g.in_batch_strides[dim];
    to += i % g.batch_sizes[dim] * g.out_batch_strides[dim];
  }
  constexpr auto kReal = static_cast<std::int64_t>(sizeof(T));
  FftArgs one = args;
  one.geometry.batch_dims = 0;
  one.in = static_cast<char*>(args.in) + from * (g.kind == FftKind::r2c ? kReal : 2 * kReal);
  one.out = static_cast<char*>(args.out) + to * (g.kind == FftKind::c2r ? kReal : 2 * kReal);
  return one;
}

/// Each thread computes as many whole signals as the others; what is left over all of them share.
template <class T>
void compute_alone(const FftArgs& args, Scratch<T>& scratch) {
  const std::int64_t signals = args.geometry.transforms();
  const int threads = sharers;
  const std::int64_t each = threads > 1 ? signals / threads : 0;
  if (each > 0) {
    in_parts(static_cast<std::size_t>(threads), [&](std::size_t part) {
      sharers = 1;
      Scratch<T> own;
      const std::int64_t first = static_cast<std::int64_t>(part) * each;
      for (std::int64_t i = first; i < first + each; ++i) compute(signal_of<T>(args, i), own);
    });
    sharers = threads;
  }
  for (std::int64_t i = each * threads; i < signals; ++i) compute(signal_of<T>(args, i), scratch);
}

template <class T>
void compute(const FftArgs& args, Scratch<T>& scratch) {
  if (are_alone(args)) return compute_alone(args, scratch);
  using Complex = std::complex<T>;
  const FftGeometry& g = args.geometry;
  const void* const in = args.in;
  void* const out = args.out;
  const View view(g);
  const std::size_t parts =
      sharers > 1 ? static_cast<std::size_t>(sharers) * ducc::detail_fft::kPartsForEach : 1;
  const auto factor = static_cast<T>(args.scale);
  const std::size_t last = view.axes.back();
  const Lengths others(view.axes.begin(), view.axes.end() - 1);
  const bool halved = is_long_and_real(args);
  single =
      g.dims == 1 && g.batch_dims == 0 && !halved && (g.sizes[0] < kLong || g.kind != FftKind::c2c);
  if (halved && g.kind == FftKind::r2c) {
    long_r2c(g, static_cast<const T*>(in), static_cast<Complex*>(out), factor, parts, scratch);
  } else if (halved) {
    long_c2r(g, static_cast<const Complex*>(in), static_cast<T*>(out), factor, parts, scratch);
  } else if (g.kind == FftKind::c2c) {
    const ducc::cfmav<Complex> from(static_cast<const Complex*>(in), view.sizes, view.in);
    const ducc::vfmav<Complex> to(static_cast<Complex*>(out), view.sizes, view.out);
    complex_passes(from, to, view.axes, args.forward, factor, parts, scratch);
  } else if (g.kind == FftKind::r2c) {
    const ducc::cfmav<T> from(static_cast<const T*>(in), view.sizes, view.in);
    const ducc::vfmav<Complex> to(static_cast<Complex*>(out), view.half, view.out);
    ducc::detail_fft::r2c(from, to, last, args.forward, factor, parts);
    complex_passes(to, to, others, args.forward, T(1), parts, scratch);
  } else {
    const ducc::cfmav<Complex> from(static_cast<const Complex*>(in), view.half, view.in);
    const ducc::vfmav<T> to(static_cast<T*>(out), view.sizes, view.out);
    if (others.empty()) {
      ducc::detail_fft::c2r(from, to, last, args.forward, factor, parts);
      return;
    }
    // The input is not ours to write to.
    const auto between = ducc::vfmav<Complex>::build_noncritical(view.half);
    complex_passes(from, between, others, args.forward, T(1), parts, scratch);
    ducc::detail_fft::c2r(between, to, last, args.forward, factor, parts);
  }
}

}  // namespace

template <class T>
Status transform(const FftArgs& args, int threads) noexcept {
  try {
    sharers = threads;
    Scratch<T> scratch;
    compute(args, scratch);
    return {};
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory on the host for the buffers of a transform");
  } catch (const std::exception& error) {
    return Status(Code::launch_failure, error.what());
  }
}

template Status transform<float>(const FftArgs&, int) noexcept;
template Status transform<double>(const FftArgs&, int) noexcept;

}  // namespace ember::inline v0::fft::host::EMBER_FFT_VARIANT
