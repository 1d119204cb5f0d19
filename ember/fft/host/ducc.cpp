// The transforms of ducc0, a library of headers. This is the only source that includes them; it
// stands for what they expect to be linked with: threads, which are ember's team, and errors, which
// here need no streams. It is compiled twice: for any processor and, where the compiler can, with
// AVX2 (EMBER_FFT_AVX2). The bits are the same: vectors hold numbers of several transforms, or of
// several parts of one, and nothing is contracted.
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

/// How many threads share the work of the transform that this thread computes. ducc0 is told of a
/// few times as many, so that one that is late does not keep all waiting.
thread_local int sharers = 1;
constexpr int kPartsForEach = 4;

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

// In place of the template of the same name, which makes a plan anew each time.
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

/// Up to this size transforms are computed together, one in each lane of a vector. ducc0 draws the
/// line at 1 MiB, the size of a fast cache; together they still take half to two thirds of the time
/// as long as most of them fits into the last one (32 MiB where this was measured), which threads
/// share.
constexpr std::size_t kTogether = std::size_t{48} << 20;  // of all threads
constexpr std::size_t kAlways = std::size_t{1} << 20;     // of each

/// The complex transforms along one dimension, of which each part computes its own.
template <class T>
class Rows {
 public:
  using Element = Cmplx<T>;
  using Input = cfmav<Element>;
  using Output = vfmav<Element>;
  static constexpr std::size_t kLanes = native_simd<T>::size();

  Rows(const Input& in, const Output& out, std::size_t axis, T factor, const ExecC2C& exec)
      : in_(in),
        out_(out),
        axis_(axis),
        length_(in.shape(axis)),
        factor_(factor),
        exec_(exec),
        plan_(get_plan<pocketfft_c<T>>(length_, in.ndim() == 1)) {
    const std::size_t room = std::max(kTogether / static_cast<std::size_t>(sharers), kAlways);
    while (lanes_ > 1 && lanes_ * bytes() > room) lanes_ /= 2;
    if (lanes_ == 2 && !has_vectors<2>) lanes_ = 1;
    const bool adjacent = in.stride(axis) == 1 && out.stride(axis) == 1;
    at_once_ = lanes_;
    // Elements of one line of the cache, or of one of its sets, are better fetched together.
    if (is_critical(in.stride(axis)) || is_critical(out.stride(axis)))
      at_once_ = lanes_ > 1 ? kMost : std::min(kMost, 2 * kLine / sizeof(Element));
    else if (lanes_ == 1 && !adjacent)
      at_once_ = kLine / sizeof(Element);
    in_place_ = adjacent && at_once_ == 1;
  }

  void compute(std::size_t parts) const {
    const std::size_t threads_of_one = in_.ndim() == 1 ? parts : 1;
    execParallel(util::thread_count(parts, in_, axis_, kLanes), [&](Scheduler& part) {
      Iterator rows(in_, out_, axis_, part.num_threads(), part.thread_num());
      TmpStorage<Element, T> memory(in_.size() / length_, length_, plan_->bufsize(),
                                    (at_once_ + kLanes - 1) / kLanes, in_place_);
      in_lanes<kLanes>(rows, memory, threads_of_one);
    });
  }

 private:
  static constexpr std::size_t kMost = 16;  ///< rows at once
  static constexpr std::size_t kLine = 64;
  using Iterator = multi_iter<kMost>;

  /// In vectors of less than 16 bytes transforms take longer than one by one.
  template <std::size_t Lanes>
  static constexpr bool has_vectors = Lanes * sizeof(T) >= 16 && simd_exists<T, Lanes>;

  static bool is_critical(std::ptrdiff_t stride) {
    return stride * static_cast<std::ptrdiff_t>(sizeof(Element)) % 4096 == 0;
  }
  /// Of one row: itself, its copy and what the plan wants.
  std::size_t bytes() const { return sizeof(Element) * (2 * length_ + plan_->bufsize()); }

  template <std::size_t Lanes>
  void in_lanes(Iterator& rows, TmpStorage<Element, T>& memory, std::size_t threads) const {
    if constexpr (Lanes == 1) {
      TmpStorage2<Element, Element, T> own(memory);
      if (lanes_ == 1) in_groups(rows, own, at_once_, threads);
      while (rows.remaining() > 0) {
        rows.advance(1);
        exec_(rows, in_, out_, own, *plan_, factor_, threads, in_place_);
      }
    } else {
      if constexpr (has_vectors<Lanes>) {
        TmpStorage2<add_vec_t<Element, Lanes>, Element, T> own(memory);
        if (lanes_ == Lanes) in_groups(rows, own, at_once_ / Lanes, threads);
        while (lanes_ >= Lanes && rows.remaining() >= Lanes) {
          rows.advance(Lanes);
          exec_(rows, in_, out_, own, *plan_, factor_, threads);
        }
      }
      in_lanes<Lanes / 2>(rows, memory, threads);
    }
  }

  template <class Memory>
  void in_groups(Iterator& rows, Memory& own, std::size_t vectors, std::size_t threads) const {
    while (vectors > 1 && rows.remaining() >= at_once_) {
      rows.advance(at_once_);
      exec_.exec_n(rows, in_, out_, own, *plan_, factor_, vectors, threads);
    }
  }

  const Input& in_;
  const Output& out_;
  const std::size_t axis_, length_;
  const T factor_;
  const ExecC2C& exec_;
  const std::shared_ptr<pocketfft_c<T>> plan_;
  std::size_t lanes_ = kLanes;
  std::size_t at_once_ = 1;
  bool in_place_ = false;
};

// In place of the template of the same name, too.
#define EMBER_ROWS(T)                                                                          \
  template <>                                                                                  \
  void general_nd<pocketfft_c<T>, Cmplx<T>, T, ExecC2C>(                                       \
      const cfmav<Cmplx<T>>& in, const vfmav<Cmplx<T>>& out, const shape_t& axes, T factor,    \
      std::size_t parts, const ExecC2C& exec, bool) {                                          \
    if (in.ndim() == 1 && in.stride(0) == 1 && out.stride(0) == 1)                             \
      exec.exec_simple(in.data(), out.data(), *get_plan<pocketfft_c<T>>(in.shape(0), true),    \
                       factor, parts);                                                         \
    else                                                                                       \
      for (std::size_t i = 0; i < axes.size(); ++i)                                            \
        Rows<T>(i == 0 ? in : out, out, axes[i], i == 0 ? factor : T(1), exec).compute(parts); \
  }
EMBER_ROWS(float)
EMBER_ROWS(double)
#undef EMBER_ROWS

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

/// From this length on ducc0 computes a single transform as a table of shorter ones.
constexpr std::int64_t kLong = 131'072;
/// From this length on signals of a batch are computed so, too, one after the other: several do not
/// fit into kTogether.
constexpr std::int64_t kAlone = 2 * kLong;

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

/// From `in` to `out` along some dimensions, the last one first. ducc0 would choose the order by
/// the strides, and it shows in the last bits.
template <class T>
void complex_passes(const ducc::cfmav<std::complex<T>>& in, const ducc::vfmav<std::complex<T>>& out,
                    const Lengths& axes, bool forward, T factor, std::size_t parts) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const bool first = axis == axes.rbegin();
    ducc::detail_fft::c2c(first ? in : static_cast<const ducc::cfmav<std::complex<T>>&>(out), out,
                          {*axis}, forward, first ? factor : T(1), parts);
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
void long_r2c(const FftGeometry& g, const T* in, std::complex<T>* out, T factor,
              std::size_t parts) {
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
  ducc::detail_fft::c2c(from, to, {0}, true, factor, parts);
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
void long_c2r(const FftGeometry& g, const std::complex<T>* in, T* out, T factor,
              std::size_t parts) {
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
  ducc::detail_fft::c2c(static_cast<const ducc::cfmav<Complex>&>(both), both, {0}, false, factor,
                        parts);
  if (signal == out) return;
  for (std::int64_t i = 0; i < 2 * half; ++i) out[i * g.out_strides[0]] = signal[i];
}

bool are_alone(const FftArgs& args) {
  const FftGeometry& g = args.geometry;
  if (g.dims != 1 || g.batch_dims == 0) return false;
  return g.kind == FftKind::c2c ? g.sizes[0] >= kAlone
                                : may_be_halved(args) && g.sizes[0] / 2 >= kAlone;
}

/// Calls `body(from, to)` with the places of each signal of a batch in the input and the output.
template <class Body>
void each_of_batch(const FftGeometry& g, const Body& body, int dim = 0, std::int64_t from = 0,
                   std::int64_t to = 0) {
  if (dim == g.batch_dims) return body(from, to);
  for (std::int64_t i = 0; i < g.batch_sizes[dim]; ++i)
    each_of_batch(g, body, dim + 1, from + i * g.in_batch_strides[dim],
                  to + i * g.out_batch_strides[dim]);
}

template <class T>
void compute(const FftArgs& args);

template <class T>
void compute_alone(const FftArgs& args) {
  const FftGeometry& g = args.geometry;
  const std::size_t in_size = g.kind == FftKind::r2c ? sizeof(T) : 2 * sizeof(T);
  const std::size_t out_size = g.kind == FftKind::c2r ? sizeof(T) : 2 * sizeof(T);
  FftArgs one = args;
  one.geometry.batch_dims = 0;
  each_of_batch(g, [&](std::int64_t from, std::int64_t to) {
    one.in = static_cast<char*>(args.in) + from * static_cast<std::int64_t>(in_size);
    one.out = static_cast<char*>(args.out) + to * static_cast<std::int64_t>(out_size);
    compute<T>(one);
  });
}

template <class T>
void compute(const FftArgs& args) {
  if (are_alone(args)) return compute_alone<T>(args);
  using Complex = std::complex<T>;
  const FftGeometry& g = args.geometry;
  const void* const in = args.in;
  void* const out = args.out;
  const View view(g);
  const auto parts = static_cast<std::size_t>(sharers > 1 ? sharers * kPartsForEach : 1);
  const auto factor = static_cast<T>(args.scale);
  const std::size_t last = view.axes.back();
  const Lengths others(view.axes.begin(), view.axes.end() - 1);
  const bool halved = is_long_and_real(args);
  single =
      g.dims == 1 && g.batch_dims == 0 && !halved && (g.sizes[0] < kLong || g.kind != FftKind::c2c);
  if (halved && g.kind == FftKind::r2c) {
    long_r2c(g, static_cast<const T*>(in), static_cast<Complex*>(out), factor, parts);
  } else if (halved) {
    long_c2r(g, static_cast<const Complex*>(in), static_cast<T*>(out), factor, parts);
  } else if (g.kind == FftKind::c2c) {
    const ducc::cfmav<Complex> from(static_cast<const Complex*>(in), view.sizes, view.in);
    const ducc::vfmav<Complex> to(static_cast<Complex*>(out), view.sizes, view.out);
    complex_passes(from, to, view.axes, args.forward, factor, parts);
  } else if (g.kind == FftKind::r2c) {
    const ducc::cfmav<T> from(static_cast<const T*>(in), view.sizes, view.in);
    const ducc::vfmav<Complex> to(static_cast<Complex*>(out), view.half, view.out);
    ducc::detail_fft::r2c(from, to, last, args.forward, factor, parts);
    complex_passes(to, to, others, args.forward, T(1), parts);
  } else {
    const ducc::cfmav<Complex> from(static_cast<const Complex*>(in), view.half, view.in);
    const ducc::vfmav<T> to(static_cast<T*>(out), view.sizes, view.out);
    if (others.empty()) {
      ducc::detail_fft::c2r(from, to, last, args.forward, factor, parts);
      return;
    }
    // The input is not ours to write to.
    const auto between = ducc::vfmav<Complex>::build_noncritical(view.half);
    complex_passes(from, between, others, args.forward, T(1), parts);
    ducc::detail_fft::c2r(between, to, last, args.forward, factor, parts);
  }
}

}  // namespace

template <class T>
Status transform(const FftArgs& args, int threads) noexcept {
  try {
    sharers = threads;
    compute<T>(args);
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
