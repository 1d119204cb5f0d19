// Results: rows of figures, kept as JSON lines and shown as a table. Includes nothing of ember.
#pragma once

#include <iosfwd>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ember::bench {

inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

/// One kind of work, measured on up to three sides.
struct Row {
  std::string group;  ///< the heading it stands under
  std::string name;   ///< rows of the same name are merged
  std::string unit;   ///< of all four figures: "us", "GB/s", ...
  double ours = kNothing;
  double raw = kNothing;        ///< the same work asked of CUDA directly, in ember's process
  double torch = kNothing;      ///< PyTorch's C++ API
  double torch_raw = kNothing;  ///< the same as `raw`, in PyTorch's process
  /// What `ours` should be: "<= 0.03", "<= 1.08 x raw", ">= 1 x PyTorch". Or empty.
  std::string goal;
};

/// Whether the goal is met, as far as figures are there: "yes", "no", or "". Half a percent beside
/// it is met: the figures are not more exact than that.
std::string met(const Row& row);

class Table {
 public:
  /// A fact about the machine or the programs: "gpu", "NVIDIA H200". Later ones replace earlier.
  void note(const std::string& key, const std::string& value);
  /// Adds a row, or fills in what a row of that name lacks.
  void add(const Row& row);

  const std::vector<Row>& rows() const { return rows_; }
  /// The value of a note, or "".
  std::string noted(const std::string& key) const;

  void write_text(std::ostream& out) const;
  void write_markdown(std::ostream& out) const;
  /// One object per line: first the notes, then a row each. What is not there is left out.
  void write_json(std::ostream& out) const;
  /// Adds what write_json wrote. Lines that are no such object are skipped.
  void read_json(std::istream& in);

 private:
  std::vector<std::pair<std::string, std::string>> notes_;
  std::vector<Row> rows_;
};

}  // namespace ember::bench
