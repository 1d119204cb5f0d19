#include "ember/driver/sim/swarm.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "ember/driver/sim/decider.h"
#include "ember/driver/sim/device_model.h"

namespace ember::inline v0::driver::sim {
namespace {

/// Some of the H200's numbers, twice, four or eight times as much or as little.
std::string other_costs(Seeded& numbers) {
  struct Cost {
    const char* name;
    std::int64_t DeviceModel::*member;
  };
  static constexpr Cost kCosts[] = {
      {"launch_call", &DeviceModel::launch_call},
      {"copy_call", &DeviceModel::copy_call},
      {"launch_latency", &DeviceModel::launch_latency},
      {"kernel_floor", &DeviceModel::kernel_floor},
      {"memory_rate", &DeviceModel::memory_rate},
      {"to_device_rate", &DeviceModel::to_device_rate},
      {"to_host_rate", &DeviceModel::to_host_rate},
      {"peer_rate", &DeviceModel::peer_rate},
      {"host_function_time", &DeviceModel::host_function_time},
  };
  DeviceModel usual;
  (void)parse_device_model(built_in_model("h200"), usual).ok();
  std::string text;
  for (const Cost& cost : kCosts) {
    const auto power = static_cast<int>(numbers.below(7)) - 3;
    if (power == 0) continue;
    const std::int64_t number = usual.*cost.member;
    text += std::string(",") + cost.name + "=" +
            std::to_string(power > 0 ? number << power : number >> -power);
  }
  for (const char* engines : {"to_device_engines", "to_host_engines", "peer_engines"})
    if (const std::uint64_t count = 1 + numbers.below(3); count != 1)
      text += std::string(",") + engines + "=" + std::to_string(count);
  return text;
}

}  // namespace

Drawn draw_swarm(std::uint64_t seed) {
  constexpr std::uint64_t kOwnNumbers = 0x73776172;  // not those by which the policy decides
  Seeded numbers(seed ^ kOwnNumbers);
  Drawn drawn;
  drawn.schedule.seed = seed;
  switch (numbers.below(4)) {
    case 0:
    case 1: drawn.schedule.kind = Schedule::Kind::random; break;
    case 2:
      drawn.schedule.kind = Schedule::Kind::pct;
      drawn.schedule.depth = static_cast<int>(1 + numbers.below(5));
      break;
    default:
      drawn.schedule.kind = Schedule::Kind::model;
      drawn.schedule.file = "h200" + other_costs(numbers);
      break;
  }
  if (numbers.below(4) == 0) {
    // Those after which the process can go on.
    constexpr Fault::What kWhats[] = {Fault::What::alloc,  Fault::What::pinned, Fault::What::event,
                                      Fault::What::launch, Fault::What::copy,   Fault::What::fill,
                                      Fault::What::host,   Fault::What::kernel};
    Fault fault;
    fault.what = kWhats[numbers.below(std::size(kWhats))];
    fault.number = 1 + numbers.below(32);
    drawn.faults.push_back(fault);
  }
  return drawn;
}

}  // namespace ember::inline v0::driver::sim
