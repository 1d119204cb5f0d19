// What is written of a graph compiles, by the machine's compiler and, where NVRTC is, by that:
// every operation, for every dtype. It needs no device for that.
#include <algorithm>

#include "ember/driver/compiled.h"
#include "ember/fuse/graph.h"
#include "ember/fuse/rows.h"
#include "ember/jit/host_compiler.h"
#include "ember/jit/source.h"
#include "tests/fuse/graphs.h"
#include "tests/fuse/support.h"

namespace ember::test {
namespace {

using fusion::Graph;
using fusion::Step;
using fusion::Value;
using jit::Instance;
using jit::Layout;

constexpr int kCapability = 90;

/// All operations on elements of one type, each on two inputs and a number.
Graph every_operation(Dtype dtype) {
  Graph graph;
  graph.inputs = {dtype, Dtype::bool_, Dtype::float32};
  const auto wide = dtype == Dtype::float16 || dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
  graph.numbers = {wide, dtype};
  const auto add = [&](Step step) {
    graph.outputs.push_back(static_cast<std::uint8_t>(graph.steps.size()));
    graph.steps.push_back(step);
  };
  add({.kind = Step::Kind::cast,
       .computed = dtype,
       .result = dtype,
       .count = 1,
       .operands = {Value{Value::Kind::input, 2}}});
  graph.outputs.clear();
  for (std::size_t i = 0; i <= static_cast<std::size_t>(ops::OpId::scaled_addcdiv); ++i) {
    const auto op = static_cast<ops::OpId>(i);
    const OpInfo& info = ops::op_info(op);
    if (!contains(info.dtypes, dtype)) continue;
    Step step{.op = op, .computed = dtype, .result = dtype};
    if (info.result == Result::boolean) step.result = Dtype::bool_;
    if (info.result == Result::real) step.result = real_dtype(dtype);
    step.count = static_cast<std::uint8_t>(info.operands);
    step.operands = {Value{Value::Kind::input, 0}, Value{Value::Kind::step, 0},
                     Value{Value::Kind::number, 0}, Value{Value::Kind::number, 0}};
    if (op == ops::OpId::where)
      step.operands = {Value{Value::Kind::input, 1}, Value{Value::Kind::step, 0},
                       Value{Value::Kind::number, 1}};
    add(step);
  }
  return graph;
}

TEST(FuseSources, EveryOperationOnHosts) {
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::int64, Dtype::complex64}) {
    const Graph graph = every_operation(dtype);
    const bool precise = dtype != Dtype::bfloat16;
    const jit::Source source = jit::host_source(graph.statements(precise), kernel_name(),
                                                instance_of(graph, Layout::narrow));
    EXPECT_FALSE(jit::compile_for_host(jit::find_host_compiler(source.is_real()), source.text(),
                                       dtype_name(dtype))
                     .empty());
  }
}

TEST(FuseSources, EveryOperationOnDevices) {
  std::string identity;
  if (const Status status = driver::cuda_compiler(identity); !status.ok())
    GTEST_SKIP() << "needs NVRTC: " << status.detail();
  for (const Dtype dtype : {Dtype::float16, Dtype::float32, Dtype::float64, Dtype::int32,
                            Dtype::uint64, Dtype::bool_, Dtype::complex64}) {
    const Graph graph = every_operation(dtype);
    const Layout layout = dtype == Dtype::float32 ? Layout::flat : Layout::narrow;
    const bool precise = dtype != Dtype::float16;
    std::string image, log;
    const Status status = driver::cuda_compile(
        jit::device_source(graph.statements(precise), kernel_name(), instance_of(graph, layout))
            .text(),
        kCapability, image, log, true);
    EXPECT_TRUE(status.ok()) << dtype_name(dtype) << ": " << status.detail() << "\n" << log;
  }
}

/// Every reduction of a product, and a step on elements and on rows with all their results.
Graph every_reduction(Dtype dtype) {
  Graph graph;
  graph.inputs = {dtype, dtype, dtype};
  graph.row_inputs = 0b100;
  const auto add = [&](Step step) {
    graph.steps.push_back(step);
    return Value{Value::Kind::step, static_cast<std::uint8_t>(graph.steps.size() - 1)};
  };
  const Value y = add({.op = ops::OpId::mul,
                       .computed = dtype,
                       .result = dtype,
                       .count = 2,
                       .operands = {Value{Value::Kind::input, 0}, Value{Value::Kind::input, 1}}});
  Value rows{Value::Kind::input, 2};
  for (const ops::RowReduction reduction :
       {ops::RowReduction::sum, ops::RowReduction::mean, ops::RowReduction::prod,
        ops::RowReduction::largest, ops::RowReduction::smallest, ops::RowReduction::any,
        ops::RowReduction::all}) {
    const bool extreme =
        reduction == ops::RowReduction::largest || reduction == ops::RowReduction::smallest;
    if (extreme && is_complex_dtype(dtype)) continue;
    if (reduction == ops::RowReduction::mean && is_integral(dtype)) continue;
    const Value made = add({.kind = Step::Kind::reduction,
                            .reduction = reduction,
                            .of_row = true,
                            .computed = dtype,
                            .result = dtype,
                            .count = 1,
                            .operands = {y}});
    rows = add({.op = ops::OpId::add,
                .of_row = true,
                .computed = dtype,
                .result = dtype,
                .count = 2,
                .operands = {rows, made}});
  }
  const Value last = add({.op = ops::OpId::sub,
                          .computed = dtype,
                          .result = dtype,
                          .count = 2,
                          .operands = {y, rows}});
  graph.outputs = {rows.index, last.index};
  return graph;
}

TEST(FuseSources, EveryReductionOnDevices) {
  std::string identity;
  if (const Status status = driver::cuda_compiler(identity); !status.ok())
    GTEST_SKIP() << "needs NVRTC: " << status.detail();
  struct Case {
    Dtype dtype;
    jit::RowPlan rows;
  };
  const auto plan = [](bool whole, std::uint8_t pack, std::uint8_t packs, std::uint16_t lanes) {
    jit::RowPlan made{.used = true, .whole = whole, .pack = pack, .packs = packs, .blocks = 2};
    made.lanes = lanes;
    made.full = packs == 4;
    made.threads = std::max<std::uint16_t>(lanes, driver::kCompiledThreads);
    made.once = 0b10001;  // output and input of rows
    return made;
  };
  for (const Case& each :
       {Case{Dtype::float32, plan(true, 4, 1, 1)}, Case{Dtype::float32, plan(true, 4, 4, 32)},
        Case{Dtype::float32, plan(false, 1, 4, 256)}, Case{Dtype::float64, plan(true, 2, 8, 256)},
        Case{Dtype::bfloat16, plan(true, 8, 2, 1024)}, Case{Dtype::int8, plan(false, 8, 4, 256)},
        Case{Dtype::complex64, plan(true, 2, 2, 256)}, Case{Dtype::bool_, plan(true, 8, 1, 16)}}) {
    const Graph graph = every_reduction(each.dtype);
    Instance instance = instance_of(graph, each.rows.full ? Layout::narrow : Layout::wide);
    instance.rows = each.rows;
    std::string image, log;
    const Status status = driver::cuda_compile(
        jit::device_source(fusion::Sweeps(graph, true, each.rows.whole).statements(), kernel_name(),
                           instance)
            .text(),
        kCapability, image, log, true);
    EXPECT_TRUE(status.ok()) << dtype_name(each.dtype) << ": " << status.detail() << "\n" << log;
  }
}

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

/// What NVRTC makes of a graph, in PTX.
std::string compiled_as_text(const Graph& graph) {
  constexpr int kUnknown = 91;  // for which NVRTC makes PTX
  std::string image, log;
  const bool complex = graph.inputs[0] == Dtype::complex64 || graph.inputs[0] == Dtype::complex128;
  const Layout layout = complex ? Layout::narrow : Layout::flat;
  const Status status = driver::cuda_compile(
      jit::device_source(graph.statements(true), kernel_name(), instance_of(graph, layout)).text(),
      kUnknown, image, log, true);
  EXPECT_TRUE(status.ok()) << status.detail() << "\n" << log;
  return image;
}

/// Sums of products, beside other operations that have the same products inside: each sum takes its
/// product in, as it does where the operation is alone.
TEST(FuseSources, ContractWhatOperationsAloneContract) {
  std::string identity;
  if (const Status status = driver::cuda_compiler(identity); !status.ok())
    GTEST_SKIP() << "needs NVRTC: " << status.detail();
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16}) {
    Graph graph;
    graph.inputs = {dtype, dtype};
    const auto add = [&](Step::Kind kind, ops::OpId op, std::initializer_list<Value> operands) {
      Step step{.kind = kind, .op = op, .computed = dtype, .result = dtype};
      step.count = static_cast<std::uint8_t>(operands.size());
      std::copy(operands.begin(), operands.end(), step.operands.begin());
      graph.outputs.push_back(static_cast<std::uint8_t>(graph.steps.size()));
      graph.steps.push_back(step);
      return Value{Value::Kind::step, graph.outputs.back()};
    };
    const auto operation = [&](ops::OpId op, std::initializer_list<Value> operands) {
      return add(Step::Kind::operation, op, operands);
    };
    const auto cube = [&](Value x) { add(Step::Kind::cube, {}, {x}); };
    const Value x{Value::Kind::input, 0};
    const Value y{Value::Kind::input, 1};
    operation(ops::OpId::addcmul, {y, x, x});
    cube(x);
    const Value negative = operation(ops::OpId::neg, {x});
    operation(ops::OpId::addcmul, {y, negative, negative});
    const Value square = operation(ops::OpId::square, {y});
    const Value product = operation(ops::OpId::mul, {y, y});
    cube(square);
    operation(ops::OpId::addcmul, {x, product, product});

    const std::string image = compiled_as_text(graph);
    EXPECT_GT(count(image, "fma.rn.f"), 0) << dtype_name(dtype);
    EXPECT_EQ(count(image, "add.f") + count(image, "add.rn.f") + count(image, "sub.f"), 0)
        << dtype_name(dtype);
  }
}

/// Sums of two products: which of the two is fused with the sum is said, and not the compiler's
/// choice, which depends on what stands beside it.
TEST(FuseSources, SayWhichOfTwoProductsIsFused) {
  std::string identity;
  if (const Status status = driver::cuda_compiler(identity); !status.ok())
    GTEST_SKIP() << "needs NVRTC: " << status.detail();
  for (const Dtype dtype : {Dtype::complex64, Dtype::complex128}) {
    Graph graph;
    graph.inputs = {dtype, dtype};
    for (const ops::OpId op : {ops::OpId::mul, ops::OpId::addcmul, ops::OpId::square}) {
      Step step{.op = op, .computed = dtype, .result = dtype};
      step.count = op == ops::OpId::mul ? 2 : op == ops::OpId::square ? 1 : 3;
      step.operands = {Value{Value::Kind::input, 0}, Value{Value::Kind::input, 1},
                       Value{Value::Kind::input, 1}};
      graph.outputs.push_back(static_cast<std::uint8_t>(graph.steps.size()));
      graph.steps.push_back(step);
    }
    const std::string image = compiled_as_text(graph);
    EXPECT_GT(count(image, "fma.rn.f"), 0) << dtype_name(dtype);
    EXPECT_GT(count(image, "mul.rn.f"), 0) << dtype_name(dtype);
    EXPECT_EQ(count(image, "mul.f"), 0) << dtype_name(dtype);
  }
}

/// A graph keeps what its outputs need, in the same order.
TEST(FuseSources, NeedsWhatItsOutputsAreMadeOf) {
  Graph graph;
  graph.inputs = {Dtype::float32, Dtype::int32, Dtype::float64};
  graph.numbers = {Dtype::float32, Dtype::float64};
  const auto step = [](Value x, Value y) {
    return Step{.op = ops::OpId::add, .count = 2, .operands = {x, y}};
  };
  graph.steps = {step({Value::Kind::input, 0}, {Value::Kind::number, 0}),
                 step({Value::Kind::input, 2}, {Value::Kind::number, 1}),
                 step({Value::Kind::step, 0}, {Value::Kind::input, 1}),
                 step({Value::Kind::step, 1}, {Value::Kind::input, 2})};
  graph.outputs = {3};
  std::vector<std::uint8_t> inputs, numbers;
  const Graph part = graph.needed(inputs, numbers);
  EXPECT_EQ(part.steps.size(), 2U);
  EXPECT_EQ(inputs, std::vector<std::uint8_t>{2});
  EXPECT_EQ(numbers, std::vector<std::uint8_t>{1});
  EXPECT_EQ(part.outputs, std::vector<std::uint8_t>{1});
  EXPECT_EQ(part.inputs, std::vector<Dtype>{Dtype::float64});
}

/// NVRTC would keep each as a variable of the device's, which takes longer to load than the code.
TEST(FuseSources, HaveNoNamesOfTypesAndOperations) {
  Graph graph = every_operation(Dtype::float32);
  const std::string text =
      jit::device_source(graph.statements(true), kernel_name(), instance_of(graph, Layout::flat))
          .text();
  EXPECT_NE(text.find("EMBER_BINARY(add,"), std::string::npos);
  EXPECT_EQ(text.find("OpInfo info{#name_"), std::string::npos);
  EXPECT_EQ(text.find("char* text = name"), std::string::npos);
}

}  // namespace
}  // namespace ember::test
