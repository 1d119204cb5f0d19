#include "ember/sanitizer/by_pointer.h"

#include "ember/sanitizer/engine.h"

namespace ember::inline v0::cuda::sanitizer {

using Kind = Activity::Kind;

struct ByPointer::State {
  Engine engine;
  std::vector<Conflict> found;
  std::uint64_t launched = 0;
};

ByPointer::ByPointer() : state_(std::make_unique<State>()) {}
ByPointer::~ByPointer() = default;

std::vector<Conflict> ByPointer::launch(const void* stream, std::span<const void* const> read,
                                        std::span<const void* const> written) {
  std::vector<Access> accesses;
  for (const void* data : read) accesses.push_back({data, 1, false});
  for (const void* data : written) accesses.push_back({data, 1, true});
  state_->found.clear();
  ++state_->launched;
  tell({.kind = Kind::kernel_launched,
        .device = 0,
        .stream = stream,
        .accesses = accesses,
        .accesses_known = true});
  return state_->found;
}

std::uint64_t ByPointer::launched() const noexcept { return state_->launched; }

std::vector<std::uint64_t> ByPointer::kept() const {
  const auto serials = state_->engine.kept();
  return {serials.begin(), serials.end()};
}

void ByPointer::allocate(const void* data) {
  tell({.kind = Kind::segment_freed, .device = 0, .address = data, .bytes = 1});
  tell({.kind = Kind::memory_allocated, .device = 0, .address = data, .bytes = 1, .requested = 1});
}

void ByPointer::tell(const Activity& activity) {
  Activity of_device = activity;
  of_device.device = 0;
  state_->engine.observe(of_device, state_->found);
}

}  // namespace ember::inline v0::cuda::sanitizer
