// Stream bugs that people report, as programs of a few lines, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "ember/ember.h"

namespace ember::races {

using namespace cuda;  // NOLINT(google-build-using-namespace): the programs read as users' do

/// A program that is run twice: with its bug, and with the one order that is missing there.
struct Case {
  const char* name;
  /// Where such a bug was reported, or fixed.
  const char* report;
  /// The bug's class: what the sanitizer has to call it.
  sanitizer::Conflict::Kind kind;
  int devices;
  /// What it has computed, when all that it says is done.
  double (*run)(bool fixed);
  /// What that is if everything is done in the order in which the program says it.
  double result;
};

constexpr auto kRace = sanitizer::Conflict::Kind::race;
constexpr auto kReuse = sanitizer::Conflict::Kind::reuse;

inline constexpr std::size_t kBytes = 4096;

std::span<const Case> stream_cases();
std::span<const Case> memory_cases();
std::span<const Case> host_cases();
std::span<const Case> device_cases();
std::span<const Case> training_cases();
std::span<const Case> library_cases();
std::vector<Case> all_cases();

// For GoogleTest: what a case is called, also as part of a test's name.
void PrintTo(const Case& one, std::ostream* out);
std::string test_name(const testing::TestParamInfo<Case>& info);

inline constexpr std::size_t kNumbers = kBytes / sizeof(std::uint32_t);

// Kernels of numbers of 32 bits, which say what they touch.

/// Each number becomes `value`.
void produce(const Stream& on, void* data, std::size_t bytes, std::uint32_t value = 1);
/// Only reads.
void consume(const Stream& on, const void* data, std::size_t bytes);
/// Each number of the one becomes one more than that of the other; which may be the same: x += 1.
void transform(const Stream& on, void* to, const void* from, std::size_t bytes);

/// What a program has seen, in a word of device memory: digit after digit if it sees digits.
class Seen {
 public:
  explicit Seen(const Stream& on);
  /// A kernel that adds the mean of these numbers as the next digit.
  void note(const Stream& on, const void* data, std::size_t bytes = kBytes) const;
  /// Waits for the stream, and takes it to the host.
  double on_host(const Stream& from) const;

 private:
  DeviceBuffer word_;
};

/// The mean of numbers in host memory.
double mean_of(const void* host, std::size_t bytes = kBytes);
/// The sum of a tensor, on the host.
inline double total(const Tensor& x) { return x.sum().item<double>(); }

}  // namespace ember::races
