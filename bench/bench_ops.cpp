// What operations on tensors cost: the host per call, beside a launch asked of CUDA directly, and
// the device's throughput, beside CUDA's own copy and fill. On simulated devices the same with
// smaller tensors, and the CPU's loops.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/program.h"
#include "bench/raw.h"
#include "bench/rows.h"
#include "ember/ember.h"
#include "ember/runtime/device.h"

namespace ember::bench {
namespace {

struct Bench {
  Program& program;
  Raw* raw;  // null on simulated devices

  static void drain() { cuda::synchronize(0); }

  /// A row in microseconds per call, beside a raw launch if there is one to compare with.
  template <class Ours>
  void call(const std::string& name, const char* goal, const Bursts& bursts, bool launches,
            const Ours& ours) const {
    Row row;
    row.group = "Operations on 1024 elements, host";
    row.name = name;
    row.unit = "us";
    row.goal = goal;
    const Bursts used = program.bursts(bursts);
    if (raw != nullptr && launches) {
      const auto times = burst_medians(used, &Bench::drain, ours, [&] { raw->launch(); });
      row.ours = times[0];
      row.raw = times[1];
    } else {
      row.ours = burst_medians(used, &Bench::drain, ours)[0];
    }
    program.table().add(row);
  }

  /// A row in GB/s: `bytes` are those that are read and written.
  template <class Ours>
  void throughput(const char* group, const std::string& name, double bytes, const char* goal,
                  const Ours& ours) const {
    Row row;
    row.group = group;
    row.name = name;
    row.unit = "GB/s";
    if (raw != nullptr) row.goal = goal;
    const Bursts bursts{.calls = 10, .rounds = 11, .warm_up = 1};
    row.ours = bytes / 1e3 / completion_medians(program.bursts(bursts), &Bench::drain, ours)[0];
    program.table().add(row);
  }
  template <class Ours, class RawCall>
  void throughput(const char* group, const std::string& name, double bytes, const char* goal,
                  const Ours& ours, const RawCall& raw_call) const {
    if (raw == nullptr) return throughput(group, name, bytes, goal, ours);
    Row row;
    row.group = group;
    row.name = name;
    row.unit = "GB/s";
    row.goal = goal;
    const Bursts bursts{.calls = 10, .rounds = 11, .warm_up = 1};
    const auto times = completion_medians(program.bursts(bursts), &Bench::drain, ours, raw_call);
    row.ours = bytes / 1e3 / times[0];
    row.raw = bytes / 1e3 / times[1];
    program.table().add(row);
  }
};

void calls(const Bench& bench) {
  const Tensor a = ones({1024}, "cuda:0");
  const Tensor b = ones({1024}, "cuda:0");
  Tensor out = empty({1024}, "cuda:0");
  const Tensor matrix = ones({32, 32}, "cuda:0");
  bench.call(rows::kEmpty, "<= 0.15", kHostCalls, false,
             [] { const Tensor made = empty({1024}, Device(Device::Type::cuda)); });
  bench.call(rows::kTransposedView, "<= 0.05", kHostCalls, false,
             [&] { const Tensor view = matrix.t(); });
  const bool real = bench.raw != nullptr;
  bench.call(rows::kAddOut, real ? "<= 1.09 x raw" : "", kDeviceCalls, true,
             [&] { add_out(out, a, b); });
  bench.call(rows::kAdd, real ? "<= 1.15 x raw" : "", kDeviceCalls, true,
             [&] { const Tensor sum = a + b; });
  bench.call(rows::kAddNumber, "", kDeviceCalls, true, [&] { const Tensor sum = a + 2; });
  bench.call(rows::kBroadcastAddCall, "", kDeviceCalls, true,
             [&] { const Tensor sum = matrix + matrix[0]; });
}

void on(const Bench& bench, const char* group, Device place, std::int64_t side) {
  const std::int64_t count = side * side;
  const double size = static_cast<double>(count) * 4;
  const Tensor x = ones({side, side}, place);
  const Tensor y = ones({side, side}, place);
  Tensor z = empty({side, side}, place);
  Tensor narrow = empty({side, side}, {bfloat16, place});
  const Tensor column = ones({side, 1}, place);
  const Tensor row = ones({1, side}, place);
  const auto name = [&](const char* what) {
    return place.is_cuda() ? std::string(what) : std::string(what) + ", CPU";
  };
  const auto copy_raw = [&] { bench.raw->copy(z.data_ptr(), x.data_ptr(), z.nbytes()); };
  if (place.is_cuda()) {
    bench.throughput(
        group, name(rows::kCopy), 2 * size, ">= 1 x PyTorch", [&] { z.copy_(x); }, copy_raw);
    bench.throughput(
        group, name(rows::kFillLarge), size, ">= 1 x PyTorch", [&] { z.fill_(1.5); },
        [&] { bench.raw->fill(z.data_ptr(), z.nbytes()); });
  } else {
    bench.throughput(group, name(rows::kCopy), 2 * size, "", [&] { z.copy_(x); });
    bench.throughput(group, name(rows::kFillLarge), size, "", [&] { z.fill_(1.5); });
  }
  bench.throughput(group, name(rows::kMulNumber), 2 * size, ">= 1 x PyTorch",
                   [&] { mul_out(z, x, 2.0); });
  bench.throughput(group, name(rows::kAddLarge), 3 * size, ">= 1 x PyTorch",
                   [&] { add_out(z, x, y); });
  bench.throughput(group, name(rows::kExp), 2 * size, ">= 1 x PyTorch", [&] { exp_out(z, x); });
  bench.throughput(group, name(rows::kCast), 1.5 * size, ">= 1 x PyTorch",
                   [&] { narrow.copy_(x); });
  bench.throughput(group, name(rows::kAddNarrow), 1.5 * size, ">= 1 x PyTorch",
                   [&] { add_out(narrow, narrow, narrow); });
  bench.throughput(group, name(rows::kTransposedCopy), 2 * size, ">= 3950",
                   [&] { z.copy_(x.t()); });
  bench.throughput(group, name(rows::kBroadcastAdd), size, ">= 4450",
                   [&] { add_out(z, column, row); });
  const Tensor even = x.slice(1, 0, side, 2);
  const Tensor odd = x.slice(1, 1, side, 2);
  bench.throughput(group, name(rows::kStridedAdd), 1.5 * size, "",
                   [&] { const Tensor sum = even + odd; });
}

int run(int count, char** arguments) {
  Program program(count, arguments);
  std::unique_ptr<Raw> raw;
  if (!program.simulated()) raw = make_raw(0);
  const Bench bench{program, raw.get()};
  const bool real = raw != nullptr;
  program.measure("calls", [&] { calls(bench); });
  program.measure("throughput", [&] {
    on(bench, "Operations on 2^28 elements, bytes read and written", "cuda:0",
       real              ? 16384
       : program.quick() ? 512
                         : 2048);
  });
  if (!real)
    program.measure("the CPU's throughput", [&] {
      on(bench, "The CPU's loops, 2^22 elements", "cpu", program.quick() ? 512 : 2048);
    });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
