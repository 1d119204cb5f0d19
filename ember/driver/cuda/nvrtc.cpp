#include "ember/driver/cuda/nvrtc.h"

#include <dlfcn.h>
#include <link.h>
#include <nvrtc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/base/file_identity.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/cuda/library.h"

namespace ember::inline v0::driver::cuda {
namespace {

// ---- The library

#define EMBER_NVRTC_CALLS(CALL)   \
  CALL(nvrtcCompileProgram)       \
  CALL(nvrtcCreateProgram)        \
  CALL(nvrtcDestroyProgram)       \
  CALL(nvrtcGetCUBIN)             \
  CALL(nvrtcGetCUBINSize)         \
  CALL(nvrtcGetErrorString)       \
  CALL(nvrtcGetNumSupportedArchs) \
  CALL(nvrtcGetPTX)               \
  CALL(nvrtcGetPTXSize)           \
  CALL(nvrtcGetProgramLog)        \
  CALL(nvrtcGetProgramLogSize)    \
  CALL(nvrtcGetSupportedArchs)    \
  CALL(nvrtcVersion)

struct Nvrtc {
#define EMBER_NVRTC_POINTER(name) decltype(&::name) name = nullptr;
  EMBER_NVRTC_CALLS(EMBER_NVRTC_POINTER)
#undef EMBER_NVRTC_POINTER
};

struct LoadedNvrtc {
  Nvrtc nvrtc;
  std::string path;  ///< of its file
  Status status;
};

bool resolve_all(void* library, Nvrtc& out) {
  bool complete = true;
#define EMBER_NVRTC_RESOLVE(name)                                        \
  out.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  complete &= out.name != nullptr;
  EMBER_NVRTC_CALLS(EMBER_NVRTC_RESOLVE)
#undef EMBER_NVRTC_RESOLVE
  return complete;
}

constexpr std::initializer_list<const char*> kFiles = {"libnvrtc.so.13", "libnvrtc.so.12"};

LibraryNames names() {
  return {.what = "kernels from a text need NVRTC",
          .version = "NVRTC 12",
          .variable = "EMBER_NVRTC",
          .named = env::get("EMBER_NVRTC"),
          .files = kFiles};
}

LoadedNvrtc load() {
  // What is opened is what the identity is of.
  LibraryNames wanted = names();
  if (std::string path = find_library(wanted); !path.empty()) wanted.named = std::move(path);
  const Library library = open_library(wanted, [](void* handle) {
    Nvrtc found;
    return resolve_all(handle, found);
  });
  LoadedNvrtc loaded{{}, {}, library.status};
  if (!loaded.status.ok()) return loaded;
  resolve_all(library.handle, loaded.nvrtc);
  link_map* about = nullptr;
  if (dlinfo(library.handle, RTLD_DI_LINKMAP, &about) == 0) loaded.path = about->l_name;
  return loaded;
}

const LoadedNvrtc& library() {
  static NoDestructor<LoadedNvrtc> loaded(load());
  return *loaded;
}

// ---- Compiling

// The bits are those of the host's compiler: a product and a sum are rounded one after the other,
// unless the library's kernels are to be matched.
constexpr const char* kOptions[] = {"--std=c++20", "--device-as-default-execution-space"};
constexpr const char* kApart = "--fmad=false";
// Without textures, launches from kernels and the runtime's types, which kernels of elements have
// no use for: of 45 ms that a small one takes, 5. NVRTC knows it from 12.4 on.
constexpr const char* kMinimal = "--minimal";

bool knows_minimal() {
  int major = 0, minor = 0;
  return library().nvrtc.nvrtcVersion(&major, &minor) == NVRTC_SUCCESS &&
         std::pair(major, minor) >= std::pair(12, 4);
}

Status failure(nvrtcResult result) {
  return Status(Code::unknown,
                std::string("NVRTC: ") + library().nvrtc.nvrtcGetErrorString(result));
}

class Program {
 public:
  Program() = default;
  ~Program() {
    if (program_ != nullptr) (void)library().nvrtc.nvrtcDestroyProgram(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  nvrtcProgram* address() { return &program_; }
  nvrtcProgram get() const { return program_; }

 private:
  nvrtcProgram program_ = nullptr;
};

/// A text or an image of a program: its size, and then itself.
Status fetch(nvrtcProgram program, decltype(&::nvrtcGetPTXSize) size_of,
             decltype(&::nvrtcGetPTX) contents, std::string& out) {
  std::size_t size = 0;
  nvrtcResult result = size_of(program, &size);
  if (result == NVRTC_SUCCESS) {
    out.resize(size);
    result = contents(program, out.data());
  }
  return result == NVRTC_SUCCESS ? Status() : failure(result);
}

/// The architecture to compile for: the device's own, or else the newest one before it, whose PTX
/// the driver finishes. Zero if all are newer.
Status newest_up_to(int capability, int& out) {
  const Nvrtc& nvrtc = library().nvrtc;
  int count = 0;
  nvrtcResult result = nvrtc.nvrtcGetNumSupportedArchs(&count);
  std::vector<int> known(static_cast<std::size_t>(std::max(count, 0)));
  if (result == NVRTC_SUCCESS) result = nvrtc.nvrtcGetSupportedArchs(known.data());
  if (result != NVRTC_SUCCESS) return failure(result);
  out = 0;
  for (const int each : known)
    if (each <= capability) out = std::max(out, each);
  return {};
}

}  // namespace

Status nvrtc_identity(std::string& identity) noexcept {
  std::string path = find_library(names());
  if (path.empty()) {
    EMBER_TRY(library().status);
    path = library().path;
  }
  identity = file_identity(path);
  for (const char* option : kOptions) identity += std::string(" ") + option;
  for (const char* option : {kApart, kMinimal}) identity += std::string(" ") + option;
  return {};
}

Status nvrtc_compile(const std::string& source, int capability, std::string& image,
                     std::string& log, bool contract) noexcept {
  EMBER_TRY(library().status);
  const Nvrtc& nvrtc = library().nvrtc;
  int architecture = 0;
  EMBER_TRY(newest_up_to(capability, architecture));
  if (architecture == 0)
    return Status(Code::not_supported,
                  library().path + " does not compile for devices of capability " +
                      std::to_string(capability / 10) + "." + std::to_string(capability % 10));
  const bool finished = architecture == capability;
  const std::string target = std::string("--gpu-architecture=") + (finished ? "sm_" : "compute_") +
                             std::to_string(architecture);
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(target.c_str());
  if (!contract) options.push_back(kApart);
  if (knows_minimal()) options.push_back(kMinimal);

  Program program;
  nvrtcResult result =
      nvrtc.nvrtcCreateProgram(program.address(), source.c_str(), "ember", 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) return failure(result);
  result =
      nvrtc.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (result == NVRTC_ERROR_COMPILATION) {
    EMBER_TRY(fetch(program.get(), nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, log));
    while (!log.empty() && log.back() == '\0') log.pop_back();
    return Status(Code::invalid_value, "the text does not compile");
  }
  if (result != NVRTC_SUCCESS) return failure(result);
  return finished ? fetch(program.get(), nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, image)
                  : fetch(program.get(), nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, image);
}

}  // namespace ember::inline v0::driver::cuda
