// Settings of the caching allocator, as text: chapter 11 of the documents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/status.h"
#include "ember/memory/size_policy.h"

namespace ember::inline v0::memory {

/// All sizes are bytes.
struct Settings {
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kIntervals = 16;  // from 1 MiB, 2 MiB, ... 32 GiB on
  using Divisions = std::array<std::uint32_t, kIntervals>;

  std::string text;                                ///< as it was given
  bool ordered = false;                            ///< backend: cudaMallocAsync
  std::size_t max_split_size = kUnlimited;         ///< blocks of this size and more are never split
  std::size_t max_non_split_rounding = 20 * kMiB;  ///< what a block that is not split may waste
  std::size_t large_segment = kLargeSegment;
  bool unread_native =
      false;  ///< backend:native would have refused the value of one of its options
  Divisions roundup_divisions{};            ///< 0 and 1: multiples of 512 bytes
  double garbage_collection_threshold = 0;  ///< of the memory limit; 0: off
  double per_process_memory_fraction = 1;
  bool expandable_segments = false;
  bool release_lock_on_cudamalloc = false;
  bool throw_on_cudamalloc_oom = false;
  bool graph_capture_record_stream_reuse = false;
  bool pinned_use_cuda_host_register = false;
  bool pinned_use_background_threads = false;
  std::uint32_t pinned_num_register_threads = 1;
  std::size_t pinned_reserve_segment_size = 0;  ///< see PinnedPolicy, as the next two
  std::size_t pinned_max_round_threshold = kUnlimited;
  std::size_t pinned_max_cached_size = kUnlimited;

  /// Whether any size is rounded to more than a multiple of 512 bytes.
  bool rounds_up() const noexcept;
  /// The block size for a request of 1 to kTooLarge - 1 bytes.
  std::size_t block_bytes(std::size_t requested) const noexcept;
  /// What is asked of the device when no cached block fits a rounded size.
  std::size_t segment_bytes(std::size_t size) const noexcept;
  /// The chunk by which a segment grows that lacks `missing` bytes for a rounded size, and has
  /// `held`. For what would share an ordinary segment: one of those. Else what is missing; of a
  /// segment that has grown before at least an eighth of what it has, up to 20 MiB, so that it
  /// grows seldom and wastes little (measured on traces of programs: docs/traces.md).
  std::size_t growth_bytes(std::size_t size, std::size_t missing, std::size_t held) const noexcept;
  /// Whether a block of that size is never split.
  bool oversize(std::size_t size) const noexcept { return size >= max_split_size; }
  /// Whether nothing is oversize, and no garbage is collected.
  bool plain() const noexcept {
    return max_split_size == kUnlimited && garbage_collection_threshold == 0;
  }
  /// Whether any of the options is set that only backend:native heeds.
  bool any_native() const noexcept { return !plain() || rounds_up() || unread_native; }
  /// Options that were switched on and change nothing here.
  std::vector<std::string> without_effect() const;

  friend bool operator==(const Settings&, const Settings&) = default;
};

/// What holds without any text.
const Settings& default_settings();

/// Reads `option:value,option:value`; blanks are ignored, and the last of several equal options
/// counts. What is not named stays as it is in `out`. Failed: invalid_value with the documents'
/// text where they have one, and `out` is as it was.
Status parse_settings(std::string_view text, Settings& out);

}  // namespace ember::inline v0::memory
