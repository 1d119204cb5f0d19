#include "ember/memory/sharing_caps.h"

#include <string>

#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/memory/allocators.h"
#include "ember/runtime/device.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace {

using Way = driver::MemorySharing::Way;

/// Who asked for the memory, and how: which setting decides.
enum class Origin : std::uint8_t { ordinary, growing, ordered, of_program, foreign };

Origin origin_of(int device, const void* pointer) {
  memory::DeviceAllocator* const allocator = memory::allocator_if_made(device);
  if (allocator == nullptr || !allocator->holds(pointer)) return Origin::foreign;
  if (allocator->is_in_growing(pointer)) return Origin::growing;
  if (memory::memory_changed()) return Origin::of_program;
  return memory::settings().ordered ? Origin::ordered : Origin::ordinary;
}

/// What gives memory the way that cudaMalloc's has.
std::string as_of_malloc(Origin origin) {
  switch (origin) {
    case Origin::growing:
      return "allocate it with expandable_segments:False (EMBER_ALLOC_CONF, or "
             "set_allocator_settings)";
    case Origin::ordered: return "run the program with EMBER_ALLOC_CONF=backend:native";
    case Origin::of_program:
      return "let the program's own allocator bring memory of cudaMalloc (device_malloc)";
    case Origin::foreign:
      return "ask in the process, or the library, that allocated it: it is not ember's";
    case Origin::ordinary: break;
  }
  return "no setting: the device does not offer it for memory of cudaMalloc";
}

constexpr const char* kDescriptor = "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR";

/// For what only memory of cuMemCreate has that was asked for with such a handle.
std::string as_of_create(Origin origin, const char* handle) {
  if (origin == Origin::foreign) return as_of_malloc(origin);
  return std::string(
             "bring it by an allocator of the program's own (CUDAPluggableAllocator) that "
             "creates it with ") +
         handle;
}

SharingCap cap_of(Way way, const std::string& by_memory, const char* never) {
  if (way == Way::yes) return {true, {}};
  return {false, way == Way::other_memory ? by_memory : std::string("no setting: ") + never};
}

SharingCap peers_of(int device, Origin origin, bool has_handles) {
  std::string out_of_reach;
  const int devices = device_count();
  for (int other = 0; other < devices; ++other)
    if (other != device && !can_device_access_peer(other, device))
      out_of_reach += (out_of_reach.empty() ? "cuda:" : ", cuda:") + std::to_string(other);
  if (devices < 2) return {false, "make another device visible (CUDA_VISIBLE_DEVICES)"};
  if (!out_of_reach.empty())
    return {false, "no setting: there is no peer access from " + out_of_reach};
  // CUDA's own pool lets its device in, and no other.
  if (origin == Origin::ordered && has_handles) return {false, as_of_malloc(origin)};
  return {true, {}};
}

}  // namespace

SharingCaps sharing_caps(const void* pointer) {
  driver::Driver& driver = active_driver();
  driver::PointerInfo info;
  check(driver.pointer_info(pointer, info));
  if (info.kind != driver::PointerInfo::Kind::device) {
    for (int device = 0; device < device_count(); ++device)
      if (memory::DeviceAllocator* made = memory::allocator_if_made(device);
          made != nullptr && made->is_asleep(pointer))
        throw ValueError("sharing_caps: pointer: " + address_text(pointer) +
                         " is of a pool that is asleep: call its restore() first");
    throw ValueError(
        "sharing_caps: pointer: expected device memory in use, got " + address_text(pointer) +
        (info.kind == driver::PointerInfo::Kind::pinned ? ", page-locked memory of the host"
                                                        : ", which is none"));
  }
  driver::MemorySharing sharing;
  check(driver.memory_sharing(pointer, sharing));
  const Origin origin = origin_of(info.device, pointer);
  // Devices without handles of CUDA's have descriptors for all ordinary memory.
  const bool has_handles = sharing.legacy_ipc != Way::no;
  SharingCaps caps;
  caps.device = info.device;
  caps.legacy_ipc = cap_of(sharing.legacy_ipc, as_of_malloc(origin),
                           "the device has no handles of CUDA's, and shares memory by fd");
  caps.fd = cap_of(sharing.fd,
                   !has_handles                 ? as_of_malloc(origin)
                   : origin == Origin::ordinary ? "allocate it with expandable_segments:True "
                                                  "(EMBER_ALLOC_CONF, or set_allocator_settings)"
                                                : as_of_create(origin, kDescriptor),
                   "the device gives out no descriptors");
  caps.fabric = cap_of(sharing.fabric, as_of_create(origin, "CU_MEM_HANDLE_TYPE_FABRIC"),
                       "the device is not part of an NVLink fabric");
  caps.rdma = cap_of(sharing.rdma, as_of_malloc(origin),
                     "the device, or its driver, has no GPUDirect RDMA");
  caps.peers = peers_of(info.device, origin, has_handles);
  return caps;
}

}  // namespace ember::inline v0::cuda
