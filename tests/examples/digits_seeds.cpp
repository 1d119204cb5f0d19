// The example digits, run again with each of the seeds FIRST to LAST: a line for each, of its seed,
// a sum of its log, and one of its answers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "csv.h"
#include "ember/ember.h"
#include "neighbours.h"

namespace digits {
namespace {

using ember::Tensor;

constexpr std::int64_t kTrain = 200, kQueries = 60, kBatch = 16, kNearest = 5;

class Sum {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* const first = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ first[i]) * 1099511628211U;
  }
  unsigned long long value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037U;
};

Tensor rows_of(const Digits& digits, std::int64_t first, std::int64_t count) {
  const std::uint8_t* const pixels = digits.pixels.data() + first * kPixels;
  return ember::from_blob(const_cast<std::uint8_t*>(pixels), {count, kPixels}, ember::uint8);
}

/// All queries in batches, as many under way as there may be.
Sum answers(const Digits& digits) {
  Neighbours neighbours(rows_of(digits, 0, kTrain), ember::cuda::device_count(), kNearest, kBatch);
  const Tensor queries = rows_of(digits, kTrain, kQueries);
  Sum sum;
  std::int64_t taken = 0;
  while (taken < kQueries || neighbours.in_flight() > 0) {
    if (taken < kQueries && neighbours.in_flight() < Neighbours::kInFlight) {
      const std::int64_t rows = std::min(kBatch, kQueries - taken);
      neighbours.next_batch(rows).copy_(queries.narrow(0, taken, rows));
      neighbours.submit();
      taken += rows;
      continue;
    }
    const Tensor found = neighbours.collect();
    sum.add(found.data_ptr(), found.nbytes());
  }
  return sum;
}

}  // namespace
}  // namespace digits

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: digits_seeds FIRST LAST\n");
    return 2;
  }
  const digits::Digits digits = digits::read_csv(DIGITS_DATA);
  const auto last = std::strtoull(arguments[2], nullptr, 10);
  for (auto seed = std::strtoull(arguments[1], nullptr, 10); seed <= last; ++seed) {
    ember::sim::begin_run("random:" + std::to_string(seed));
    const digits::Sum found = digits::answers(digits);
    digits::Sum log;
    const std::string text = ember::sim::log();
    log.add(text.data(), text.size());
    std::printf("seed %llu log %016llx answers %016llx\n", static_cast<unsigned long long>(seed),
                log.value(), found.value());
  }
  return 0;
}
