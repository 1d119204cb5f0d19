// What a call of every kind of operation costs the host, beside an empty launch asked of CUDA
// directly. On simulated devices kernels run on the same processor meanwhile.
#include <memory>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/raw.h"
#include "bench/rows.h"
#include "ember/ember.h"
#include "ember/runtime/device.h"

namespace t = ember;

#include "bench/calls.h"

namespace ember::bench {
namespace {

int run(int count, char** arguments) {
  Program program(count, arguments);
  const std::unique_ptr<Raw> raw = program.simulated() ? nullptr : make_raw(0);
  const auto drain = [] { cuda::synchronize(0); };
  program.measure("calls", [&] {
    if (raw != nullptr) {
      Row row;
      row.group = calls::kGroup;
      row.name = rows::kLaunch;
      row.unit = "us";
      row.raw = burst_medians(program.bursts(kDeviceCalls), drain, [&] { raw->launch(); })[0];
      program.table().add(row);
    }
    calls::each(
        calls::Types<Dtype>{float32, bfloat16, int64},
        [](const std::vector<std::int64_t>& sizes, Dtype dtype) {
          return ones(sizes, {dtype, "cuda:0"});
        },
        [&](const std::string& name, const auto& work) {
          Row row;
          row.group = calls::kGroup;
          row.name = name;
          row.unit = "us";
          row.goal = "<= 0.6 x PyTorch";
          const Bursts bursts = program.bursts(calls::kBursts);
          if (raw != nullptr) {
            const auto times = burst_medians(bursts, drain, work, [&] { raw->launch(); });
            row.ours = times[0];
            row.raw = times[1];
          } else {
            row.ours = burst_medians(bursts, drain, work)[0];
          }
          program.table().add(row);
        });
  });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
