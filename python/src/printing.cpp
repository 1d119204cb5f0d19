// ember.set_printoptions: how tensors are written.
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "define.h"
#include "ember/tensor/print.h"

namespace ember::python {
namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

PrintOptions of_profile(const std::string& profile) {
  PrintOptions options;
  if (profile == "short") {
    options.precision = 2;
    options.edgeitems = 2;
  } else if (profile == "full") {
    options.threshold = kAll;
  } else if (profile != "default") {
    throw ValueError("profile is '" + profile + "', expected 'default', 'short' or 'full'");
  }
  return options;
}

/// A number of elements, which may be infinite.
std::int64_t elements_of(double count) {
  if (std::isnan(count)) throw ValueError("threshold is nan, expected a number");
  if (count >= static_cast<double>(kAll)) return kAll;
  if (count < 0)
    throw ValueError("threshold is " + std::string(nb::repr(nb::float_(count)).c_str()) +
                     ", expected at least 0");
  return static_cast<std::int64_t>(count);
}

}  // namespace

void bind_printing(nb::module_& m) {
  m.def(
      "set_printoptions",
      [](std::optional<int> precision, std::optional<double> threshold,
         std::optional<std::int64_t> edgeitems, std::optional<int> linewidth,
         const std::optional<std::string>& profile, std::optional<bool> sci_mode) {
        PrintOptions options = profile ? of_profile(*profile) : print_options();
        if (precision) options.precision = *precision;
        if (threshold) options.threshold = elements_of(*threshold);
        if (edgeitems) options.edgeitems = *edgeitems;
        if (linewidth) options.linewidth = *linewidth;
        options.sci_mode = sci_mode;
        set_print_options(options);
      },
      nb::arg("precision") = nb::none(), nb::arg("threshold") = nb::none(),
      nb::arg("edgeitems") = nb::none(), nb::arg("linewidth") = nb::none(),
      nb::arg("profile") = nb::none(), nb::arg("sci_mode") = nb::none(),
      "How tensors are printed: digits, elements from which one is summarised, elements shown of "
      "each edge, characters of a line; a profile ('default', 'short', 'full') sets all of these "
      "first. sci_mode: with an exponent or without, None: as the numbers need it.");
}

}  // namespace ember::python
