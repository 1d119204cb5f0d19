#include "ember/memory/pluggable.h"

#include <dlfcn.h>

#include <deque>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/no_destructor.h"
#include "ember/base/number_text.h"
#include "ember/memory/allocators.h"
#include "ember/memory/user_memory.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

using memory::UserMemory;

namespace {

/// Kept for ever: segments and pools of every device refer to it.
UserMemory* keep(UserMemory::Allocate allocate, UserMemory::Free free, std::string allocate_name,
                 std::string free_name) {
  static Mutex mutex;
  static NoDestructor<std::deque<UserMemory>> kept;
  const MutexLock lock(mutex);
  return &kept->emplace_back(std::move(allocate), std::move(free), std::move(allocate_name),
                             std::move(free_name));
}

[[noreturn]] void fail_to_load() {
  const char* const text = dlerror();
  throw Error(std::string("PluggableAllocator: ") + (text != nullptr ? text : "unknown error"));
}

template <class Function>
Function* symbol(void* library, const std::string& name) {
  void* const found = dlsym(library, name.c_str());
  if (found == nullptr) fail_to_load();
  return reinterpret_cast<Function*>(found);
}

std::string quoted(const std::string& name, const std::string& of) { return name + " of " + of; }

}  // namespace

PluggableAllocator::PluggableAllocator(Allocate alloc_fn, Free free_fn, const std::string& name) {
  if (!alloc_fn) throw ValueError("PluggableAllocator: alloc_fn: expected a function, got none");
  if (!free_fn) throw ValueError("PluggableAllocator: free_fn: expected a function, got none");
  memory_ = keep(std::move(alloc_fn), std::move(free_fn), quoted("alloc_fn", name),
                 quoted("free_fn", name));
}

PluggableAllocator::PluggableAllocator(const std::string& path_to_so_file,
                                       const std::string& alloc_fn_name,
                                       const std::string& free_fn_name) {
  // Never closed, even if a symbol is missing: an object may have done anything when it was loaded.
  void* const library = dlopen(path_to_so_file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail_to_load();
  auto* const allocate = symbol<void*(std::size_t, int, void*)>(library, alloc_fn_name);
  auto* const free = symbol<void(void*, std::size_t, int, void*)>(library, free_fn_name);
  memory_ = keep(allocate, free, quoted(alloc_fn_name, path_to_so_file),
                 quoted(free_fn_name, path_to_so_file));
}

void PluggableAllocator::set_init_fn(std::function<void(int device_count)> init_fn) {
  memory_->set_init(std::move(init_fn));
}
void PluggableAllocator::set_reset_fn(std::function<void()> reset_fn) {
  memory_->set_reset(std::move(reset_fn));
}

const std::string& PluggableAllocator::alloc_fn_name() const noexcept {
  return memory_->allocate_name();
}
const std::string& PluggableAllocator::free_fn_name() const noexcept {
  return memory_->free_name();
}

void change_current_allocator(const PluggableAllocator& allocator) {
  if (memory::change_memory(*allocator.memory_)) return;
  throw Error(
      "Can't swap an already initialized allocator: memory of a device was asked for before. "
      "change_current_allocator has to come first, or MemPool with an allocator serves a part of "
      "the program");
}

void* device_malloc(std::size_t bytes, DeviceArg device) {
  if (bytes == 0) return nullptr;
  const int index = device.existing();
  void* pointer = nullptr;
  const Status status = active_driver().malloc(index, memory::epoch_of_call(index), bytes, pointer);
  if (status.code() == Code::out_of_memory) return nullptr;
  check(status);
  return pointer;
}

void device_free(void* pointer) {
  if (pointer == nullptr) return;
  const auto refuse = [pointer](const char* why) {
    throw Error("device_free: " + address_text(pointer) + " is " + why +
                ". Expected what device_malloc returned and what was not freed yet.");
  };
  driver::PointerInfo info;
  check(active_driver().pointer_info(pointer, info));
  if (info.kind != driver::PointerInfo::Kind::device || info.base != pointer)
    refuse("no start of a device's memory");
  memory::DeviceAllocator* const allocator = memory::allocator_if_made(info.device);
  if (allocator != nullptr && allocator->holds(pointer))
    refuse("memory that an allocator has, perhaps one that this memory was given to");
  check(HostWait::free(info.device, memory::epoch_of_call(info.device), pointer));
}

}  // namespace ember::inline v0::cuda
