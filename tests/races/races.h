// Stream bugs that people report, as programs of a few lines, and what is said of them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

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
  void (*run)(bool fixed);
};

constexpr auto kRace = sanitizer::Conflict::Kind::race;
constexpr auto kReuse = sanitizer::Conflict::Kind::reuse;

inline constexpr std::size_t kBytes = 4096;

std::span<const Case> stream_cases();
std::span<const Case> memory_cases();
std::span<const Case> host_cases();
std::span<const Case> device_cases();

/// Work that says what it touches, and touches nothing: whether a bug shows is not up to the
/// timing.
inline void produce(const Stream& on, void* data, std::size_t bytes) {
  launch(on, "produce", {writes(static_cast<char*>(data), bytes)}, [](const HostLaunch&) {});
}
inline void consume(const Stream& on, const void* data, std::size_t bytes) {
  launch(on, "consume", {reads(static_cast<const char*>(data), bytes)}, [](const HostLaunch&) {});
}
inline void transform(const Stream& on, void* to, const void* from, std::size_t bytes) {
  launch(on, "transform",
         {writes(static_cast<char*>(to), bytes), reads(static_cast<const char*>(from), bytes)},
         [](const HostLaunch&) {});
}
/// x += 1
inline void increment(const Stream& on, void* data, std::size_t bytes) {
  transform(on, data, data, bytes);
}

}  // namespace ember::races
