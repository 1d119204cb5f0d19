#include "ember/linalg/host/blas.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <type_traits>

#include "ember/base/env.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::linalg::host {
namespace {

// Numbers of cblas.h.
constexpr int kColumnMajor = 102;
constexpr int transposed(bool yes) { return yes ? 112 : 111; }

template <class Pointer>
bool resolve(void* library, const char* name, Pointer& out) {
  out = reinterpret_cast<Pointer>(dlsym(library, name));
  return out != nullptr;
}

bool load(void* library, Blas& out) {
  return resolve(library, "cblas_sgemm", out.sgemm) && resolve(library, "cblas_dgemm", out.dgemm) &&
         resolve(library, "cblas_cgemm", out.cgemm) && resolve(library, "cblas_zgemm", out.zgemm) &&
         resolve(library, "cblas_sgemv", out.sgemv) && resolve(library, "cblas_dgemv", out.dgemv) &&
         resolve(library, "cblas_cgemv", out.cgemv) && resolve(library, "cblas_zgemv", out.zgemv) &&
         resolve(library, "cblas_sdot", out.sdot) && resolve(library, "cblas_ddot", out.ddot);
}

/// The reference implementation, which distributions install under the general names, is slower
/// than our own loops. The fast ones are known by functions that only they have.
bool is_fast(void* library) {
  constexpr const char* kSigns[] = {"openblas_get_config", "bli_info_get_version_str",
                                    "MKL_Get_Version_String", "ATL_buildinfo"};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](const char* sign) { return dlsym(library, sign) != nullptr; });
}

// ---- Forks

// A fork waits for the products that are under way, and those that come meanwhile wait for the
// fork; so does the search for a library, which is half loaded else. OpenBLAS ends its threads
// before a fork, but not one that gets work just then (0.3.21): the fork would wait for that one
// for ever.
std::atomic<int> uses{0};
std::atomic<int> forks{0};

/// While it lives, no other thread forks. Not to be nested.
class Use {
 public:
  Use() noexcept {
    for (;;) {
      uses.fetch_add(1);
      const int now = forks.load();
      if (now == 0) return;
      end();
      forks.wait(now);
    }
  }
  ~Use() { end(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  static void end() noexcept {
    if (uses.fetch_sub(1) == 1 && forks.load() != 0) uses.notify_all();
  }
};

void wait_for_uses() noexcept {
  forks.fetch_add(1);
  for (int now = uses.load(); now != 0; now = uses.load()) uses.wait(now);
}
void allow_uses() noexcept {
  forks.fetch_sub(1);
  forks.notify_all();
}

// ---- The search

struct Found {
  bool there = false;
  Blas blas;
  Status status;
};

/// What it found; never freed.
constinit std::atomic<const Found*> first_search{nullptr};
/// Whether the library knows of the fork that this thread is about to make.
constinit thread_local bool library_is_ready = false;

// Before a fork, handlers run in the order opposite to that of their registration: these, of when
// this library is loaded, after those of a BLAS, and those of when a BLAS is loaded before them.
[[maybe_unused]] const int at_load = pthread_atfork(
    &wait_for_uses,
    [] {
      library_is_ready = false;
      allow_uses();
    },
    [] {
      uses.store(0);  // no other thread is here
      forks.store(0);
      // Found while the handlers ran already: its threads did not end, nor did they come along.
      const Found* const found = first_search.load(std::memory_order_relaxed);
      if (found != nullptr && found->there && !library_is_ready)
        first_search.store(std::make_unique<const Found>().release(), std::memory_order_relaxed);
      library_is_ready = false;
    });

void prepare_forks_of_library() noexcept {
  (void)pthread_atfork(
      [] {
        wait_for_uses();
        library_is_ready = true;
      },
      &allow_uses, nullptr);
}

/// A fork that begins after the library has registered its handler and before ours of it ends the
/// library's threads without waiting for products: a product that comes just then waits for ever.
/// Nothing can be put before the library's handler, so ours follow at once, and the rest of the
/// search comes behind them. What is left is a fork while the library starts its threads, beside
/// the process's first product.
void* open_library(const char* name) noexcept {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) prepare_forks_of_library();
  return library;
}

Found search() {
  Found found;
  const auto named = env::get("EMBER_BLAS");
  if (named && *named == "none") return found;
  if (named && !named->empty()) {
    void* library = open_library(named->c_str());
    if (library == nullptr) {
      const char* error = dlerror();
      found.status =
          Status(Code::not_supported,
                 "EMBER_BLAS='" + *named + "': " + (error != nullptr ? error : "unknown error"));
    } else if (!load(library, found.blas)) {
      found.status =
          Status(Code::not_supported, "EMBER_BLAS='" + *named +
                                          "' has no cblas_sgemm and its like, expected a BLAS with "
                                          "the C interface");
    } else {
      found.there = true;
      found.blas.name = *named;
    }
    return found;
  }
  for (const char* name : {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3"}) {
    void* library = open_library(name);
    if (library == nullptr) continue;
    if (is_fast(library) && load(library, found.blas)) {
      found.there = true;
      found.blas.name = name;
      return found;
    }
    dlclose(library);
  }
  return found;
}

template <class T>
auto gemm_of(const Blas& blas) {
  if constexpr (std::is_same_v<T, float>)
    return blas.sgemm;
  else if constexpr (std::is_same_v<T, double>)
    return blas.dgemm;
  else if constexpr (std::is_same_v<T, Complex<float>>)
    return blas.cgemm;
  else
    return blas.zgemm;
}
template <class T>
auto dot_of(const Blas& blas) {
  if constexpr (std::is_same_v<T, float>)
    return blas.sdot;
  else
    return blas.ddot;
}
template <class T>
auto gemv_of(const Blas& blas) {
  if constexpr (std::is_same_v<T, float>)
    return blas.sgemv;
  else if constexpr (std::is_same_v<T, double>)
    return blas.dgemv;
  else if constexpr (std::is_same_v<T, Complex<float>>)
    return blas.cgemv;
  else
    return blas.zgemv;
}

}  // namespace

// Without a lock, not even that of a function's static object: a child forked while another thread
// held it would wait for ever. Threads that come here at once all search, and dlopen gives them the
// same library.
Status find_blas(const Blas*& out) noexcept {
  const Found* found = first_search.load(std::memory_order_acquire);
  if (found == nullptr) {
    const Use use;
    auto made = std::make_unique<const Found>(search());
    if (first_search.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel))
      found = made.release();
  }
  out = found->there ? &found->blas : nullptr;
  return found->status;
}

template <class T>
bool blas_gemm(const Blas& blas, const driver::GemmArgs& args, const T* a, const T* b,
               T* c) noexcept {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  if (std::max({args.m, args.n, args.k, args.lda, args.ldb, args.ldc}) > kMax) return false;
  const Use use;
  const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
  T alpha = convert<T>(args.alpha[0]);
  T beta = convert<T>(args.beta[0]);
  if constexpr (is_complex<T>) {
    alpha.im = static_cast<Real<T>>(args.alpha[1]);
    beta.im = static_cast<Real<T>>(args.beta[1]);
  }
  const auto number = [](const T& value) {
    if constexpr (is_complex<T>)
      return static_cast<const void*>(&value);
    else
      return value;
  };
  if constexpr (!is_complex<T>) {
    if (args.m == 1 && args.n == 1) {
      T sum = alpha * dot_of<T>(blas)(narrow(args.k), a, args.transpose_a ? 1 : narrow(args.lda), b,
                                      args.transpose_b ? narrow(args.ldb) : 1);
      if (args.reads_c()) sum += beta * *c;
      *c = sum;
      return true;
    }
  }
  if (args.m == 1 || args.n == 1) {
    // Libraries read the old elements of a vector also if beta is zero, or take NaN for zero.
    const std::int64_t step = args.n == 1 ? 1 : args.ldc;
    for (std::int64_t i = 0; i < args.m * args.n; ++i)
      c[i * step] = args.reads_c() ? beta * c[i * step] : T(0);
    beta = T(1);
  }
  // A product with a vector reads the matrix once; as a matrix product it would be packed first.
  if (args.n == 1) {
    const std::int64_t rows = args.transpose_a ? args.k : args.m;
    const std::int64_t columns = args.transpose_a ? args.m : args.k;
    gemv_of<T>(blas)(kColumnMajor, transposed(args.transpose_a), narrow(rows), narrow(columns),
                     number(alpha), a, narrow(args.lda), b, args.transpose_b ? narrow(args.ldb) : 1,
                     number(beta), c, 1);
    return true;
  }
  if (args.m == 1) {  // the same of the transposed product
    const std::int64_t rows = args.transpose_b ? args.n : args.k;
    const std::int64_t columns = args.transpose_b ? args.k : args.n;
    gemv_of<T>(blas)(kColumnMajor, transposed(!args.transpose_b), narrow(rows), narrow(columns),
                     number(alpha), b, narrow(args.ldb), a, args.transpose_a ? 1 : narrow(args.lda),
                     number(beta), c, narrow(args.ldc));
    return true;
  }
  gemm_of<T>(blas)(kColumnMajor, transposed(args.transpose_a), transposed(args.transpose_b),
                   narrow(args.m), narrow(args.n), narrow(args.k), number(alpha), a,
                   narrow(args.lda), b, narrow(args.ldb), number(beta), c, narrow(args.ldc));
  return true;
}

template bool blas_gemm(const Blas&, const driver::GemmArgs&, const float*, const float*,
                        float*) noexcept;
template bool blas_gemm(const Blas&, const driver::GemmArgs&, const double*, const double*,
                        double*) noexcept;
template bool blas_gemm(const Blas&, const driver::GemmArgs&, const Complex<float>*,
                        const Complex<float>*, Complex<float>*) noexcept;
template bool blas_gemm(const Blas&, const driver::GemmArgs&, const Complex<double>*,
                        const Complex<double>*, Complex<double>*) noexcept;

}  // namespace ember::inline v0::linalg::host
