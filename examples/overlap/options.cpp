#include "options.h"

#include "ember/cuda.h"

namespace overlap {

const char* const kHelp =
    R"(usage: overlap [FILE] [--devices N] [--chunk SIZE] [--repeat N]

Computes the byte histogram and the CRC-32 of a file on GPUs, in chunks, so that the
next chunk is copied while the present one is computed, and checks both on the host.

  FILE          any regular file; the program itself if none is given
  --devices N   how many devices share the work (2, or 1 where there is only one)
  --chunk SIZE  how much is copied at a time, from 4KiB to 1GiB (4MiB)
  --repeat N    how often the file is read, as if its copies were one long file
                (as often as makes a load worth watching)

EMBER_DEVICES chooses the devices: cuda, sim:N, sim:N@SIZE. Without it and without a
GPU, two simulated ones are used. Exit status: 0 the results are equal, 1 they are not
or a device failed, 2 bad arguments.
)";

namespace {

using example::parse_count;

std::uint32_t parse_chunk(const std::string& option, const std::string& value) {
  const auto bytes = ember::parse_bytes(value);
  if (!bytes || *bytes < 4 * ember::kKiB || *bytes > ember::kGiB)
    throw UsageError(option, value, "expected a size from 4KiB to 1GiB, such as 4MiB");
  return static_cast<std::uint32_t>(*bytes);
}

}  // namespace

Options parse_options(int count, const char* const* arguments) {
  Options options;
  bool have_file = false;
  for (example::Arguments words(count, arguments); words.next();) {
    const std::string word = words.word();
    if (words.is("-h") || words.is("--help")) {
      options.help = true;
    } else if (words.is("--devices")) {
      options.devices = static_cast<int>(parse_count(word, words.value(), 64));
    } else if (words.is("--chunk")) {
      options.chunk = parse_chunk(word, words.value());
    } else if (words.is("--repeat")) {
      options.repeat = parse_count(word, words.value(), std::uint64_t{1} << 40);
    } else if (words.is_option()) {
      throw UsageError("option", word, "expected --devices, --chunk, --repeat or --help");
    } else if (have_file) {
      throw UsageError("argument", word, "expected one FILE, got two");
    } else if (word.empty()) {
      throw UsageError("FILE", word, "expected the name of a file");
    } else {
      options.file = word;
      have_file = true;
    }
  }
  return options;
}

}  // namespace overlap
