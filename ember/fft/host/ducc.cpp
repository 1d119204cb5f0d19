// The transforms of ducc0, a library of headers. This is the only source that includes them; it
// stands for what they expect to be linked with: threads, which are ember's team, and errors, which
// here need no streams.
#include "ember/fft/host/transform.h"

#ifdef EMBER_DUCC0

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

// In place of ducc0/infra/error_handling.h, which writes its texts into streams.
#define DUCC0_ERROR_HANDLING_H
#define MR_fail(...) throw std::runtime_error("ducc0: an argument that it does not take")
#define MR_assert(condition, ...)       \
  do {                                  \
    if (!(condition)) MR_fail("ducc0"); \
  } while (0)
// A program that uses ducc0 itself has other definitions of what follows.
#define DUCC0_NAMESPACE ember_ducc0
// Not its threads but those below; and not its table of plans, which would need a lock of theirs.
#define DUCC0_NO_LOWLEVEL_THREADING
#define DUCC0_NO_FFT_CACHE

#include <ducc0/fft/fft.h>
#include <ducc0/fft/fftnd_impl.h>
#include <ducc0/infra/threading.h>

#include <ducc0/infra/mav.cc>  // NOLINT(bugprone-suspicious-include): it is their one other source

namespace {

/// What a thread is told of its part.
class Part final : public ember_ducc0::detail_threading::Scheduler {
 public:
  Part(std::size_t threads, std::size_t thread, std::size_t work = 0)
      : threads_(threads),
        thread_(thread),
        next_(work * thread / threads, work * (thread + 1) / threads) {}
  std::size_t num_threads() const override { return threads_; }
  std::size_t thread_num() const override { return thread_; }
  ember_ducc0::detail_threading::Range getNext() override {
    const ember_ducc0::detail_threading::Range range = next_;
    next_ = {};
    return range;
  }

 private:
  std::size_t threads_;
  std::size_t thread_;
  ember_ducc0::detail_threading::Range next_;
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

template <class Plan>
std::shared_ptr<Plan> kept_plan(std::size_t length, bool vectorize) {
  vectorize = vectorize && single;
  return ember::fft::host::PlanTable<Plan>::get(
      length, vectorize, [&] { return std::make_shared<Plan>(length, vectorize); });
}

}  // namespace

namespace ember_ducc0 {
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

}  // namespace
}  // namespace detail_fft
}  // namespace ember_ducc0

namespace ember::inline v0::fft::host {
namespace {

using driver::FftGeometry;
using driver::FftKind;
using Lengths = std::vector<std::size_t>;
using Steps = std::vector<std::ptrdiff_t>;

/// From this length on ducc0 computes a single transform as a table of shorter ones.
constexpr std::int64_t kLong = 131'072;

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
void complex_passes(const ember_ducc0::cfmav<std::complex<T>>& in,
                    const ember_ducc0::vfmav<std::complex<T>>& out, const Lengths& axes,
                    bool forward, T factor, std::size_t parts) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const bool first = axis == axes.rbegin();
    ember_ducc0::detail_fft::c2c(
        first ? in : static_cast<const ember_ducc0::cfmav<std::complex<T>>&>(out), out, {*axis},
        forward, first ? factor : T(1), parts);
  }
}

template <class T>
void compute(const FftGeometry& g, const void* in, void* out, double scale) {
  using Complex = std::complex<T>;
  const View view(g);
  const auto parts = static_cast<std::size_t>(sharers > 1 ? sharers * kPartsForEach : 1);
  const auto factor = static_cast<T>(scale);
  const std::size_t last = view.axes.back();
  const Lengths others(view.axes.begin(), view.axes.end() - 1);
  single = g.dims == 1 && g.batch_dims == 0 && (g.sizes[0] < kLong || g.kind != FftKind::c2c);
  if (g.kind == FftKind::c2c) {
    const ember_ducc0::cfmav<Complex> from(static_cast<const Complex*>(in), view.sizes, view.in);
    const ember_ducc0::vfmav<Complex> to(static_cast<Complex*>(out), view.sizes, view.out);
    complex_passes(from, to, view.axes, g.forward, factor, parts);
  } else if (g.kind == FftKind::r2c) {
    const ember_ducc0::cfmav<T> from(static_cast<const T*>(in), view.sizes, view.in);
    const ember_ducc0::vfmav<Complex> to(static_cast<Complex*>(out), view.half, view.out);
    ember_ducc0::detail_fft::r2c(from, to, last, g.forward, factor, parts);
    complex_passes(to, to, others, g.forward, T(1), parts);
  } else {
    const ember_ducc0::cfmav<Complex> from(static_cast<const Complex*>(in), view.half, view.in);
    const ember_ducc0::vfmav<T> to(static_cast<T*>(out), view.sizes, view.out);
    if (others.empty()) {
      ember_ducc0::detail_fft::c2r(from, to, last, g.forward, factor, parts);
      return;
    }
    // The input is not ours to write to.
    const auto between = ember_ducc0::vfmav<Complex>::build_noncritical(view.half);
    complex_passes(from, between, others, g.forward, T(1), parts);
    ember_ducc0::detail_fft::c2r(between, to, last, g.forward, factor, parts);
  }
}

}  // namespace

Status available() noexcept { return {}; }

template <class T>
Status transform(const FftGeometry& geometry, const void* in, void* out, double scale,
                 int threads) noexcept {
  try {
    sharers = threads;
    compute<T>(geometry, in, out, scale);
    return {};
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory on the host for the buffers of a transform");
  } catch (const std::exception& error) {
    return Status(Code::launch_failure, error.what());
  }
}

}  // namespace ember::inline v0::fft::host

#else

namespace ember::inline v0::fft::host {

Status available() noexcept {
  return Status(Code::not_supported,
                "Fourier transforms on the CPU and on simulated devices need the headers of ducc0, "
                "which this build of ember was made without. Configure it with "
                "-DEMBER_DUCC0_INCLUDE_DIR=<the folder that holds ducc0/fft/fft.h>, or build it "
                "with ./dev, which gets them");
}

template <class T>
Status transform(const driver::FftGeometry&, const void*, void*, double, int) noexcept {
  return available();
}

}  // namespace ember::inline v0::fft::host

#endif

namespace ember::inline v0::fft::host {

template Status transform<float>(const driver::FftGeometry&, const void*, void*, double,
                                 int) noexcept;
template Status transform<double>(const driver::FftGeometry&, const void*, void*, double,
                                  int) noexcept;

}  // namespace ember::inline v0::fft::host
