// The source of a kernel: what every kernel begins with, the user's text, and the loop around its
// entry. One form for the machine's compiler, and one for NVRTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ember/base/short_vector.h"
#include "ember/jit/signature.h"
#include "ember/ops/loop.h"
#include "ember/tensor/dtype.h"

namespace ember::inline v0::jit {

/// How the operands of a launch lie.
enum class Layout : std::uint8_t {
  flat,    ///< the elements of all of them in one row
  narrow,  ///< in up to ops::kLoopDims dimensions, with offsets of 31 bits
  wide,    ///< the same with offsets of 63 bits
};

/// The types of some operands.
using Types = ShortVector<Dtype, 16>;

/// The longest row of which hosts keep values from sweep to sweep.
inline constexpr int kMostKeptByHosts = 4096;

/// How a kernel with reductions walks along rows of elements, of which each is reduced to one.
struct RowPlan {
  bool used = false;        ///< whether it is such a kernel
  bool whole = false;       ///< what a row's elements are needed for again is kept until it is done
  std::uint8_t pack = 1;    ///< elements that a thread loads at once,
  std::uint8_t packs = 1;   ///< and how many such packs it has at a time
  bool full = false;        ///< rows have no part that is shorter than `packs` packs for each lane
  std::uint8_t blocks = 1;  ///< that a multiprocessor should have room for
  /// Threads that share a row: a power of two up to 32, or a whole block. On hosts, accumulators.
  std::uint16_t lanes = 1;
  std::uint16_t threads = 1;  ///< of a block
  std::uint64_t once = 0;     ///< operands with one element for each row, as bits

  bool is_once(std::size_t operand) const noexcept { return (once >> operand & 1) != 0; }
  bool operator==(const RowPlan&) const = default;
};

/// What a kernel is compiled for: one for each of these. Small ones need no heap: every call makes
/// one.
struct Instance {
  Dtype dtype = Dtype::float32;  ///< of the outputs, and what is computed in
  Layout layout = Layout::flat;
  bool by_reference = false;  ///< outputs are the entry's last parameters, else it returns one
  std::size_t outputs = 1;
  Types inputs;   ///< as stored
  Types numbers;  ///< bool_, int64, float64 or complex128; any of a fused function
  /// A fused function (ember/fuse/): the code is no user's, but statements that compute the outputs
  /// *o0, ... from the inputs *i0, ... and the numbers n0, ... by the library's own operations.
  bool fused = false;
  Types stored;  ///< of its outputs, which need not have one dtype
  /// Of a fused function with reductions: the elements of each row lie one behind the other, and
  /// `layout`, which is not flat, is that of the rows.
  RowPlan rows;

  Dtype output(std::size_t k) const noexcept { return stored.empty() ? dtype : stored[k]; }
  std::size_t operands() const noexcept { return outputs + inputs.size(); }
  bool operator==(const Instance&) const = default;
};

/// Where what lies in the arguments of a kernel: behind a driver::CompiledHeader the addresses, of
/// outputs first, 16 bytes for each number, the length of rows and what their
/// means are of where there are rows, and, unless it is flat, sizes and strides.
struct ArgumentPlaces {
  static constexpr std::size_t kNumberBytes = 16;
  std::size_t data = 0, numbers = 0, length = 0, sizes = 0, strides = 0, end = 0;

  explicit ArgumentPlaces(const Instance& instance) noexcept;
};

/// How many elements a thread of a real device does, side by side.
std::size_t pack_of(const Instance& instance) noexcept;

/// The file that compilers name in what they say of the user's text.
inline constexpr const char* kUserFile = "code_string";

/// A text in two parts, of which the first is long, the same for many, and needed by compilers
/// only.
struct Source {
  const std::string& (*prelude)();
  std::string rest;

  std::string text() const { return prelude() + rest; }
  /// Whether it computes with no complex numbers.
  bool is_real() const { return rest.find("Complex") == std::string::npos; }
  /// Tells the text from all others, as shortly as that can be done.
  std::string identity() const;
};

/// What is compiled. `code` has the signature, and no NUL.
Source host_source(std::string_view code, const Signature& signature, const Instance& instance);
Source device_source(std::string_view code, const Signature& signature, const Instance& instance);

}  // namespace ember::inline v0::jit
