// What launches are asked with: the same call gives the same bytes, whatever lay on the stack and
// on the heap before it. Batches on real devices compare them (driver/cuda/batch.h).
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/error.h"
#include "ember/driver/forwarding_driver.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/installed.h"
#include "tests/sweep/cases.h"

namespace ember::test {
namespace {

struct Launch {
  std::string kernel;
  std::vector<std::byte> arguments;
  std::vector<std::uint16_t> addresses;
};

/// Keeps what it is asked to launch.
class Listening : public driver::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;
  using ForwardingDriver::launch;

  Status launch(driver::StreamHandle stream, const driver::Kernel& kernel,
                const driver::Params& params, driver::PeerMemory peer) noexcept override {
    const auto* bytes = static_cast<const std::byte*>(params.data());
    const std::uint16_t* places = params.addresses().offsets;
    launches_.push_back({kernel.name.c_str(),
                         {bytes, bytes + params.size()},
                         {places, places + params.addresses().count}});
    return ForwardingDriver::launch(stream, kernel, params, peer);
  }
  std::vector<Launch> take() { return std::exchange(launches_, {}); }

 private:
  std::vector<Launch> launches_;
};

/// Leaves this byte wherever a call that follows puts its variables.
[[gnu::noinline]] void paint(int byte) {
  volatile std::byte stack[std::size_t{48} << 10];
  for (volatile std::byte& each : stack) each = static_cast<std::byte>(byte);
  (void)mallopt(M_PERTURB, byte);
}

std::uint64_t word_at(const Launch& launch, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, launch.arguments.data() + offset, sizeof word);
  return word;
}

/// Where two launches differ, or nothing. Memory may be other memory of the same kind.
std::string difference(const Launch& a, const Launch& b, std::uint64_t painted_a,
                       std::uint64_t painted_b) {
  if (a.kernel != b.kernel || a.arguments.size() != b.arguments.size())
    return a.kernel + " and " + b.kernel;
  std::vector<bool> skipped(a.arguments.size());
  for (const std::uint16_t offset : a.addresses) {
    const std::uint64_t first = word_at(a, offset);
    const std::uint64_t second = word_at(b, offset);
    if ((first == 0) != (second == 0) || (first == painted_a && second == painted_b)) continue;
    std::fill_n(skipped.begin() + offset, sizeof first, true);
  }
  for (std::size_t k = 0; k < skipped.size(); ++k)
    if (!skipped[k] && a.arguments[k] != b.arguments[k])
      return a.kernel + ": byte " + std::to_string(k) + " of its arguments is once " +
             std::to_string(static_cast<int>(a.arguments[k])) + ", once " +
             std::to_string(static_cast<int>(b.arguments[k]));
  return "";
}

/// What a case launches, its inputs being ready.
std::vector<Launch> launches_of(const Case& of, Listening& driver, int byte) {
  Tensors inputs;
  for (const Input& input : of.inputs)
    inputs.push_back(place(input.content, *strided(Layout::contiguous, input.content.sizes),
                           input.home == Home::cpu ? Device("cpu") : Device("cuda:0")));
  cuda::synchronize(0);
  case_seed() = 20;
  (void)driver.take();
  paint(byte);
  try {
    (void)of.run(inputs, Device("cuda:0"));
  } catch (const Error&) {  // what was launched until then counts
  }
  (void)mallopt(M_PERTURB, 0);
  cuda::synchronize(0);
  return driver.take();
}

TEST(Arguments, AreWrittenToTheLastByte) {
  IN_CHILD({
    Listening& driver = test::installed<Listening>();
    std::size_t launches = 0;
    for (const auto& [name, cases] : all_cases())
      for (std::size_t i = 0; i < cases.size(); i += every()) {
        (void)launches_of(cases[i], driver, 0);  // plans and the like are made once
        const std::vector<Launch> first = launches_of(cases[i], driver, 0xA5);
        const std::vector<Launch> second = launches_of(cases[i], driver, 0x5A);
        EXPECT_EQ(first.size(), second.size()) << name << " of " << cases[i].what;
        for (std::size_t k = 0; k < std::min(first.size(), second.size()); ++k)
          EXPECT_EQ(difference(first[k], second[k], 0xA5A5A5A5A5A5A5A5, 0x5A5A5A5A5A5A5A5A), "")
              << name << " of " << cases[i].what;
        launches += first.size();
      }
    EXPECT_GT(launches, 1000U);
  });
}

}  // namespace
}  // namespace ember::test
