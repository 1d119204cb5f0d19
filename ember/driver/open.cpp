#include "ember/driver/open.h"

#include <dlfcn.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/driver/compiled.h"
#include "ember/driver/cuda_object.h"
#include "ember/driver/kernels.h"

namespace ember::inline v0::driver {
namespace {

constexpr const char* kObjectName = "libember_cuda.so";

/// The folder of the library or program that this code was linked into; ends in "/".
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    return "";
  // The loader may know a program by a path that was relative to where it started.
  const std::unique_ptr<char, void (*)(void*)> real(realpath(info.dli_fname, nullptr), &std::free);
  const std::string path = real != nullptr ? real.get() : "";
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, number);
  return text;
}

struct LoadedObject {
  const CudaObject* object = nullptr;
  Status status;
};

/// In the order in which they are tried.
std::vector<std::string> places_of_object() {
  if (const auto path = env::get("EMBER_CUDA_OBJECT"); path && !path->empty()) return {*path};
  std::vector<std::string> places;
  if (const std::string own = own_folder(); !own.empty()) places.push_back(own + kObjectName);
  places.emplace_back(kObjectName);  // where the loader looks: RPATH, LD_LIBRARY_PATH, ld.so.conf
  return places;
}

/// Fails unless the object speaks of the same things as this library.
Status check_object(const CudaObject& object, const std::string& place) {
  if (std::strcmp(object.version, EMBER_VERSION_STRING) != 0)
    return Status(Code::not_initialized, place + " is of version " + object.version +
                                             ", but this is ember " + EMBER_VERSION_STRING);
  if (object.layout != layout_stamp())
    return Status(Code::not_initialized, place + " has the layout " + hexadecimal(object.layout) +
                                             ", but this ember " + EMBER_VERSION_STRING + " has " +
                                             hexadecimal(layout_stamp()) +
                                             ": both must come from one build");
  if (const Status status = kernels::check(object.implementation); !status.ok())
    return Status(status.code(), place + " does not fit: its kernel " + status.detail() +
                                     "; both must come from one build");
  return {};
}

LoadedObject load_object() {
  std::string why;
  bool missing = true;
  for (const std::string& place : places_of_object()) {
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      const std::string text = error != nullptr ? error : "unknown error";
      if (text.find("No such file") == std::string::npos) missing = false;
      why += (why.empty() ? "" : "; ") + text;
      continue;
    }
    void* entry = dlsym(library, kCudaObjectEntry);
    if (entry == nullptr)
      return {nullptr,
              Status(Code::not_initialized,
                     place + " is not ember's CUDA object: it has no " + kCudaObjectEntry)};
    const CudaObject* object = reinterpret_cast<CudaObjectEntry>(entry)();
    if (Status status = check_object(*object, place); !status.ok()) return {nullptr, status};
    return {object, Status()};
  }
  return {nullptr, Status(missing ? Code::not_supported : Code::not_initialized, why)};
}

/// What it found; never freed, since the object stays loaded.
constinit std::atomic<const LoadedObject*> first_attempt{nullptr};

/// Takes no lock of its own, not even that of a function's static object: a child forked while
/// another thread held it would wait for ever. Threads that come here at once both load, and dlopen
/// gives them the same object.
const LoadedObject& cuda_object() {
  if (const LoadedObject* known = first_attempt.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<const LoadedObject>(load_object());
  const LoadedObject* earlier = nullptr;
  if (!first_attempt.compare_exchange_strong(earlier, made.get(), std::memory_order_acq_rel))
    return *earlier;
  return *made.release();
}

Status open_cuda(std::unique_ptr<Driver>& out) {
  const LoadedObject& loaded = cuda_object();
  if (loaded.object == nullptr) return loaded.status;
  Driver* made = nullptr;
  EMBER_TRY(loaded.object->open(made));
  out.reset(made);
  kernels::bind(loaded.object->implementation);
  return {};
}

}  // namespace

Status open(const Choice& choice, std::unique_ptr<Driver>& out) {
  switch (choice.kind) {
    case Choice::Kind::none:
      return Status(Code::no_device, "EMBER_DEVICES=none asks for no devices");
    case Choice::Kind::simulated:
      EMBER_TRY(check_simulated(choice.simulated));
      if (count_simulated(choice.simulated) == 0)
        return Status(Code::no_device,
                      "CUDA_VISIBLE_DEVICES='" + env::get("CUDA_VISIBLE_DEVICES").value_or("") +
                          "' leaves none of " + std::to_string(choice.simulated.count) +
                          " simulated devices");
      return make_simulated(choice.simulated, choice.schedule, out);
    case Choice::Kind::automatic:
    case Choice::Kind::cuda: return open_cuda(out);
  }
  return Code::invalid_value;
}

std::optional<std::string> visible_text(const Choice& choice) {
  if (choice.kind == Choice::Kind::simulated && choice.simulated.all_visible) return std::nullopt;
  return env::get("CUDA_VISIBLE_DEVICES");
}

int count_without_opening(const Choice& choice) noexcept {
  switch (choice.kind) {
    case Choice::Kind::none: return 0;
    case Choice::Kind::simulated: return count_simulated(choice.simulated);
    case Choice::Kind::automatic:
    case Choice::Kind::cuda: {
      const LoadedObject& loaded = cuda_object();
      return loaded.object == nullptr ? 0 : loaded.object->count_without_cuda();
    }
  }
  return 0;
}

namespace {

/// Asks the CUDA object, if there is one.
template <class Ask, class... Arguments>
Status ask_cuda_object(Ask CudaObject::*ask, int device, Arguments&... arguments) {
  const LoadedObject& loaded = cuda_object();
  if (loaded.object == nullptr)
    return Status(Code::not_initialized,
                  "NVML is asked by ember's CUDA object: " + loaded.status.detail());
  const Ask call = loaded.object->*ask;
  return call == nullptr ? Status(Code::not_ready) : call(device, arguments...);
}

}  // namespace

Status sensor_without_opening(const Choice& choice, int device, Sensor sensor,
                              std::int64_t& out) noexcept {
  switch (choice.kind) {
    case Choice::Kind::none: return not_visible(device, {});
    case Choice::Kind::simulated:
      EMBER_TRY(check_simulated(choice.simulated));
      return idle_simulated_sensor(choice.simulated, device, sensor, out);
    case Choice::Kind::automatic:
    case Choice::Kind::cuda:
      return ask_cuda_object(&CudaObject::sensor_without_cuda, device, sensor, out);
  }
  return Code::invalid_value;
}

Status processes_without_opening(const Choice& choice, int device, GpuProcesses& out) noexcept {
  switch (choice.kind) {
    case Choice::Kind::none: return not_visible(device, {});
    case Choice::Kind::simulated:
      EMBER_TRY(check_simulated(choice.simulated));
      return idle_simulated_processes(choice.simulated, device, out);
    case Choice::Kind::automatic:
    case Choice::Kind::cuda:
      return ask_cuda_object(&CudaObject::processes_without_cuda, device, out);
  }
  return Code::invalid_value;
}

Status uuids_without_opening(const Choice& choice, std::vector<std::string>& out) noexcept {
  switch (choice.kind) {
    case Choice::Kind::none: out.clear(); return {};
    case Choice::Kind::simulated:
      EMBER_TRY(check_simulated(choice.simulated));
      out = simulated_uuids(choice.simulated);
      return {};
    case Choice::Kind::automatic:
    case Choice::Kind::cuda: {
      const LoadedObject& loaded = cuda_object();
      if (loaded.object == nullptr || loaded.object->uuids_without_cuda == nullptr)
        return Code::not_ready;
      const std::vector<std::string>* uuids = loaded.object->uuids_without_cuda();
      if (uuids == nullptr) return Code::not_ready;
      out = *uuids;
      return {};
    }
  }
  return Code::invalid_value;
}

bool counting_leaves_ember(const Choice& choice) noexcept {
  if (choice.kind != Choice::Kind::automatic && choice.kind != Choice::Kind::cuda) return false;
  const LoadedObject* known = first_attempt.load(std::memory_order_acquire);
  if (known == nullptr) return true;
  const CudaObject* object = known->object;
  return object != nullptr &&
         (object->devices_are_known == nullptr || !object->devices_are_known());
}

bool cuda_object_is_known() noexcept {
  return first_attempt.load(std::memory_order_acquire) != nullptr;
}

namespace {
Status without_object(const LoadedObject& loaded) {
  return Status(Code::not_supported,
                "NVRTC is opened by ember's CUDA object: " + loaded.status.detail());
}
}  // namespace

Status cuda_compiler(std::string& identity) noexcept {
  const LoadedObject& loaded = cuda_object();
  if (loaded.object == nullptr) return without_object(loaded);
  if (loaded.object->compiler == nullptr)
    return Status(Code::not_supported, "kernels from a text are not built for real devices yet");
  return loaded.object->compiler(identity);
}

Status cuda_compile(const std::string& source, int capability, std::string& image, std::string& log,
                    bool contract) noexcept {
  const LoadedObject& loaded = cuda_object();
  if (loaded.object == nullptr) return without_object(loaded);
  if (loaded.object->compile == nullptr)
    return Status(Code::not_supported, "kernels from a text are not built for real devices yet");
  return loaded.object->compile(source, capability, image, log, contract);
}

std::string compiled_architectures() {
  const LoadedObject& loaded = cuda_object();
  return loaded.object == nullptr ? "" : loaded.object->architectures;
}

}  // namespace ember::inline v0::driver
