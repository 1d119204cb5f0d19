#include "ember/memory/user_memory.h"

#include <exception>
#include <new>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/memory/size_policy.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::memory {
namespace {

/// A function of a program's is being called on this thread. Pools have functions of their own, so
/// one may be called within another one.
struct Call {
  Call(const UserMemory& of_, const RawMemory& about_) noexcept : of(of_), about(about_) {
    innermost = this;
  }
  ~Call() { innermost = outer; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  static bool within(const UserMemory& of) noexcept {
    const Call* call = innermost;
    while (call != nullptr && &call->of != &of) call = call->outer;
    return call != nullptr;
  }

  const UserMemory& of;
  const RawMemory& about;
  Call* const outer = innermost;
  static constinit thread_local Call* innermost;
};
constinit thread_local Call* Call::innermost = nullptr;

std::string bytes_of(const RawMemory& memory) {
  return std::to_string(memory.bytes) + " bytes of cuda:" + std::to_string(memory.device);
}

}  // namespace

std::uint32_t epoch_of_call(int device) noexcept {
  for (const Call* call = Call::innermost; call != nullptr; call = call->outer)
    if (call->about.device == device) return call->about.epoch;
  return cuda::driver_if_made()->device_epoch(device);
}

UserMemory::UserMemory(Allocate allocate, Free free, std::string allocate_name,
                       std::string free_name)
    : allocate_(std::move(allocate)),
      free_(std::move(free)),
      allocate_name_(std::move(allocate_name)),
      free_name_(std::move(free_name)) {}

template <class Function>
Status UserMemory::call(const RawMemory& memory, const std::string& name,
                        const Function& function) noexcept {
  const auto threw = [&](const std::string& what) {
    return name + " threw, when it was called for " + bytes_of(memory) + ": " + what;
  };
  const Call now(*this, memory);
  try {
    function();
    return {};
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, threw("std::bad_alloc"));
  } catch (const OutOfMemoryError& error) {
    return Status(Code::out_of_memory, threw(error.what()));
  } catch (const AcceleratorError& error) {
    return Status(error.code(), threw(error.what()));
  } catch (const std::exception& error) {
    return Status(Code::unknown, threw(error.what()));
  } catch (...) {
    return Status(Code::unknown, threw("something that is no std::exception"));
  }
}

Status UserMemory::allocate(RawMemory& memory) noexcept {
  // It would be asked again and again.
  if (Call::within(*this))
    return Status(Code::unknown, "memory was asked for of the allocator that " + allocate_name_ +
                                     " serves, from within it; cuda::device_malloc asks the "
                                     "device itself");
  if (!initialised_.load(std::memory_order_acquire)) EMBER_TRY(initialise(memory));
  RawMemory made = memory;
  EMBER_TRY(call(memory, allocate_name_,
                 [&] { made.address = allocate_(memory.bytes, memory.device, memory.stream); }));
  if (made.address == nullptr) return Code::out_of_memory;
  if (cuda::driver_if_made()->device_epoch(memory.device) != memory.epoch)
    return Status(Code::context_is_destroyed,
                  "cuda:" + std::to_string(memory.device) + " was reset during an allocation");
  if (std::string why = why_unusable(made); !why.empty()) {
    Status given_back = give_back(made);
    if (!given_back.ok()) why += "; and " + given_back.detail();
    return Status(Code::unknown, std::move(why));
  }
  memory.address = made.address;
  return {};
}

void UserMemory::set_init(std::function<void(int)> init) {
  const MutexLock lock(options_);
  init_ = std::move(init);
  initialised_.store(!init_, std::memory_order_release);
}

void UserMemory::set_reset(std::function<void()> reset) {
  const MutexLock lock(options_);
  reset_ = std::move(reset);
}

// Others that want memory meanwhile wait for it.
Status UserMemory::initialise(const RawMemory& memory) noexcept {
  const MutexLock turn(initialising_);
  if (initialised_.load(std::memory_order_relaxed)) return {};
  std::function<void(int)> init;
  {
    const MutexLock lock(options_);
    init = init_;
  }
  EMBER_TRY(call(memory, "init_fn beside " + allocate_name_,
                 [&] { init(cuda::driver_if_made()->device_count()); }));
  initialised_.store(true, std::memory_order_release);
  return {};
}

Status UserMemory::trim(int device, std::uint32_t epoch) noexcept {
  std::function<void()> reset;
  {
    const MutexLock lock(options_);
    reset = reset_;
  }
  if (!reset) return {};
  return call({device, epoch, nullptr, 0, nullptr}, "reset_fn beside " + free_name_, reset);
}

std::string UserMemory::why_unusable(const RawMemory& memory) const {
  const auto but = [&](const std::string& what) {
    return allocate_name_ + " was called for " + bytes_of(memory) + ", and returned " +
           address_text(memory.address) + ": " + what;
  };
  driver::PointerInfo info;
  (void)cuda::driver_if_made()->pointer_info(memory.address, info);
  if (info.kind != driver::PointerInfo::Kind::device || info.device != memory.device)
    return but(info.kind == driver::PointerInfo::Kind::device
                   ? "that is memory of cuda:" + std::to_string(info.device)
                   : "that is no memory of a device");
  if (reinterpret_cast<std::uintptr_t>(memory.address) % kMinBlock != 0)
    return but("expected a multiple of " + std::to_string(kMinBlock));
  if (!info.holds(memory.address, memory.bytes))
    return but("there are fewer bytes from there to the end of the device's allocation");
  return {};
}

Status UserMemory::give_back(const RawMemory& memory) noexcept {
  if (cuda::driver_if_made()->device_epoch(memory.device) != memory.epoch)
    return Code::context_is_destroyed;
  Status status = call(memory, free_name_,
                       [&] { free_(memory.address, memory.bytes, memory.device, memory.stream); });
  // Nobody could make anything of "no memory" here.
  if (status.code() == Code::out_of_memory) return Status(Code::unknown, status.detail());
  return status;
}

void UserMemory::fail(const Status& status) const {
  if (status.code() == Code::unknown || status.code() == Code::invalid_value)
    throw Error(status.detail());
  throw AcceleratorError(status);
}

std::string UserMemory::refusal() const {
  return "It was " + allocate_name_ +
         " that had no memory left: it returned null, or threw std::bad_alloc or "
         "OutOfMemoryError. What it can have of the device is up to it.";
}

}  // namespace ember::inline v0::memory
