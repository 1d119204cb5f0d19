// PyTorch's side of the tables: the same rows, measured the same way, through its C++ API. Built by
// build.sh with g++ against an installed PyTorch; prints JSON lines. With --calls instead the rows
// of bench_calls. No part of ember.
#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>

namespace t = at;

#include "bench/calls.h"
#include "bench/rows.h"
#include "bench/table.h"
#include "bench/timing.h"

#ifndef EMBER_TORCH_VERSION
#define EMBER_TORCH_VERSION ""
#endif

namespace {

using namespace ember::bench;
namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

void drain() {
  for (int device = 0; device < c10::cuda::device_count(); ++device) {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    c10::cuda::device_synchronize();
  }
}

/// An empty kernel and the raw calls of the driver, to see whether calls cost the same in this
/// process as in ember's. Nothing if the driver does not offer them.
class Raw {
 public:
  static std::optional<Raw> make(cudaStream_t stream) {
    Raw raw;
    raw.stream_ = stream;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::nullopt;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    decltype(&cuModuleLoadData) load = nullptr;
    decltype(&cuModuleGetFunction) function_of = nullptr;
    if (!find(load, "cuModuleLoadData") || !find(function_of, "cuModuleGetFunction") ||
        !find(raw.launch_, "cuLaunchKernel") || !find(raw.record_, "cuEventRecord") ||
        !find(raw.query_, "cuEventQuery") || !find(raw.wait_, "cuStreamWaitEvent"))
      return std::nullopt;
    constexpr const char* kSource =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry empty(.param .u64 unused)\n{\n  ret;\n}\n";
    CUmodule module = nullptr;
    if (load(&module, kSource) != CUDA_SUCCESS ||
        function_of(&raw.function_, module, "empty") != CUDA_SUCCESS ||
        cudaEventCreateWithFlags(&raw.event_, cudaEventDisableTiming) != cudaSuccess ||
        cudaStreamCreateWithFlags(&raw.second_, cudaStreamNonBlocking) != cudaSuccess)
      return std::nullopt;
    return raw;
  }

  void launch() {
    void* unused = nullptr;
    void* arguments[] = {&unused};
    launch_(function_, 1, 1, 1, 128, 1, 1, 0, stream_, arguments, nullptr);
  }
  void record() { record_(event_, stream_); }
  void query() { query_(event_); }
  void wait() { wait_(second_, event_, 0); }

 private:
  cudaStream_t stream_ = nullptr;
  cudaStream_t second_ = nullptr;
  cudaEvent_t event_ = nullptr;
  CUfunction function_ = nullptr;
  decltype(&cuLaunchKernel) launch_ = nullptr;
  decltype(&cuEventRecord) record_ = nullptr;
  decltype(&cuEventQuery) query_ = nullptr;
  decltype(&cuStreamWaitEvent) wait_ = nullptr;
};

class Peer {
 public:
  explicit Peer(bool quick) : quick_(quick) {}

  void host_calls();
  void memory();
  void host_copies();
  void device_copies();
  void peer_copies();
  void operation_calls();
  void operation_throughput();
  void every_call();

  const Table& table() const { return table_; }

 private:
  Bursts bursts(const Bursts& wanted) const { return quick_ ? wanted.quick() : wanted; }

  void add(const std::string& name, const char* unit, double torch, double raw = kNothing) {
    Row row;
    row.name = name;
    row.unit = unit;
    row.torch = torch;
    row.torch_raw = raw;
    table_.add(row);
  }

  template <class Work>
  void time(const std::string& name, const Bursts& wanted, const Work& work) {
    add(name, "us", burst_medians(bursts(wanted), drain, work)[0]);
  }

  template <class Work, class RawWork>
  void time(const std::string& name, const Bursts& wanted, const Work& work,
            const RawWork& raw_work) {
    if (!raw_) return time(name, wanted, work);
    const auto times = burst_medians(bursts(wanted), drain, work, [&] { raw_work(*raw_); });
    add(name, "us", times[0], times[1]);
  }

  template <class Copy>
  void copies(const std::string& name, std::size_t bytes, double traffic, const Copy& copy) {
    const double time = completion_medians(bursts(bursts_for(bytes)), drain, copy)[0];
    add(name, "GB/s", static_cast<double>(bytes) * traffic / 1e3 / time);
  }

  bool quick_;
  Table table_;
  std::optional<Raw> raw_;
};

at::TensorOptions on_device(int device) {
  return at::TensorOptions().dtype(at::kByte).device(
      at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
}

at::Tensor bytes_on_device(int device, std::size_t bytes) {
  return at::ones({static_cast<std::int64_t>(bytes)}, on_device(device));
}

at::Tensor first(const at::Tensor& tensor, std::size_t bytes) {
  return tensor.narrow(0, 0, static_cast<std::int64_t>(bytes));
}

void Peer::host_calls() {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(false, 0);
  const c10::cuda::CUDAStream second = c10::cuda::getStreamFromPool(false, 0);
  raw_ = Raw::make(stream.stream());
  if (!raw_) std::fputs("PyTorch: the driver's own calls are not measured here\n", stderr);

  time(rows::kCurrentStream, kHostCalls, [] { (void)c10::cuda::getCurrentCUDAStream(); });
  time(rows::kStreamGuard, kHostCalls, [&] { const c10::cuda::CUDAStreamGuard guard(stream); });
  time(rows::kDeviceGuard, kHostCalls, [] { const c10::cuda::CUDAGuard guard(0); });
  if (c10::cuda::device_count() > 1)
    time(rows::kOtherDeviceGuard, kDeviceCalls, [] { const c10::cuda::CUDAGuard guard(1); });
  time(rows::kNewStream, kHostCalls, [] { (void)c10::cuda::getStreamFromPool(false, 0); });

  at::cuda::CUDAEvent event;
  event.record(stream);
  drain();
  time(
      rows::kEventRecord, kDeviceCalls, [&] { event.record(stream); },
      [](Raw& raw) { raw.record(); });
  time(
      rows::kEventQuery, kDeviceCalls, [&] { (void)event.query(); }, [](Raw& raw) { raw.query(); });
  time(
      rows::kEventWait, kDeviceCalls, [&] { event.block(second); }, [](Raw& raw) { raw.wait(); });
  time(rows::kNewEvent, kDeviceCalls, [&] {
    at::cuda::CUDAEvent fresh;
    fresh.record(stream);
  });

  // PyTorch has no launch of its own to put beside ember's: only the raw call.
  if (raw_) {
    const double launch = burst_medians(bursts(kDeviceCalls), drain, [&] { raw_->launch(); })[0];
    add(rows::kLaunch, "us", kNothing, launch);
  }
  const c10::cuda::CUDAStreamGuard guard(stream);
  at::Tensor target = at::ones({1024}, on_device(0).dtype(at::kFloat));
  const at::Tensor source = at::ones({1024}, on_device(0).dtype(at::kFloat));
  time(rows::kFill, kDeviceCalls, [&] { target.fill_(1.0); });
  time(rows::kSmallCopy, kDeviceCalls, [&] { target.copy_(source); });
}

void Peer::memory() {
  for (const std::size_t bytes : {std::size_t{512}, kMiB, 64 * kMiB}) {
    time(rows::allocate_free(bytes), kHostCalls,
         [&] { const c10::DataPtr memory = allocator::get()->allocate(bytes); });
    time(rows::allocate_free_raw(bytes), kHostCalls,
         [&] { allocator::raw_delete(allocator::raw_alloc(bytes)); });
  }
  for (const int threads : {1, 2, 4, 8}) {
    Mix mix;
    mix.threads = threads;
    if (quick_) mix = {threads, 200, 2'000, 1};
    add(rows::mix(threads), "us",
        mix_median(
            mix, [](std::size_t bytes) { return allocator::raw_alloc(bytes); },
            [](void* memory) { allocator::raw_delete(memory); }));
  }
  time(rows::kMemoryAllocated, kHostCalls, [] {
    (void)allocator::getDeviceStats(0).allocated_bytes[0].current;  // 0: of all pools together
  });
}

void Peer::host_copies() {
  const at::TensorOptions pinned_bytes = at::TensorOptions().dtype(at::kByte).pinned_memory(true);
  const auto large = static_cast<std::int64_t>(kGiB);
  const double pinning = burst_medians(
      {.calls = 1, .rounds = 3, .warm_up = 1}, [] {},
      [&] {
        { const at::Tensor memory = at::empty({large}, pinned_bytes); }
        at::getHostAllocator(at::kCUDA)->empty_cache();
      })[0];
  add(rows::kPin, "ms", pinning / 1e3);

  const at::Tensor device = bytes_on_device(0, kGiB);
  const auto both_ways = [&](const char* kind, const at::Tensor& host, bool asynchronous) {
    for (const std::size_t bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, kGiB}) {
      const at::Tensor here = first(host, bytes);
      const at::Tensor there = first(device, bytes);
      copies(rows::copy(kind, rows::kDevice, bytes), bytes, 1,
             [&] { there.copy_(here, asynchronous); });
      copies(rows::copy(rows::kDevice, kind, bytes), bytes, 1,
             [&] { here.copy_(there, asynchronous); });
    }
  };
  {
    at::Tensor pinned = at::empty({large}, pinned_bytes);
    pinned.fill_(1);
    both_ways(rows::kPinned, pinned, true);
  }
  both_ways(rows::kPageable, at::ones({large}, at::TensorOptions().dtype(at::kByte)), false);
}

void Peer::device_copies() {
  const at::Tensor source = bytes_on_device(0, kGiB);
  const at::Tensor target = bytes_on_device(0, kGiB);
  for (const std::size_t bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, kGiB}) {
    const at::Tensor from = first(source, bytes);
    const at::Tensor to = first(target, bytes);
    copies(rows::copy(rows::kDevice, rows::kDevice, bytes), bytes, 2, [&] { to.copy_(from); });
  }
}

void Peer::peer_copies() {
  if (c10::cuda::device_count() < 2) return;
  const at::Tensor source = bytes_on_device(0, kGiB);
  const at::Tensor target = bytes_on_device(1, kGiB);
  // PyTorch enables peer access itself.
  for (const std::size_t bytes : {4 * kKiB, kMiB, kGiB}) {
    const at::Tensor from = first(source, bytes);
    const at::Tensor to = first(target, bytes);
    copies(rows::peer(bytes, true), bytes, 1, [&] { to.copy_(from, true); });
  }
}

void Peer::operation_calls() {
  const at::TensorOptions floats = on_device(0).dtype(at::kFloat);
  const at::Tensor a = at::ones({1024}, floats);
  const at::Tensor b = at::ones({1024}, floats);
  at::Tensor out = at::empty({1024}, floats);
  const at::Tensor matrix = at::ones({32, 32}, floats);
  const auto launch = [](Raw& raw) { raw.launch(); };
  time(rows::kEmpty, kHostCalls, [&] { const at::Tensor made = at::empty({1024}, floats); });
  time(rows::kTransposedView, kHostCalls, [&] { const at::Tensor view = matrix.t(); });
  time(
      rows::kAddOut, kDeviceCalls, [&] { at::add_out(out, a, b); }, launch);
  time(
      rows::kAdd, kDeviceCalls, [&] { const at::Tensor sum = a + b; }, launch);
  time(
      rows::kAddNumber, kDeviceCalls, [&] { const at::Tensor sum = a + 2; }, launch);
  time(
      rows::kBroadcastAddCall, kDeviceCalls, [&] { const at::Tensor sum = matrix + matrix[0]; },
      launch);
}

void Peer::operation_throughput() {
  constexpr std::int64_t kSide = 16384;
  constexpr double kSize = 4.0 * kSide * kSide;
  const at::TensorOptions floats = on_device(0).dtype(at::kFloat);
  const at::Tensor x = at::ones({kSide, kSide}, floats);
  const at::Tensor y = at::ones({kSide, kSide}, floats);
  at::Tensor z = at::empty({kSide, kSide}, floats);
  at::Tensor narrow = at::empty({kSide, kSide}, floats.dtype(at::kBFloat16));
  const at::Tensor column = at::ones({kSide, 1}, floats);
  const at::Tensor row = at::ones({1, kSide}, floats);
  const auto rate = [&](const char* name, double amount, const auto& work) {
    const Bursts wanted{.calls = 10, .rounds = 11, .warm_up = 1};
    const double took = completion_medians(bursts(wanted), drain, work)[0];
    add(name, "GB/s", amount / 1e3 / took);
  };
  rate(rows::kCopy, 2 * kSize, [&] { z.copy_(x); });
  rate(rows::kFillLarge, kSize, [&] { z.fill_(1.5); });
  rate(rows::kMulNumber, 2 * kSize, [&] { at::mul_out(z, x, at::scalar_tensor(2.0)); });
  rate(rows::kAddLarge, 3 * kSize, [&] { at::add_out(z, x, y); });
  rate(rows::kExp, 2 * kSize, [&] { at::exp_out(z, x); });
  rate(rows::kCast, 1.5 * kSize, [&] { narrow.copy_(x); });
  rate(rows::kAddNarrow, 1.5 * kSize, [&] { at::add_out(narrow, narrow, narrow); });
  rate(rows::kTransposedCopy, 2 * kSize, [&] { z.copy_(x.t()); });
  rate(rows::kBroadcastAdd, kSize, [&] { at::add_out(z, column, row); });
  const at::Tensor even = x.slice(1, 0, kSide, 2);
  const at::Tensor odd = x.slice(1, 1, kSide, 2);
  rate(rows::kStridedAdd, 1.5 * kSize, [&] { const at::Tensor sum = even + odd; });
}

void Peer::every_call() {
  raw_ = Raw::make(c10::cuda::getStreamFromPool(false, 0).stream());
  if (raw_) {
    const double launch = burst_medians(bursts(kDeviceCalls), drain, [&] { raw_->launch(); })[0];
    add(rows::kLaunch, "us", kNothing, launch);
  }
  calls::each(
      calls::Types<at::ScalarType>{at::kFloat, at::kBFloat16, at::kLong},
      [](const std::vector<std::int64_t>& sizes, at::ScalarType dtype) {
        return at::ones(sizes, on_device(0).dtype(dtype));
      },
      [&](const std::string& name, const auto& work) { time(name, calls::kBursts, work); });
}

}  // namespace

int main(int count, char** arguments) {
  bool quick = false;
  bool every_call = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(arguments[i], "--calls") == 0) {
      every_call = true;
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--calls]\n", arguments[0]);
      return 2;
    }
  }
  int failures = 0;
  Peer peer(quick);
  Table table;
  try {
    const c10::InferenceMode inference;
    if (c10::cuda::device_count() == 0) {
      std::fputs("PyTorch: no GPU here\n", stderr);
      return 77;
    }
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const auto measure = [&](const char* what, void (Peer::*rows)()) {
      try {
        (peer.*rows)();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "PyTorch: %s: not measured: %s\n", what, error.what());
        ++failures;
      }
    };
    if (every_call) {
      measure("calls of every kind", &Peer::every_call);
    } else {
      measure("host calls", &Peer::host_calls);
      measure("memory", &Peer::memory);
      measure("copies between host and device", &Peer::host_copies);
      measure("copies on the device", &Peer::device_copies);
      measure("peer copies", &Peer::peer_copies);
      measure("calls of operations", &Peer::operation_calls);
      measure("operations", &Peer::operation_throughput);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "PyTorch: %s\n", error.what());
    return 1;
  }
  table = peer.table();
  table.note("pytorch", EMBER_TORCH_VERSION);
  table.write_json(std::cout);
  return failures == 0 ? 0 : 1;
}
