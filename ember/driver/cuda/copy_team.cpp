#include "ember/driver/cuda/copy_team.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>

#include "ember/base/team.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// More gain nothing: then the memory is the limit.
constexpr unsigned kMostHelpers = 7;
constexpr std::size_t kPiece = std::size_t{256} << 10;

}  // namespace

bool copy_team_is_faster() noexcept {
  static const bool faster = std::thread::hardware_concurrency() >= 4;
  return faster;
}

void copy_by_team(void* target, const void* source, std::size_t bytes) noexcept {
  static const unsigned helpers = std::min(kMostHelpers, std::thread::hardware_concurrency() / 2);
  share(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), static_cast<int>(helpers) + 1,
        [&](std::int64_t piece) {
          const std::size_t at = static_cast<std::size_t>(piece) * kPiece;
          std::memcpy(static_cast<char*>(target) + at, static_cast<const char*>(source) + at,
                      std::min(kPiece, bytes - at));
        });
}

}  // namespace ember::inline v0::driver::cuda
