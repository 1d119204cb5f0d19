// A random program: operations on a few tensors and views of them, carried out on the CPU and on a
// device side by side. After each step both must hold the same: elements bit for bit (NaN being
// NaN), dtypes, shapes, strides and offsets.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/sweep/layouts.h"

namespace ember::test {

class Program {
 public:
  enum Side { cpu, device };
  using Run = std::function<Tensor(Side)>;

  /// Starts with some tensors. The same seed gives the same program on every kind of device, but
  /// for operations that are only exact where the device computes as the CPU does: real devices
  /// skip those.
  Program(std::uint64_t seed, Device on);

  /// Carries out one step. False if the sides differ: then wrong() says how.
  bool step();
  const std::string& wrong() const { return wrong_; }
  /// The steps so far, a line each.
  std::string text() const;

  // ---- For the steps
  /// From `low` to `high`, both included.
  std::int64_t number(std::int64_t low, std::int64_t high);
  bool chance(int percent) { return number(1, 100) <= percent; }
  /// One of the values that meet a condition; nothing if there is none.
  using Condition = std::function<bool(const Tensor&)>;
  std::optional<std::size_t> pick(const Condition& condition = {});
  const Tensor& at(std::size_t value, Side side = cpu) const;
  /// For a target that is about to change: the value, or a copy where it shares memory with that.
  Tensor apart(std::size_t value, std::size_t target, Side side) const;
  std::string name(std::size_t value) const { return "v" + std::to_string(values_[value].number); }
  /// A pair of equal new tensors in a layout of its own.
  struct Fresh {
    Tensor sides[2];
    const Tensor& operator[](Side side) const { return sides[side]; }
  };
  Fresh fresh(const Elements& elements);
  Fresh fresh(Dtype dtype, const Shape& sizes);
  /// Indices below `limit`, each one once if there are at most so many.
  Fresh indices(const Shape& sizes, std::int64_t limit);
  /// Whether results must be those of arithmetic that every machine does alike.
  bool real_device() const { return real_device_; }
  const Generator& generator(Side side) const { return generators_[side]; }

  /// A new value. If the CPU refuses, the device has to, and nothing is added.
  void make(const std::string& text, const Run& run);
  /// A change of a value, and of all that share its memory.
  void change(std::size_t target, const std::string& text, const std::function<void(Side)>& run);

 private:
  struct Value {
    int number;
    Fresh tensors;
  };
  /// Runs both sides; false if they were refused.
  bool run_both(const std::string& text, const std::function<void(Side)>& run);
  void add(const Fresh& tensors);
  void compare();

  std::mt19937_64 random_;
  Device device_;
  bool real_device_;
  cuda::Stream side_stream_;
  Generator generators_[2];
  std::vector<Value> values_;
  int made_ = 0;
  std::vector<std::string> lines_;
  std::string wrong_;
};

/// One kind of step: does nothing if no value is fit for it.
using ProgramStep = void (*)(Program& program);
const std::vector<ProgramStep>& program_steps();

}  // namespace ember::test
