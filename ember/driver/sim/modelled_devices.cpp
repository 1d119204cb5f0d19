#include "ember/driver/sim/modelled_devices.h"

#include <algorithm>
#include <string_view>

#include "ember/driver/gemm.h"
#include "ember/driver/kernels.h"

namespace ember::inline v0::driver::sim {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

/// A product's dtype, or nothing for other kernels.
std::string_view product_of(const Task& task) {
  constexpr std::string_view kProduct = "matmul.";
  const std::string_view name = task.kernel.name.c_str();
  if (name.substr(0, kProduct.size()) != kProduct || task.params.size() != sizeof(GemmArgs))
    return {};
  return name.substr(kProduct.size());
}

}  // namespace

ModelledDevices::ModelledDevices(const DeviceModel& model, const Machine& machine)
    : model_(model), machine_(machine) {
  const auto some = [](std::int64_t count) { return Engines(static_cast<std::size_t>(count)); };
  for (std::size_t i = 0; i < machine.health.size(); ++i) {
    engines_.push_back(some(0));
    engines_.push_back(some(1));
    engines_.push_back(some(model.to_device_engines));
    engines_.push_back(some(model.to_host_engines));
    engines_.push_back(some(model.peer_engines));
  }
}

ModelledDevices::Part ModelledDevices::part_of(const Task& task) const {
  switch (task.kind) {
    case TaskKind::kernel:
      return task.kernel.host.run == kernels::sleep.host.run ? Part::none : Part::compute;
    case TaskKind::fill: return Part::compute;
    case TaskKind::copy: {
      const auto& copy = task.params.as<CopyArgs>();
      const int to = machine_.arena.owner(copy.target);
      const int from = machine_.arena.owner(copy.source);
      if (to < 0) return Part::to_host;
      if (from < 0) return Part::to_device;
      return to == from ? Part::compute : Part::peer;
    }
    case TaskKind::host_function:
    case TaskKind::wait:
    case TaskKind::stamp:
    case TaskKind::word_write:
    case TaskKind::word_wait: break;
  }
  return Part::none;
}

std::int64_t ModelledDevices::free_from(int device, Part part) const noexcept {
  const Engines& all = engines(device, part);
  return all.empty() ? 0 : *std::min_element(all.begin(), all.end());
}

std::int64_t ModelledDevices::begin(int device, const Task& task, std::int64_t now,
                                    std::uint64_t traffic) {
  const Part part = part_of(task);
  Time time;
  switch (task.kind) {
    case TaskKind::kernel: time = kernel_time(task, traffic); break;
    case TaskKind::copy: time = copy_time(task.params.as<CopyArgs>(), part); break;
    case TaskKind::fill: {
      const auto& fill = task.params.as<FillArgs>();
      time = {DeviceModel::at_rate(fill.count * fill.width, model_.memory_rate),
              model_.device_copy_floor};
      break;
    }
    case TaskKind::host_function: time.least = model_.host_function_time; break;
    case TaskKind::wait:
    case TaskKind::stamp:
    case TaskKind::word_write:
    case TaskKind::word_wait: break;
  }
  auto& all = engines_[static_cast<std::size_t>(device) * kParts + static_cast<std::size_t>(part)];
  if (!all.empty()) *std::min_element(all.begin(), all.end()) = now + time.busy;
  return std::max(time.busy, time.least);
}

ModelledDevices::Time ModelledDevices::kernel_time(const Task& task, std::uint64_t traffic) const {
  Time time{DeviceModel::at_rate(traffic, model_.memory_rate), model_.kernel_floor};
  if (task.kernel.host.run == kernels::sleep.host.run) {
    // That one says itself how long it takes; a cycle is a nanosecond (device_properties).
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 50;
    time = {0, static_cast<std::int64_t>(
                   std::min(task.params.as<kernels::SleepArgs>().cycles, kLongest))};
  } else if (const std::string_view dtype = product_of(task); !dtype.empty()) {
    const auto& product = task.params.as<GemmArgs>();
    const bool complex = dtype.substr(0, 7) == "complex";
    const bool wide = dtype == "float64" || dtype == "complex128";
    const bool half = dtype == "float16" || dtype == "bfloat16";
    const double operations = (complex ? 8.0 : 2.0) * static_cast<double>(product.m) *
                              static_cast<double>(product.n) * static_cast<double>(product.k) *
                              static_cast<double>(product.batch);
    constexpr double kMostOperations = 1e18;
    time.busy = std::max(
        time.busy,
        DeviceModel::at_rate(static_cast<std::uint64_t>(std::min(operations, kMostOperations)),
                             wide   ? model_.float64_rate
                             : half ? model_.half_rate
                                    : model_.float32_rate));
  }
  // What EMBER_SIM_FAULTS asks for.
  time.least = std::max(time.busy, time.least) +
               (std::int64_t{task.trouble.slow} + task.trouble.late) * kMillisecond;
  return time;
}

ModelledDevices::Time ModelledDevices::copy_time(const CopyArgs& copy, Part part) const {
  const auto whole = [&](std::int64_t latency, std::int64_t rate) {
    return Time{latency + DeviceModel::at_rate(copy.bytes, rate), 0};
  };
  switch (part) {
    case Part::to_device:
      return machine_.pinned.contains(copy.source, copy.bytes)
                 ? whole(model_.to_device_latency, model_.to_device_rate)
                 : whole(model_.pageable_to_device_latency, model_.pageable_to_device_rate);
    case Part::to_host:
      return machine_.pinned.contains(copy.target, copy.bytes)
                 ? whole(model_.to_host_latency, model_.to_host_rate)
                 : whole(model_.pageable_to_host_latency, model_.pageable_to_host_rate);
    case Part::peer: return whole(model_.peer_latency, model_.peer_rate);
    case Part::compute:
    case Part::none: break;
  }
  return {DeviceModel::at_rate(2 * copy.bytes, model_.memory_rate), model_.device_copy_floor};
}

std::int64_t ModelledDevices::call_time(TaskKind kind) const noexcept {
  switch (kind) {
    case TaskKind::kernel: return model_.launch_call;
    case TaskKind::copy: return model_.copy_call;
    case TaskKind::fill: return model_.fill_call;
    case TaskKind::host_function: return model_.host_function_call;
    case TaskKind::stamp: return model_.record_call;
    case TaskKind::wait: return model_.wait_call;
    case TaskKind::word_write:
    case TaskKind::word_wait: break;
  }
  return model_.wait_call;
}

}  // namespace ember::inline v0::driver::sim
