// A libcufft without a GPU: transforms by the definition, at once, in what the fake libcuda calls
// device memory.
#include "fake_cufft.h"

#include <cufftXt.h>

#include <cmath>
#include <complex>
#include <map>
#include <mutex>
#include <vector>

extern "C" {
extern __attribute__((visibility("default"))) FakeCufft fake_cufft;
FakeCufft fake_cufft;
}

namespace {

struct Side {
  std::vector<long long> embed;
  long long stride, distance;
  cudaDataType type;
};
struct Plan {
  std::vector<long long> sizes;
  Side in, out;
  long long batch = 0;
  bool own_work_area = true;
  void* stream = nullptr;
  void* work = nullptr;
};

std::mutex mutex;
std::map<cufftHandle, Plan> plans;
cufftHandle last = 0;

using Number = std::complex<double>;

bool is_complex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

Number read(const void* data, long long at, cudaDataType type) {
  switch (type) {
    case CUDA_R_32F: return static_cast<const float*>(data)[at];
    case CUDA_R_64F: return static_cast<const double*>(data)[at];
    case CUDA_C_32F: return static_cast<const std::complex<float>*>(data)[at];
    default: return static_cast<const std::complex<double>*>(data)[at];
  }
}
void write(void* data, long long at, cudaDataType type, Number value) {
  switch (type) {
    case CUDA_R_32F: static_cast<float*>(data)[at] = static_cast<float>(value.real()); break;
    case CUDA_R_64F: static_cast<double*>(data)[at] = value.real(); break;
    case CUDA_C_32F:
      static_cast<std::complex<float>*>(data)[at] = std::complex<float>(value);
      break;
    default: static_cast<std::complex<double>*>(data)[at] = value;
  }
}

long long place(const Side& side, const std::vector<long long>& index, long long item) {
  long long at = index[0];
  for (std::size_t d = 1; d < index.size(); ++d) at = at * side.embed[d] + index[d];
  return at * side.stride + item * side.distance;
}

/// The index that comes next; false behind the last one.
bool next(std::vector<long long>& index, const std::vector<long long>& sizes) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

void transform(const Plan& plan, void* in, void* out, int direction) {
  const bool from_half = is_complex(plan.in.type) && !is_complex(plan.out.type);
  const bool to_half = !is_complex(plan.in.type);
  const double turn = 2 * std::acos(-1.0) * (from_half ? 1 : to_half ? -1 : direction);
  const std::size_t rank = plan.sizes.size();
  const long long n = plan.sizes.back();
  for (long long item = 0; item < plan.batch; ++item) {
    std::vector<Number> signal;
    std::vector<long long> j(rank);
    do {
      std::vector<long long> at = j;
      const bool mirrored = from_half && j.back() > n / 2;
      if (mirrored)
        for (std::size_t d = 0; d < rank; ++d) at[d] = (plan.sizes[d] - j[d]) % plan.sizes[d];
      const Number value = read(in, place(plan.in, at, item), plan.in.type);
      signal.push_back(mirrored ? std::conj(value) : value);
    } while (next(j, plan.sizes));
    std::vector<long long> k(rank);
    do {
      if (to_half && k.back() > n / 2) continue;
      Number sum = 0;
      std::size_t element = 0;
      do {
        double part = 0;
        for (std::size_t d = 0; d < rank; ++d)
          part +=
              static_cast<double>(j[d] * k[d] % plan.sizes[d]) / static_cast<double>(plan.sizes[d]);
        sum += signal[element++] * std::polar(1.0, turn * part);
      } while (next(j, plan.sizes));
      write(out, place(plan.out, k, item), plan.out.type, sum);
    } while (next(k, plan.sizes));
    // Which the real one overwrites, too.
    if (from_half) write(in, item * plan.in.distance, plan.in.type, Number(-1e9, -1e9));
  }
}

Side side_of(int rank, const long long* embed, long long stride, long long distance,
             cudaDataType type) {
  return {{embed, embed + rank}, stride, distance, type};
}

}  // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle* handle) {
  const std::lock_guard lock(mutex);
  plans[*handle = ++last];
  ++fake_cufft.plans;
  return CUFFT_SUCCESS;
}
cufftResult cufftDestroy(cufftHandle handle) {
  const std::lock_guard lock(mutex);
  if (plans.erase(handle) == 0) return CUFFT_INVALID_PLAN;
  --fake_cufft.plans;
  return CUFFT_SUCCESS;
}
cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic) {
  const std::lock_guard lock(mutex);
  plans.at(handle).own_work_area = automatic != 0;
  return CUFFT_SUCCESS;
}
cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  plans.at(handle).stream = stream;
  ++fake_cufft.settings;
  return CUFFT_SUCCESS;
}
cufftResult cufftSetWorkArea(cufftHandle handle, void* work) {
  const std::lock_guard lock(mutex);
  plans.at(handle).work = work;
  ++fake_cufft.settings;
  return CUFFT_SUCCESS;
}
cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long* n, long long* in_embed,
                                long long in_stride, long long in_distance, cudaDataType in_type,
                                long long* out_embed, long long out_stride, long long out_distance,
                                cudaDataType out_type, long long batch, std::size_t* work,
                                cudaDataType) {
  const std::lock_guard lock(mutex);
  if (fake_cufft.without_memory > 0) {
    --fake_cufft.without_memory;
    return CUFFT_ALLOC_FAILED;
  }
  Plan& plan = plans.at(handle);
  if (plan.own_work_area) return CUFFT_INVALID_VALUE;
  plan.sizes.assign(n, n + rank);
  plan.in = side_of(rank, in_embed, in_stride, in_distance, in_type);
  plan.out = side_of(rank, out_embed, out_stride, out_distance, out_type);
  plan.batch = batch;
  *work = fake_cufft.work_bytes;
  ++fake_cufft.made;
  return CUFFT_SUCCESS;
}
cufftResult cufftXtExec(cufftHandle handle, void* in, void* out, int direction) {
  const std::lock_guard lock(mutex);
  if (const int result = fake_cufft.next_execution; result != 0) {
    fake_cufft.next_execution = 0;
    return static_cast<cufftResult>(result);
  }
  const auto found = plans.find(handle);
  if (found == plans.end()) return CUFFT_INVALID_PLAN;
  if (found->second.work == nullptr && fake_cufft.work_bytes != 0) return CUFFT_NO_WORKSPACE;
  transform(found->second, in, out, direction);
  ++fake_cufft.executions;
  fake_cufft.stream = found->second.stream;
  fake_cufft.work = found->second.work;
  return CUFFT_SUCCESS;
}

}  // extern "C"
