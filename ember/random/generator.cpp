#include "ember/random/generator.h"

#include <sys/random.h>

#include <cstring>
#include <random>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/random/captured_draws.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/runtime.h"
#include "ember/tensor/accesses.h"

namespace ember::inline v0 {
namespace {

using detail::CapturedDraws;
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

bool is_captured(Device device) {
  return device.is_cuda() && cuda::any_capture() &&
         cuda::is_captured(cuda::current_stream(device.index()).handle());
}

/// Seed and offset are not known before a replay. The capture goes on.
void refuse_in_capture(Device device, const std::string& call) {
  if (!is_captured(device)) [[likely]]
    return;
  std::string text =
      call +
      " during CUDA graph capture. The numbers that are captured come from the "
      "generator's state at each replay: do this before the capture, or between replays.";
  if (call.ends_with("::set_current_seed"))
    text +=
        " CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed "
        "is the same as the original seed.";
  throw Error(text);
}

/// The draws of the capture that the current stream is part of.
std::shared_ptr<CapturedDraws> draws_of(GeneratorState& state, Device device) {
  const std::uint64_t capture = cuda::capture_of(cuda::current_stream(device.index()).handle());
  if (capture == 0)
    throw AcceleratorError(Status(Code::stream_capture_invalidated, "drawing random numbers"));
  const MutexLock lock(state.mutex);
  for (const std::shared_ptr<CapturedDraws>& each : state.captures)
    if (each->captures(capture) && each->device() == device.index()) return each;
  throw Error(
      "Attempt to increase offset for a CUDA generator not in capture mode. A capture draws from "
      "the default generator of the device on which it began, and from generators of that device "
      "that were given to CUDAGraph.register_generator_state before; this one is for " +
      device.str() + ".");
}

}  // namespace

Generator::Generator(Device device)
    : Generator(ops::resolve(device), make_state({kDefaultSeed, 0})) {
  refuse_in_capture(this->device(), "Cannot construct a new CUDAGeneratorImpl");
}

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

PhiloxSource Generator::draw(std::uint64_t increment) const {
  increment = (increment + 3) / 4 * 4;
  const std::lock_guard hold(object_->mutex);
  GeneratorState& shared = *object_->state;
  if (is_captured(device())) [[unlikely]]
    return draws_of(shared, device())->draw(increment);
  const MutexLock lock(shared.mutex);
  const PhiloxState before = shared.philox;
  shared.philox.offset += increment;
  return {before, nullptr};
}

PhiloxState Generator::read(const char* call) const {
  refuse_in_capture(device(), std::string("Cannot call CUDAGeneratorImpl::") + call);
  const std::lock_guard hold(object_->mutex);
  GeneratorState& shared = *object_->state;
  const MutexLock lock(shared.mutex);
  return shared.philox;
}

PhiloxState Generator::now() const { return read("current_seed"); }

void Generator::restore(const PhiloxState& state) { write(state, "set_state"); }

void Generator::write(const PhiloxState& state, const char* call) {
  refuse_in_capture(device(), std::string("Cannot call CUDAGeneratorImpl::") + call);
  require_multiple_of_4(state.offset);
  const std::lock_guard hold(object_->mutex);
  GeneratorState& shared = *object_->state;
  const MutexLock lock(shared.mutex);
  shared.philox = state;
}

Generator& Generator::manual_seed(std::uint64_t seed) {
  if (is_captured(device())) [[unlikely]] {
    const std::lock_guard hold(object_->mutex);
    GeneratorState& shared = *object_->state;
    const MutexLock lock(shared.mutex);
    if (shared.philox.seed == seed) return *this;
  }
  write({seed, 0}, "set_current_seed");
  return *this;
}

std::uint64_t Generator::seed() {
  const std::uint64_t seed = random::random_seed();
  write({seed, 0}, "seed");
  return seed;
}

std::uint64_t Generator::initial_seed() const { return now().seed; }
std::uint64_t Generator::get_offset() const { return read("get_offset").offset; }

void Generator::set_offset(std::uint64_t offset) {
  require_offset(offset);
  const std::lock_guard hold(object_->mutex);
  write({read("set_offset").seed, offset}, "set_offset");
}

Tensor Generator::get_state() const {
  const PhiloxState state = now();
  Tensor bytes = empty({static_cast<std::int64_t>(sizeof state)}, uint8);
  static_assert(sizeof state == 16);
  std::memcpy(bytes.address(), &state, sizeof state);
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
  ops::host_reads("set_state", state);
  std::memcpy(&next, state.address(), bytes);
  require_offset(next.offset);
  restore(next);
}

Generator Generator::clone() const { return {device(), make_state(now())}; }

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
