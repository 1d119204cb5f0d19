#include "tests/sweep/cases.h"

#include <cstdlib>
#include <utility>

#include "ember/base/sanitizer.h"

namespace ember::test {
namespace {

Tensors placed_on_cpu(const std::vector<Input>& inputs) {
  Tensors made;
  for (const Input& input : inputs)
    made.push_back(
        place(input.content, *strided(Layout::contiguous, input.content.sizes), Device("cpu")));
  return made;
}

}  // namespace

const std::map<std::string, Cases>& all_cases() {
  static const auto* const kAll = [] {
    Cases list;
    add_elementwise_cases(list);
    add_reduction_cases(list);
    add_ordered_cases(list);
    add_index_cases(list);
    add_rearranging_cases(list);
    add_view_cases(list);
    add_copy_cases(list);
    add_random_cases(list);
    add_product_cases(list);
    add_fft_cases(list);
    add_comm_cases(list);
    auto* all = new std::map<std::string, Cases>;
    for (Case& one : list) (*all)[one.op].push_back(std::move(one));
    return all;
  }();
  return *kAll;
}

std::size_t every() {
#if defined(EMBER_SANITIZED_HEAP)
  constexpr std::size_t kEvery = 8;
#else
  constexpr std::size_t kEvery = 1;
#endif
  const char* const watched = std::getenv("EMBER_SANITIZER");
  return watched != nullptr && *watched != '\0' ? 16 : kEvery;
}

Input target_for(const std::function<Tensor(Tensors&)>& call, const std::vector<Input>& inputs) {
  Tensors tensors = placed_on_cpu(inputs);
  const Tensor result = call(tensors);
  return target(result.dtype(), result.sizes());
}

std::string text_of(const std::vector<Input>& inputs) {
  std::string text;
  for (const Input& input : inputs)
    text += (text.empty() ? "" : ", ") + std::string(dtype_name(input.content.dtype)) + " " +
            input.content.sizes.str();
  return text;
}

void add(Cases& cases, const std::string& op, std::vector<Input> inputs,
         const std::function<Tensor(Tensors&)>& call, const Traits& traits,
         const std::string& note) {
  const std::string what = text_of(inputs) + (note.empty() ? "" : ", " + note);
  cases.push_back({op, what, std::move(inputs),
                   [call](Tensors& t, Device) { return Tensors{call(t)}; }, traits});
}

void add_with_out(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
                  const std::function<Tensor(Tensors&)>& call,
                  const std::function<void(Tensor& out, Tensors&)>& call_out, const Traits& traits,
                  const std::string& note) {
  add(cases, op, inputs, call, traits, note);
  add_out(cases, op, inputs, call, call_out, traits, note);
}

void add_out(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
             const std::function<Tensor(Tensors&)>& call,
             const std::function<void(Tensor& out, Tensors&)>& call_out, const Traits& traits,
             const std::string& note) {
  std::vector<Input> with_out{target_for(call, inputs)};
  with_out.insert(with_out.end(), inputs.begin(), inputs.end());
  add_in_place(
      cases, op + "_out", with_out,
      [call_out](Tensors& t) {
        Tensors rest(t.begin() + 1, t.end());
        call_out(t[0], rest);
      },
      traits, note);
}

void add_in_place(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
                  const std::function<void(Tensors&)>& call, const Traits& traits,
                  const std::string& note) {
  std::vector<Input> list = inputs;
  list[0].written = true;
  const std::string what = text_of(list) + (note.empty() ? "" : ", " + note);
  cases.push_back({op, what, std::move(list),
                   [call](Tensors& t, Device) {
                     call(t);
                     return Tensors{};
                   },
                   traits});
}

}  // namespace ember::test
