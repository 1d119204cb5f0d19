// The threads that copy on the host for real devices; they need no GPU themselves.
#include "ember/driver/cuda/copy_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

namespace ember::driver::cuda {
namespace {

// Sizes around the pieces that threads share, at odd addresses.
TEST(CopyTeam, CopiesEveryByteAndNoMore) {
  for (const std::size_t bytes : {0UL, 1UL, 255UL, 256UL << 10, (256UL << 10) + 1, 3UL << 20}) {
    std::vector<unsigned char> source(bytes + 2);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i % 251);
    std::vector<unsigned char> target(bytes + 2, 252);
    std::vector<unsigned char> expected(target);
    std::copy(source.begin() + 1, source.end() - 1, expected.begin() + 1);
    copy_by_team(target.data() + 1, source.data() + 1, bytes);
    EXPECT_TRUE(target == expected) << bytes << " bytes";
  }
}

TEST(CopyTeam, ServesSeveralThreads) {
  // More than can be served at once, and with pauses in which the helpers fall asleep.
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t)
    threads.emplace_back([t, &wrong] {
      std::minstd_rand random(t + 1);
      std::vector<unsigned char> source(std::size_t{2} << 20);
      std::vector<unsigned char> target(source.size());
      for (unsigned round = 0; round < 30; ++round) {
        std::fill(source.begin(), source.end(), static_cast<unsigned char>(round * 6 + t));
        const std::size_t bytes = random() % source.size();
        copy_by_team(target.data(), source.data(), bytes);
        wrong += !std::equal(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(bytes),
                             target.begin());
        if (round % 8 == t) std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ember::driver::cuda
