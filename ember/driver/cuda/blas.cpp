#include "ember/driver/cuda/blas.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/thread_exit.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/cublaslt.h"

namespace ember::inline v0::driver::cuda {
namespace {

Status failure(cublasStatus_t status, const CudaLaunch& on, const char* what) {
  // Faults of earlier work surface in whichever call comes next.
  const CUresult stream = api.cuStreamQuery(on.stream());
  if (stream != CUDA_SUCCESS && stream != CUDA_ERROR_NOT_READY) return cuda::failure(stream, what);
  Code code = Code::unknown;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = Code::out_of_memory;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    code = Code::not_supported;
  if (status == CUBLAS_STATUS_INVALID_VALUE) code = Code::invalid_value;
  return Status(code, std::string(what) + ": " + lt().lt.cublasLtGetStatusName(status));
}

// ---- Plans

/// What decides how a product is computed: everything but the addresses and factors.
struct PlanKey {
  std::int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
  std::uint64_t workspace;
  std::int32_t device;
  std::uint8_t element, flags;     // which are transposed, and how exact the product is
  std::uint8_t align_ab, align_c;  // logarithms of the alignments

  bool operator==(const PlanKey& other) const noexcept {
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
static_assert(std::has_unique_object_representations_v<PlanKey>);

struct HashKey {
  std::size_t operator()(const PlanKey& key) const noexcept {
    std::uint64_t words[sizeof key / sizeof(std::uint64_t)];
    static_assert(sizeof words == sizeof key);
    std::memcpy(words, &key, sizeof key);
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

/// A product that cuBLASLt was asked about: descriptions of its operands and the algorithm. Not
/// changed once made, so that threads may share it.
struct Plan {
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    const Lt& calls = lt().lt;
    if (description != nullptr) calls.cublasLtMatmulDescDestroy(description);
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout != nullptr) calls.cublasLtMatrixLayoutDestroy(layout);
  }
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};
/// float32 in true float32, unless that is allowed to be rounded, or the user sets
/// NVIDIA_TF32_OVERRIDE. float16 in float32, unless `half` says otherwise.
Types types_of(Element element, bool rounded, bool half) {
  const cublasComputeType_t single = rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  switch (element) {
    case Element::f16:
      if (half) return {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F};
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Element::bf16: return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Element::f32: return {CUDA_R_32F, CUDA_R_32F, single};
    case Element::f64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case Element::c64: return {CUDA_C_32F, CUDA_C_32F, single};
    case Element::c128: return {CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F};
  }
  __builtin_unreachable();
}

using PlanRef = std::shared_ptr<const Plan>;

/// All plans of the process, and one handle per device: a handle is tied to the context in which it
/// was made, and may be used by several threads.
struct Cache {
  // Plans are small; a program with more shapes than this asks cuBLASLt again.
  static constexpr std::size_t kMost = 4096;
  Mutex mutex;
  std::unordered_map<PlanKey, PlanRef, HashKey> plans EMBER_GUARDED_BY(mutex);
  std::unordered_map<int, cublasLtHandle_t> handles EMBER_GUARDED_BY(mutex);
  /// Changes when plans become invalid, for the copies that threads keep.
  std::atomic<std::uint64_t> generation{1};
};

Cache& cache() {
  // Work may be enqueued until the process ends, and CUDA may be gone before that.
  static NoDestructor<Cache> made;
  return *made;
}

std::uint8_t log_alignment(std::uintptr_t address) {
  return static_cast<std::uint8_t>(std::min(std::countr_zero(address | 256U), 8));
}

/// Whether the settings ask of a product of that type what is not the default.
bool has_choice(Element element, const GemmArgs& args) {
  switch (element) {
    case Element::f32:
    case Element::c64: return (args.math & kTensorFloat32) != 0;
    case Element::f16: return (args.math & kExactHalfSums) != 0;
    case Element::bf16: return (args.math & kExactBFloatSums) != 0;
    case Element::f64:
    case Element::c128: return false;
  }
  __builtin_unreachable();
}

/// Whether a product is added up in float16. Its factors are float16 then, so larger ones need the
/// other way.
bool adds_in_half(Element element, const GemmArgs& args) {
  constexpr double kLargestHalf = 65504;
  return element == Element::f16 && (args.math & kHalfSums) != 0 &&
         std::abs(args.alpha[0]) <= kLargestHalf && std::abs(args.beta[0]) <= kLargestHalf;
}

PlanKey key_of(Element element, const GemmArgs& args, int device) {
  PlanKey key{};
  key.m = args.m, key.n = args.n, key.k = args.k, key.batch = args.batch;
  key.lda = args.lda, key.ldb = args.ldb, key.ldc = args.ldc;
  if (args.batch > 1)
    key.stride_a = args.stride_a, key.stride_b = args.stride_b, key.stride_c = args.stride_c;
  key.workspace = args.workspace_bytes;
  key.device = device;
  key.element = static_cast<std::uint8_t>(element);
  key.flags = static_cast<std::uint8_t>(
      (args.transpose_a ? 1U : 0U) | (args.transpose_b ? 2U : 0U) |
      (has_choice(element, args) ? 4U : 0U) | (adds_in_half(element, args) ? 8U : 0U));
  key.align_ab =
      static_cast<std::uint8_t>(log_alignment(reinterpret_cast<std::uintptr_t>(args.a)) * 16 +
                                log_alignment(reinterpret_cast<std::uintptr_t>(args.b)));
  key.align_c = log_alignment(reinterpret_cast<std::uintptr_t>(args.c));
  return key;
}

/// Calls until the first that fails.
class Steps {
 public:
  template <class Call>
  Steps& then(const char* what, const Call& call) {
    if (status_ != CUBLAS_STATUS_SUCCESS) return *this;
    status_ = call();
    if (status_ != CUBLAS_STATUS_SUCCESS) what_ = what;
    return *this;
  }
  cublasStatus_t status() const { return status_; }
  const char* what() const { return what_; }

 private:
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
  const char* what_ = "";
};

std::string describe(const GemmArgs& args) {
  return std::to_string(args.batch) + " products of " + std::to_string(args.m) + " x " +
         std::to_string(args.k) + " and " + std::to_string(args.k) + " x " +
         std::to_string(args.n) + " with leading dimensions " + std::to_string(args.lda) + ", " +
         std::to_string(args.ldb) + " and " + std::to_string(args.ldc);
}

Status make_plan(Element element, const GemmArgs& args, const PlanKey& key, const CudaLaunch& on,
                 cublasLtHandle_t handle, Plan& plan) {
  const Lt& calls = lt().lt;
  const bool choice = has_choice(element, args);
  const Types types = types_of(element, choice, adds_in_half(element, args));
  plan.handle = handle;
  Steps steps;
  const auto set = [&](cublasLtMatmulDescAttributes_t which, const auto& value) {
    steps.then("describing a product", [&] {
      return calls.cublasLtMatmulDescSetAttribute(plan.description, which, &value, sizeof value);
    });
  };
  steps.then("describing a product", [&] {
    return calls.cublasLtMatmulDescCreate(&plan.description, types.compute, types.scale);
  });
  const cublasOperation_t transpose_a = args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t transpose_b = args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_a);
  set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_b);

  const auto batch = static_cast<std::int32_t>(args.batch);
  const auto layout = [&](cublasLtMatrixLayout_t& out, bool transposed, std::int64_t rows,
                          std::int64_t columns, std::int64_t ld, std::int64_t stride) {
    if (transposed) std::swap(rows, columns);
    steps.then("describing a matrix", [&] {
      return calls.cublasLtMatrixLayoutCreate(&out, types.data, static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), ld);
    });
    if (args.batch == 1) return;
    steps
        .then("describing a batch",
              [&] {
                return calls.cublasLtMatrixLayoutSetAttribute(
                    out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
              })
        .then("describing a batch", [&] {
          return calls.cublasLtMatrixLayoutSetAttribute(
              out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
        });
  };
  layout(plan.a, args.transpose_a, args.m, args.k, args.lda, args.stride_a);
  layout(plan.b, args.transpose_b, args.k, args.n, args.ldb, args.stride_b);
  layout(plan.c, false, args.m, args.n, args.ldc, args.stride_c);

  cublasLtMatmulPreference_t preference = nullptr;
  steps.then("stating preferences",
             [&] { return calls.cublasLtMatmulPreferenceCreate(&preference); });
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    steps.then("stating preferences", [&] {
      return calls.cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
    });
  };
  const std::uint64_t workspace = args.workspace_bytes;
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  if (choice && (element == Element::f16 || element == Element::bf16)) {
    const std::uint32_t exact = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, exact);
  }
  const std::uint32_t align_a = 1U << (key.align_ab / 16);
  const std::uint32_t align_b = 1U << (key.align_ab % 16);
  const std::uint32_t align_c = 1U << key.align_c;
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_c);

  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  steps.then("choosing an algorithm", [&] {
    return calls.cublasLtMatmulAlgoGetHeuristic(handle, plan.description, plan.a, plan.b, plan.c,
                                                plan.c, preference, 1, &found, &count);
  });
  if (preference != nullptr) calls.cublasLtMatmulPreferenceDestroy(preference);
  if (steps.status() != CUBLAS_STATUS_SUCCESS)
    return failure(steps.status(), on, (steps.what() + (": " + describe(args))).c_str());
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS)
    return Status(Code::not_supported, "cuBLASLt has no algorithm for " + describe(args));
  plan.algorithm = found.algo;
  plan.workspace = found.workspaceSize;
  return {};
}

Status find_handle(const CudaLaunch& on, cublasLtHandle_t& out) EMBER_REQUIRES(cache().mutex) {
  cublasLtHandle_t& handle = cache().handles[on.device()];
  if (handle == nullptr) {
    if (const cublasStatus_t status = lt().lt.cublasLtCreate(&handle);
        status != CUBLAS_STATUS_SUCCESS) {
      handle = nullptr;
      return failure(status, on, "cublasLtCreate");
    }
  }
  out = handle;
  return {};
}

Status find_plan(Element element, const GemmArgs& args, const PlanKey& key, const CudaLaunch& on,
                 PlanRef& out) {
  if (!lt().status.ok()) return lt().status;
  Cache& shared = cache();
  const MutexLock lock(shared.mutex);
  if (const auto found = shared.plans.find(key); found != shared.plans.end()) {
    out = found->second;
    return {};
  }
  cublasLtHandle_t handle = nullptr;
  EMBER_TRY(find_handle(on, handle));
  const auto made = std::make_shared<Plan>();
  EMBER_TRY(make_plan(element, args, key, on, handle, *made));
  if (shared.plans.size() >= Cache::kMost) shared.plans.clear();
  shared.plans.emplace(key, made);
  out = made;
  return {};
}

/// The last plans of a thread, which it finds without a lock.
struct Recent {
  static constexpr std::size_t kSlots = 16;
  struct Slot {
    PlanKey key{};
    PlanRef plan;
  };
  std::uint64_t generation = 0;
  std::array<Slot, kSlots> slots;
};

}  // namespace

Status gemm(Element element, const GemmArgs& args, const CudaLaunch& on) noexcept {
  const PlanKey key = key_of(element, args, on.device());
  Recent& recent = PerThread<Recent>::get();
  const std::uint64_t generation = cache().generation.load(std::memory_order_acquire);
  if (recent.generation != generation) [[unlikely]] {
    recent.slots = {};
    recent.generation = generation;
  }
  Recent::Slot& slot = recent.slots[HashKey()(key) % Recent::kSlots];
  if (slot.plan == nullptr || !(slot.key == key)) [[unlikely]] {
    if (args.batch > std::numeric_limits<std::int32_t>::max())
      return Status(Code::not_supported, "cuBLASLt takes no more than 2^31 - 1 products at once");
    PlanRef found;
    EMBER_TRY(find_plan(element, args, key, on, found));
    slot = {key, std::move(found)};
  }
  const Plan& plan = *slot.plan;

  // The factors in the type that the product is scaled in; for complex numbers both parts.
  float narrow[2][2];
  for (int part = 0; part < 2; ++part) {
    narrow[0][part] = static_cast<float>(args.alpha[part]);
    narrow[1][part] = static_cast<float>(args.beta[part]);
  }
  __half half[2];
  const bool wide = element == Element::f64 || element == Element::c128;
  const void* alpha = wide ? static_cast<const void*>(args.alpha) : narrow[0];
  const void* beta = wide ? static_cast<const void*>(args.beta) : narrow[1];
  if (adds_in_half(element, args)) [[unlikely]] {
    half[0] = __float2half(narrow[0][0]), half[1] = __float2half(narrow[1][0]);
    alpha = &half[0], beta = &half[1];
  }
  const cublasStatus_t status = lt().lt.cublasLtMatmul(
      plan.handle, plan.description, alpha, args.a, plan.a, args.b, plan.b, beta, args.c, plan.c,
      args.c, plan.c, &plan.algorithm, args.workspace, plan.workspace, on.stream());
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return {};
  return failure(status, on, ("cublasLtMatmul of " + describe(args)).c_str());
}

void forget_blas(int device) noexcept {
  Cache& shared = cache();
  const MutexLock lock(shared.mutex);
  // The handle's memory was the context's; destroying it would touch what is gone.
  shared.handles.erase(device);
  shared.plans.clear();
  shared.generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace ember::inline v0::driver::cuda
