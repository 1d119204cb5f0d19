#include "ember/jit/source.h"

#include <algorithm>

#include "ember/base/no_destructor.h"
#include "ember/driver/compiled.h"

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

const std::string& host_prelude() {
  static NoDestructor<std::string> text(
      joined({kTypes, kHost, kScalarComplex, kScalarHalf, kScalarTypes, kScalarFloatMath,
              kScalarFloatAngles, kScalarRealMath, kScalarComplexMath, kHostFunctions, kComplex}));
  return *text;
}
const std::string& device_prelude() {
  // The functions are CUDA's own, by the same names.
  static NoDestructor<std::string> text(
      joined({kTypes, kDevice, kScalarComplex, kScalarHalf, kScalarTypes, kScalarRealMath,
              kScalarComplexMath, kComplex}));
  return *text;
}

const char* element_type(Dtype dtype) {
  switch (dtype) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator: return #type;
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  __builtin_unreachable();
}

const char* number_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_: return "bool";
    case Dtype::int64: return "long long";
    case Dtype::float64: return "double";
    default: return "::std::complex<double>";
  }
}

std::string numbered(const char* name, std::size_t k) { return name + std::to_string(k); }

/// `item(0)`, `item(1)`... with commas between them.
template <class Item>
std::string list(std::size_t count, const Item& item) {
  std::string text;
  for (std::size_t k = 0; k < count; ++k) text += (k == 0 ? "" : ", ") + item(k);
  return text;
}

/// Writes what a kernel has besides its prelude and the user's text.
class Writer {
 public:
  Writer(const Signature& signature, const Instance& instance)
      : signature_(signature),
        instance_(instance),
        places_(instance),
        dims_(std::to_string(ops::kLoopDims)) {}

  /// The types, the arguments, and a function that computes one element of everything.
  std::string element() const {
    const std::size_t inputs = instance_.inputs.size();
    std::string text = "namespace ember_jit {\nusing D = " + output_type() + ";\n";
    for (std::size_t k = 0; k < inputs; ++k)
      text += "using I" + std::to_string(k) + " = " + element_type(instance_.inputs[k]) + ";\n";
    text +=
        "struct alignas(16) Args {\n  long long count;\n  unsigned per_block;\n  int dims;\n"
        "  int packed;\n  int unused;\n  void* data[" +
        std::to_string(instance_.operands()) + "];\n";
    if (!instance_.numbers.empty())
      text += "  struct alignas(16) Number { unsigned char bytes[16]; } numbers[" +
              std::to_string(instance_.numbers.size()) + "];\n";
    if (!flat())
      text += std::string("  alignas(16) ") + index() + " size[" + dims_ + "];\n  " + index() +
              " stride[" + std::to_string(instance_.operands()) + "][" + dims_ + "];\n";
    text += "};\nstatic_assert(sizeof(Args) == " + std::to_string(places_.end) + ");\n";
    text += "EMBER_HD void element(" + parameters("D* ", "const I") + ") {\n";
    std::string given =
        list(inputs, [](std::size_t k) { return "load<D>(*i" + std::to_string(k) + ")"; });
    for (std::size_t k = 0; k < instance_.numbers.size(); ++k)
      given += (given.empty() ? "" : ", ") + numbered("n", k);
    const std::string entry = "::ember_user::" + signature_.name + "<Computed<D>>(";
    if (instance_.by_reference) {
      for (std::size_t k = 0; k < instance_.outputs; ++k)
        text += "  Computed<D> r" + std::to_string(k) + "{};\n";
      text += "  " + entry + given + ", " +
              list(instance_.outputs, [](std::size_t k) { return numbered("r", k); }) + ");\n";
    } else {
      text += "  const Computed<D> r0 = " + entry + given + ");\n";
    }
    for (std::size_t k = 0; k < instance_.outputs; ++k)
      text += "  *" + numbered("o", k) + " = store<D>(" + numbered("r", k) + ");\n";
    return text + "}\n}  // namespace ember_jit\n";
  }

  std::string host_entry() const {
    std::string text =
        "using namespace ember_jit;\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) void " +
        std::string(driver::kCompiledEntry) +
        "(const void* args, void* const* data, long long first, long long last) {\n"
        "  const Args& a = *static_cast<const Args*>(args);\n" +
        pointers("data", "__restrict__ ") + numbers();
    if (flat())
      return text + "  EMBER_EACH_BY_ITSELF\n  for (long long i = first; i < last; ++i) element(" +
             arguments([](const std::string& name, std::size_t) { return name + " + i"; }) +
             ");\n}\n";
    // Row by row of the fastest dimension.
    text += "  long long at[" + dims_ +
            "] = {};\n"
            "  long long rest = first;\n"
            "  for (int d = 0; d < a.dims; ++d) at[d] = rest % a.size[d], rest /= a.size[d];\n"
            "  for (long long i = first; i < last;) {\n"
            "    long long row = a.size[0] - at[0];\n"
            "    if (row > last - i) row = last - i;\n";
    for (std::size_t k = 0; k < instance_.operands(); ++k) {
      const std::string n = std::to_string(k);
      text += "    long long p" + n + " = 0;\n    for (int d = 0; d < a.dims; ++d) p" + n +
              " += at[d] * a.stride[" + n + "][d];\n    const long long s" + n + " = a.stride[" +
              n + "][0];\n";
    }
    text += "    EMBER_EACH_BY_ITSELF\n    for (long long j = 0; j < row; ++j) element(" +
            arguments([](const std::string& name, std::size_t k) {
              return name + " + (p" + std::to_string(k) + " + j * s" + std::to_string(k) + ")";
            }) +
            ");\n"
            "    i += row;\n"
            "    at[0] += row;\n"
            "    for (int d = 0; d + 1 < a.dims && at[d] == a.size[d]; ++d) at[d] = 0, ++at[d + "
            "1];\n"
            "  }\n}\n";
    return text;
  }

  std::string device_entry() const {
    const std::string pack = std::to_string(pack_of(instance_));
    std::string text =
        "using namespace ember_jit;\n"
        "template <class T> struct alignas(sizeof(T) * " +
        pack + ") Pack { T value[" + pack +
        "]; };\n"
        "extern \"C\" __global__ void __launch_bounds__(" +
        std::to_string(driver::kCompiledThreads) + ") " + driver::kCompiledEntry +
        "(const __grid_constant__ Args a) {\n" + pointers("a.data", "__restrict__ ") + numbers() +
        "  const long long begin = static_cast<long long>(blockIdx.x) * a.per_block;\n";
    return text + (flat() ? flat_device(pack) : strided_device()) + "}\n";
  }

 private:
  bool flat() const { return instance_.layout == Layout::flat; }
  const char* index() const { return instance_.layout == Layout::wide ? "long long" : "int"; }
  std::string output_type() const { return element_type(instance_.dtype); }

  /// The parameters of element(): outputs, inputs, numbers.
  std::string parameters(const char* output, const char* input) const {
    std::string text = list(instance_.outputs, [&](std::size_t k) {
      return std::string(output) + "__restrict__ " + numbered("o", k);
    });
    for (std::size_t k = 0; k < instance_.inputs.size(); ++k)
      text += ", " + std::string(input) + std::to_string(k) + "* " + numbered("i", k);
    for (std::size_t k = 0; k < instance_.numbers.size(); ++k)
      text += std::string(", const ") + number_type(instance_.numbers[k]) + "& " + numbered("n", k);
    return text;
  }
  /// A call's arguments; `place(name, operand)` says where an element lies.
  template <class Place>
  std::string arguments(const Place& place) const {
    std::string text =
        list(instance_.outputs, [&](std::size_t k) { return place(numbered("o", k), k); });
    for (std::size_t k = 0; k < instance_.inputs.size(); ++k)
      text += ", " + place(numbered("i", k), instance_.outputs + k);
    for (std::size_t k = 0; k < instance_.numbers.size(); ++k) text += ", " + numbered("n", k);
    return text;
  }
  std::string pointers(const std::string& from, const std::string& restricted) const {
    std::string text;
    for (std::size_t k = 0; k < instance_.outputs; ++k)
      text += "  D* " + restricted + numbered("o", k) + " = static_cast<D*>(" + from + "[" +
              std::to_string(k) + "]);\n";
    for (std::size_t k = 0; k < instance_.inputs.size(); ++k) {
      const std::string type = numbered("I", k);
      text += "  const " + type + "* " + restricted + numbered("i", k) + " = static_cast<const " +
              type + "*>(" + from + "[" + std::to_string(instance_.outputs + k) + "]);\n";
    }
    return text;
  }
  std::string numbers() const {
    std::string text;
    for (std::size_t k = 0; k < instance_.numbers.size(); ++k) {
      const std::string type = number_type(instance_.numbers[k]);
      text += "  const " + type + " " + numbered("n", k) + " = number<" + type + ">(a.numbers[" +
              std::to_string(k) + "].bytes);\n";
    }
    return text;
  }

  std::string flat_device(const std::string& pack) const {
    std::string text = "  if (a.packed) {\n    const long long i = begin + threadIdx.x * " + pack +
                       ";\n    if (i + " + pack + " <= a.count) {\n";
    // All loads first, so that they are in flight together.
    for (std::size_t k = 0; k < instance_.inputs.size(); ++k)
      text += "      const Pack<I" + std::to_string(k) + "> pi" + std::to_string(k) +
              " = *reinterpret_cast<const Pack<I" + std::to_string(k) + ">*>(i" +
              std::to_string(k) + " + i);\n";
    for (std::size_t k = 0; k < instance_.outputs; ++k)
      text += "      Pack<D> po" + std::to_string(k) + ";\n";
    text +=
        "#pragma unroll\n      for (int j = 0; j < " + pack + "; ++j) element(" +
        arguments([](const std::string& name, std::size_t) { return "&p" + name + ".value[j]"; }) +
        ");\n";
    for (std::size_t k = 0; k < instance_.outputs; ++k)
      text += "      *reinterpret_cast<Pack<D>*>(o" + std::to_string(k) + " + i) = po" +
              std::to_string(k) + ";\n";
    const std::string one =
        arguments([](const std::string& name, std::size_t) { return name + " + e"; });
    text += "    } else {\n      for (long long e = i; e < a.count; ++e) element(" + one +
            ");\n    }\n    return;\n  }\n"
            "  for (int j = 0; j < " +
            pack +
            "; ++j) {\n"
            "    const long long e = begin + j * " +
            std::to_string(driver::kCompiledThreads) +
            " + threadIdx.x;\n    if (e < a.count) element(" + one + ");\n  }\n";
    return text;
  }

  std::string strided_device() const {
    const std::string number = instance_.layout == Layout::wide ? "unsigned long long" : "unsigned";
    std::string text =
        "  const long long e = begin + threadIdx.x;\n  if (e >= a.count) return;\n  " + number +
        " rest = static_cast<" + number + ">(e);\n";
    for (std::size_t k = 0; k < instance_.operands(); ++k)
      text += "  long long p" + std::to_string(k) + " = 0;\n";
    text += "#pragma unroll\n  for (int d = 0; d < " + dims_ +
            "; ++d) {\n    if (d >= a.dims) break;\n    const " + number + " size = static_cast<" +
            number + ">(a.size[d]);\n    const " + number +
            " left = rest / size;\n"
            "    const long long at = static_cast<long long>(rest - left * size);\n"
            "    rest = left;\n";
    for (std::size_t k = 0; k < instance_.operands(); ++k)
      text += "    p" + std::to_string(k) + " += at * a.stride[" + std::to_string(k) + "][d];\n";
    return text + "  }\n  element(" + arguments([](const std::string& name, std::size_t k) {
             return name + " + p" + std::to_string(k);
           }) +
           ");\n";
  }

  const Signature& signature_;
  const Instance& instance_;
  ArgumentPlaces places_;
  std::string dims_;
};

std::string line(const char* file) { return std::string("\n#line 1 \"") + file + "\"\n"; }

}  // namespace

ArgumentPlaces::ArgumentPlaces(const Instance& instance) noexcept {
  const auto up = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  data = sizeof(driver::CompiledHeader);
  numbers = up(data + instance.operands() * sizeof(void*));
  sizes = numbers + instance.numbers.size() * kNumberBytes;
  const std::size_t item = instance.layout == Layout::flat     ? 0
                           : instance.layout == Layout::narrow ? sizeof(std::int32_t)
                                                               : sizeof(std::int64_t);
  strides = sizes + ops::kLoopDims * item;
  end = up(strides + instance.operands() * ops::kLoopDims * item);
}

std::size_t pack_of(const Instance& instance) noexcept {
  // More operands would not fit into registers.
  if (instance.layout != Layout::flat || instance.operands() > 8) return 1;
  std::size_t widest = item_size(instance.dtype);
  for (const Dtype input : instance.inputs) widest = std::max(widest, item_size(input));
  return std::min<std::size_t>(16 / widest, 8);
}

std::string host_source(std::string_view code, const Signature& signature,
                        const Instance& instance) {
  std::string text = host_prelude() + "namespace ember_user {" + line(kUserFile);
  // Functions that call themselves cannot be inlined, which is an error then: they would run until
  // the stack of a worker, and with it the process, ends.
  std::size_t from = 0;
  for (const std::size_t at : signature.functions) {
    text += code.substr(from, at - from);
    text += "__attribute__((always_inline)) ";
    from = at;
  }
  text += code.substr(from);
  const Writer writer(signature, instance);
  return text + "\n}" + line("ember") + writer.element() + writer.host_entry();
}

std::string device_source(std::string_view code, const Signature& signature,
                          const Instance& instance) {
  std::string text = device_prelude() + "namespace ember_user {" + line(kUserFile);
  text += code;
  const Writer writer(signature, instance);
  return text + "\n}" + line("ember") + writer.element() + writer.device_entry();
}

}  // namespace ember::inline v0::jit
