// From neighbours to answers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace digits {

/// The label that most of these rows have; of equally frequent ones the smallest.
std::uint8_t vote(std::span<const std::int64_t> rows, std::span<const std::uint8_t> labels);

/// The answers to queries that come again and again, in order.
class Answers {
 public:
  explicit Answers(std::size_t queries) : queries_(queries) { labels_.reserve(queries); }

  /// The answer to the next query. Error if the same query had another answer before.
  void add(std::uint8_t label);
  /// How many queries have been answered, copies included.
  std::uint64_t count() const noexcept { return count_; }
  /// One for each of the different queries.
  const std::vector<std::uint8_t>& labels() const noexcept { return labels_; }

 private:
  const std::size_t queries_;
  std::uint64_t count_ = 0;
  std::vector<std::uint8_t> labels_;
};

}  // namespace digits
