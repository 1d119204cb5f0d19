// What only some machines offer. A driver returns null for a capability that it lacks, or whose
// library is not installed; the caller reports `not_supported`, naming the library. Each capability
// opens its library at the first use. All calls are thread-safe, do not throw, and enqueue on the
// given stream without waiting unless they say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/status.h"
#include "ember/driver/handles.h"

namespace ember::driver {

/// Element types that libraries are asked to work on.
enum class Element : std::uint8_t { f16, bf16, f32, f64, c64, c128 };

/// Matrix products are rows of work like any other (driver/gemm.h), so that they are named in
/// faults and seen by observers; their CUDA column asks the library. What is left is the library
/// itself.
class BlasLibrary {
 public:
  virtual ~BlasLibrary() = default;
  /// The library's own handle for the calling thread and device, bound to the stream.
  virtual Status native_handle(StreamHandle, void*& out) = 0;
};

/// Fourier transforms by plan. A plan belongs to one device and may be used by one thread at a
/// time.
class FftLibrary {
 public:
  enum class Kind : std::uint8_t { c2c, r2c, c2r };
  struct Plan {
    Kind kind = Kind::c2c;
    Element real = Element::f32;
    std::vector<std::int64_t> sizes, input_strides, output_strides;
    std::int64_t batch = 1;
  };
  virtual ~FftLibrary() = default;
  virtual Status plan(int device, const Plan&, void*& plan, std::size_t& workspace_bytes) = 0;
  virtual Status execute(StreamHandle, void* plan, const void* in, void* out, void* workspace,
                         bool inverse) = 0;
  virtual void destroy(void* plan) noexcept = 0;
};

/// Kernels from source text. Compilation blocks; launching a compiled kernel does not.
class JitCompiler {
 public:
  struct Module {
    virtual ~Module() = default;
    virtual Status launch(StreamHandle, const char* entry, unsigned grid, unsigned block,
                          void** arguments) = 0;
  };
  virtual ~JitCompiler() = default;
  virtual Status compile(int device, const std::string& source,
                         const std::vector<std::string>& entries, std::unique_ptr<Module>& out) = 0;
};

/// Collectives over the devices of one process, one stream and buffer per device.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual Status broadcast(const std::vector<StreamHandle>&, const std::vector<void*>& buffers,
                           std::size_t bytes, int root) = 0;
  virtual Status reduce_add(const std::vector<StreamHandle>&,
                            const std::vector<const void*>& inputs, void* output, std::size_t count,
                            Element, int root) = 0;
};

/// Readings of the hardware. They may block for milliseconds.
class Telemetry {
 public:
  struct Process {
    unsigned pid = 0;
    std::uint64_t bytes = 0;
  };
  virtual ~Telemetry() = default;
  virtual Status utilization(int device, int& busy_percent, int& memory_percent) = 0;
  virtual Status temperature(int device, int& celsius) = 0;
  virtual Status power_draw(int device, int& milliwatts) = 0;
  virtual Status clock_rate(int device, int& megahertz) = 0;
  virtual Status processes(int device, std::vector<Process>& out) = 0;
};

}  // namespace ember::driver
