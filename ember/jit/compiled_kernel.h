// A kernel that was compiled for one instance, and both caches of them.
#pragma once

#include <string>
#include <string_view>

#include "ember/base/ref.h"
#include "ember/base/short_vector.h"
#include "ember/driver/compiled.h"
#include "ember/jit/signature.h"
#include "ember/jit/source.h"
#include "ember/jit/traps.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::jit {

/// For which kind of machine: the capability of a real device, such as 90, or the host.
inline constexpr int kHostTarget = 0;

/// That of work on a device.
int target_of(Device device);

/// The context of a launch.
class CompiledKernel final : public driver::CompiledContext {
 public:
  explicit CompiledKernel(const Instance& made_for) : instance(made_for), places(instance) {}

  const Instance instance;
  const ArgumentPlaces places;

 private:
  friend Ref<const CompiledKernel> compile(const std::string&, const Signature&, const Instance&,
                                           int);
  friend Status run_on_host(const driver::Params&, const driver::HostLaunch&) noexcept;
  /// Works on elements [first, last); `data` is where the operands lie.
  HostEntry host_entry_ = nullptr;
  std::string image_;
};

/// What tells instances for a target apart, as a key of tables. Few calls need more room.
using InstanceKey = ShortVector<char, 96>;
InstanceKey key_of(const Instance& instance, int target);
inline std::string_view text_of(const InstanceKey& key) { return {key.data(), key.size()}; }

/// The kernel of a text for an instance and a target: from this process, from disk, or compiled.
/// Each is compiled once, also where several threads ask for it. Blocks while it is compiled.
/// Error if it does not compile, if there is no compiler, or if the cache on disk is open to
/// others. Thread-safe.
Ref<const CompiledKernel> compiled(const std::string& code, const Signature& signature,
                                   const Instance& instance, int target);

/// The implementation on hosts and on simulated devices.
Status run_on_host(const driver::Params& params, const driver::HostLaunch& on) noexcept;
/// The implementation on real devices; null unless they are what there is.
driver::CudaImplementation run_on_device() noexcept;

}  // namespace ember::inline v0::jit
