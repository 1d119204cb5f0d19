// Seeding and saving the default generators. Chapter 5 of the documents.
//
// Nothing here initialises CUDA unless it says so. What is asked for before CUDA is initialised is
// put off until then: seeds and states, in the order of the calls, of `cuda::manual_seed` and of
// `cuda::manual_seed_all` only the latest. If such a call fails then (a state for a device that
// does not exist), the call that initialises throws DeferredCudaCallError, with the stack of the
// first one in languages that know it (base/embedding.h). It stays first in line, as in torch:
// cuda::init() and everything that needs a generator of a device fail with it again. Where there is
// no CUDA it is never made.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ember/base/export.h"
#include "ember/random/generator.h"

namespace ember::inline v0 {

/// Seeds the default generators of the CPU and of all CUDA devices; returns the CPU's. Negative
/// numbers wrap.
EMBER_API Generator manual_seed(std::uint64_t seed);
/// The same with a random seed of 53 bits, which it returns.
EMBER_API std::uint64_t seed();
/// The seed in force on the CPU.
EMBER_API std::uint64_t initial_seed();
/// State of the CPU's default generator: see Generator::get_state and set_state.
EMBER_API Tensor get_rng_state();
EMBER_API void set_rng_state(const Tensor& state);

namespace cuda {

/// Seeds the current device's default generator.
EMBER_API void manual_seed(std::uint64_t seed);
/// Seeds every device's.
EMBER_API void manual_seed_all(std::uint64_t seed);
/// The same with a random seed, of all devices with the same one.
EMBER_API void seed();
EMBER_API void seed_all();
/// The seed in force on the current device. Initialises.
EMBER_API std::uint64_t initial_seed();

/// State of a device's default generator: see Generator::get_state. Initialises.
EMBER_API Tensor get_rng_state(DeviceArg device = {});
EMBER_API std::vector<Tensor> get_rng_state_all();
/// See Generator::set_state for the errors. Before initialisation the state is copied and its form
/// is checked then.
EMBER_API void set_rng_state(const Tensor& state, DeviceArg device = {});
/// In the order of the devices.
EMBER_API void set_rng_state_all(const std::vector<Tensor>& states);

/// The offset alone. Both initialise. Error `offset must be a multiple of 4`.
EMBER_API std::uint64_t get_rng_state_offset(DeviceArg device = {});
EMBER_API void set_rng_state_offset(std::uint64_t offset, DeviceArg device = {});

}  // namespace cuda

namespace random {

/// Saves the state of the CPU's default generator, and of those of some CUDA devices, and puts them
/// back when it goes out of scope.
class EMBER_API ForkRng {
 public:
  /// All CUDA devices unless a list is given; initialises CUDA if there are any.
  explicit ForkRng(const std::optional<std::vector<cuda::DeviceArg>>& devices = {},
                   bool enabled = true);
  ~ForkRng();
  ForkRng(const ForkRng&) = delete;
  ForkRng& operator=(const ForkRng&) = delete;

 private:
  std::vector<std::pair<Generator, PhiloxState>> saved_;
};

/// `auto forked = fork_rng({0, 1});`
[[nodiscard]] inline ForkRng fork_rng(
    const std::optional<std::vector<cuda::DeviceArg>>& devices = {}, bool enabled = true) {
  return ForkRng(devices, enabled);
}

}  // namespace random
}  // namespace ember::inline v0
