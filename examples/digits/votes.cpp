#include "votes.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "csv.h"

namespace digits {

std::uint8_t vote(std::span<const std::int64_t> rows, std::span<const std::uint8_t> labels) {
  std::array<std::int64_t, kLabels> votes{};
  for (const std::int64_t row : rows) ++votes[labels[static_cast<std::size_t>(row)]];
  return static_cast<std::uint8_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

void Answers::add(std::uint8_t label) {
  const std::uint64_t query = count_++ % queries_;
  if (query == labels_.size()) {
    labels_.push_back(label);
  } else if (labels_[query] != label) {
    throw std::runtime_error("query " + std::to_string(query) + " is " +
                             std::to_string(labels_[query]) + " at first and " +
                             std::to_string(label) + " in copy " +
                             std::to_string((count_ - 1) / queries_));
  }
}

}  // namespace digits
