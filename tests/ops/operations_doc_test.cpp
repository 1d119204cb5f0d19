// The end of docs/operations.md says what the operations' definitions say; what stands before, the
// list of all functions, is written by hand (tests/python/test_operations_list.py). To write the
// end anew:
//   EMBER_WRITE_DOCS=1 build/release/bin/test_ops --gtest_filter='OperationsDoc.*'
#include <fstream>
#include <sstream>

#include "ember/ops/elementwise_kernels.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

std::string dtypes_text(DtypeSet set) {
  struct Named {
    DtypeSet set;
    const char* text;
  };
  // The sets that definitions use, largest first.
  static constexpr Named kSets[] = {
      {dtypes::all, "all, complex32 and uint16 to uint64 too"},
      {dtypes::every_number_or_bool, "all, complex32 too"},
      {dtypes::every_number, "all but bool, complex32 too"},
      {dtypes::floating_every_complex, "floating point, complex, complex32 too"},
      {dtypes::any, "all"},
      {dtypes::any_number, "all but bool"},
      {dtypes::real_or_bool, "all but complex"},
      {dtypes::real_number, "integers, floating point"},
      {dtypes::floating_complex, "floating point, complex"},
      {dtypes::floating, "floating point"},
      {dtypes::floating_wide, "float32, float64"},
      {dtypes::integer_or_bool, "integers, bool"},
      {dtypes::integer, "integers"},
  };
  for (const Named& named : kSets)
    if (named.set == set) return named.text;
  return "?";
}

const std::string kHeading = "## Element by element\n\n";

std::string generated() {
  std::ostringstream out;
  out << kHeading
      << "Made from the definitions in `ember/scalar/elementwise.inc`; a test keeps this page "
         "true.\n\n"
         "Each one is a C++ function `ember::name`, a method `x.name()`, with `name_` in place "
         "and\n"
         "`name_out` into a given tensor, and the same in Python (`out=`). Operations for "
         "floating\n"
         "point make float32 of integers and bool. *ulp*: how far the result on a real GPU may be\n"
         "from the CPU's, in units of the last place; 0 is the same bits. Simulated devices "
         "always\n"
         "give the CPU's bits.\n\n"
         "| name | what it computes | for | result | ulp |\n|---|---|---|---|---|\n";
  for (const OpInfo& info : ops::all_ops()) {
    const char* inputs = info.operands == 1 ? "x" : info.operands == 2 ? "x, y" : "x, y, z";
    if (std::string(info.name) == "where") inputs = "condition, x, y";
    std::string doc = info.doc;
    for (std::size_t at = 0; (at = doc.find('|', at)) != std::string::npos; at += 2)
      doc.insert(at, "\\");
    out << "| `" << info.name << "(" << inputs << ")` | " << doc << " | "
        << dtypes_text(info.dtypes) << " | "
        << (info.result == Result::boolean ? "bool"
            : info.result == Result::real  ? "real"
                                           : "same")
        << " | " << info.ulp << " |\n";
  }
  return out.str();
}

TEST(OperationsDoc, SaysWhatTheDefinitionsSay) {
  const std::string path = EMBER_SOURCE_DIR "/docs/operations.md";
  const std::string expected = generated();
  EXPECT_EQ(expected.find("| ? |"), std::string::npos) << "a set of dtypes without a name";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const std::size_t begin = text.str().find(kHeading);
  ASSERT_NE(begin, std::string::npos);
  if (std::getenv("EMBER_WRITE_DOCS") != nullptr)
    std::ofstream(path) << text.str().substr(0, begin) << expected;
  else
    EXPECT_EQ(text.str().substr(begin), expected);
}

}  // namespace
}  // namespace ember::test
