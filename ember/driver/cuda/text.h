// How details name things.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace ember::inline v0::driver::cuda {

inline std::string device_text(int device) { return "cuda:" + std::to_string(device); }

inline std::string address_text(const void* address) {
  char text[2 + 2 * sizeof(void*) + 1];
  std::snprintf(text, sizeof(text), "0x%zx", reinterpret_cast<std::size_t>(address));
  return text;
}

inline std::string bytes_text(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

inline std::string stream_text(const void* stream) {
  return stream == nullptr ? "the default stream" : "stream " + address_text(stream);
}

}  // namespace ember::inline v0::driver::cuda
