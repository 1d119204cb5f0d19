// Tests of hypotheses, for numbers drawn with fixed seeds: they cannot fail by chance, only when
// the numbers change. Limits are those of one chance in a million or so.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace ember::test {

/// How far the numbers are from a distribution with this cumulative function, by Kolmogorov and
/// Smirnov: below 2.6 for one in a million.
template <class Cumulative>
double kolmogorov_smirnov(std::vector<double> numbers, const Cumulative& cumulative) {
  std::sort(numbers.begin(), numbers.end());
  const auto n = static_cast<double>(numbers.size());
  double worst = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double expected = cumulative(numbers[i]);
    worst = std::max(
        {worst, static_cast<double>(i + 1) / n - expected, expected - static_cast<double>(i) / n});
  }
  return worst * std::sqrt(n);
}
inline constexpr double kKolmogorovLimit = 2.7;

/// Pearson's chi-square for equally likely classes, as a standard normal number (by Wilson and
/// Hilferty): between -5 and 5.
inline double chi_square(const std::vector<double>& counts) {
  double total = 0;
  for (const double count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  const auto freedom = static_cast<double>(counts.size() - 1);
  const double ninth = 2 / (9 * freedom);
  return (std::cbrt(sum / freedom) - (1 - ninth)) / std::sqrt(ninth);
}
inline constexpr double kNormalLimit = 5;

/// The correlation of neighbours at a distance, as a standard normal number.
inline double serial_correlation(const std::vector<double>& numbers, std::size_t distance) {
  double mean = 0;
  for (const double x : numbers) mean += x;
  mean /= static_cast<double>(numbers.size());
  double product = 0;
  double square = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    square += (numbers[i] - mean) * (numbers[i] - mean);
    product += (numbers[i] - mean) * (numbers[(i + distance) % numbers.size()] - mean);
  }
  return product / square * std::sqrt(static_cast<double>(numbers.size()));
}

/// Standardised moments: the k-th power's mean.
inline double moment(const std::vector<double>& numbers, int k) {
  double sum = 0;
  for (const double x : numbers) sum += std::pow(x, k);
  return sum / static_cast<double>(numbers.size());
}

}  // namespace ember::test
