// How fast ember moves bytes between host and devices, beside the same copies asked of CUDA
// directly; on simulated devices, with smaller sizes, beside memcpy.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/buffers.h"
#include "bench/program.h"
#include "bench/raw.h"
#include "bench/rows.h"
#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/stream.h"
#include "ember/runtime/work.h"

namespace ember::bench {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

/// What the rows need.
struct Bench {
  Program& program;
  Raw* raw;           // null on simulated devices
  std::size_t large;  // the size that bandwidth is measured with
  cuda::Stream stream{0};
  DeviceBytes device{0, large};
  DeviceBytes device_too{0, large};
  std::vector<char> pageable = std::vector<char>(large, 1);
  std::vector<char> pageable_too = std::vector<char>(large, 1);

  std::vector<std::size_t> sizes() const { return {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, large}; }

  static void drain_all() {
    for (int device = 0; device < cuda::device_count(); ++device) cuda::synchronize(device);
  }

  /// Adds a row in GB/s. `traffic` is how often each byte counts.
  template <class Ours, class Theirs>
  void compare(Row row, std::size_t bytes, double traffic, const Ours& ours,
               const Theirs& theirs) const {
    const auto times =
        completion_medians(program.bursts(bursts_for(bytes)), &Bench::drain_all, ours, theirs);
    const double amount = static_cast<double>(bytes) * traffic / 1e3;  // 1 B/us is 1e-3 GB/s
    row.unit = "GB/s";
    row.ours = amount / times[0];
    row.raw = amount / times[1];
    program.table().add(row);
  }

  /// The row of copies between two places on the host or device 0.
  void copies(const char* group, const char* from, const char* to, void* target, const void* source,
              double traffic, const char* goal) const {
    for (const std::size_t bytes : sizes()) {
      Row row;
      row.group = group;
      row.name = rows::copy(from, to, bytes);
      if (bytes == large && raw != nullptr) row.goal = goal;
      compare(
          row, bytes, traffic, [&] { cuda::copy_async(target, source, bytes, stream); },
          [&] {
            if (raw != nullptr)
              raw->copy(target, source, bytes);
            else
              memcpy_instead(bytes);
          });
    }
  }

  /// What the host can do at best; stands in the column of raw calls where there is no CUDA.
  void memcpy_instead(std::size_t bytes) const {
    std::memcpy(const_cast<char*>(pageable_too.data()), pageable.data(), bytes);
    // The compiler must not see that nobody reads the copy.
    asm volatile("" ::: "memory");
  }
};

void pinned(const Bench& bench) {
  const char* group = "Pinned host memory";
  const PinnedBytes host(bench.large);
  bench.copies(group, rows::kPinned, rows::kDevice, bench.device.get(), host.get(), 1,
               ">= 1 x PyTorch");
  bench.copies(group, rows::kDevice, rows::kPinned, host.get(), bench.device.get(), 1,
               ">= 1 x PyTorch");
}

void pinning(const Bench& bench) {
  constexpr Bursts kFew{.calls = 1, .rounds = 3, .warm_up = 1};
  const auto ours = [&] {
    void* memory = nullptr;
    check(cuda::active_driver().pinned_malloc(bench.large, memory));
    check(cuda::active_driver().pinned_free(memory));
  };
  Row row;
  row.group = "Pinned host memory";
  row.name = bench.large == kGiB ? rows::kPin : "page-lock " + rows::size(bench.large);
  row.unit = "ms";
  if (bench.raw != nullptr) {
    const auto times = burst_medians(
        kFew, [] {}, ours, [&] { bench.raw->pin_unpin(bench.large); });
    row.goal = "<= 200";
    row.ours = times[0] / 1e3;
    row.raw = times[1] / 1e3;
  } else {
    row.ours = burst_medians(
                   kFew, [] {}, ours)[0] /
               1e3;
  }
  bench.program.table().add(row);
}

void pageable(Bench& bench) {
  const char* group = "Ordinary host memory";
  bench.copies(group, rows::kPageable, rows::kDevice, bench.device.get(), bench.pageable.data(), 1,
               ">= 38");
  bench.copies(group, rows::kDevice, rows::kPageable, bench.pageable.data(), bench.device.get(), 1,
               ">= 38");
}

void on_device(const Bench& bench) {
  bench.copies("On the device, bytes read and bytes written", rows::kDevice, rows::kDevice,
               bench.device_too.get(), bench.device.get(), 2, "");
}

void peers(const Bench& bench) {
  const DeviceBytes far(1, bench.large);
  const bool possible = cuda::can_device_access_peer(0, 1) && cuda::can_device_access_peer(1, 0);
  for (const bool access : {false, true}) {
    if (access && !possible) break;
    if (access) {
      cuda::enable_peer_access(0, 1);
      cuda::enable_peer_access(1, 0);
    }
    for (const std::size_t bytes : {4 * kKiB, kMiB, bench.large}) {
      Row row;
      row.group = "To a peer device";
      row.name = rows::peer(bytes, access);
      if (bytes == bench.large && bench.raw != nullptr) row.goal = ">= 0.97 x raw";
      bench.compare(
          row, bytes, 1,
          [&] { cuda::copy_async(far.get(), bench.device.get(), bytes, bench.stream); },
          [&] {
            if (bench.raw != nullptr)
              bench.raw->copy_peer(far.get(), 1, bench.device.get(), 0, bytes);
            else
              bench.memcpy_instead(bytes);
          });
    }
  }
  if (possible) {
    cuda::disable_peer_access(0, 1);
    cuda::disable_peer_access(1, 0);
  }
}

int run(int count, char** arguments) {
  Program program(count, arguments);
  std::unique_ptr<Raw> raw;
  if (!program.simulated())
    raw = make_raw(0);
  else
    program.table().note("raw copy", "memcpy on the host");
  std::unique_ptr<Bench> bench;
  program.measure("buffers", [&] {
    bench.reset(new Bench{program, raw.get(), program.simulated() ? 64 * kMiB : kGiB});
  });
  if (bench == nullptr) return 1;
  program.measure("page-locking", [&] { pinning(*bench); });
  program.measure("pinned host memory", [&] { pinned(*bench); });
  program.measure("ordinary host memory", [&] { pageable(*bench); });
  program.measure("copies on the device", [&] { on_device(*bench); });
  if (program.devices() > 1) program.measure("peer copies", [&] { peers(*bench); });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
