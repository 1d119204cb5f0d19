#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "bench/raw.h"

namespace ember::bench {
namespace {

__global__ void empty(float* unused) {
  if (unused != nullptr) *unused = 1;
}

struct Parameters {
  float* unused = nullptr;
  std::int64_t more[15] = {};
};
__global__ void empty_of_many(Parameters parameters) {
  if (parameters.unused != nullptr) *parameters.unused = static_cast<float>(parameters.more[14]);
}

// The arithmetic of the same operations one by one, which round each on its own: nothing is
// contracted.
struct Rounded {
  float value;
  __device__ friend Rounded operator+(Rounded x, Rounded y) {
    return {__fadd_rn(x.value, y.value)};
  }
  __device__ friend Rounded operator-(Rounded x, Rounded y) {
    return {__fsub_rn(x.value, y.value)};
  }
  __device__ friend Rounded operator*(Rounded x, Rounded y) {
    return {__fmul_rn(x.value, y.value)};
  }
  __device__ friend Rounded operator/(Rounded x, Rounded y) {
    return {__fdiv_rn(x.value, y.value)};
  }
};

__device__ Rounded cdf(Rounded x) {
  const Rounded scaled = x * Rounded{0.70710678118654752F};
  return Rounded{0.5F} * (Rounded{1.0F} + Rounded{erff(scaled.value)});
}

/// What follows from rate and volatility, which a program knows when it runs.
struct Market {
  float volatility, drift, minus_rate;
};

__device__ float price_of(float spot_value, float strike_value, float years_value,
                          const Market& market) {
  const Rounded spot{spot_value};
  const Rounded strike{strike_value};
  const Rounded years{years_value};
  const Rounded spread = Rounded{market.volatility} * Rounded{sqrtf(years.value)};
  const Rounded drift = Rounded{market.drift} * years;
  const Rounded up = (Rounded{logf((spot / strike).value)} + drift) / spread;
  const Rounded discount{expf((Rounded{market.minus_rate} * years).value)};
  return (spot * cdf(up) - strike * discount * cdf(up - spread)).value;
}

/// Four elements per thread, side by side.
__global__ void black_scholes_rows(float4* price, const float4* spot, const float4* strike,
                                   const float4* years, std::size_t count, Market market) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float4 s = spot[i], k = strike[i], t = years[i];
  price[i] = {price_of(s.x, k.x, t.x, market), price_of(s.y, k.y, t.y, market),
              price_of(s.z, k.z, t.z, market), price_of(s.w, k.w, t.w, market)};
}

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "raw CUDA: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "raw CUDA: %s: CUresult %d\n", what, static_cast<int>(result));
  std::exit(1);
}

// libcuda is opened and not linked, so that the program also starts where there is none.
template <class Function>
Function* entry(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "raw CUDA: libcuda.so.1 has no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

struct DriverApi {
  decltype(&::cuLaunchKernel) cuLaunchKernel = entry<decltype(::cuLaunchKernel)>("cuLaunchKernel");
  decltype(&::cuEventRecord) cuEventRecord = entry<decltype(::cuEventRecord)>("cuEventRecord");
  decltype(&::cuEventQuery) cuEventQuery = entry<decltype(::cuEventQuery)>("cuEventQuery");
  decltype(&::cuStreamWaitEvent) cuStreamWaitEvent =
      entry<decltype(::cuStreamWaitEvent)>("cuStreamWaitEvent");
};

const DriverApi& api() {
  static const DriverApi functions;
  return functions;
}

#define MUST(call) must(call, #call)

// A CUkernel belongs to no context and so serves every device; the driver takes it for a
// CUfunction.
CUfunction function_of_any_device() {
  cudaKernel_t kernel = nullptr;
  MUST(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&empty)));
  return reinterpret_cast<CUfunction>(kernel);
}

CUfunction function_of_current_device(const void* symbol) {
  cudaFunction_t function = nullptr;
  MUST(cudaGetFuncBySymbol(&function, symbol));
  return function;
}

class RawCuda final : public Raw {
 public:
  explicit RawCuda(int device) {
    MUST(cudaSetDevice(device));
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    least_ = function_of_current_device(reinterpret_cast<const void*>(&empty));
    of_many_ = function_of_current_device(reinterpret_cast<const void*>(&empty_of_many));
    any_device_ = function_of_any_device();
    MUST(api_.cuEventRecord(event_, stream_));
    MUST(cudaStreamSynchronize(stream_));
  }

  ~RawCuda() override {
    cudaEventDestroy(event_);
    cudaStreamDestroy(second_);
    cudaStreamDestroy(stream_);
  }

  void launch(RawLaunch with) override {
    CUfunction function = least_;
    CUstream stream = stream_;
    void* parameter = &unused_;
    switch (with) {
      case RawLaunch::least: break;
      case RawLaunch::any_device: function = any_device_; break;
      case RawLaunch::default_stream: stream = nullptr; break;
      case RawLaunch::parameters:
        function = of_many_;
        parameter = &parameters_;
        break;
    }
    MUST(api_.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, stream, &parameter, nullptr));
  }
  void launch_user() override { empty<<<1, 128, 0, stream_>>>(unused_); }

  void event_record() override { MUST(api_.cuEventRecord(event_, stream_)); }
  void event_query() override { MUST(api_.cuEventQuery(event_)); }
  void event_wait() override { MUST(api_.cuStreamWaitEvent(second_, event_, 0)); }
  void new_event() override {
    cudaEvent_t made = nullptr;
    MUST(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    MUST(cudaEventRecord(made, stream_));
    MUST(cudaEventDestroy(made));
  }
  void new_stream() override {
    cudaStream_t made = nullptr;
    MUST(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    MUST(cudaStreamDestroy(made));
  }
  void device(int other) override {
    int before = 0;
    MUST(cudaGetDevice(&before));
    MUST(cudaSetDevice(other));
    MUST(cudaSetDevice(before));
  }
  void stream_synchronize() override {
    MUST(cudaStreamSynchronize(stream_));
    MUST(cudaStreamSynchronize(second_));
  }

  void black_scholes(float* price, const float* spot, const float* strike, const float* years,
                     std::size_t count) override {
    const std::size_t fours = count / 4;
    const auto four = [](const float* row) { return reinterpret_cast<const float4*>(row); };
    black_scholes_rows<<<static_cast<unsigned>((fours + 255) / 256), 256, 0, stream_>>>(
        reinterpret_cast<float4*>(price), four(spot), four(strike), four(years), fours,
        Market{0.3F, static_cast<float>(0.02 + 0.5 * 0.3 * 0.3), -0.02F});
    MUST(cudaGetLastError());
  }

  void malloc_free(std::size_t bytes) override {
    void* memory = nullptr;
    MUST(cudaMalloc(&memory, bytes));
    MUST(cudaFree(memory));
  }
  void malloc_free_async(std::size_t bytes) override {
    void* memory = nullptr;
    MUST(cudaMallocAsync(&memory, bytes, stream_));
    MUST(cudaFreeAsync(memory, stream_));
  }
  void pin_unpin(std::size_t bytes) override {
    void* memory = nullptr;
    MUST(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
    MUST(cudaFreeHost(memory));
  }

  void fill(void* target, std::size_t bytes) override {
    MUST(cudaMemsetAsync(target, 0, bytes, stream_));
  }
  void copy(void* target, const void* source, std::size_t bytes) override {
    MUST(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_));
  }
  void copy_peer(void* target, int target_device, const void* source, int source_device,
                 std::size_t bytes) override {
    MUST(cudaMemcpyPeerAsync(target, target_device, source, source_device, bytes, stream_));
  }

 private:
  const DriverApi& api_ = api();
  cudaStream_t stream_ = nullptr;
  cudaStream_t second_ = nullptr;
  cudaEvent_t event_ = nullptr;
  CUfunction least_ = nullptr;
  CUfunction of_many_ = nullptr;
  CUfunction any_device_ = nullptr;
  float* unused_ = nullptr;
  Parameters parameters_;
};

Status nothing(const driver::Params&, const driver::HostLaunch&) { return {}; }

Status launch_empty(const driver::Params& params, const driver::CudaLaunch& on) {
  static const CUfunction function = function_of_any_device();
  static const auto start = api().cuLaunchKernel;
  float* unused = params.as<EmptyArgs>().unused;
  void* arguments[] = {&unused};
  return static_cast<Code>(start(function, 1, 1, 1, 128, 1, 1, 0, on.stream(), arguments, nullptr));
}

Status launch_users(const driver::Params& params, const driver::CudaLaunch& on) {
  empty<<<1, 128, 0, on.stream()>>>(params.as<EmptyArgs>().unused);
  return static_cast<Code>(cudaGetLastError());
}

}  // namespace

std::unique_ptr<Raw> make_raw(int device) { return std::make_unique<RawCuda>(device); }

const driver::Kernel empty_kernel{"empty", &nothing, &launch_empty};
const driver::Kernel user_kernel{"user's empty", &nothing, &launch_users};

}  // namespace ember::bench
