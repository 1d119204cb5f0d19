#include "ember/linalg/precision.h"

#include <atomic>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/driver/gemm.h"
#include "ember/linalg/product.h"

namespace ember::inline v0 {
namespace {

/// The one setting of float32, by the most that any of its names tells apart.
enum class Float32 : std::uint8_t { none, ieee, high, medium };

constinit std::atomic<Float32> of_float32{Float32::none};
constinit std::atomic<bool> exact_half{false};
constinit std::atomic<bool> exact_bfloat{false};
constinit std::atomic<bool> half_sums{false};

bool rounds(Float32 setting) noexcept {
  return setting == Float32::high || setting == Float32::medium;
}

}  // namespace

void set_float32_matmul_precision(const std::string& precision) {
  if (precision == "highest")
    of_float32 = Float32::ieee;
  else if (precision == "high")
    of_float32 = Float32::high;
  else if (precision == "medium")
    of_float32 = Float32::medium;
  else
    warn(Warning::user, precision +
                            " is not one of 'highest', 'high', or 'medium'; the current "
                            "setFloat32MatmulPrecision call has no effect.");
}

std::string get_float32_matmul_precision() {
  switch (of_float32.load()) {
    case Float32::none:
    case Float32::ieee: return "highest";
    case Float32::high: return "high";
    case Float32::medium: return "medium";
  }
  return "highest";
}

namespace backends::cuda::matmul {

bool allow_tf32() noexcept { return rounds(of_float32); }
void set_allow_tf32(bool allow) noexcept { of_float32 = allow ? Float32::high : Float32::ieee; }

std::string fp32_precision() {
  const Float32 setting = of_float32;
  if (rounds(setting)) return "tf32";
  return setting == Float32::ieee ? "ieee" : "none";
}

void set_fp32_precision(const std::string& precision) {
  if (precision == "none")
    of_float32 = Float32::none;
  else if (precision == "ieee")
    of_float32 = Float32::ieee;
  else if (precision == "tf32")
    of_float32 = Float32::high;
  else
    throw Error("Unknown precision: " + precision);
}

bool allow_fp16_reduced_precision_reduction() noexcept { return !exact_half; }
void set_allow_fp16_reduced_precision_reduction(bool allow) noexcept { exact_half = !allow; }
bool allow_bf16_reduced_precision_reduction() noexcept { return !exact_bfloat; }
void set_allow_bf16_reduced_precision_reduction(bool allow) noexcept { exact_bfloat = !allow; }

bool allow_fp16_accumulation() noexcept { return half_sums; }
void set_allow_fp16_accumulation(bool allow) noexcept { half_sums = allow; }

}  // namespace backends::cuda::matmul

std::uint8_t linalg::precision_bits() noexcept {
  unsigned math = 0;
  if (rounds(of_float32.load(std::memory_order_relaxed))) math |= driver::kTensorFloat32;
  if (exact_half.load(std::memory_order_relaxed)) math |= driver::kExactHalfSums;
  if (exact_bfloat.load(std::memory_order_relaxed)) math |= driver::kExactBFloatSums;
  if (half_sums.load(std::memory_order_relaxed)) math |= driver::kHalfSums;
  return static_cast<std::uint8_t>(math);
}

}  // namespace ember::inline v0
