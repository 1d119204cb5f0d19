#include "options.h"

#include "examples/support/arguments.h"

namespace digits {

using example::parse_count;
using example::UsageError;

const char* const kHelp =
    R"(usage: knn [--devices N] [--k K] [--repeat N] [--batch N] [--csv FILE] [--train N]
           [--predictions FILE] [--timeline FILE]

Recognises handwritten digits on GPUs: each query gets the label that most of its K
nearest training images have. Of equal distances the earlier image is nearer, of
equally frequent labels the smallest wins.

  --devices N         how many devices share the queries (all)
  --k K               how many neighbours vote (5)
  --repeat N          N copies of the queries, for load (100)
  --batch N           a device has N queries at a time (a fourth of its share, at most
                      8192, or 1024 on a simulated device)
  --csv FILE          own images: 64 pixels from 0 to 16 and a label from 0 to 9 per
                      line, separated by commas
  --train N           the first N rows are for training, the others are the queries
                      (1000; half of a file of at most 1000 rows)
  --predictions FILE  write the label found for each query there, one per line
  --timeline FILE     write what ran when there: a page (.html), or trace events (.json)

EMBER_DEVICES chooses the devices: cuda, sim:N, sim:N@SIZE. Without it and without a
GPU, two simulated ones are used. Exit status: 0 all is well, 1 a device failed, 2 bad
arguments or data.
)";

Options parse_options(int count, const char* const* arguments) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  Options options;
  for (example::Arguments words(count, arguments); words.next();) {
    const std::string word = words.word();
    if (words.is("-h") || words.is("--help"))
      options.help = true;
    else if (words.is("--devices"))
      options.devices = static_cast<int>(parse_count(word, words.value(), 64));
    else if (words.is("--k"))
      options.k = parse_count(word, words.value(), kMost);
    else if (words.is("--repeat"))
      options.repeat = parse_count(word, words.value(), kMost);
    else if (words.is("--batch"))
      options.batch = parse_count(word, words.value(), kMost);
    else if (words.is("--train"))
      options.train = parse_count(word, words.value(), kMost);
    else if (words.is("--csv"))
      options.csv = words.value();
    else if (words.is("--predictions"))
      options.predictions = words.value();
    else if (words.is("--timeline"))
      options.timeline = words.value();
    else
      throw UsageError(words.is_option() ? "option" : "argument", word,
                       "expected --devices, --k, --repeat, --batch, --csv, --train, "
                       "--predictions, --timeline or --help");
  }
  return options;
}

std::uint64_t training_rows(const Options& options, std::uint64_t rows) {
  constexpr std::uint64_t kUsual = 1000;
  const std::uint64_t train = options.train.value_or(rows > kUsual ? kUsual : rows / 2);
  if (train >= rows)
    throw UsageError("--train", std::to_string(train),
                     "expected at most " + std::to_string(rows - 1) + ", as there are " +
                         std::to_string(rows) + " rows");
  if (options.k > train)
    throw UsageError("--k", std::to_string(options.k),
                     "expected at most " + std::to_string(train) + ", the number of training rows");
  return train;
}

}  // namespace digits
