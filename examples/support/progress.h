// How far a program is, for whoever watches.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace example {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// `part` of `whole` in percent; zero if there is nothing.
double percent(double part, double whole);
/// Bytes per second: "2.37 GiB/s", or "-".
std::string byte_rate(std::uint64_t bytes, Seconds time);

/// One line that is drawn again and again, on a terminal; nothing elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(std::uint64_t total);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `note` follows the bar. Draws no more often than an eye can follow.
  void draw(std::uint64_t done, const std::string& note = "");
  void clear();
  Seconds time() const { return Clock::now() - start_; }

 private:
  const std::uint64_t total_;
  const bool visible_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_at_;
  bool drawn_ = false;
};

}  // namespace example
