// The sources of kernels with reductions, whose rows are walked by ember/jit/prelude_rows.inc.
#include "ember/driver/compiled.h"
#include "ember/jit/texts.h"
#include "ember/jit/writer.h"

namespace ember::inline v0::jit {

std::string Writer::row(std::string_view statements) const {
  return types_and_arguments() + filled(
                                     "template <class W>\nEMBER_HD void row(const W& w, $0) "
                                     "{\n$1}\n}  // namespace ember_jit\n",
                                     {parameters(), statements});
}

/// The call of row() for the row `at`, from where its operands begin. There is no division in the
/// slowest dimension, which nearly always is the only one.
std::string Writer::row_call(const char* walk) const {
  std::string text = filled("    unsigned $0 rest = static_cast<unsigned $0>(at);\n", {index()});
  text += repeated(instance_.operands(), "    long long p$0 = 0;\n");
  text += filled(
      "#pragma unroll 1\n"  // each would be a division more to compile
      "    for (int d = 0; d < a.dims; ++d) {\n"
      "      const unsigned $0 size = static_cast<unsigned $0>(a.size[d]);\n"
      "      const unsigned $0 left = d + 1 < a.dims ? rest / size : 0;\n"
      "      const long long in = static_cast<long long>(rest - left * size);\n"
      "      rest = left;\n",
      {index()});
  text += repeated(instance_.operands(), "      p$0 += in * a.stride[$0][d];\n");
  return text + filled("    }\n    row($0(a.length, a.of), $1);\n",
                       {walk, arguments([](const std::string& name, const std::string& k) {
                          return filled("$0 + p$1", {name, k});
                        })});
}

std::string Writer::host_row_entry() const {
  const std::string walk =
      filled("RowOf<$0, $1>", {std::to_string(instance_.rows.lanes),
                               std::to_string(instance_.rows.whole ? kMostKeptByHosts : 0)});
  return filled(
      "using namespace ember_jit;\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void $0(const void* args, void* "
      "const* "
      "data, long long first, long long last) {\n"
      "  const Args& a = *static_cast<const Args*>(args);\n$1$2"
      "  for (long long at = first; at < last; ++at) {\n$3  }\n}\n",
      {driver::kCompiledEntry, pointers("data"), numbers(), row_call(walk.c_str())});
}

std::string Writer::device_row_entry() const {
  const RowPlan& rows = instance_.rows;
  const std::string lanes = std::to_string(rows.lanes);
  const auto text = [](bool value) { return value ? "true" : "false"; };
  const std::string walk = filled("RowOf<$0, $1, $2, $3, $4>",
                                  {lanes, std::to_string(rows.pack), std::to_string(rows.packs),
                                   text(rows.whole), text(rows.full)});
  return filled(
      "using namespace ember_jit;\n"
      "extern \"C\" __global__ void __launch_bounds__($0, $6) $1(const __grid_constant__ Args a) "
      "{\n"
      "$2$3"
      "  const long long at = static_cast<long long>(blockIdx.x) * a.per_block + threadIdx.x / "
      "$4;\n"
      "  if (at < a.count) {\n$5  }\n}\n",
      {std::to_string(rows.threads), driver::kCompiledEntry, pointers("a.data"), numbers(), lanes,
       row_call(walk.c_str()), std::to_string(rows.blocks)});
}

}  // namespace ember::inline v0::jit
