#include "ember/memory/settings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>

#include "ember/base/no_destructor.h"

namespace ember::inline v0::memory {
namespace {

constexpr std::string_view kPunctuation = ",:[]";

/// The words and the punctuation of a text, without blanks. Behind the end there are empty words.
class Words {
 public:
  explicit Words(std::string_view text) {
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) words_.push_back(std::exchange(word, {}));
    };
    for (const char c : text) {
      if (c == ' ' || (c >= '\t' && c <= '\r')) continue;
      if (kPunctuation.find(c) == std::string_view::npos) {
        word += c;
        continue;
      }
      end_word();
      words_.emplace_back(1, c);
    }
    end_word();
  }
  bool done() const noexcept { return at_ == words_.size(); }
  std::string_view peek() const noexcept { return done() ? std::string_view() : words_[at_]; }
  std::string_view next() noexcept { return done() ? std::string_view() : words_[at_++]; }
  bool accept(char wanted) noexcept {
    if (peek() != std::string_view(&wanted, 1)) return false;
    ++at_;
    return true;
  }
  Status expect(char wanted) {
    if (accept(wanted)) return {};
    return Status(Code::invalid_value,
                  std::string("Error parsing CachingAllocator settings, expected ") + wanted +
                      ", but got " + (done() ? "the end" : "'" + std::string(peek()) + "'"));
  }

  /// To the comma that ends a value, or to the end.
  void skip_value() noexcept {
    for (int depth = 0; !done() && (depth > 0 || words_[at_] != ","); ++at_) {
      if (words_[at_] == "[") ++depth;
      if (words_[at_] == "]") --depth;
    }
  }
  bool chooses(std::string_view option, std::string_view value) const {
    const std::array<std::string_view, 3> wanted{option, ":", value};
    return std::search(words_.begin(), words_.end(), wanted.begin(), wanted.end()) != words_.end();
  }

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

Status invalid(std::string text) { return {Code::invalid_value, std::move(text)}; }

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Numbers of MB that are bytes in 64 bits, with room to add some.
constexpr std::uint64_t kMostMegabytes = std::uint64_t{1} << 40;

Status read_whole(Words& words, std::string_view option, std::uint64_t most, std::uint64_t& out) {
  const std::string_view word = words.next();
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, out);
  if (!word.empty() && error == std::errc() && stop == end && out <= most) return {};
  return invalid("Error parsing CachingAllocator settings, " + std::string(option) +
                 ": expected a whole number from 0 to " + std::to_string(most) + ", but got " +
                 in_quotes(word));
}

Status read_megabytes(Words& words, std::string_view option, std::size_t& out) {
  std::uint64_t number = 0;
  EMBER_TRY(read_whole(words, option, kMostMegabytes, number));
  out = number * kMiB;
  return {};
}

Status read_fraction(Words& words, std::string_view option, double& out) {
  const std::string_view word = words.next();
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, out);
  if (!word.empty() && error == std::errc() && stop == end) return {};
  return invalid("Error parsing CachingAllocator settings, " + std::string(option) +
                 ": expected a number, but got " + in_quotes(word));
}

Status read_switch(Words& words, std::string_view option, bool& out) {
  const std::string_view word = words.next();
  if (word != "True" && word != "False")
    return invalid("Expected a single True/False argument for " + std::string(option) +
                   ", but got " + in_quotes(word));
  out = word == "True";
  return {};
}

Status read_backend(Words& words, Settings& out) {
  const std::string_view word = words.next();
  out.ordered = word == "cudaMallocAsync";
  if (out.ordered || word == "native") return {};
  return invalid("Unknown allocator backend, options are native and cudaMallocAsync, but got " +
                 in_quotes(word));
}

Status read_max_split_size(Words& words, Settings& out) {
  EMBER_TRY(read_megabytes(words, "max_split_size_mb", out.max_split_size));
  if (out.max_split_size >= kLargeSegment) return {};
  return invalid("CachingAllocator option max_split_size_mb too small, must be >= 20, but got " +
                 std::to_string(out.max_split_size / kMiB));
}

Status read_threshold(Words& words, Settings& out) {
  double& value = out.garbage_collection_threshold;
  EMBER_TRY(read_fraction(words, "garbage_collection_threshold", value));
  if (!(value > 0)) return invalid("garbage_collect_threshold too small, set it 0.0~1.0");
  if (!(value < 1)) return invalid("garbage_collect_threshold too big, set it 0.0~1.0");
  return {};
}

Status read_process_fraction(Words& words, Settings& out) {
  double& value = out.per_process_memory_fraction;
  EMBER_TRY(read_fraction(words, "per_process_memory_fraction", value));
  if (value >= 0 && value <= 1) return {};
  return invalid("per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
}

Status read_register_threads(Words& words, Settings& out) {
  std::uint64_t number = 0;
  EMBER_TRY(read_whole(words, "pinned_num_register_threads", ~std::uint32_t{0}, number));
  if (!std::has_single_bit(number))
    return invalid("Number of register threads has to be power of 2, but got " +
                   std::to_string(number));
  if (number > 128)
    return invalid("Number of register threads should be less than or equal to 128, but got " +
                   std::to_string(number));
  out.pinned_num_register_threads = static_cast<std::uint32_t>(number);
  return {};
}

Status read_division(Words& words, bool off, std::uint32_t& out) {
  std::uint64_t number = 0;
  EMBER_TRY(read_whole(words, "roundup_power2_divisions", ~std::uint32_t{0}, number));
  if (!std::has_single_bit(number) && !(off && number == 0))
    return invalid("For roundups, the divisons has to be power of 2 " +
                   std::string(off ? "or 0 to disable roundup " : "") + "but got " +
                   std::to_string(number));
  out = static_cast<std::uint32_t>(number);
  return {};
}

// Either one number for all sizes, or a list. Today's code lets `>` begin after the last interval
// that is named, the documents' with it: then the number of that one could not be chosen.
Status read_divisions(Words& words, Settings::Divisions& out) {
  std::uint32_t divisions = 0;
  if (!words.accept('[')) {
    EMBER_TRY(read_division(words, /*off=*/false, divisions));
    out.fill(divisions);
    return {};
  }
  out.fill(0);
  bool first = true;
  std::size_t after = 0;  // the interval behind the last one that was named
  while (!words.accept(']')) {
    if (!first) {
      EMBER_TRY(words.expect(','));
      if (words.accept(']')) break;
    }
    const bool rest = words.peek() == ">";
    std::uint64_t megabytes = 0;
    if (rest)
      (void)words.next();
    else
      EMBER_TRY(read_whole(words, "roundup_power2_divisions", kMostMegabytes, megabytes));
    if (!rest && !std::has_single_bit(megabytes))
      return invalid("For roundups, the intervals have to be power of 2 but got " +
                     std::to_string(megabytes));
    EMBER_TRY(words.expect(':'));
    EMBER_TRY(read_division(words, /*off=*/true, divisions));
    if (rest) {
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(after), out.end(), divisions);
    } else {
      const auto interval =
          std::min(static_cast<std::size_t>(std::countr_zero(megabytes)), Settings::kIntervals - 1);
      if (first) std::fill_n(out.begin(), interval, divisions);
      out[interval] = divisions;
      after = interval + 1;
    }
    first = false;
  }
  return {};
}

Status read_option(Words& words, std::string_view option, Settings& out) {
  if (option == "backend") return read_backend(words, out);
  if (option == "max_split_size_mb") return read_max_split_size(words, out);
  if (option == "max_non_split_rounding_mb")
    return read_megabytes(words, option, out.max_non_split_rounding);
  if (option == "large_segment_size_mb") return read_megabytes(words, option, out.large_segment);
  if (option == "roundup_power2_divisions") return read_divisions(words, out.roundup_divisions);
  if (option == "garbage_collection_threshold") return read_threshold(words, out);
  if (option == "per_process_memory_fraction") return read_process_fraction(words, out);
  if (option == "pinned_num_register_threads") return read_register_threads(words, out);
  if (option == "pinned_reserve_segment_size_mb")
    return read_megabytes(words, option, out.pinned_reserve_segment_size);
  if (option == "pinned_max_round_threshold_mb")
    return read_megabytes(words, option, out.pinned_max_round_threshold);
  if (option == "pinned_max_cached_size_mb")
    return read_megabytes(words, option, out.pinned_max_cached_size);
  const std::pair<std::string_view, bool*> switches[] = {
      {"expandable_segments", &out.expandable_segments},
      {"release_lock_on_cudamalloc", &out.release_lock_on_cudamalloc},
      {"throw_on_cudamalloc_oom", &out.throw_on_cudamalloc_oom},
      {"graph_capture_record_stream_reuse", &out.graph_capture_record_stream_reuse},
      {"pinned_use_cuda_host_register", &out.pinned_use_cuda_host_register},
      {"pinned_use_background_threads", &out.pinned_use_background_threads}};
  for (const auto& [name, value] : switches)
    if (option == name) return read_switch(words, option, *value);
  return invalid("Unrecognized key " + in_quotes(option) + " in CUDA allocator config.");
}

/// What only the native back end has.
bool is_native(std::string_view option) {
  constexpr std::array<std::string_view, 9> kNative{"max_split_size_mb",
                                                    "max_non_split_rounding_mb",
                                                    "large_segment_size_mb",
                                                    "roundup_power2_divisions",
                                                    "garbage_collection_threshold",
                                                    "expandable_segments",
                                                    "release_lock_on_cudamalloc",
                                                    "throw_on_cudamalloc_oom",
                                                    "graph_capture_record_stream_reuse"};
  return std::find(kNative.begin(), kNative.end(), option) != kNative.end();
}

// One that leaves blocks of what it divides too small to hold a large request would fail.
Status check_together(const Settings& settings) {
  if (settings.large_segment < kLargeSegment)
    return invalid(
        "CachingAllocator option large_segment_size_mb too small, must be >= 20, but "
        "got " +
        std::to_string(settings.large_segment / kMiB));
  if (settings.max_split_size < settings.large_segment)
    return invalid(
        "CachingAllocator option max_split_size_mb too small, must be >= large_segment_size_mb, "
        "which is " +
        std::to_string(settings.large_segment / kMiB));
  return {};
}

/// With another back end than the native one, which does not heed them, its options may have any
/// value.
Status read_any_option(Words& words, std::string_view option, bool native, Settings& out) {
  if (native || !is_native(option)) return read_option(words, option, out);
  const Settings before = out;
  const Words value = words;
  if (read_option(words, option, out).ok() && check_together(out).ok()) return {};
  out = before;
  out.unread_native = true;
  words = value;
  words.skip_value();
  return {};
}

}  // namespace

Status parse_settings(std::string_view text, Settings& out) {
  Settings settings = out;
  settings.text = text;
  Words words(text);
  const bool native = !words.chooses("backend", "cudaMallocAsync");
  while (!words.done()) {
    const std::string option(words.next());
    if (option.find_first_of(kPunctuation) != std::string::npos)
      return invalid("Error parsing CachingAllocator settings, expected an option, but got " +
                     in_quotes(option));
    EMBER_TRY(words.expect(':'));
    EMBER_TRY(read_any_option(words, option, native, settings));
    if (!words.done()) EMBER_TRY(words.expect(','));
  }
  EMBER_TRY(check_together(settings));
  out = std::move(settings);
  return {};
}

const Settings& default_settings() {
  static NoDestructor<Settings> made;  // allocators live as long as the process
  return *made;
}

bool Settings::rounds_up() const noexcept {
  return std::any_of(roundup_divisions.begin(), roundup_divisions.end(),
                     [](std::uint32_t divisions) { return divisions > 1; });
}

std::size_t Settings::block_bytes(std::size_t requested) const noexcept {
  constexpr int kFirst = 20;  // the logarithm of 1 MiB
  const int log = static_cast<int>(std::bit_width(requested)) - 1;
  const int interval = std::clamp(log - kFirst, 0, static_cast<int>(kIntervals) - 1);
  const std::size_t divisions = roundup_divisions[static_cast<std::size_t>(interval)];
  if (divisions <= 1 || requested <= kMinBlock * divisions) return round_size(requested);
  // More than 512 times the divisions: so a step has at least 512 bytes, and is a multiple of them.
  return round_up(requested, (std::size_t{1} << log) / divisions);
}

std::size_t Settings::segment_bytes(std::size_t size) const noexcept {
  if (is_small(size)) return kSmallSegment;
  if (size < kMinLargeAlloc) return large_segment;
  return round_up(size, kLargeRound);
}

std::size_t Settings::growth_bytes(std::size_t size, std::size_t missing,
                                   std::size_t held) const noexcept {
  if (size < kMinLargeAlloc) return segment_bytes(size);
  return std::max(round_up(missing, kLargeRound),
                  std::min(held / 8 / kLargeRound * kLargeRound, large_segment));
}

std::vector<std::string> Settings::without_effect() const {
  const std::pair<const char*, bool> options[] = {
      {"graph_capture_record_stream_reuse", graph_capture_record_stream_reuse},
      {"pinned_use_background_threads", pinned_use_background_threads}};
  std::vector<std::string> names;
  names.reserve(std::size(options));
  for (const auto& [name, on] : options)
    if (on) names.emplace_back(name);
  return names;
}

}  // namespace ember::inline v0::memory
