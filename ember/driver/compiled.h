// Kernels that are compiled while the program runs (ember/jit/): what the core and the CUDA object
// hand to each other of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver {

/// What the arguments of such a kernel begin with. Behind it come, as the kernel was generated, the
/// addresses of its operands, its numbers, sizes and strides.
struct CompiledHeader {
  std::int64_t count = 0;       ///< elements
  std::uint32_t per_block = 1;  ///< on real devices, how many of them a block does
  std::int32_t dims = 0;        ///< zero if the elements of all operands lie in one row
  std::int32_t packed = 0;      ///< whether all addresses are aligned to packs
  std::int32_t operands = 0;    ///< how many addresses come behind this
  std::uint32_t threads = 0;    ///< of a block, on real devices
};
EMBER_ARGUMENTS(CompiledHeader, EMBER_FIELD(count), EMBER_FIELD(per_block), EMBER_FIELD(dims),
                EMBER_FIELD(packed), EMBER_FIELD(operands), EMBER_FIELD(threads))
/// Where these addresses lie in all of the arguments.
inline AddressPlaces compiled_addresses(const CompiledHeader& header) noexcept {
  static constexpr auto kOffsets = [] {
    constexpr std::size_t kWord = sizeof(void*);
    std::array<std::uint16_t, (Params::kCapacity - sizeof(CompiledHeader)) / kWord> made{};
    for (std::size_t k = 0; k < made.size(); ++k)
      made[k] = static_cast<std::uint16_t>(sizeof(CompiledHeader) + k * kWord);
    return made;
  }();
  return {kOffsets.data(), static_cast<std::size_t>(header.operands)};
}
/// Of a block on real devices, where no plan of rows says otherwise (jit::RowPlan).
inline constexpr unsigned kCompiledThreads = 256;
/// The function of a generated kernel, on real devices and on hosts.
inline constexpr const char* kCompiledEntry = "ember_jit_run";

/// The code of a kernel for real devices. It stays until the process ends, and so does what the
/// CUDA object has loaded of it.
struct DeviceCode {
  const char* image = nullptr;  ///< a cubin, or PTX that ends with a zero; null on other machines
  std::size_t bytes = 0;
  void* native = nullptr;  ///< the CUDA object's alone; read and written as an atomic
};
EMBER_ARGUMENTS(DeviceCode, EMBER_FIELD(image), EMBER_FIELD(bytes), EMBER_FIELD(native))

/// The context of a generated kernel.
class CompiledContext : public Context {
 public:
  DeviceCode& device_code() const noexcept { return device_code_; }

 protected:
  mutable DeviceCode device_code_;
};

/// NVRTC as a text that differs when another one, or other options, would be used: its file
/// (base/file_identity.h), which is not loaded. Code::not_supported, naming the library, if there
/// is none.
Status cuda_compiler(std::string& identity) noexcept;
/// Compiles a text by NVRTC, which is opened at the first call, for devices of a capability such as
/// 90. What it makes is a cubin, or PTX where NVRTC does not know the device. If the text does not
/// compile, `log` says why, and the code is Code::invalid_value. Blocks for tenths of a second.
/// Thread-safe. `contract`: products and sums become one where the library's own kernels have that,
/// too.
Status cuda_compile(const std::string& source, int capability, std::string& image, std::string& log,
                    bool contract = false) noexcept;

}  // namespace ember::inline v0::driver
