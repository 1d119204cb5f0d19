#include "ember/jit/source.h"

#include <algorithm>

#include "ember/base/no_destructor.h"
#include "ember/driver/compiled.h"
#include "ember/jit/writer.h"

namespace ember::inline v0::jit {
namespace {

// Files of the library, as texts.
constexpr std::string_view kTypes =
#include "ember/jit/prelude_types_text.inc"
    ;
constexpr std::string_view kHost =
#include "ember/jit/prelude_host_text.inc"
    ;
constexpr std::string_view kHostFunctions =
#include "ember/jit/prelude_host_functions_text.inc"
    ;
constexpr std::string_view kDevice =
#include "ember/jit/prelude_device_text.inc"
    ;
constexpr std::string_view kComplex =
#include "ember/jit/prelude_complex_text.inc"
    ;
constexpr std::string_view kScalarRounded =
#include "ember/jit/scalar_rounded_text.inc"
    ;
constexpr std::string_view kScalarComplex =
#include "ember/jit/scalar_complex_text.inc"
    ;
constexpr std::string_view kScalarHalf =
#include "ember/jit/scalar_half_text.inc"
    ;
constexpr std::string_view kScalarTypes =
#include "ember/jit/scalar_types_text.inc"
    ;
constexpr std::string_view kScalarFloatMath =
#include "ember/jit/scalar_float_math_text.inc"
    ;
constexpr std::string_view kScalarFloatAngles =
#include "ember/jit/scalar_float_angles_text.inc"
    ;
constexpr std::string_view kScalarRealMath =
#include "ember/jit/scalar_real_math_text.inc"
    ;
constexpr std::string_view kScalarComplexMath =
#include "ember/jit/scalar_complex_math_text.inc"
    ;
constexpr std::string_view kScalarMath =
#include "ember/jit/scalar_math_text.inc"
    ;
constexpr std::string_view kScalarElementwise =
#include "ember/jit/scalar_elementwise_text.inc"
    ;
constexpr std::string_view kOperations =
#include "ember/jit/operations_text.inc"
    ;
constexpr std::string_view kFunctors =
#include "ember/jit/functors_text.inc"
    ;
constexpr std::string_view kFused =
#include "ember/jit/prelude_fused_text.inc"
    ;
constexpr std::string_view kRows =
#include "ember/jit/prelude_rows_text.inc"
    ;

/// Files one behind the other. They include each other in that order, so that is left out, as are
/// comments of whole lines.
std::string joined(std::initializer_list<std::string_view> files) {
  std::string text;
  for (std::string_view file : files)
    while (!file.empty()) {
      const std::size_t end = std::min(file.find('\n'), file.size() - 1) + 1;
      const std::string_view line = file.substr(0, end);
      file.remove_prefix(end);
      const std::string_view said = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      if (!said.starts_with("//") && !said.starts_with("#include") &&
          !said.starts_with("#pragma once"))
        text += line;
    }
  return text;
}

/// `text` with a part of it, which it has, replaced.
std::string replaced(std::string_view text, std::string_view part, std::string_view by) {
  std::string made(text);
  return made.replace(made.find(part), part.size(), by);
}

// NVRTC keeps each static member of a class that is no template as a variable in the device's
// memory, with a relocation for each text that it names: more to load than a kernel's code. So
// names of types are left out, and what is known of an operation is a member of a template, which
// is there if it is used.

std::string types() {
  return replaced(kScalarTypes, "static constexpr const char* text = name;", "");
}

std::string elementwise_macros(std::string_view text) {
  constexpr std::string_view kInfo =
      "static constexpr OpInfo info{#name_, operands, dtypes::dtypes_, Result::result_, ulp_, "
      "doc_};";
  constexpr std::string_view kLazy =
      "template <int operands, Result result>\n"
      "struct OpInfoOf {\n"
      "  static constexpr OpInfo info{nullptr, operands, {}, result, 0, nullptr};\n"
      "};\n"
      "namespace elementwise {";
  return replaced(replaced(replaced(text, "namespace elementwise {", kLazy), kInfo, ""),
                  "struct name_ {", "struct name_ : OpInfoOf<operands, Result::result_> {");
}

std::string scalar_on_hosts() {
  return joined({kTypes, kHost, kScalarRounded, kScalarComplex, kScalarHalf, types(),
                 kScalarFloatMath, kScalarFloatAngles, kScalarRealMath, kScalarComplexMath});
}
/// The functions are CUDA's own, by the same names.
std::string scalar_on_devices() {
  return joined({kTypes, kDevice, kScalarRounded, kScalarComplex, kScalarHalf, types(),
                 kScalarRealMath, kScalarComplexMath});
}

const std::string& host_prelude() {
  static NoDestructor<std::string> text(scalar_on_hosts() + joined({kHostFunctions, kComplex}));
  return *text;
}
const std::string& device_prelude() {
  static NoDestructor<std::string> text("#define EMBER_FUSES_NOTHING\n" + scalar_on_devices() +
                                        joined({kComplex}));
  return *text;
}

/// The list of operations stands where elementwise.h includes it.
const std::string& operations() {
  constexpr std::string_view kInclude = "#include \"ember/scalar/elementwise.inc\"\n";
  static NoDestructor<std::string> text([&] {
    const std::size_t at = kScalarElementwise.find(kInclude);
    return joined({kScalarMath, elementwise_macros(kScalarElementwise.substr(0, at)), kOperations,
                   kScalarElementwise.substr(at + kInclude.size()), kFunctors, kFused});
  }());
  return *text;
}
const std::string& fused_host_prelude() {
  static NoDestructor<std::string> text(scalar_on_hosts() + operations());
  return *text;
}
const std::string& fused_device_prelude() {
  static NoDestructor<std::string> text("#define EMBER_ROUNDS_BETWEEN_STEPS\n" +
                                        scalar_on_devices() + operations());
  return *text;
}
const std::string& rows_host_prelude() {
  static NoDestructor<std::string> text(fused_host_prelude() + joined({kRows}));
  return *text;
}
const std::string& rows_device_prelude() {
  static NoDestructor<std::string> text(fused_device_prelude() + joined({kRows}));
  return *text;
}

/// Of all these files, and of this one.
constexpr std::string_view kTextsDigest =
#include "ember/jit/texts_digest.inc"
    ;

std::string line(const char* file) { return std::string("\n#line 1 \"") + file + "\"\n"; }

}  // namespace

ArgumentPlaces::ArgumentPlaces(const Instance& instance) noexcept {
  const auto up = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  data = sizeof(driver::CompiledHeader);
  numbers = up(data + instance.operands() * sizeof(void*));
  length = numbers + instance.numbers.size() * kNumberBytes;
  sizes = length + (instance.rows.used ? 16 : 0);
  const std::size_t item = instance.layout == Layout::flat     ? 0
                           : instance.layout == Layout::narrow ? sizeof(std::int32_t)
                                                               : sizeof(std::int64_t);
  strides = sizes + ops::kLoopDims * item;
  end = up(strides + instance.operands() * ops::kLoopDims * item);
}

std::size_t pack_of(const Instance& instance) noexcept {
  // More operands would not fit into registers.
  if (instance.layout != Layout::flat || instance.operands() > 8) return 1;
  std::size_t widest = 1;
  for (std::size_t k = 0; k < instance.outputs; ++k)
    widest = std::max(widest, item_size(instance.output(k)));
  for (const Dtype input : instance.inputs) widest = std::max(widest, item_size(input));
  return std::min<std::size_t>(16 / widest, 8);
}

std::string Source::identity() const {
  const char* const kind = prelude == &host_prelude           ? "host"
                           : prelude == &device_prelude       ? "device"
                           : prelude == &fused_host_prelude   ? "fused host"
                           : prelude == &fused_device_prelude ? "fused device"
                           : prelude == &rows_host_prelude    ? "rows host"
                                                              : "rows device";
  return std::string(kTextsDigest) + kind + '\0' + rest;
}

Source host_source(std::string_view code, const Signature& signature, const Instance& instance) {
  const Writer writer(signature, instance);
  if (instance.rows.used)
    return {&rows_host_prelude, line("ember") + writer.row(code) + writer.host_row_entry()};
  if (instance.fused)
    return {&fused_host_prelude, line("ember") + writer.element(code) + writer.host_entry()};
  std::string text = "namespace ember_user {" + line(kUserFile);
  // What calls itself in a way that parse_signature does not see cannot be inlined, which g++
  // refuses.
  std::size_t from = 0;
  for (const std::size_t at : signature.functions) {
    text += code.substr(from, at - from);
    text += "__attribute__((always_inline)) ";
    from = at;
  }
  text += code.substr(from);
  return {&host_prelude, text + "\n}" + line("ember") + writer.element() + writer.host_entry()};
}

Source device_source(std::string_view code, const Signature& signature, const Instance& instance) {
  const Writer writer(signature, instance);
  if (instance.rows.used)
    return {&rows_device_prelude, line("ember") + writer.row(code) + writer.device_row_entry()};
  if (instance.fused)
    return {&fused_device_prelude, line("ember") + writer.element(code) + writer.device_entry()};
  std::string text = "namespace ember_user {" + line(kUserFile);
  text += code;
  return {&device_prelude, text + "\n}" + line("ember") + writer.element() + writer.device_entry()};
}

}  // namespace ember::inline v0::jit
