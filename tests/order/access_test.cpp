// What a launch declares is what its kernel may touch, wherever a seed decides. The suite runs with
// EMBER_SIM_SCHEDULE=random:0.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "ember/base/error.h"
#include "ember/runtime/device.h"
#include "tests/order/program.h"

namespace ember {
namespace {

using cuda::Access;
using cuda::HostLaunch;
using cuda::reads;
using cuda::Stream;
using cuda::writes;

constexpr std::size_t kWords = 64;

class Accesses : public testing::Test {
 protected:
  std::uint32_t* data() const { return data_->get(); }

  /// A kernel that asks for words to read, or to write, with what its launch declares: its fault.
  template <class Word>
  std::string fault_of(std::size_t first, std::size_t count,
                       std::initializer_list<Access> declared) {
    Word* const at = data() + first;
    cuda::launch(stream_, "asks", declared, [at, count](const HostLaunch& on) {
      Word* const found = on.at(at, count);
      return found == nullptr ? on.fault() : Status();
    });
    return fault();
  }
  /// The same for words that lie `stride` apart.
  std::string strided_fault_of(std::int64_t count, std::int64_t stride, Access declared) {
    std::uint32_t* const at = data();
    declared.address = at;
    struct Asks {
      std::uint32_t* at;
      std::int64_t count, stride;
    };
    static const cuda::Kernel kernel{
        "asks in strides", [](const cuda::Params& params, const HostLaunch& on) {
          const auto& asks = params.as<Asks>();
          const void* const found =
              on.at_strided(asks.at, std::span(&asks.count, 1), std::span(&asks.stride, 1));
          return found == nullptr ? on.fault() : Status();
        }};
    const Asks asks{at, count, stride};
    cuda::launch(stream_, kernel, cuda::Params(asks), {&declared, 1});
    return fault();
  }
  std::string fault() {
    try {
      stream_.synchronize();
      return "";
    } catch (const AcceleratorError& error) {
      cuda::reset_device(0);
      data_.emplace(kWords);
      return error.what();
    }
  }

  std::string place(std::size_t first) const {
    char text[32];
    std::snprintf(text, sizeof text, "%p", static_cast<const void*>(data() + first));
    return text;
  }

  const Stream stream_ = cuda::default_stream(0);
  std::optional<test::Words<std::uint32_t>> data_{kWords};
};

using Read = const std::uint32_t;
using Write = std::uint32_t;

TEST_F(Accesses, WhatIsDeclaredMayBeTouched) {
  Read* const at = data();
  EXPECT_EQ(fault_of<Read>(0, kWords, {reads(at, kWords)}), "");
  EXPECT_EQ(fault_of<Read>(8, 8, {reads(at, kWords)}), "");
  EXPECT_EQ(fault_of<Write>(0, 4, {writes(data(), 4)}), "");
  EXPECT_EQ(fault_of<Read>(0, 4, {writes(data(), 4)}), "") << "what is written may be read";
  EXPECT_EQ(fault_of<Read>(0, 8, {reads(at + 4, 4), writes(data(), 4)}), "")
      << "two accesses that meet";
  EXPECT_EQ(fault_of<Write>(0, 0, {}), "") << "no bytes are no access";
}

TEST_F(Accesses, AReadOfMoreThanWasDeclaredIsAFault) {
  const std::string text = fault_of<Read>(0, 5, {reads(data(), 4)});
  EXPECT_NE(text.find("operation 'asks' on cuda:0 faulted: it reads 20 bytes at " + place(0) +
                      ", which its launch does not declare: reads 16 bytes at " + place(0)),
            std::string::npos)
      << text;
}

TEST_F(Accesses, AWriteOfWhatWasDeclaredAsReadIsAFault) {
  const std::string text = fault_of<Write>(4, 1, {reads(data(), kWords)});
  EXPECT_NE(text.find("it writes 4 bytes at " + place(4) +
                      ", which its launch does not declare: reads 256 bytes at " + place(0)),
            std::string::npos)
      << text;
}

TEST_F(Accesses, AGapBetweenTwoAccessesIsAFault) {
  const std::string text = fault_of<Read>(0, 9, {reads(data(), 4), reads(data() + 5, 4)});
  EXPECT_NE(text.find("it reads 36 bytes"), std::string::npos) << text;
}

TEST_F(Accesses, NothingDeclaredIsNothingToTouch) {
  const std::string text = fault_of<Read>(0, 1, {});
  EXPECT_NE(text.find("which its launch does not declare: nothing"), std::string::npos) << text;
}

TEST_F(Accesses, AKernelThatGoesOnWithoutItsPlaceFaultsAllTheSame) {
  Read* const at = data();
  cuda::launch(stream_, "goes on", {}, [at](const HostLaunch& on) { (void)on.at(at, 1); });
  EXPECT_NE(fault().find("operation 'goes on'"), std::string::npos);
}

TEST_F(Accesses, ElementsOfStridesAreCompared) {
  const std::array<std::int64_t, 1> eight{8};
  const std::array<std::int64_t, 1> by_two{2};
  const std::array<std::int64_t, 1> by_four{4};
  const std::array<std::int64_t, 2> two_by_four{2, 4};
  const std::array<std::int64_t, 2> of_those{8, 2};
  Access declared{data(), 15 * 4, true};
  declared.item = 4;
  declared.sizes = eight;
  declared.strides = by_two;
  EXPECT_EQ(strided_fault_of(8, 2, declared), "");
  EXPECT_EQ(strided_fault_of(4, 4, declared), "") << "every other one of them";
  EXPECT_EQ(strided_fault_of(8, 0, declared), "") << "one element, again and again";
  EXPECT_NE(strided_fault_of(5, 3, declared), "") << "elements between those";
  EXPECT_NE(strided_fault_of(9, 2, declared), "") << "one more";
  declared.sizes = two_by_four;
  declared.strides = of_those;
  EXPECT_EQ(strided_fault_of(8, 2, declared), "") << "the same elements by other numbers";
  declared.sizes = eight;
  declared.strides = by_four;
  EXPECT_NE(strided_fault_of(8, 2, declared), "");
  const Access all = writes(data(), kWords);
  EXPECT_EQ(strided_fault_of(5, 3, all), "");
}

TEST_F(Accesses, ALaunchThatDeclaresNothingKnownIsNotChecked) {
  Write* const at = data();
  cuda::launch(stream_, "unknown", [at](const HostLaunch& on) {
    return on.at(at, kWords) == nullptr ? on.fault() : Status();
  });
  EXPECT_EQ(fault(), "");
}

}  // namespace
}  // namespace ember
