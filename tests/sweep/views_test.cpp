// Every operation on every kind of view: what it gives is what it gives for a clone without gaps,
// on the CPU and on devices, and it touches no memory but what it was given. The memory of inputs
// ends with their last element: the address sanitizer watches that on the CPU, and simulated
// devices do where PYTORCH_NO_CUDA_MEMORY_CACHING is set.
#include <gtest/gtest.h>

#include <algorithm>

#include "ember/base/error.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

/// How the inputs of a call lie in memory.
struct Arrangement {
  std::vector<Layout> layouts;
  std::int64_t margin = 0;
};

struct Placed {
  Tensors tensors;
  std::vector<std::vector<std::byte>> before;  ///< all bytes of their storages
};

struct Outcome {
  std::vector<Elements> results;  ///< what the call gave, then the inputs that it changes
  std::string refusal;            ///< the Error instead
  std::string damage;             ///< what it changed that it should not
};

Device device_for(Home home, Device here) {
  if (!here.is_cuda() || home == Home::here) return here;
  if (home == Home::cpu) return Device("cpu");
  return Device(Device::Type::cuda, cuda::device_count() > 1 ? 1 : 0);
}

Placed placed(const Case& of, const std::vector<Elements>& contents, const Arrangement& arrangement,
              Device here) {
  Placed made;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const Strided where = *strided(arrangement.layouts[i], contents[i].sizes);
    made.tensors.push_back(
        place(contents[i], where, device_for(of.inputs[i].home, here), arrangement.margin));
    made.before.push_back(memory_of(made.tensors.back()));
  }
  return made;
}

Outcome run(const Case& of, Placed& in, Device here) {
  Outcome made;
  Tensors given = in.tensors;
  Tensors results;
  try {
    results = of.run(given, here);
  } catch (const Error& error) {
    made.refusal = error.what();
  }
  for (const Tensor& result : results) {
    if (of.traits.shares && result.storage() != in.tensors[0].storage())
      made.damage = "the result is no view";
    made.results.push_back(read(result));
  }
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const Tensor& tensor = in.tensors[i];
    const std::vector<std::byte> after = memory_of(tensor);
    const bool may_change = of.inputs[i].written && made.refusal.empty();
    if (may_change ? !same_outside(tensor, in.before[i], after) : in.before[i] != after)
      made.damage = "memory of input " + std::to_string(i) + " was changed";
    if (of.inputs[i].written) made.results.push_back(read(tensor, after));
  }
  return made;
}

std::vector<Layout> contiguous(std::size_t count) {
  return std::vector<Layout>(count, Layout::contiguous);
}

/// The layouts that an input can have.
std::vector<Layout> layouts_of(const Case& of, std::size_t input) {
  std::vector<Layout> list;
  for (int i = 0; i < kLayouts; ++i)
    if (strided(static_cast<Layout>(i), of.inputs[input].content.sizes))
      list.push_back(static_cast<Layout>(i));
  return list;
}

/// Each input in turn in every layout, the others without gaps; then all of them in layouts that
/// differ, or every pair.
std::vector<Arrangement> arrangements(const Case& of) {
  std::vector<std::vector<Layout>> layouts;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) layouts.push_back(layouts_of(of, i));
  std::vector<Arrangement> list;
  if (of.traits.all_pairs) {
    for (const Layout first : layouts[0])
      for (const Layout second : layouts[1]) list.push_back({{first, second}, 4});
    return list;
  }
  std::size_t most = 0;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    most = std::max(most, layouts[i].size());
    for (const Layout layout : layouts[i]) {
      Arrangement one{contiguous(layouts.size())};
      one.layouts[i] = layout;
      list.push_back(one);
      one.margin = 4;
      if (of.inputs[i].written) list.push_back(one);
    }
  }
  for (std::size_t round = 0; layouts.size() > 1 && round < most; ++round) {
    Arrangement one;
    for (std::size_t i = 0; i < layouts.size(); ++i)
      one.layouts.push_back(layouts[i][(round * (2 * i + 1) + 3 * i) % layouts[i].size()]);
    list.push_back(one);
  }
  return list;
}

std::string text_of(const Arrangement& arrangement, Device here) {
  std::string text = here.str() + ":";
  for (const Layout layout : arrangement.layouts) text += std::string(" ") + layout_name(layout);
  return text + (arrangement.margin > 0 ? ", with a margin" : "");
}

/// Empty if both outcomes are the same.
std::string difference(const Outcome& got, const Outcome& expected, double ulp, double floor) {
  if (got.refusal != expected.refusal)
    return "refused with `" + got.refusal + "`, expected `" + expected.refusal + "`";
  if (got.results.size() != expected.results.size()) return "another number of results";
  for (std::size_t i = 0; i < got.results.size() && got.refusal.empty(); ++i)
    if (std::string text = difference(got.results[i], expected.results[i], ulp, floor);
        !text.empty())
      return "result " + std::to_string(i) + ": " + text;
  return "";
}

class EveryView : public ::testing::TestWithParam<std::string> {
 protected:
  /// One case in one arrangement: nothing if it is as it should be.
  static std::string check(const Case& of, const Arrangement& arrangement);
  static std::string check_writing(const Case& of, const Arrangement& arrangement, bool repeats);
  static std::string check_same(const Case& of, const Arrangement& arrangement,
                                const std::vector<Elements>& contents);
  /// After a failure that left a device in a fault.
  static void recover() {
    for (int device = 0; device < cuda::device_count(); ++device) {
      try {
        cuda::synchronize(device);
      } catch (const std::exception&) {
        cuda::reset_device(device);
      }
    }
  }
};

std::string EveryView::check(const Case& of, const Arrangement& arrangement) {
  std::vector<Elements> contents;
  bool written_shared = false;
  bool written_repeats = false;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const Input& input = of.inputs[i];
    const Strided where = *strided(arrangement.layouts[i], input.content.sizes);
    contents.push_back(input.content);
    if (!where.shared) continue;
    written_shared = written_shared || input.written;
    written_repeats = written_repeats || (input.written && where.repeats);
    if (of.traits.by_value && of.inputs[0].written && !input.written) return "";
    // What is left where elements share memory.
    contents.back() = read(place(input.content, where, Device("cpu")));
    if (input.distinct && cuda::device_count() > 0 && !cuda::is_simulated()) return "";
  }
  if (written_shared && !of.traits.fills) return check_writing(of, arrangement, written_repeats);
  return check_same(of, arrangement, contents);
}

/// Elements that are written and share memory: Error where that is easy to see, and in any case
/// nothing else is changed.
std::string EveryView::check_writing(const Case& of, const Arrangement& arrangement, bool repeats) {
  std::vector<Elements> contents;
  for (const Input& input : of.inputs) contents.push_back(input.content);
  for (const Device here : {Device("cpu"), Device("cuda:0")}) {
    if (here.is_cuda() ? cuda::device_count() == 0 : of.traits.device_only) continue;
    Placed in = placed(of, contents, arrangement, here);
    const Outcome got = run(of, in, here);
    if (!got.damage.empty()) return text_of(arrangement, here) + ": " + got.damage;
    if (repeats && !of.traits.selects &&
        got.refusal.find("single memory location") == std::string::npos)
      return text_of(arrangement, here) +
             ": expected to be refused, since elements share memory; got `" + got.refusal + "`";
  }
  return "";
}

std::string EveryView::check_same(const Case& of, const Arrangement& arrangement,
                                  const std::vector<Elements>& contents) {
  const bool devices = cuda::device_count() > 0;
  const Device cpu("cpu");
  const Device device = devices ? Device("cuda:0") : cpu;
  const Traits& traits = of.traits;
  if (traits.device_only && !devices) return "";

  const auto outcome = [&](const Arrangement& how, Device here) {
    Placed in = placed(of, contents, how, here);
    return run(of, in, here);
  };
  const Device first = traits.device_only ? device : cpu;
  const Outcome views = outcome(arrangement, first);
  const std::string where = text_of(arrangement, first) + ": ";
  if (!views.damage.empty()) return where + views.damage;
  if (views.refusal.empty() || !traits.may_refuse) {
    const Outcome clones = outcome({contiguous(of.inputs.size())}, first);
    if (!clones.refusal.empty()) return "without gaps: " + clones.refusal;
    const std::string text = difference(views, clones, traits.view_ulp, traits.floor);
    if (!text.empty()) return where + text;
  }
  if (first == device) return "";
  const Outcome there = outcome(arrangement, device);
  const std::string and_where = text_of(arrangement, device) + ": ";
  if (!there.damage.empty()) return and_where + there.damage;
  const std::string text =
      difference(there, views, cuda::is_simulated() ? 0 : traits.ulp, traits.floor);
  return text.empty() ? "" : and_where + text;
}

TEST_P(EveryView, GivesWhatItsCloneGives) {
  int failures = 0;
  const Cases& cases = all_cases().at(GetParam());
  for (std::size_t i = 0; i < cases.size(); i += every()) {
    const Case& of = cases[i];
    for (const Arrangement& arrangement : arrangements(of)) {
      std::string wrong;
      try {
        wrong = check(of, arrangement);
      } catch (const std::exception& error) {
        wrong = text_of(arrangement, Device("cuda:0")) + " or the CPU: " + error.what();
        recover();
      }
      if (wrong.empty()) continue;
      ADD_FAILURE() << of.op << " of " << of.what << " on " << wrong;
      if (++failures == 5) return;
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& [name, cases] : all_cases()) list.push_back(name);
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, EveryView, ::testing::ValuesIn(names()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace ember::test
