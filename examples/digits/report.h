// What is printed of the data and the answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "csv.h"
#include "options.h"

namespace digits {

/// The load: how many queries there are in all, and in batches of which size.
struct Load {
  std::int64_t train = 0, queries = 0, total = 0, batch = 0;
};

void print_data(const Load& load, const Options& options);
/// Pictures of the queries that were not recognised. `first` is the row of the first query.
void print_wrong(const Digits& digits, std::size_t first, std::span<const std::uint8_t> answers);
void print_accuracy(const Digits& digits, std::size_t first, std::span<const std::uint8_t> answers);

/// One line of a picture: a character for each of the pixels, the darker the more ink.
std::string shades(std::span<const std::uint8_t> pixels);

}  // namespace digits
