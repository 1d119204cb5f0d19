// The sweep knows every operation: the names are read from the public headers, so that one that is
// added there and not here makes this test fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include "ember/ops/elementwise_kernels.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

const std::string kRoot = EMBER_SOURCE_DIR "/";

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(kRoot + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  EXPECT_FALSE(lines.empty()) << path;
  return lines;
}

/// What ember.h includes, but for the devices' and streams' headers behind ember/cuda.h.
std::vector<std::string> headers() {
  const std::string include = "#include \"";
  std::vector<std::string> list;
  for (const std::string& line : lines_of("ember/ember.h"))
    if (line.starts_with(include + "ember/") && std::count(line.begin(), line.end(), '/') > 1)
      list.push_back(line.substr(include.size(), line.size() - include.size() - 1));
  return list;
}

/// The function that a line declares behind so many spaces: `type name(`. Empty if it does none.
std::string declared(std::string line, std::size_t indent) {
  const auto is_letter = [](char letter) { return std::isalnum(letter) != 0 || letter == '_'; };
  const std::string attribute = "[[nodiscard]] ";
  if (line.compare(0, indent + attribute.size(), std::string(indent, ' ') + attribute) == 0)
    line.erase(indent, attribute.size());
  if (line.find_first_not_of(' ') != indent || !is_letter(line[indent])) return "";
  if (line.ends_with("\\")) return "";  // a macro
  const std::size_t end = line.find('(');
  if (end == std::string::npos) return "";
  std::size_t begin = end;
  while (begin > indent && is_letter(line[begin - 1])) --begin;
  if (begin == end || begin <= indent || line[begin - 1] != ' ') return "";
  if (line.compare(indent, 7, "return ") == 0) return "";
  return line.substr(begin, end - begin);
}

/// The functions that a header declares outside classes and internal namespaces.
void add_functions(const std::string& header, std::set<std::string>& names) {
  bool internal = false;
  for (const std::string& line : lines_of(header)) {
    if (line.starts_with("namespace ops {") || line.starts_with("namespace random {") ||
        line.starts_with("namespace detail {"))
      internal = true;
    if (line.starts_with("}  // namespace")) internal = false;
    if (const std::string name = declared(line, 0); !internal && !name.empty()) names.insert(name);
  }
}

/// The public methods of Tensor.
void add_methods(std::set<std::string>& names) {
  bool inside = false;
  for (const std::string& line : lines_of("ember/tensor/tensor.h")) {
    if (line.starts_with("class ") && line.ends_with(" Tensor {")) inside = true;
    if (inside && line == " private:") return;
    if (const std::string name = declared(line, 2); inside && !name.empty()) names.insert(name);
  }
}

/// Public names that are no operations on elements, or are made of those that are.
const std::set<std::string>& others() {
  static const auto* const kNames = new std::set<std::string>{
      // What a tensor is.
      "defined", "dtype", "device", "is_cuda", "get_device", "dim", "numel", "sizes", "strides",
      "size", "stride", "storage_offset", "element_size", "nbytes", "is_floating_point",
      "is_complex", "is_contiguous", "is_pinned", "storage", "data_ptr", "data", "address",
      "is_dense", "is", "is_only", "state", "self", "options", "accessor",
      // They make tensors of a storage, which the sweep itself does: it needs no elements.
      "make", "as_strided", "set_", "set_data", "from_blob", "record_stream",
      // The tensor object becomes another view: tests/tensor/views_test.cpp.
      "transpose_", "t_", "squeeze_", "unsqueeze_",
      // New tensors that take after no other.
      "empty", "empty_strided", "zeros", "ones", "full", "arange", "tensor", "scalar_tensor",
      "rand", "randn", "randint", "randperm", "normal", "linspace", "eye",
      // What has no elements, or is a bool or a number of the host's.
      "requires_grad", "broadcast_shapes", "equal", "allclose", "finfo", "iinfo",
      // What comes out depends on the elements; views are sorted, indexed and compared by those
      // that are here: tests/ops/count_test.cpp.
      "bincount", "unique", "unique_consecutive", "repeat_interleave",
      // A fault where the element is zero: tests/ops/assert_async_test.cpp.
      "assert_async",
      // The same in an output: tests/ops/outputs_test.cpp, factories_test.cpp.
      "linspace_out", "eye_out", "empty_out", "zeros_out", "ones_out", "full_out", "arange_out",
      "rand_out", "randn_out", "randint_out", "randperm_out", "normal_out", "bernoulli_out",
      "multinomial_out",
      // How elements are written: tests/tensor/tensor_test.cpp, tests/python/test_print.py.
      "print_options", "set_print_options",
      // Of dtypes, devices and generators.
      "get_num_threads", "set_num_threads", "result_type", "clear_blas_workspaces", "seed",
      "seed_all", "initial_seed", "manual_seed", "manual_seed_all", "get_rng_state",
      "get_rng_state_all", "get_rng_state_offset", "set_rng_state", "set_rng_state_all",
      "set_rng_state_offset",
      // Between processes: tests/ipc.
      "send", "receive", "withdraw", "withdraw_all", "unreceived", "undone", "allocate_shared",
      "is_shared", "share_memory_", "shared_copy", "leases", "collect", "end_process",
      // Kernels from a text, over views as well: tests/jit/jiterator_test.cpp.
      "create_jit_fn", "create_multi_output_jit_fn",
      // Functions as kernels, over views as well: tests/fuse.
      "fuse",
      // Functions as graphs: tests/graphs.
      "make_graphed_callable", "make_graphed_callables", "graphed",
      // Proof and exploration: tests/explore.
      "explore", "result", "shrink",
      // How exact products are: tests/linalg/precision_test.cpp.
      "current_blas_handle", "get_float32_matmul_precision", "set_float32_matmul_precision",
      "allow_tf32", "set_allow_tf32", "fp32_precision", "set_fp32_precision",
      "allow_fp16_reduced_precision_reduction", "set_allow_fp16_reduced_precision_reduction",
      "allow_bf16_reduced_precision_reduction", "set_allow_bf16_reduced_precision_reduction",
      "allow_fp16_accumulation", "set_allow_fp16_accumulation"};
  return *kNames;
}

TEST(Sweep, KnowsEveryOperation) {
  std::set<std::string> names;
  for (const std::string& header : headers()) add_functions(header, names);
  add_methods(names);
  // What the parser must find, so that a change of style does not end this test unseen.
  for (const char* name : {"add_out", "sum", "max_out", "sort", "topk_out", "cumsum_", "gather",
                           "index_put_", "cat", "multinomial", "baddbmm_", "reduce_add", "view",
                           "chunk", "unbind", "item", "uniform_", "stack_out", "where"})
    EXPECT_TRUE(names.contains(name)) << name << " was not found in the headers";
  for (const OpInfo& info : ops::all_ops()) {
    const std::string name = info.name;
    names.insert({name, name + "_out"});
    if (name != "where") names.insert(name + "_");
  }
  for (const std::string& name : names) {
    if (name.starts_with("operator")) continue;
    const bool swept = all_cases().contains(name);
    EXPECT_TRUE(swept || others().contains(name))
        << name << " has no case in tests/sweep: add one to the *_cases.cpp of its header";
    EXPECT_FALSE(swept && others().contains(name)) << name << " stands in others(), too";
  }
  for (const std::string& name : others())
    EXPECT_TRUE(names.contains(name)) << name << " is in others(), but in no header";
  for (const auto& [name, cases] : all_cases())
    EXPECT_TRUE(names.contains(name)) << name << " has cases, but is in no header";
}

}  // namespace
}  // namespace ember::test
