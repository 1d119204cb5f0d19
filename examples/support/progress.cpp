#include "examples/support/progress.h"

#include <unistd.h>

#include <cstdio>

#include "ember/base/bytes.h"

namespace example {

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string byte_rate(std::uint64_t bytes, Seconds time) {
  if (bytes == 0 || time.count() <= 0) return "-";
  const double rate = static_cast<double>(bytes) / time.count();
  return ember::format_bytes(static_cast<std::uint64_t>(rate)) + "/s";
}

ProgressBar::ProgressBar(std::uint64_t total)
    : total_(total), visible_(total > 0 && isatty(STDOUT_FILENO) != 0) {}

void ProgressBar::draw(std::uint64_t done, const std::string& note) {
  if (!visible_) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && now - drawn_at_ < std::chrono::milliseconds(40)) return;
  constexpr int kWidth = 40;
  const double part = static_cast<double>(done) / static_cast<double>(total_);
  const int filled = static_cast<int>(part * kWidth);
  std::printf("\r  [%s%s] %3d %%  %s\033[K",
              std::string(static_cast<std::size_t>(filled), '#').c_str(),
              std::string(static_cast<std::size_t>(kWidth - filled), '.').c_str(),
              static_cast<int>(100 * part), note.c_str());
  std::fflush(stdout);
  drawn_ = true;
  drawn_at_ = now;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::printf("\r\033[K");
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace example
