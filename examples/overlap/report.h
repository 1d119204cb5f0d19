// What is printed.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "host_check.h"
#include "input.h"
#include "pipeline.h"

namespace overlap {

using Pipelines = std::vector<std::unique_ptr<Pipeline>>;
using Seconds = std::chrono::duration<double>;

void print_input(const Input& input, std::uint32_t chunk_bytes);
void print_devices(int used);
void print_speed(const Pipelines& pipelines, std::uint64_t bytes, Seconds time);
void print_memory(const Pipelines& pipelines);
/// Returns whether the two are equal.
bool print_digest(const Digest& computed, const HostCheck& check, const Input& input);

/// One line that is drawn again and again, on a terminal; nothing elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(std::uint64_t total);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void draw(std::uint64_t done);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  const std::uint64_t total_;
  const bool visible_;
  const Clock::time_point start_ = Clock::now();
  bool drawn_ = false;
};

}  // namespace overlap
