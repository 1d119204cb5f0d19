// The operations that the sweep calls, each with inputs for its tensor arguments.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/sweep/layouts.h"

namespace ember::test {

using Tensors = std::vector<Tensor>;

/// Where an input lives when a case runs on a device.
enum class Home {
  here,   ///< where the case runs
  cpu,    ///< always on the CPU
  other,  ///< on the second device if the case runs on one, and there is a second
};

struct Input {
  Elements content;
  bool written = false;  ///< the operation changes it
  /// On real devices only with a layout that repeats no element: which of several writes to one
  /// place counts, or in which order they are added up, is open there.
  bool distinct = false;
  Home home = Home::here;
};

/// Properties that most cases do not have.
struct Traits {
  double ulp = 0;            ///< how far a real device's results may be from the CPU's
  double view_ulp = 0;       ///< how far a view's results may be from its clone's, where sums are
                             ///< added in the order of the strides
  double floor = 0;          ///< the size of numbers from which ulps are counted
  bool may_refuse = false;   ///< where no strides can express the result: Error, and nothing else
  bool shares = false;       ///< results are views of the first input
  bool fills = false;        ///< may write to elements that share memory
  bool selects = false;      ///< writes to a part only, in which none may share memory
  bool by_value = false;     ///< which shape an output must have depends on the elements
  bool device_only = false;  ///< needs devices; the clone's results come from there, too
  bool all_pairs = false;    ///< every layout of the first input with every one of the second
};

struct Case {
  std::string op;    ///< the public name: "add", "add_" or "add_out"
  std::string what;  ///< dtypes, shapes, numbers
  std::vector<Input> inputs;
  /// Calls the operation; gives its results but for the inputs that it changes.
  std::function<Tensors(Tensors& inputs, Device here)> run;
  Traits traits = {};
};

using Cases = std::vector<Case>;

/// All cases, by the name of their operation.
const std::map<std::string, Cases>& all_cases();

/// Of the cases of an operation, each first one of so many. The address and the thread sanitizer
/// make all of them take minutes; of those that are taken they see every layout. So does the stream
/// sanitizer, which compares strided accesses run by run, and knows the streams of every graph.
std::size_t every();

// Each adds the cases of some headers.
void add_elementwise_cases(Cases& cases);  // elementwise.h, arithmetic.h
void add_reduction_cases(Cases& cases);    // reduce.h, softmax.h
void add_ordered_cases(Cases& cases);      // sort.h, scan.h, select.h
void add_index_cases(Cases& cases);        // index.h, indexing.h
void add_rearranging_cases(Cases& cases);  // cat.h, rearrange.h
void add_view_cases(Cases& cases);         // views in tensor.h
void add_copy_cases(Cases& cases);         // copies, conversions and new tensors like others
void add_random_cases(Cases& cases);       // distributions.h
void add_product_cases(Cases& cases);      // linalg.h
void add_fft_cases(Cases& cases);          // fft.h, stft.h
void add_comm_cases(Cases& cases);         // comm.h

/// What random cases draw from on a device: at the beginning of case_seed()'s numbers, except in a
/// capture, where each replay decides that.
Generator case_generator(Device device);
std::uint64_t& case_seed();

// ---- Inputs

/// Small numbers to read.
inline Input input(Dtype dtype, const Shape& sizes, int seed = 0) {
  return {numbers(dtype, sizes, seed), false, false, Home::here};
}
/// A tensor that is changed.
inline Input target(Dtype dtype, const Shape& sizes, int seed = 9) {
  return {numbers(dtype, sizes, seed), true, false, Home::here};
}
/// Indices below `limit`: all different ones first.
inline Input indices(const Shape& sizes, std::int64_t limit, Dtype dtype = Dtype::int64) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < limit; ++i) list.push_back(static_cast<double>((i + 2) % limit));
  if (limit == 0) list.assign({0});
  return {elements(dtype, sizes, list), false, true, Home::here};
}
inline Input elsewhere(Input input, Home home) {
  input.home = home;
  return input;
}
inline Input distinct(Input input) {
  input.distinct = true;
  return input;
}

/// A target for what a call gives that takes the other inputs: of its dtype and shape.
Input target_for(const std::function<Tensor(Tensors&)>& call, const std::vector<Input>& inputs);

/// "float32 [3, 4], int64 [4]".
std::string text_of(const std::vector<Input>& inputs);

/// Adds a case for a function of tensors that gives one.
void add(Cases& cases, const std::string& op, std::vector<Input> inputs,
         const std::function<Tensor(Tensors&)>& call, const Traits& traits = {},
         const std::string& note = "");
/// And one for its *_out form, which is given an output of the right shape before the inputs.
void add_with_out(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
                  const std::function<Tensor(Tensors&)>& call,
                  const std::function<void(Tensor& out, Tensors&)>& call_out,
                  const Traits& traits = {}, const std::string& note = "");
/// `op`_out alone.
void add_out(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
             const std::function<Tensor(Tensors&)>& call,
             const std::function<void(Tensor& out, Tensors&)>& call_out, const Traits& traits = {},
             const std::string& note = "");
/// A case for a method that changes its first input.
void add_in_place(Cases& cases, const std::string& op, const std::vector<Input>& inputs,
                  const std::function<void(Tensors&)>& call, const Traits& traits = {},
                  const std::string& note = "");

}  // namespace ember::test
