#include "ember/random/generator.h"

#include <sys/random.h>

#include <cstring>
#include <random>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0 {
namespace {

using detail::GeneratorObject;
using detail::GeneratorState;

Ref<GeneratorState> make_state(const PhiloxState& philox) {
  Ref<GeneratorState> made(new GeneratorState);
  const MutexLock lock(made->mutex);
  made->philox = philox;
  return made;
}

void require_multiple_of_4(std::uint64_t offset) {
  if (offset % 4 != 0) throw Error("offset must be a multiple of 4, got " + std::to_string(offset));
}

/// As a state holds it: an int64.
void require_offset(std::uint64_t offset) {
  if (const auto value = static_cast<std::int64_t>(offset); value < 0)
    throw Error("offset must not be negative, got " + std::to_string(value));
  require_multiple_of_4(offset);
}

}  // namespace

Generator::Generator(Device device)
    : Generator(ops::resolve(device), make_state({kDefaultSeed, 0})) {}

Generator::Generator(Device device, Ref<GeneratorState> state)
    : object_(new GeneratorObject(device)) {
  object_->state = std::move(state);
}

Ref<GeneratorState> Generator::state() const {
  const std::lock_guard lock(object_->mutex);
  return object_->state;
}

Device Generator::device() const { return object_->device; }
std::recursive_mutex& Generator::mutex() const { return object_->mutex; }

PhiloxState Generator::draw(std::uint64_t increment) const {
  // Its numbers would be the same in every replay.
  if (increment != 0 && device().is_cuda())
    cuda::refuse_captured(device().index(), "drawing random numbers");
  const std::lock_guard hold(object_->mutex);
  GeneratorState& shared = *object_->state;
  const MutexLock lock(shared.mutex);
  const PhiloxState before = shared.philox;
  shared.philox.offset += (increment + 3) / 4 * 4;
  return before;
}

void Generator::restore(const PhiloxState& state) {
  require_multiple_of_4(state.offset);
  const std::lock_guard hold(object_->mutex);
  GeneratorState& shared = *object_->state;
  const MutexLock lock(shared.mutex);
  shared.philox = state;
}

Generator& Generator::manual_seed(std::uint64_t seed) {
  restore({seed, 0});
  return *this;
}

std::uint64_t Generator::seed() {
  const std::uint64_t seed = random::random_seed();
  manual_seed(seed);
  return seed;
}

std::uint64_t Generator::initial_seed() const { return draw(0).seed; }
std::uint64_t Generator::get_offset() const { return draw(0).offset; }

void Generator::set_offset(std::uint64_t offset) {
  require_offset(offset);
  const std::lock_guard hold(object_->mutex);
  restore({initial_seed(), offset});
}

Tensor Generator::get_state() const {
  const PhiloxState now = draw(0);
  Tensor bytes = empty({static_cast<std::int64_t>(sizeof now)}, uint8);
  static_assert(sizeof now == 16);
  std::memcpy(bytes.data_ptr(), &now, sizeof now);
  return bytes;
}

void Generator::set_state(const Tensor& state) {
  if (!state.defined() || state.is_cuda() || state.dtype() != uint8)
    throw TypeError("RNG state must be a torch.ByteTensor");
  if (!state.is_contiguous()) throw Error("RNG state must be contiguous");
  PhiloxState next;
  const auto bytes = static_cast<std::size_t>(state.numel());
  if (bytes != sizeof next && bytes != sizeof next.seed)
    throw Error("RNG state is wrong size: " + std::to_string(bytes) + " bytes, expected 16 or 8");
  std::memcpy(&next, state.data_ptr(), bytes);
  require_offset(next.offset);
  restore(next);
}

Generator Generator::clone() const { return {device(), make_state(draw(0))}; }

Generator Generator::graphsafe_get_state() const { return {device(), state()}; }

void Generator::graphsafe_set_state(const Generator& other) {
  if (other.device().type() != device().type())
    throw Error("graphsafe_set_state: the generator is for " + device().str() +
                ", the state is of one for " + other.device().str());
  Ref<GeneratorState> theirs = other.state();
  const std::lock_guard lock(object_->mutex);
  object_->state = std::move(theirs);
}

std::uint64_t random::random_seed() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    std::random_device source;
    bits = (std::uint64_t{source()} << 32) | source();
  }
  return bits >> 11;
}

}  // namespace ember::inline v0
