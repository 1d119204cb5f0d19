// Segments that come from functions of the program's: cuda::PluggableAllocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "ember/base/mutex.h"
#include "ember/memory/segment_source.h"

namespace ember::inline v0::memory {

/// Nothing of what the functions do is trusted: they may return null, throw, call the allocator
/// again that they serve, or return what cannot be used. Never destroyed. Thread-safe, if the
/// functions are.
class UserMemory final : public MemorySource {
 public:
  using Allocate = std::function<void*(std::size_t bytes, int device, void* stream)>;
  using Free = std::function<void(void* address, std::size_t bytes, int device, void* stream)>;

  /// The names are for errors.
  UserMemory(Allocate allocate, Free free, std::string allocate_name, std::string free_name);

  /// Null is out_of_memory, as is std::bad_alloc and OutOfMemoryError. Whatever else was wrong has
  /// code `unknown`, and memory that cannot be used has gone back by then.
  Status allocate(RawMemory& memory) noexcept override;
  /// `unknown` if the function has thrown. Memory of a device that was reset is gone: the function
  /// is not called for it.
  Status give_back(const RawMemory& memory) noexcept override;
  /// What a function did wrong is an Error that says so.
  [[noreturn]] void fail(const Status& status) const override;
  std::string refusal() const override;
  /// `reset` throwing is `unknown`.
  Status trim(int device, std::uint32_t epoch) noexcept override;

  /// Called before the first allocation, with the number of devices; again if it throws.
  void set_init(std::function<void(int)> init);
  /// Called by trim().
  void set_reset(std::function<void()> reset);

  const std::string& allocate_name() const noexcept { return allocate_name_; }
  const std::string& free_name() const noexcept { return free_name_; }

 private:
  std::string why_unusable(const RawMemory& memory) const;
  template <class Function>
  Status call(const RawMemory& memory, const std::string& name, const Function& function) noexcept;

  Status initialise(const RawMemory& memory) noexcept;

  const Allocate allocate_;
  const Free free_;
  const std::string allocate_name_, free_name_;
  std::atomic<bool> initialised_{true};  // nothing is left to do
  Mutex initialising_;                   // held while init runs; before options_
  Mutex options_;
  std::function<void(int)> init_ EMBER_GUARDED_BY(options_);
  std::function<void()> reset_ EMBER_GUARDED_BY(options_);
};

/// The epoch for which a function of a program's on this thread is asked about memory of the
/// device; the present one outside of such functions.
std::uint32_t epoch_of_call(int device) noexcept;

}  // namespace ember::inline v0::memory
