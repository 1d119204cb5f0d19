// Addresses in the arguments of captured work.
#include "ember/driver/rebinding.h"

#include <gtest/gtest.h>

#include <array>
#include <span>

#include "ember/driver/arguments.h"

namespace ember::driver {
namespace {

struct Arguments {
  const char* first;
  const char* second;
  std::int64_t number;
};
EMBER_ARGUMENTS(Arguments, EMBER_FIELD(first), EMBER_FIELD(second), EMBER_FIELD(number))
constexpr AddressPlaces kPlaces = layout::addresses_in<Arguments>();

class ArgumentsOfWork : public ::testing::Test {
 protected:
  std::array<char, 256> before_{}, after_{};
  const std::array<Rebound, 1> memory_{Rebound{before_.data(), 128, after_.data()}};

  static std::span<std::byte> bytes(Arguments& arguments) {
    return std::as_writable_bytes(std::span(&arguments, 1));
  }
};

TEST_F(ArgumentsOfWork, AddressesMoveWithTheirOffset) {
  Arguments arguments{before_.data(), before_.data() + 64, 3};
  const NodeBinding node{1, "work", {before_.data(), before_.data() + 64}};
  ArgumentBinding binding(node, memory_);
  EXPECT_TRUE(binding.change(bytes(arguments), kPlaces));
  EXPECT_TRUE(binding.finish().ok());
  EXPECT_EQ(arguments.first, after_.data());
  EXPECT_EQ(arguments.second, after_.data() + 64);
  EXPECT_EQ(arguments.number, 3);
}

TEST_F(ArgumentsOfWork, OnlyDeclaredOnesAreAddresses) {
  Arguments arguments{before_.data(), before_.data() + 8, 3};
  const NodeBinding node{1, "work", {before_.data()}};
  ArgumentBinding binding(node, memory_);
  EXPECT_TRUE(binding.change(bytes(arguments), kPlaces));
  EXPECT_TRUE(binding.finish().ok());
  EXPECT_EQ(arguments.second, before_.data() + 8);
}

TEST_F(ArgumentsOfWork, OtherMemoryStays) {
  Arguments arguments{before_.data() + 128, nullptr, 3};
  const NodeBinding node{1, "work", {}};
  ArgumentBinding binding(node, memory_);
  EXPECT_FALSE(binding.change(bytes(arguments), kPlaces));
  EXPECT_TRUE(binding.finish().ok());
  EXPECT_EQ(arguments.first, before_.data() + 128);
}

TEST_F(ArgumentsOfWork, AnAddressThatIsElsewhereIsRefusedByName) {
  Arguments arguments{nullptr, nullptr, 3};
  const NodeBinding node{1, "work", {before_.data()}};
  ArgumentBinding binding(node, memory_);
  EXPECT_FALSE(binding.change(bytes(arguments), kPlaces));
  const Status status = binding.finish();
  EXPECT_EQ(status.code(), Code::not_supported);
  EXPECT_NE(status.detail().find("captured 'work' cannot be given other memory"),
            std::string::npos);
}

/// By where they lie, not by what they look like.
TEST_F(ArgumentsOfWork, NumbersThatLookLikeAddressesStay) {
  const auto number = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(before_.data()));
  Arguments arguments{before_.data(), nullptr, number};
  const NodeBinding node{1, "work", {before_.data()}};
  ArgumentBinding binding(node, memory_);
  EXPECT_TRUE(binding.change(bytes(arguments), kPlaces));
  EXPECT_EQ(arguments.first, after_.data());
  EXPECT_EQ(arguments.number, number);
  // Of arguments of which nothing is known, each word may be one.
  Arguments unknown{nullptr, before_.data(), number};
  EXPECT_TRUE(binding.change(bytes(unknown), {}));
  EXPECT_EQ(unknown.second, after_.data());
  EXPECT_NE(unknown.number, number);
}

/// What has several arguments, such as the nodes of one launch, is looked at as a whole.
TEST_F(ArgumentsOfWork, MayBeInSeveralPieces) {
  Arguments one{before_.data(), nullptr, 0}, other{nullptr, before_.data() + 64, 0};
  const NodeBinding node{1, "work", {before_.data(), before_.data() + 64}};
  ArgumentBinding binding(node, memory_);
  EXPECT_TRUE(binding.change(bytes(one), kPlaces));
  EXPECT_FALSE(binding.finish().ok());
  EXPECT_TRUE(binding.change(bytes(other), kPlaces));
  EXPECT_TRUE(binding.finish().ok());
}

}  // namespace
}  // namespace ember::driver
