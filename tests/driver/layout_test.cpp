// The stamp of the layouts: what changes it, and that no field or function can be left out.
#include "ember/driver/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ember/driver/cuda_object.h"

namespace ember::driver {
namespace {

using layout::Hash;

// One type, and what a later build might make of it.
namespace first {
struct Sample {
  void* native;
  int device;
  int epoch;
};
}  // namespace first
namespace swapped {
struct Sample {
  void* native;
  int epoch;
  int device;
};
}  // namespace swapped
namespace wider {
struct Sample {
  void* native;
  int device;
  long epoch;
};
}  // namespace wider
namespace longer {
struct Sample {
  void* native;
  int device;
  int epoch;
  int more;
};
}  // namespace longer
namespace aligned {
struct alignas(32) Sample {
  void* native;
  int device;
  int epoch;
};
}  // namespace aligned

namespace natural {
struct Sample {
  void* native;
  int device;
  unsigned epoch;
};
}  // namespace natural

template <class T>
constexpr std::uint64_t stamp_of_three() {
  Hash hash;
  EMBER_LAYOUT(T, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  return hash.value();
}

constexpr std::uint64_t stamp_of_four() {
  using T = longer::Sample;
  Hash hash;
  EMBER_LAYOUT(T, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch), EMBER_FIELD(more))
  return hash.value();
}

TEST(Layout, EveryChangeChangesTheStamp) {
  constexpr std::array kStamps = {
      stamp_of_three<first::Sample>(),   stamp_of_three<swapped::Sample>(),
      stamp_of_three<wider::Sample>(),   stamp_of_three<aligned::Sample>(),
      stamp_of_three<natural::Sample>(), stamp_of_four()};
  EXPECT_EQ(std::set(kStamps.begin(), kStamps.end()).size(), kStamps.size());
}

TEST(Layout, IsTheSameForTheSameType) {
  struct Sample {
    void* native;
    int device;
    int epoch;
  };
  EXPECT_EQ(stamp_of_three<Sample>(), stamp_of_three<first::Sample>());
}

TEST(Layout, KeepsNamesApart) {
  EXPECT_NE(Hash().add("a").add("bc").value(), Hash().add("ab").add("c").value());
  EXPECT_NE(Hash().add("a").value(), Hash().add("a").add("").value());
}

TEST(Layout, CountsFields) {
  static_assert(layout::has_exactly<StreamHandle, 3>);
  static_assert(!layout::has_exactly<StreamHandle, 2>);
  static_assert(!layout::has_exactly<StreamHandle, 4>);
  static_assert(layout::has_exactly<DeviceProperties, 23>);
}

// Arguments of kernels: a grid, and what a later build might make of it.
namespace arguments_first {
struct Point {
  int x, y;
};
EMBER_ARGUMENTS(Point, EMBER_FIELD(x), EMBER_FIELD(y))
struct Grid {
  const void* in;
  long size[2][3];
  Point points[2];
  bool wrap;
};
EMBER_ARGUMENTS(Grid, EMBER_FIELD(in), EMBER_FIELD(size), EMBER_FIELD(points), EMBER_FIELD(wrap))
}  // namespace arguments_first
namespace arguments_turned {
struct Point {
  int y, x;
};
EMBER_ARGUMENTS(Point, EMBER_FIELD(y), EMBER_FIELD(x))
struct Grid {
  const void* in;
  long size[2][3];
  Point points[2];
  bool wrap;
};
EMBER_ARGUMENTS(Grid, EMBER_FIELD(in), EMBER_FIELD(size), EMBER_FIELD(points), EMBER_FIELD(wrap))
}  // namespace arguments_turned
namespace arguments_flat {
struct Grid {
  const void* in;
  long size[6];
  arguments_first::Point points[2];
  bool wrap;
};
EMBER_ARGUMENTS(Grid, EMBER_FIELD(in), EMBER_FIELD(size), EMBER_FIELD(points), EMBER_FIELD(wrap))
}  // namespace arguments_flat
namespace arguments_real {
struct Grid {
  const void* in;
  double size[2][3];
  arguments_first::Point points[2];
  bool wrap;
};
EMBER_ARGUMENTS(Grid, EMBER_FIELD(in), EMBER_FIELD(size), EMBER_FIELD(points), EMBER_FIELD(wrap))
}  // namespace arguments_real

TEST(Layout, ArgumentsAreComparedThroughArraysAndRecords) {
  using First = arguments_first::Grid;
  static_assert(layout::has_exactly<First, 1 + 6 + 2 + 1>);
  static_assert(!layout::has_exactly<First, 1 + 6 + 2>);
  EXPECT_EQ(arguments<First>(), arguments<First>());
  EXPECT_NE(arguments<First>(), arguments<arguments_turned::Grid>());  // a record inside differs
  EXPECT_NE(arguments<First>(), arguments<arguments_real::Grid>());
  EXPECT_EQ(arguments<arguments_flat::Grid>(), arguments<First>());  // the same bytes
  EXPECT_NE((arguments<First, arguments_first::Point>()),
            (arguments<arguments_first::Point, First>()));
}

/// Pointers in arrays and in records, at their offsets.
namespace arguments_with_addresses {
struct Part {
  long size;
  const float* data;
};
EMBER_ARGUMENTS(Part, EMBER_FIELD(size), EMBER_FIELD(data))
struct Sum {
  void* out;
  double factor;
  const int* in[2];
  Part parts[2];
};
EMBER_ARGUMENTS(Sum, EMBER_FIELD(out), EMBER_FIELD(factor), EMBER_FIELD(in), EMBER_FIELD(parts))
struct Longer : Sum {
  void* scratch;
};
struct Own {
  long number;
  static constexpr AddressPlaces kAddresses = kNoAddress;
};
struct Silent {
  void* data;
};
}  // namespace arguments_with_addresses

TEST(Layout, SaysWhereAddressesLie) {
  using namespace arguments_with_addresses;
  const auto places = [](AddressPlaces of) {
    EXPECT_TRUE(of.known());
    return std::vector<int>(of.offsets, of.offsets + of.count);
  };
  EXPECT_EQ(places(layout::addresses_in<Sum>()), (std::vector<int>{0, 16, 24, 40, 56}));
  EXPECT_EQ(places(layout::addresses_in<void*>()), std::vector<int>{0});
  EXPECT_EQ(places(layout::addresses_in<std::uint64_t>()), std::vector<int>());
  EXPECT_EQ(places(layout::addresses_in<Own>()), std::vector<int>());
  EXPECT_EQ(places(Params(Sum{}).addresses()), places(layout::addresses_in<Sum>()));
  EXPECT_FALSE(layout::addresses_in<Longer>().known()) << "it has more than it states";
  EXPECT_FALSE(layout::addresses_in<Silent>().known());
}

/// The place of a virtual function in the table of its class. (In the C++ ABI of Linux a pointer to
/// a virtual function is one more than its distance from the table's start.)
template <class Function>
std::size_t slot(Function function) {
  std::array<std::ptrdiff_t, 2> words{};
  static_assert(sizeof(function) == sizeof(words));
  std::memcpy(words.data(), &function, sizeof(words));
  EXPECT_EQ(words[0] % 2, 1);
  return static_cast<std::size_t>(words[0] - 1) / sizeof(void*);
}

/// A driver with one virtual function more, which comes behind all others.
class Longer : public Driver {
 public:
  virtual void last() {}
};

// The stamp holds the lists of functions; calls are made by their place in Driver's table. A
// function that is in no list, or in another place, leaves a gap.
TEST(Layout, TheListsAreTheTable) {
  std::vector<std::string> table(slot(&Longer::last));
  ASSERT_GT(table.size(), 10U);
  table[0] = table[1] = "the destructor's two";
  std::size_t before = 0;
#define EMBER_SEAM_CALL(name, parameters, arguments)                                       \
  {                                                                                        \
    const std::size_t at = slot<Status(Driver::*) parameters noexcept>(&Driver::name);     \
    EXPECT_GT(at, before) << #name " stands elsewhere in driver.h than in seam_calls.inc"; \
    ASSERT_EQ(table.at(at), "");                                                           \
    table[at] = #name;                                                                     \
    before = at;                                                                           \
  }
#include "ember/driver/seam_calls.inc"
#undef EMBER_SEAM_CALL
  const std::array unlisted = {
      std::pair("name", slot(&Driver::name)),
      std::pair("simulated", slot(&Driver::simulated)),
      std::pair("device_count", slot(&Driver::device_count)),
      std::pair("device_active", slot(&Driver::device_active)),
      std::pair("may_wait", slot(&Driver::may_wait)),
      std::pair("device_epoch", slot(&Driver::device_epoch)),
      std::pair("epoch_ended", slot(&Driver::epoch_ended)),
      std::pair("now", slot(&Driver::now)),
  };
  ASSERT_EQ(unlisted.size(), std::size(layout::kUnlisted));
  for (std::size_t i = 0; i < unlisted.size(); ++i) {
    const auto& [name, at] = unlisted[i];
    EXPECT_STREQ(layout::kUnlisted[i].name, name);
    EXPECT_EQ(layout::kUnlisted[i].slot, at) << name;
    ASSERT_EQ(table.at(at), "");
    table[at] = name;
  }
  for (std::size_t at = 0; at < table.size(); ++at)
    EXPECT_NE(table[at], "") << "the virtual function in place " << at
                             << " is neither in seam_calls.inc nor in kUnlisted";
}

TEST(Layout, TheObjectBeginsWithVersionAndStamp) {
  EXPECT_EQ(offsetof(CudaObject, version), 0U);
  EXPECT_EQ(offsetof(CudaObject, layout), sizeof(void*));
  static_assert(CudaObject().layout == layout_stamp());
}

}  // namespace
}  // namespace ember::driver
