#include "ember/jit/writer.h"

#include <string_view>

#include "ember/driver/compiled.h"
#include "ember/jit/texts.h"

namespace ember::inline v0::jit {
namespace {

const char* number_type(const Instance& instance, std::size_t k) {
  const Dtype dtype = instance.numbers[k];
  if (instance.fused) return type_name(dtype);
  switch (dtype) {
    case Dtype::bool_: return "bool";
    case Dtype::int64: return "long long";
    case Dtype::float64: return "double";
    default: return "::std::complex<double>";
  }
}

}  // namespace

const char* type_name(Dtype dtype) noexcept {
  switch (dtype) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator: return #type;
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  __builtin_unreachable();
}

Writer::Writer(const Signature& signature, const Instance& instance)
    : signature_(signature),
      instance_(instance),
      places_(instance),
      operands_(std::to_string(instance.operands())),
      dims_(std::to_string(ops::kLoopDims)),
      threads_(std::to_string(driver::kCompiledThreads)),
      pack_(std::to_string(pack_of(instance))) {}

// ---- What all operands have

std::string Writer::types_and_arguments() const {
  std::string text = filled("namespace ember_jit {\nusing D = $0;\n", {type_name(instance_.dtype)});
  for (std::size_t k = 0; k < instance_.outputs; ++k)
    text += filled("using O$0 = $1;\n", {std::to_string(k), type_name(instance_.output(k))});
  for (std::size_t k = 0; k < instance_.inputs.size(); ++k)
    text += filled("using I$0 = $1;\n", {std::to_string(k), type_name(instance_.inputs[k])});
  // As driver::CompiledHeader and ArgumentPlaces have it.
  text += filled(
      "struct alignas(16) Args {\n  long long count;\n  unsigned per_block;\n  int dims;\n"
      "  int packed;\n  int operands;\n  unsigned threads;\n  void* data[$0];\n",
      {operands_});
  if (!instance_.numbers.empty())
    text += filled("  struct alignas(16) Number { unsigned char bytes[16]; } numbers[$0];\n",
                   {std::to_string(instance_.numbers.size())});
  if (instance_.rows.used) text += "  alignas(16) long long length;\n  long long of;\n";
  if (!flat())
    text +=
        filled("  alignas(16) $0 size[$1];\n  $0 stride[$2][$1];\n", {index(), dims_, operands_});
  return text + filled("};\nstatic_assert(sizeof(Args) == $0);\n", {std::to_string(places_.end)});
}

std::string Writer::element(std::string_view statements) const {
  std::string text = types_and_arguments();
  text += filled("EMBER_HD void element($0) {\n", {parameters()});
  if (instance_.fused) {
    text += statements;
    return text + "}\n}  // namespace ember_jit\n";
  }
  const std::string given =
      joined(list(instance_.inputs.size(), "load<D>(*i$0)"), list(instance_.numbers.size(), "n$0"));
  if (instance_.by_reference)
    text += filled("$0  ::ember_user::$1<Computed<D>>($2);\n",
                   {repeated(instance_.outputs, "  Computed<D> r$0{};\n"), signature_.name,
                    joined(given, list(instance_.outputs, "r$0"))});
  else
    text += filled("  const Computed<D> r0 = ::ember_user::$0<Computed<D>>($1);\n",
                   {signature_.name, given});
  text += repeated(instance_.outputs, "  *o$0 = store<D>(r$0);\n");
  return text + "}\n}  // namespace ember_jit\n";
}

/// The parameters of element(): outputs, inputs, numbers.
std::string Writer::parameters() const {
  std::string text =
      joined(list(instance_.outputs, instance_.fused ? "O$0* o$0" : "O$0* __restrict__ o$0"),
             list(instance_.inputs.size(), "const I$0* i$0"));
  for (std::size_t k = 0; k < instance_.numbers.size(); ++k)
    text += filled(", const $0& n$1", {number_type(instance_, k), std::to_string(k)});
  return text;
}

/// A call's arguments; `place(name, operand)` says where an element lies.
template <class Place>
std::string Writer::arguments(const Place& place) const {
  std::string text;
  for (std::size_t k = 0; k < instance_.operands(); ++k) {
    const bool writes = k < instance_.outputs;
    std::string name = writes ? "o" : "i";
    name += std::to_string(writes ? k : k - instance_.outputs);
    if (k > 0) text += ", ";
    text += place(name, std::to_string(k));
  }
  return joined(std::move(text), list(instance_.numbers.size(), "n$0"));
}

/// Where the operands begin, as variables.
std::string Writer::pointers(const char* from) const {
  // A fused function may write what it has read.
  const char* const alone = instance_.fused ? "" : "__restrict__";
  std::string text;
  for (std::size_t k = 0; k < instance_.outputs; ++k)
    text +=
        filled("  O$0* $2 o$0 = static_cast<O$0*>($1[$0]);\n", {std::to_string(k), from, alone});
  for (std::size_t k = 0; k < instance_.inputs.size(); ++k)
    text += filled("  const I$0* $3 i$0 = static_cast<const I$0*>($1[$2]);\n",
                   {std::to_string(k), from, std::to_string(instance_.outputs + k), alone});
  return text;
}

std::string Writer::numbers() const {
  // A device would load a number again for each use and element, since it finds it among the call's
  // arguments. Where it does not know where a number came from, it keeps it in a register, which
  // saves 20 of 649 instructions for the price of an option by Black and Scholes, with nine
  // numbers. More than these registers, and fewer threads would fit onto a multiprocessor.
  std::size_t left = 64;
  std::string text;
  for (std::size_t k = 0; k < instance_.numbers.size(); ++k) {
    const Dtype dtype = instance_.numbers[k];
    const std::size_t size = item_size(dtype);
    const bool kept = instance_.fused && !is_integral(dtype) && size >= 4 && size <= left;
    if (kept) left -= size;
    text +=
        filled("  const $0 n$1 = $2(number<$0>(a.numbers[$1].bytes));\n",
               {number_type(instance_, k), std::to_string(k), kept ? "settled<kOfNumbers>" : ""});
  }
  return text;
}

// ---- Hosts

std::string Writer::host_entry() const {
  const std::string body =
      flat()
          ? filled(
                "  EMBER_EACH_BY_ITSELF\n  for (long long i = first; i < last; ++i) element($0);\n",
                {arguments([](const std::string& name, const std::string&) {
                  return filled("$0 + i", {name});
                })})
          : host_rows();
  return filled(
      "using namespace ember_jit;\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void $0(const void* args, void* "
      "const* "
      "data, long long first, long long last) {\n"
      "  const Args& a = *static_cast<const Args*>(args);\n$1$2$3}\n",
      {driver::kCompiledEntry, pointers("data"), numbers(), body});
}

/// Row by row of the fastest dimension.
std::string Writer::host_rows() const {
  std::string text = filled(
      "  long long at[$0] = {};\n"
      "  long long rest = first;\n"
      "  for (int d = 0; d < a.dims; ++d) at[d] = rest % a.size[d], rest /= a.size[d];\n"
      "  for (long long i = first; i < last;) {\n"
      "    long long row = a.size[0] - at[0];\n"
      "    if (row > last - i) row = last - i;\n",
      {dims_});
  text += repeated(instance_.operands(),
                   "    long long p$0 = 0;\n"
                   "    for (int d = 0; d < a.dims; ++d) p$0 += at[d] * a.stride[$0][d];\n"
                   "    const long long s$0 = a.stride[$0][0];\n");
  return text + filled(
                    "    EMBER_EACH_BY_ITSELF\n"
                    "    for (long long j = 0; j < row; ++j) element($0);\n"
                    "    i += row;\n"
                    "    at[0] += row;\n"
                    "    for (int d = 0; d + 1 < a.dims && at[d] == a.size[d]; ++d)\n"
                    "      at[d] = 0, ++at[d + 1];\n"
                    "  }\n",
                    {arguments([](const std::string& name, const std::string& k) {
                      return filled("$0 + (p$1 + j * s$1)", {name, k});
                    })});
}

// ---- Devices

std::string Writer::device_entry() const {
  return filled(
      "using namespace ember_jit;\n"
      "template <class T> struct alignas(sizeof(T) * $0) Pack { T value[$0]; };\n"
      "extern \"C\" __global__ void __launch_bounds__($1$6) $2(const __grid_constant__ Args a) {\n"
      "$3$4  const long long begin = static_cast<long long>(blockIdx.x) * a.per_block;\n$5}\n",
      {pack_, threads_, driver::kCompiledEntry, pointers("a.data"), numbers(),
       flat() ? flat_device() : strided_device(), least_blocks()});
}

/// The second bound of a launch, or none: so many blocks that a multiprocessor is full of threads,
/// each of which then has 32 registers. Kernels of few operands get by with these: a pack of one
/// takes four. What is computed in 8 bytes takes twice the registers throughout, so it counts as
/// too much.
std::string Writer::least_blocks() const {
  std::size_t words = 0;
  const auto add = [&](Dtype dtype) { words += item_size(dtype) <= 4 ? 4 : 16; };
  for (std::size_t k = 0; k < instance_.outputs; ++k) add(instance_.output(k));
  for (const Dtype dtype : instance_.inputs) add(dtype);
  return instance_.fused && flat() && words <= 16 ? ", 8" : "";
}

/// As many packs for each thread as a block has a share of (Launcher): what comes before the first
/// one costs a tenth of what a pack does, where much is computed. What is in no pack comes before
/// them, since variables that were needed behind them would take registers.
std::string Writer::flat_device() const {
  std::string text = filled(
      "  const unsigned share = static_cast<unsigned>(begin + a.per_block < a.count ? a.per_block "
      ": a.count - begin);\n"
      "  const unsigned in_packs = a.packed ? share / $0 * $0 : 0;\n"
      "  for (unsigned at = in_packs + threadIdx.x; at < share; at += $1) {\n"
      "    const long long i = begin + at;\n"
      "    element($2);\n"
      "  }\n"
      "#pragma unroll 1\n"
      "  for (unsigned at = threadIdx.x * $0; at < in_packs; at += $1 * $0) {\n"
      "    const long long i = begin + at;\n",
      {pack_, threads_, arguments([](const std::string& name, const std::string&) {
         return filled("$0 + i", {name});
       })});
  // All loads first, so that they are in flight together.
  text += repeated(instance_.inputs.size(),
                   "    const Pack<I$0> pi$0 = *reinterpret_cast<const Pack<I$0>*>(i$0 + i);\n");
  text += repeated(instance_.outputs, "    Pack<O$0> po$0;\n");
  text += filled("#pragma unroll\n    for (int j = 0; j < $0; ++j) element($1);\n",
                 {pack_, arguments([](const std::string& name, const std::string&) {
                    return filled("&p$0.value[j]", {name});
                  })});
  text += repeated(instance_.outputs, "    *reinterpret_cast<Pack<O$0>*>(o$0 + i) = po$0;\n");
  return text + "  }\n";
}

std::string Writer::strided_device() const {
  std::string text = filled(
      "  const long long e = begin + threadIdx.x;\n"
      "  if (e >= a.count) return;\n"
      "  unsigned $0 rest = static_cast<unsigned $0>(e);\n",
      {index()});
  text += repeated(instance_.operands(), "  long long p$0 = 0;\n");
  text += filled(
      "#pragma unroll\n"
      "  for (int d = 0; d < $1; ++d) {\n"
      "    if (d >= a.dims) break;\n"
      "    const unsigned $0 size = static_cast<unsigned $0>(a.size[d]);\n"
      "    const unsigned $0 left = rest / size;\n"
      "    const long long at = static_cast<long long>(rest - left * size);\n"
      "    rest = left;\n",
      {index(), dims_});
  text += repeated(instance_.operands(), "    p$0 += at * a.stride[$0][d];\n");
  return text + filled("  }\n  element($0);\n",
                       {arguments([](const std::string& name, const std::string& k) {
                         return filled("$0 + p$1", {name, k});
                       })});
}

}  // namespace ember::inline v0::jit
