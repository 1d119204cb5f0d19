// Element-wise kernels from a text of CUDA C++, compiled while the program runs, as torch's
// jiterator has them (chapter 19 of the behaviour reference):
//
//   const auto f = cuda::jiterator::create_jit_fn(
//       "template <typename T> T my_kernel(T x, T y, T alpha) { return -x + alpha * y; }",
//       {{"alpha", 1.0}});
//   Tensor z = f({x, y}, {{"alpha", 2.0}})[0];
//
// The same text runs on real devices (NVRTC compiles it), on simulated ones and on the CPU (there
// the machine's C++ compiler does). docs/jiterator.md has what the text may contain.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda::jiterator {

/// The text is no template function (Python: Exception): `Couldn't parse code, please check
/// correctness:` and the text.
class EMBER_API CodeError : public Error {
 public:
  using Error::Error;
};

/// A keyword that the function was not created with (Python: KeyError).
class EMBER_API KeywordError : public Error {
 public:
  using Error::Error;
};

/// A number that the kernel gets besides tensors. Its kind (bool, integer of 64 bits, double,
/// complex of two doubles) is that of the number; it converts to the parameter's type.
struct Keyword {
  std::string name;
  Scalar value;
};
using Keywords = std::vector<Keyword>;

struct JitOptions {
  /// Whether the entry returns void, and has the outputs as its last parameters, by reference.
  bool return_by_reference = false;
  int num_outputs = 1;
  /// torch's limits: 8 inputs, and CUDA tensors only.
  bool strict = false;
};

struct Definition;

/// A function made from a text. Copies are the same function. Thread-safe.
class EMBER_API JitFunction {
 public:
  /// `defaults`: in this order the kernel's parameters behind the tensors. CodeError for a text
  /// that is no template function; AssertionError `Return by value only works for single output. `;
  /// ValueError for fewer outputs than one, and for a keyword that comes twice. Compiles nothing,
  /// and does not block.
  JitFunction(std::string code, Keywords defaults, const JitOptions& options = {});
  // Moving copies: there is no function that is none.
  JitFunction(const JitFunction&) noexcept = default;
  JitFunction& operator=(const JitFunction&) noexcept = default;
  ~JitFunction() = default;

  /// The outputs: new tensors with the broadcast shape and the promoted dtype of the inputs, which
  /// all lie on one device, and are computed on the current stream there. Inputs of 16-bit floats
  /// are computed with as float. Nothing runs, nor is compiled, if there are no elements.
  ///
  /// The first call for dtypes, a kind of layout and a kind of device compiles, unless an earlier
  /// process has; it blocks while the compiler runs. Later ones do not block.
  ///
  /// KeywordError `<name> is not declared in function definition`; Error if the inputs are on
  /// several devices or do not broadcast, if the entry has another number of parameters, if a
  /// function of the text calls itself, if its arguments take more than 4 KiB, if there is no
  /// compiler, and with what that said of the text; NotImplementedError for complex32, uint16,
  /// uint32 and uint64. With `strict` AssertionError without devices (`Jiterator is only supported
  /// on CUDA and ROCm GPUs, none are available.`), and for more than 8 inputs (`jiterator only
  /// supports up to 8 tensor inputs.`).
  std::vector<Tensor> operator()(std::span<const Tensor> inputs,
                                 const Keywords& keywords = {}) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs,
                                 const Keywords& keywords = {}) const {
    return (*this)(std::span(inputs.begin(), inputs.size()), keywords);
  }

  /// The entry's name, by which errors, observers and timelines know its launches.
  const std::string& name() const noexcept;
  const std::string& code() const noexcept;
  int num_outputs() const noexcept;

 private:
  std::shared_ptr<Definition> definition_;
};

/// A function whose entry returns its output.
EMBER_API JitFunction create_jit_fn(std::string code, Keywords defaults = {}, bool strict = false);
/// A function whose entry returns void and takes its outputs by reference, as its last parameters.
EMBER_API JitFunction create_multi_output_jit_fn(std::string code, int num_outputs,
                                                 Keywords defaults = {}, bool strict = false);

}  // namespace ember::inline v0::cuda::jiterator
