// Graphs with reductions as the statements of a kernel. It sweeps over the elements of a row: what
// needs no reduction is computed in the first sweep, what needs the result of one in a later one.
// Results for whole rows are computed between the sweeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/fuse/graph.h"
#include "ember/jit/source.h"

namespace ember::inline v0::fusion {

/// The order of the steps of a graph with reductions, of which each is needed.
class Sweeps {
 public:
  /// With `whole`, elements stay where they are from sweep to sweep: each is loaded, and each step
  /// on it done, once. Otherwise every sweep begins with what lies in memory.
  Sweeps(const Graph& graph, bool precise, bool whole);

  /// What a kernel needs room for.
  struct Needs {
    /// Bytes of an element that have to stay from one sweep to the next: the most at a time, and
    /// all that a kernel without registers has room for, which loads inputs again.
    std::size_t kept = 0, kept_by_host = 0;
    /// Whether there are loads in flight beside what is kept. Those of the first sweep are where
    /// what it keeps will be.
    bool loads_beside = false;
  };
  Needs needs() const;
  /// The body of the function row() (jit::Instance::rows).
  std::string statements() const;

 private:
  struct Sweep {
    std::vector<std::uint8_t> loads;       ///< inputs
    std::vector<std::uint8_t> steps;       ///< on elements
    std::vector<std::uint8_t> reductions;  ///< of what the sweep computes
  };
  /// Where an element's value is computed, or loaded, and where it is needed last.
  struct Life {
    int first = -1, last = -1;

    bool crosses() const { return last > first; }
  };

  void find_phases();
  void need(const Value& value, int sweep, std::vector<bool>& now);
  Life& life_of(const Value& value);
  bool is_row_input(std::size_t input) const { return (row_inputs_ >> input & 1) != 0; }
  bool is_of_element(const Value& value) const;
  std::string name_in(const Value& value, int sweep) const;
  std::string sweep_text(int at) const;
  std::string row_steps(int behind) const;
  std::string reduction_type(const Step& step) const;

  const bool precise_, whole_;
  const std::vector<Dtype> inputs_;
  const std::uint32_t row_inputs_;
  std::vector<Step> steps_;
  std::vector<std::uint8_t> outputs_;
  std::vector<bool> done_;  ///< steps that stand for themselves, not for an equal one
  std::vector<int> phase_;  ///< of steps: the first sweep that can compute it; of a row's: the
                            ///< one behind which it is there, -1 before the first
  std::vector<Sweep> sweeps_;
  std::vector<Life> step_lives_, input_lives_;
};

/// How threads of a real device share so many rows. `pack`: elements that a thread can load at
/// once.
jit::RowPlan share_rows(std::int64_t rows, std::int64_t length, int pack,
                        const Sweeps::Needs& needs);

}  // namespace ember::inline v0::fusion
