#include "ember/memory/cudart.h"

#include <map>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/memory/host_registration.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda::cudart {
namespace {

/// What was made and not yet given back, by its address or handle.
struct Held {
  Mutex mutex;
  std::map<void*, HostRegistration> registrations EMBER_GUARDED_BY(mutex);
  std::map<void*, Stream> streams EMBER_GUARDED_BY(mutex);
};
Held& held() {
  static NoDestructor<Held> all;
  return *all;
}

template <class Call>
Code code_of(Call&& call) {
  try {
    return call();
  } catch (const AcceleratorError& error) {
    return error.code();
  }
}

}  // namespace

Code host_register(void* pointer, std::size_t bytes) {
  return code_of([&] {
    HostRegistration made(pointer, bytes);
    const MutexLock lock(held().mutex);
    held().registrations.insert_or_assign(pointer, std::move(made));
    return Code::ok;
  });
}

Code host_unregister(void* pointer) {
  return code_of([&] {
    HostRegistration ended;  // beside the lock: it waits
    {
      const MutexLock lock(held().mutex);
      const auto found = held().registrations.find(pointer);
      if (found == held().registrations.end()) return Code::host_memory_not_registered;
      ended = std::move(found->second);
      held().registrations.erase(found);
    }
    return Code::ok;
  });
}

Code profiler_start() { return active_driver().device_profile(current_device(), true).code(); }

Code profiler_stop() { return active_driver().device_profile(current_device(), false).code(); }

Code stream_create(void** handle) {
  if (handle == nullptr) return Code::invalid_value;
  return code_of([&] {
    const Stream made;
    const MutexLock lock(held().mutex);
    held().streams.insert_or_assign(made.native(), made);
    *handle = made.native();
    return Code::ok;
  });
}

Code stream_destroy(void* handle) {
  return code_of([&] {
    const MutexLock lock(held().mutex);
    return held().streams.erase(handle) != 0 ? Code::ok : Code::invalid_handle;
  });
}

}  // namespace ember::inline v0::cuda::cudart
