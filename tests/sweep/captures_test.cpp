// Every operation captured into a graph, and replayed with other inputs, another seed and on other
// streams: each time it gives what it gives when it is called then, and so it does with other
// tensors in the place of those that were captured. What cannot be captured is listed here and in
// docs/graphs.md, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "ember/base/error.h"
#include "tests/support/devices.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

using cuda::CUDAGraph;
using cuda::Stream;
using cuda::StreamGuard;

std::vector<Elements> contents_of(const Case& of) {
  std::vector<Elements> list;
  for (const Input& input : of.inputs) list.push_back(input.content);
  return list;
}

/// The same elements the other way round, in inputs on devices.
std::vector<Elements> turned(const Case& of) {
  std::vector<Elements> list = contents_of(of);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (of.inputs[i].home == Home::cpu) continue;
    std::vector<std::byte>& bytes = list[i].bytes;
    const std::size_t item = item_size(list[i].dtype);
    const std::vector<std::byte> before = bytes;
    for (std::size_t at = 0; at < bytes.size(); at += item)
      std::copy_n(before.data() + bytes.size() - item - at, item, bytes.data() + at);
  }
  return list;
}

Device device_for(Home home) {
  if (home == Home::cpu) return Device("cpu");
  return Device(Device::Type::cuda, home == Home::other && cuda::device_count() > 1 ? 1 : 0);
}

void wait() {
  for (int device = 0; device < std::min(cuda::device_count(), 2); ++device)
    cuda::synchronize(device);
}

Tensors placed(const Case& of, const std::vector<Elements>& contents) {
  Tensors made;
  for (std::size_t i = 0; i < contents.size(); ++i)
    made.push_back(place(contents[i], *strided(Layout::contiguous, contents[i].sizes),
                         device_for(of.inputs[i].home)));
  wait();
  return made;
}

/// What a call gave, and the inputs that it changes.
std::vector<Elements> read_all(const Case& of, const Tensors& results, const Tensors& inputs) {
  wait();
  std::vector<Elements> list;
  for (const Tensor& result : results) list.push_back(read(result));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (of.inputs[i].written) list.push_back(read(inputs[i]));
  return list;
}

/// What the operation gives when it is called. Nothing if it refuses.
std::optional<std::vector<Elements>> called(const Case& of, const std::vector<Elements>& contents) {
  Tensors inputs = placed(of, contents);
  const Tensors given = inputs;
  try {
    const Tensors results = of.run(inputs, Device("cuda:0"));
    return read_all(of, results, given);
  } catch (const Error&) {
    return {};
  }
}

std::string difference(const Case& of, const std::vector<Elements>& got,
                       const std::vector<Elements>& expected) {
  if (got.size() != expected.size()) return "another number of results";
  const double ulp = cuda::is_simulated() ? 0 : std::max(of.traits.ulp, of.traits.view_ulp);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::string text = difference(got[i], expected[i], ulp, of.traits.floor); !text.empty())
      return "result " + std::to_string(i) + ": " + text;
  return "";
}

/// Captures on a stream of its own; the second device's work goes to a stream that joins.
class Capturer {
 public:
  Capturer() {
    if (cuda::device_count() > 1) beside_.emplace(1);
    keep([this] { mark_.add_(1); });
  }

  struct Captured {
    CUDAGraph graph;
    Tensors results;
    std::string refusal;
  };
  Captured capture(const Case& of, Tensors inputs) const {
    Captured made;
    made.graph.register_generator_state(case_generator(Device("cuda:0")));
    wait();
    std::optional<StreamGuard> beside;
    if (beside_) beside.emplace(*beside_);
    const StreamGuard on(main_);
    made.graph.capture_begin(pool_);
    try {
      mark_.add_(1);  // so that no graph is empty
      if (beside_) beside_->wait_stream(main_);
      made.results = of.run(inputs, Device("cuda:0"));
      if (beside_) main_.wait_stream(*beside_);
    } catch (const Error& error) {
      made.refusal = error.what();
    }
    try {
      made.graph.capture_end();
    } catch (const AcceleratorError& error) {
      if (made.refusal.empty()) made.refusal = error.what();
    }
    return made;
  }

 private:
  /// A graph that keeps the pool's memory from going back with each of the others.
  template <class Work>
  void keep(const Work& work) {
    wait();
    const StreamGuard on(main_);
    kept_.capture_begin(pool_);
    work();
    kept_.capture_end();
  }

  const cuda::MemPoolId pool_ = cuda::graph_pool_handle();
  const Stream main_{0};
  std::optional<Stream> beside_;  // of the second device
  const Tensor mark_ = zeros({1}, Options(Dtype::float32, Device("cuda:0")));
  CUDAGraph kept_;
};

const Capturer& capturer() {
  static const auto* const kCapturer = new Capturer;
  return *kCapturer;
}

struct Verdict {
  std::string wrong;
  std::string refusal;
  bool compared = false;
  std::string not_bound;  // why the graph cannot be given other tensors
};

/// Of the first case of each operation, and of the others.
constexpr int kManyReplays = 100;
constexpr int kReplays = 3;

/// Replays with other tensors in the place of the inputs, in which something else lies by then.
/// What is wrong, or nothing. `refusal`: why some work cannot be given other memory.
std::string check_bound(const Case& of, Capturer::Captured& captured, const Tensors& inputs,
                        const std::vector<Elements>& contents,
                        const std::vector<Elements>& expected, std::string& refusal) {
  for (const Tensor& input : inputs)
    if (input.is_cuda() && input.nbytes() != 0)
      cuda::fill_async(input.data_ptr(), 0, input.nbytes(), cuda::current_stream(input.device()));
  const Tensors others = placed(of, contents);
  const cuda::GraphDescription description = captured.graph.describe();
  const auto is_used = [&](const Tensor& input) {
    const auto first = reinterpret_cast<std::uintptr_t>(input.data_ptr());
    for (const auto& node : description.nodes)
      for (const auto& memory : node.memory)
        if (memory.address < first + input.nbytes() && first < memory.address + memory.bytes)
          return true;
    return false;
  };
  std::vector<cuda::GraphBinding> bind;
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k].is_cuda() && inputs[k].nbytes() != 0 && is_used(inputs[k]))
      bind.push_back({inputs[k], others[k]});
  try {
    captured.graph.replay(bind);
  } catch (const Error& error) {
    refusal = error.what();
    return "";
  }
  std::vector<Elements> got = read_all(of, captured.results, others);
  std::vector<Elements> wanted = expected;
  // Results that are views of inputs lie where the captured ones do.
  for (std::size_t i = captured.results.size(); i-- > 0;)
    if (std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
          return input.storage() == captured.results[i].storage();
        })) {
      got.erase(got.begin() + static_cast<std::ptrdiff_t>(i));
      wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(i));
    }
  const std::string text = difference(of, got, wanted);
  return text.empty() ? "" : "with other tensors: " + text;
}

/// One case: captured, and replayed `times` with the inputs and the seed changing.
Verdict check(const Case& of, int times) {
  struct Round {
    std::vector<Elements> contents;
    std::uint64_t seed;
    std::vector<Elements> expected;
  };
  std::vector<Round> rounds;
  std::uint64_t seed = 20;
  for (std::vector<Elements>& contents : std::vector{contents_of(of), turned(of)}) {
    case_seed() = seed;
    if (auto expected = called(of, contents))
      rounds.push_back({std::move(contents), seed, *std::move(expected)});
    seed = 77;
  }
  case_seed() = 20;
  if (rounds.empty()) return {};
  const Tensors inputs = placed(of, contents_of(of));
  Capturer::Captured captured = capturer().capture(of, inputs);
  if (!captured.refusal.empty()) return {"", captured.refusal, false, ""};
  const std::vector<Stream> streams{cuda::default_stream(0), Stream(0), Stream(0)};
  const Generator generator = case_generator(Device("cuda:0"));
  for (int i = 0; i < times; ++i) {
    const Round& round = rounds[static_cast<std::size_t>(i + 1) % rounds.size()];
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k].is_cuda() && inputs[k].nbytes() != 0)
        cuda::copy(inputs[k].data_ptr(), round.contents[k].bytes.data(), inputs[k].nbytes(),
                   cuda::current_stream(inputs[k].device()));
    wait();
    Generator(generator).manual_seed(round.seed);
    {
      const StreamGuard on(streams[static_cast<std::size_t>(i) % streams.size()]);
      captured.graph.replay();
    }
    const std::string text = difference(of, read_all(of, captured.results, inputs), round.expected);
    if (!text.empty()) return {"replay " + std::to_string(i) + ": " + text, "", false, ""};
  }
  Verdict verdict{"", "", true, ""};
  Generator(generator).manual_seed(rounds[0].seed);
  verdict.wrong =
      check_bound(of, captured, inputs, rounds[0].contents, rounds[0].expected, verdict.not_bound);
  return verdict;
}

/// New tensors that take after no other, which the sweep of views has no use for.
Cases factories() {
  Cases cases;
  const Options floats(Dtype::float32, Device("cuda:0"));
  const Options whole(Dtype::int64, Device("cuda:0"));
  const auto add_new = [&](const std::string& op, const std::function<Tensor()>& make) {
    add(cases, op, {}, [=](Tensors&) { return make(); });
  };
  const auto own = [] { return case_generator(Device("cuda:0")); };
  add_new("zeros", [=] { return zeros({3, 4}, floats); });
  add_new("ones", [=] { return ones({3, 4}, floats); });
  add_new("full", [=] { return full({3, 4}, 7, floats); });
  add_new("arange", [=] { return arange(2, 30, 3, whole); });
  add_new("scalar_tensor", [=] { return scalar_tensor(5, floats); });
  add_new("tensor", [=] { return tensor(std::vector<float>{1, 2, 3}, floats); });
  add_new("rand", [=] { return rand({7}, floats, own()); });
  add_new("randn", [=] { return randn({7}, floats, own()); });
  add_new("randint", [=] { return randint(3, 90, {7}, whole, own()); });
  add_new("randperm", [=] { return randperm(30, whole, own()); });
  add_new("normal", [=] { return normal(2, 3, {7}, floats, own()); });
  const Input x = input(Dtype::float32, {7});
  const Input deviations = {elements(Dtype::float32, {7}, {1, 2, 3, 4}), false, false, Home::here};
  add_with_out(
      cases, "normal", {x},
      [=](Tensors& t) { return normal(t[0], 2, case_generator(t[0].device())); },
      [=](Tensor& out, Tensors& t) { normal_out(out, t[0], 2, case_generator(out.device())); });
  add_with_out(
      cases, "normal", {x, deviations},
      [=](Tensors& t) { return normal(t[0], t[1], case_generator(t[0].device())); },
      [=](Tensor& out, Tensors& t) { normal_out(out, t[0], t[1], case_generator(out.device())); },
      {}, "each its own");
  return cases;
}

/// The operations of a table in docs/graphs.md: "not captured" or "not bound".
std::set<std::string> listed(const std::string& table) {
  std::ifstream file(EMBER_SOURCE_DIR "/docs/graphs.md");
  std::set<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "<!-- " + table + " -->") inside = true;
    if (line == "<!-- /" + table + " -->") inside = false;
    if (!inside || !line.starts_with("| `")) continue;
    line.erase(line.find('|', 1));
    for (std::size_t at = 0; (at = line.find('`', at)) != std::string::npos; ++at) {
      const std::size_t end = line.find('`', at + 1);
      names.insert(line.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return names;
}

const std::map<std::string, Cases>& all_captured() {
  static const auto* const kAll = [] {
    auto* all = new std::map<std::string, Cases>(all_cases());
    for (Case& one : factories()) (*all)[one.op].push_back(std::move(one));
    return all;
  }();
  return *kAll;
}

class EveryCapture : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryCapture, ReplaysWhatIsCalled) {
  NEEDS_CACHING();
  NEEDS_DEVICES(1);
  bool refused = false;
  bool compared = false;
  bool not_bound = false;
  int failures = 0;
  const Cases& cases = all_captured().at(GetParam());
  const bool all = every() == 1;
  for (std::size_t i = 0; i < cases.size(); i += every()) {
    Verdict verdict;
    try {
      verdict = check(cases[i], i == 0 && all ? kManyReplays : kReplays);
    } catch (const std::exception& error) {
      verdict.wrong = error.what();
    }
    // Nothing else is a reason.
    const bool reads_host =
        verdict.refusal.find("copying a number to the host (item)") != std::string::npos ||
        verdict.refusal.find("Cannot copy between CPU and CUDA tensors") != std::string::npos;
    not_bound = not_bound || !verdict.not_bound.empty();
    refused = refused || reads_host;
    compared = compared || verdict.compared;
    if (!verdict.refusal.empty() && !reads_host) verdict.wrong = "refused: " + verdict.refusal;
    if (verdict.wrong.empty()) continue;
    ADD_FAILURE() << cases[i].op << " of " << cases[i].what << ": " << verdict.wrong;
    if (++failures == 5) break;
  }
  EXPECT_TRUE(failures > 0 || refused || compared) << "no case of it was compared";
  // On real devices calls of libraries are refused, too.
  if (cuda::is_simulated() && not_bound != listed("not bound").contains(GetParam()) &&
      (not_bound || all))
    ADD_FAILURE() << "that it cannot be bound to other tensors is to be listed in docs/graphs.md, "
                     "and nothing else is";
  if (refused == listed("not captured").contains(GetParam()) || (!refused && !all)) return;
  ADD_FAILURE()
      << "what cannot be captured of it is to be listed in docs/graphs.md, and nothing else is";
}

TEST(Captures, TheListNamesOperations) {
  for (const char* const table : {"not captured", "not bound"}) {
    EXPECT_FALSE(listed(table).empty());
    for (const std::string& name : listed(table))
      EXPECT_TRUE(all_captured().contains(name)) << name << " is listed in docs/graphs.md";
  }
}

std::vector<std::string> captured_names() {
  std::vector<std::string> list;
  for (const auto& [name, cases] : all_captured()) list.push_back(name);
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, EveryCapture, ::testing::ValuesIn(captured_names()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace ember::test
