// Where random numbers come from: a seed and an offset, from which the kernels compute every number
// by the place of its element. Chapter 5 of the documents.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/mutex.h"
#include "ember/base/ref.h"
#include "ember/runtime/device.h"
#include "ember/scalar/philox.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

namespace detail {

class CapturedDraws;

/// What generators share after graphsafe_get_state.
struct GeneratorState : RefCounted {
  Mutex mutex;
  PhiloxState philox EMBER_GUARDED_BY(mutex);
  /// Of captures in progress, or about to begin.
  std::vector<std::shared_ptr<CapturedDraws>> captures EMBER_GUARDED_BY(mutex);
};

/// What the copies of a Generator share.
struct GeneratorObject : RefCounted {
  explicit GeneratorObject(Device of) noexcept : device(of) {}
  const Device device;
  std::recursive_mutex mutex;  // recursive: users hold it around members, which take it, too
  Ref<GeneratorState> state;   // changed with the mutex held
};

}  // namespace detail

/// A source of random numbers for one device. A Generator is a value that shares its object: copies
/// name the same generator; clone() makes another one.
///
/// Every member may be called from any thread. For several calls to happen together, hold mutex()
/// around them:
///
///     std::lock_guard lock(generator.mutex());
///     generator.manual_seed(generator.initial_seed() + 1);
///
/// The numbers of an operation depend on the seed, the offset before it, and the element's index,
/// and not on the machine: the CPU, simulated and real devices give the same bits.
///
/// What a capture of a graph draws, every replay draws anew, from the seed and offset of then
/// (CUDAGraph::register_generator_state). While the calling thread's current stream of the device
/// is captured, seed and offset are neither told nor changed: Error `Cannot call
/// CUDAGeneratorImpl::current_seed during CUDA graph capture. ...`, and the capture goes on.
class EMBER_API Generator {
 public:
  /// A new object starts here, at offset 0.
  static constexpr std::uint64_t kDefaultSeed = 67280421310721ULL;

  /// For tensors on `device`, which must exist; plain "cuda" is the current device. CUDA is
  /// initialised for CUDA devices.
  explicit Generator(Device device = Device(Device::Type::cpu));
  // Moving copies: there is no generator that is none.
  Generator(const Generator&) noexcept = default;
  Generator& operator=(const Generator&) noexcept = default;
  ~Generator() = default;

  Device device() const;

  /// Starts again with a seed, at offset 0. Negative numbers wrap.
  Generator& manual_seed(std::uint64_t seed);
  /// Starts again with a random seed of 53 bits, which it returns.
  std::uint64_t seed();
  /// The seed in force.
  std::uint64_t initial_seed() const;

  /// How many numbers each subsequence has given: a multiple of four.
  std::uint64_t get_offset() const;
  /// Error `offset must be a multiple of 4`, or one of 2^63 and more, which a state cannot hold.
  void set_offset(std::uint64_t offset);

  /// 16 bytes on the CPU (uint8): the seed, then the offset.
  Tensor get_state() const;
  /// Takes such a tensor, or 8 bytes with the seed only (the offset becomes 0). TypeError `RNG
  /// state must be a torch.ByteTensor`; Error `RNG state must be contiguous`, `RNG state is wrong
  /// size`, `offset must be a multiple of 4`, `offset must not be negative`. Nothing changes then.
  void set_state(const Tensor& state);

  /// A new generator that goes on from here on its own.
  Generator clone() const;
  Generator clone_state() const { return clone(); }
  /// A generator that shares this one's seed and offset: what either draws, the other has drawn.
  Generator graphsafe_get_state() const;
  /// Draws from `other`'s seed and offset from now on, and shares them. Error if it is for another
  /// kind of device.
  void graphsafe_set_state(const Generator& other);

  /// Held by every member while it works; recursive, so that it may be held around them.
  std::recursive_mutex& mutex() const;

  /// Takes what one operation draws: the state before, with the offset moved on by `increment`,
  /// rounded up to a multiple of four. The one place where numbers are used up. In a capture
  /// nothing is: there the answer is where the kernel finds the state when a replay runs it. Error
  /// `Attempt to increase offset for a CUDA generator not in capture mode.` unless the generator
  /// was registered with the graph before.
  PhiloxSource draw(std::uint64_t increment) const;
  /// Seed and offset, as restore() takes them.
  PhiloxState now() const;
  void restore(const PhiloxState& state);

  /// Whether both are the same object.
  friend bool operator==(const Generator& a, const Generator& b) noexcept {
    return a.object_ == b.object_;
  }

 private:
  friend class detail::CapturedDraws;
  Generator(Device device, Ref<detail::GeneratorState> state);
  PhiloxState read(const char* call) const;
  void write(const PhiloxState& state, const char* call);
  Ref<detail::GeneratorState> state() const;

  Ref<detail::GeneratorObject> object_;
};

/// What operations on a device draw from unless told otherwise: always the same object, made at
/// first need with a random seed. Plain "cuda" is the current device. For CUDA devices, initialises
/// CUDA and runs what seeding calls left to do (random/seed.h).
EMBER_API Generator default_generator(Device device = Device(Device::Type::cpu));

namespace random {

/// 53 bits from the system's entropy source.
EMBER_API std::uint64_t random_seed();

}  // namespace random
}  // namespace ember::inline v0
