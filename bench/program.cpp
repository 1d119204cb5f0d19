#include "bench/program.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <thread>

#include "ember/runtime/device.h"
#include "ember/version.h"

namespace ember::bench {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("model name")) {
      const auto start = line.find(": ");
      if (start != std::string::npos)
        return line.substr(start + 2) + ", " + std::to_string(std::thread::hardware_concurrency()) +
               " cores";
    }
  return std::to_string(std::thread::hardware_concurrency()) + " cores";
}

/// The version of the NVIDIA driver, from its management library; "" without it.
std::string nvidia_driver() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto version =
      reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  char text[80] = "";
  if (init == nullptr || version == nullptr || init() != 0 || version(text, sizeof text) != 0)
    return "";
  return text;
}

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--json FILE] [--quick]\n", program);
  std::exit(2);
}

}  // namespace

Program::Program(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0)
      quick_ = true;
    else if (std::strcmp(arguments[i], "--json") == 0 && i + 1 < count)
      json_ = arguments[++i];
    else
      usage(arguments[0]);
  }
  try {
    if (std::getenv("EMBER_DEVICES") == nullptr && cuda::device_count() == 0) cuda::simulate(2);
    cuda::init();
    simulated_ = cuda::is_simulated();
    devices_ = cuda::device_count();
    table_.note("date", today());
    table_.note("devices", std::to_string(devices_) + " x " + cuda::get_device_name(0));
    if (!simulated_) table_.note("driver", nvidia_driver());
    table_.note("cpu", processor());
    table_.note("ember", EMBER_VERSION_STRING);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", arguments[0], error.what());
    std::exit(1);
  }
}

void Program::measure(const char* what, const std::function<void()>& rows) {
  try {
    rows();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: not measured: %s\n", what, error.what());
    ++failures_;
  }
}

int Program::finish() {
  table_.write_text(std::cout);
  if (!json_.empty()) {
    std::ofstream file(json_);
    table_.write_json(file);
    if (!file.flush()) {
      std::fprintf(stderr, "%s: cannot write it\n", json_.c_str());
      return 1;
    }
  }
  return failures_ == 0 ? 0 : 1;
}

}  // namespace ember::bench
