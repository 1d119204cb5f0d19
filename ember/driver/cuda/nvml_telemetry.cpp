// Sensors and processes of real GPUs, by NVML.
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/choice.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/nvml.h"
#include "ember/driver/cuda/nvml_api.h"
#include "ember/driver/properties.h"

namespace ember::inline v0::driver::cuda {
namespace {

using nvml::Calls;
using nvml::Gpu;
using nvml::Result;

Status failure(const Calls& calls, Result result, const char* function) {
  if (result == nvml::kDriverNotLoaded)
    return Status(Code::no_device, "cuda driver can't be loaded, is cuda enabled?");
  const char* text = calls.error_text != nullptr ? calls.error_text(result) : nullptr;
  return Status(result == nvml::kNotSupported ? Code::not_supported : Code::unknown,
                std::string(function) + " failed: " +
                    (text != nullptr ? text : ("error " + std::to_string(result)).c_str()));
}

Status lacks(const char* function) {
  return Status(Code::not_supported, std::string(nvml::kLibrary) + " has no " + function +
                                         ": the NVIDIA driver is too old");
}

/// The library, initialised. That is counted there, and stays so until the process ends: the first
/// time takes a tenth of a second.
Status ready(const Calls*& out) {
  static constinit std::atomic<bool> initialised{false};
  EMBER_TRY(nvml::load(out));
  if (initialised.load(std::memory_order_acquire)) return {};
  if (const Result result = out->init(); result != nvml::kSuccess)
    return failure(*out, result, "nvmlInit_v2");
  // Two threads may both come here, which does no harm.
  initialised.store(true, std::memory_order_release);
  return {};
}

/// A device, and what it is a part of: an instance of MIG has no sensors of its own but its
/// processes.
struct Place {
  Gpu gpu = nullptr;
  Gpu whole = nullptr;
};

Place place_of(const Calls& calls, Gpu gpu) {
  Gpu whole = gpu;
  if (calls.parent_of_mig == nullptr || calls.parent_of_mig(gpu, &whole) != nvml::kSuccess)
    whole = gpu;
  return {gpu, whole};
}

std::string text_of(const Uuid& uuid) {
  DeviceProperties properties;
  properties.uuid = uuid;
  return properties.uuid_text();
}

/// The places that were found: NVML goes through the GPUs of the machine for one, and its handles
/// are good for as long as the process lives.
struct Found {
  Mutex mutex;
  std::vector<std::pair<Uuid, Place>> places EMBER_GUARDED_BY(mutex);
};
Found& found_places() {
  static NoDestructor<Found> made;
  return *made;
}

Status find(const Calls& calls, const Uuid& uuid, Place& out) {
  if (calls.by_uuid == nullptr) return lacks("nvmlDeviceGetHandleByUUID");
  Found& found = found_places();
  const MutexLock lock(found.mutex);
  for (const auto& [known, place] : found.places)
    if (known == uuid) {
      out = place;
      return {};
    }
  Result result = nvml::kSuccess;
  for (const char* kind : {"GPU-", "MIG-"}) {
    Gpu gpu = nullptr;
    result = calls.by_uuid((kind + text_of(uuid)).c_str(), &gpu);
    if (result != nvml::kSuccess) continue;
    out = place_of(calls, gpu);
    found.places.emplace_back(uuid, out);
    return {};
  }
  return failure(calls, result, "nvmlDeviceGetHandleByUUID");
}

/// Code::not_ready where there is an instance of MIG, whatever its number is: which of them CUDA
/// shows is CUDA's affair.
Status find_visible(const Calls& calls, int device, Gpu& out) {
  const auto visible = env::get("CUDA_VISIBLE_DEVICES");
  if (visible && visible->find("MIG-") != std::string::npos) return Code::not_ready;
  unsigned count = 0;
  if (const Result result = calls.count(&count); result != nvml::kSuccess)
    return failure(calls, result, "nvmlDeviceGetCount_v2");
  std::vector<std::string> uuids(count);  // empty ones do where they are named by number
  if (visible && visible->find("GPU-") != std::string::npos) {
    for (unsigned index = 0; index < count; ++index) {
      Gpu gpu = nullptr;
      char text[96] = {};  // NVML's own limit
      if (calls.by_index(index, &gpu) != nvml::kSuccess ||
          calls.uuid(gpu, text, sizeof(text)) != nvml::kSuccess)
        return Status(Code::not_supported, "Can't get device UUIDs");
      uuids[index] = text;
    }
  }
  const std::vector<int> numbers = visible_devices(visible, uuids);
  if (device < 0 || static_cast<std::size_t>(device) >= numbers.size())
    return not_visible(device, numbers);
  const auto index = static_cast<unsigned>(numbers[static_cast<std::size_t>(device)]);
  if (const Result result = calls.by_index(index, &out); result != nvml::kSuccess)
    return failure(calls, result, "nvmlDeviceGetHandleByIndex_v2");
  unsigned mig = 0;
  unsigned pending = 0;
  if (calls.mig_mode != nullptr && calls.mig_mode(out, &mig, &pending) == nvml::kSuccess &&
      mig != 0)
    return Code::not_ready;
  return {};
}

Status read(const Calls& calls, const Place& place, Sensor sensor, std::int64_t& out) {
  constexpr int kOfTheDie = 0;
  constexpr int kOfTheMultiprocessors = 1;
  unsigned value = 0;
  const auto ask = [&](auto function, const char* name, auto... arguments) -> Status {
    if (function == nullptr) return lacks(name);
    const Result result = function(place.whole, arguments..., &value);
    return result == nvml::kSuccess ? Status() : failure(calls, result, name);
  };
  Status status;
  switch (sensor) {
    case Sensor::utilization:
    case Sensor::memory_usage: {
      if (calls.utilization == nullptr) return lacks("nvmlDeviceGetUtilizationRates");
      nvml::Utilization rates;
      // Of an instance of MIG itself: the whole's would be that of others, too.
      const Result result = calls.utilization(place.gpu, &rates);
      if (result != nvml::kSuccess) return failure(calls, result, "nvmlDeviceGetUtilizationRates");
      value = sensor == Sensor::utilization ? rates.gpu : rates.memory;
      break;
    }
    case Sensor::temperature:
      status = ask(calls.temperature, "nvmlDeviceGetTemperature", kOfTheDie);
      break;
    case Sensor::power_draw: status = ask(calls.power, "nvmlDeviceGetPowerUsage"); break;
    case Sensor::clock_rate:
      status = ask(calls.clock, "nvmlDeviceGetClockInfo", kOfTheMultiprocessors);
      break;
    case Sensor::memory_used: {
      if (calls.memory == nullptr) return lacks("nvmlDeviceGetMemoryInfo");
      nvml::Memory memory;
      const Result result = calls.memory(place.gpu, &memory);
      if (result != nvml::kSuccess) return failure(calls, result, "nvmlDeviceGetMemoryInfo");
      out = static_cast<std::int64_t>(memory.used);
      return {};
    }
  }
  if (status.ok()) out = value;
  return status;
}

/// Asks for a list until it fits: processes come and go.
template <class Process>
Status list(const Calls& calls, Result (*function)(Gpu, unsigned*, Process*), const char* name,
            Gpu gpu, std::vector<GpuProcess>& out) {
  std::vector<Process> room(16);
  for (;;) {
    auto count = static_cast<unsigned>(room.size());
    const Result result = function(gpu, &count, room.data());
    if (result == nvml::kInsufficientSize) {
      room.resize(2 * room.size() + count);
      continue;
    }
    if (result != nvml::kSuccess) return failure(calls, result, name);
    room.resize(count);
    break;
  }
  for (const Process& process : room)
    out.push_back({.pid = process.pid, .bytes = process.bytes});  // ~0 is kUnknown, too
  return {};
}

Status list(const Calls& calls, const Place& place, GpuProcesses& out) {
  GpuProcesses found;
  unsigned index = 0;
  if (calls.index == nullptr) return lacks("nvmlDeviceGetIndex");
  if (const Result result = calls.index(place.whole, &index); result != nvml::kSuccess)
    return failure(calls, result, "nvmlDeviceGetIndex");
  found.machine_index = static_cast<int>(index);
  constexpr const char* kName = "nvmlDeviceGetComputeRunningProcesses";
  if (calls.processes_v2 != nullptr) {
    EMBER_TRY(list(calls, calls.processes_v2, kName, place.gpu, found.processes));
  } else if (calls.processes_v1 != nullptr) {
    EMBER_TRY(list(calls, calls.processes_v1, kName, place.gpu, found.processes));
  } else {
    return lacks(kName);
  }
  out = std::move(found);
  return {};
}

}  // namespace

Status sensor_without_cuda(int device, Sensor sensor, std::int64_t& out) noexcept {
  const Calls* calls = nullptr;
  Gpu gpu = nullptr;
  EMBER_TRY(ready(calls));
  EMBER_TRY(find_visible(*calls, device, gpu));
  return read(*calls, {gpu, gpu}, sensor, out);
}

Status processes_without_cuda(int device, GpuProcesses& out) noexcept {
  const Calls* calls = nullptr;
  Gpu gpu = nullptr;
  EMBER_TRY(ready(calls));
  EMBER_TRY(find_visible(*calls, device, gpu));
  return list(*calls, {gpu, gpu}, out);
}

Status sensor_of(const Uuid& uuid, Sensor sensor, std::int64_t& out) noexcept {
  const Calls* calls = nullptr;
  Place place;
  EMBER_TRY(ready(calls));
  EMBER_TRY(find(*calls, uuid, place));
  return read(*calls, place, sensor, out);
}

Status processes_of(const Uuid& uuid, GpuProcesses& out) noexcept {
  const Calls* calls = nullptr;
  Place place;
  EMBER_TRY(ready(calls));
  EMBER_TRY(find(*calls, uuid, place));
  return list(*calls, place, out);
}

int machine_index_of(const Uuid& uuid) noexcept {
  const Calls* calls = nullptr;
  Place place;
  unsigned index = 0;
  if (!ready(calls).ok() || !find(*calls, uuid, place).ok() || calls->index == nullptr ||
      calls->index(place.whole, &index) != nvml::kSuccess)
    return -1;
  return static_cast<int>(index);
}

// ---- The driver

Status CudaDriver::find_by_uuid(int device, Uuid& out) noexcept {
  if (!exists(device)) {
    std::vector<int> numbers;
    for (int other = 0; other < device_count(); ++other) {
      DeviceProperties properties;
      const int number =
          device_properties(other, properties).ok() ? machine_index_of(properties.uuid) : -1;
      numbers.push_back(number < 0 ? other : number);
    }
    return not_visible(device, numbers);
  }
  Device* on = nullptr;
  EMBER_TRY(find(device, on));
  return on->uuid(out);
}

Status CudaDriver::device_sensor(int device, Sensor sensor, std::int64_t& out) noexcept {
  Uuid uuid{};
  EMBER_TRY(find_by_uuid(device, uuid));
  return sensor_of(uuid, sensor, out);
}

Status CudaDriver::device_processes(int device, GpuProcesses& out) noexcept {
  Uuid uuid{};
  EMBER_TRY(find_by_uuid(device, uuid));
  return processes_of(uuid, out);
}

}  // namespace ember::inline v0::driver::cuda
