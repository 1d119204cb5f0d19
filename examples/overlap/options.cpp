#include "options.h"

#include <charconv>
#include <string_view>
#include <vector>

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

std::uint64_t parse_count(const std::string& option, const std::string& value, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 1 || number > most)
    throw UsageError(option, value, "expected a whole number from 1 to " + std::to_string(most));
  return number;
}

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
  bool only_files = false;  // after "--"
  const std::vector<std::string> words(arguments + 1, arguments + count);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (only_files || word.size() < 2 || word[0] != '-') {
      if (have_file) throw UsageError("argument", word, "expected one FILE, got two");
      if (word.empty()) throw UsageError("FILE", word, "expected the name of a file");
      options.file = word;
      have_file = true;
      continue;
    }
    if (word == "--") {
      only_files = true;
      continue;
    }
    if (word == "-h" || word == "--help") {
      options.help = true;
      continue;
    }
    // The rest take a value: "--chunk 4MiB" or "--chunk=4MiB".
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    if (option != "--devices" && option != "--chunk" && option != "--repeat")
      throw UsageError("option", word, "expected --devices, --chunk, --repeat or --help");
    const bool attached = equals != std::string::npos;
    if (!attached && i + 1 == words.size())
      throw UsageError("option", word, "expected a value after it");
    const std::string value = attached ? word.substr(equals + 1) : words[++i];
    if (option == "--devices")
      options.devices = static_cast<int>(parse_count(option, value, 64));
    else if (option == "--chunk")
      options.chunk = parse_chunk(option, value);
    else
      options.repeat = parse_count(option, value, std::uint64_t{1} << 40);
  }
  return options;
}

}  // namespace overlap
