// Fused kernels in their form for real devices, on a host: with reductions a thread for each lane.
// What such a kernel asks of its device is here: who it is, barriers, and values of other lanes.
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ember/driver/compiled.h"
#include "ember/jit/compiled_kernel.h"
#include "ember/jit/host_compiler.h"
#include "ember/jit/source.h"

namespace ember::test {

/// The form for devices, behind the scalar functions of hosts.
inline std::string text_for_lanes(const std::string& statements, const jit::Signature& name,
                                  const jit::Instance& instance) {
  const std::string& on_hosts = jit::host_source(statements, name, instance).prelude();
  const std::size_t sums = on_hosts.find("struct SumType");
  const std::size_t rows =
      sums == std::string::npos ? on_hosts.size() : on_hosts.rfind("namespace ember_jit {", sums);
  return on_hosts.substr(0, rows) + R"(
#define __CUDA_ARCH__ 900
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
struct Index { unsigned x; };
static thread_local Index threadIdx, blockIdx;
static thread_local void* const* device;
static void __syncwarp(unsigned group) { reinterpret_cast<void (*)(unsigned, unsigned)>(device[0])(threadIdx.x, group); }
static void __syncthreads() { reinterpret_cast<void (*)(unsigned)>(device[1])(threadIdx.x); }
static unsigned __shfl_xor_sync(unsigned group, unsigned word, int distance) {
  return reinterpret_cast<unsigned (*)(unsigned, unsigned, unsigned, int)>(device[2])(threadIdx.x, group, word, distance);
}
#define __device__
#define __noinline__
static std::uint32_t __float_as_uint(float x) { return ember::detail::float_bits(x); }
static long long __double_as_longlong(double x) {
  long long bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
static float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static float __frcp_rn(float x) { return 1 / x; }
static double __drcp_rn(double x) { return 1 / x; }
static float __frcp_rd(float x) {
  const float near = 1 / x;
  return __builtin_fmaf(near, x, -1) > 0 ? __builtin_nextafterf(near, 0) : near;
}
static double __drcp_rd(double x) {
  const double near = 1 / x;
  return __builtin_fma(near, x, -1) > 0 ? __builtin_nextafter(near, 0) : near;
}
#define ember_jit_run kernel_of_device
)" + on_hosts.substr(rows) +
         jit::device_source(statements, name, instance).rest + R"(
#undef ember_jit_run
extern "C" __attribute__((visibility("default"))) void ember_jit_run(
    const void* args, void* const* of, long long block, long long thread) {
  device = of;
  blockIdx.x = static_cast<unsigned>(block);
  threadIdx.x = static_cast<unsigned>(thread);
  kernel_of_device(*static_cast<const ember_jit::Args*>(args));
}
)";
}

/// One block at a time: its barriers, and what lanes show each other.
class Block {
 public:
  Block(unsigned threads, unsigned lanes) : all_(threads), shown_(threads) {
    const unsigned group = std::min(lanes, 32U);
    for (unsigned first = 0; first < threads; first += group)
      groups_[first] = std::make_unique<std::barrier<>>(group);
    current = this;
  }

  static void sync_group(unsigned thread, unsigned group) {
    const unsigned first = thread / 32 * 32 + static_cast<unsigned>(__builtin_ctz(group));
    current->groups_.at(first)->arrive_and_wait();
  }
  static void sync_all(unsigned) { current->all_.arrive_and_wait(); }
  static unsigned exchange(unsigned thread, unsigned group, unsigned word, int distance) {
    current->shown_[thread] = word;
    sync_group(thread, group);
    const unsigned other = current->shown_[thread ^ static_cast<unsigned>(distance)];
    sync_group(thread, group);
    return other;
  }

 private:
  inline static Block* current = nullptr;
  std::barrier<> all_;
  std::map<unsigned, std::unique_ptr<std::barrier<>>> groups_;
  std::vector<unsigned> shown_;
};

inline jit::HostEntry compiled_for_lanes(const std::string& statements, const jit::Signature& name,
                                         const jit::Instance& instance) {
  const std::string object =
      jit::compile_for_host(jit::find_host_compiler(false),
                            text_for_lanes(statements, name, instance), "a kernel for lanes");
  return reinterpret_cast<jit::HostEntry>(jit::load_for_host("", object));
}

/// Arguments of a kernel.
struct LaneArguments {
  alignas(16) std::byte bytes[driver::Params::kCapacity] = {};
  void put(std::size_t at, const auto& value) { std::memcpy(&bytes[at], &value, sizeof value); }
};

/// Runs it on `rows` rows of `length` elements, which lie one behind the other in every operand; of
/// those that are there once for a row, one element for each.
inline void run_on_lanes(const std::string& statements, const jit::Signature& name,
                         const jit::Instance& instance, std::int64_t rows, std::int64_t length,
                         const std::vector<void*>& operands) {
  const auto run = compiled_for_lanes(statements, name, instance);
  const jit::ArgumentPlaces places(instance);
  LaneArguments args;
  const unsigned lanes = instance.rows.lanes;
  driver::CompiledHeader header;
  header.count = rows;
  header.threads = instance.rows.threads;
  header.per_block = header.threads / lanes;
  header.dims = 1;
  header.operands = static_cast<std::int32_t>(operands.size());
  args.put(0, header);
  args.put(places.length, std::array{length, length});
  const auto put_index = [&](std::size_t at, std::size_t i, std::int64_t value) {
    if (instance.layout == jit::Layout::wide)
      args.put(at + i * sizeof value, value);
    else
      args.put(at + i * sizeof(std::int32_t), static_cast<std::int32_t>(value));
  };
  put_index(places.sizes, 0, rows);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    args.put(places.data + k * sizeof(void*), operands[k]);
    put_index(places.strides, k * ops::kLoopDims, instance.rows.is_once(k) ? 1 : length);
  }
  void* const device[] = {reinterpret_cast<void*>(&Block::sync_group),
                          reinterpret_cast<void*>(&Block::sync_all),
                          reinterpret_cast<void*>(&Block::exchange)};
  for (std::int64_t first = 0, block = 0; first < rows; first += header.per_block, ++block) {
    const auto threads =
        static_cast<unsigned>(std::min<std::int64_t>(header.per_block, rows - first)) * lanes;
    Block running(threads, lanes);
    std::vector<std::thread> all;
    for (unsigned thread = 0; thread < threads; ++thread)
      all.emplace_back([&, thread] { run(args.bytes, device, block, thread); });
    for (std::thread& each : all) each.join();
  }
}

/// Runs one without rows on `count` elements, which lie side by side in every operand, one thread
/// after the other. `packed`: whether packs of elements are aligned; `packs`: how many a thread
/// has.
inline void run_elements_on_lanes(jit::HostEntry run, const jit::Instance& instance,
                                  std::int64_t count, bool packed, unsigned packs,
                                  const std::vector<void*>& operands) {
  const jit::ArgumentPlaces places(instance);
  driver::CompiledHeader header;
  header.count = count;
  header.threads = driver::kCompiledThreads;
  header.per_block = header.threads * static_cast<unsigned>(jit::pack_of(instance)) * packs;
  header.packed = packed ? 1 : 0;
  header.operands = static_cast<std::int32_t>(operands.size());
  LaneArguments args;
  args.put(0, header);
  for (std::size_t k = 0; k < operands.size(); ++k)
    args.put(places.data + k * sizeof(void*), operands[k]);
  for (std::int64_t first = 0, block = 0; first < count; first += header.per_block, ++block)
    for (unsigned thread = 0; thread < header.threads; ++thread)
      run(args.bytes, nullptr, block, thread);
}

}  // namespace ember::test
