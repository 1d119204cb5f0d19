// The layouts of everything that the core and the CUDA object hand to each other, as one number.
// Both are compiled from this header; the number differs when a type, the order of the seam's
// functions, a compiler's flag or a C++ library differs, and the core then refuses the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ember/driver/driver.h"

namespace ember::inline v0::driver::layout {

/// FNV-1a of 64 bits.
class Hash {
 public:
  constexpr Hash& add(std::string_view text) noexcept {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
    return *this;
  }
  constexpr Hash& add(std::size_t number) noexcept {
    for (unsigned i = 0; i < 8; ++i) byte(static_cast<unsigned char>(number >> (8 * i)));
    return *this;
  }
  constexpr std::uint64_t value() const noexcept { return value_; }

 private:
  constexpr void byte(unsigned char b) noexcept { value_ = (value_ ^ b) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

struct Field {
  const char* name;
  std::size_t offset;
  std::size_t size;
};

/// Converts to anything: stands for a field in braces.
struct Anything {
  template <class T>
  operator T() const noexcept;
};

template <class T, std::size_t... k>
constexpr bool has_fields(std::index_sequence<k...>) {
  return requires { T{(static_cast<void>(k), Anything())...}; };
}

/// Whether an aggregate has exactly `count` fields (none of them an array).
template <class T, std::size_t count>
constexpr bool has_exactly = has_fields<T>(std::make_index_sequence<count>()) &&
                             !has_fields<T>(std::make_index_sequence<count + 1>());

/// A type whose fields are private: from outside it is a size and an alignment.
template <class T>
constexpr void add_opaque(Hash& hash, std::string_view name) {
  hash.add(name).add(sizeof(T)).add(alignof(T));
}

/// An aggregate. Does not compile unless every field is listed.
template <class T, std::size_t count>
constexpr void add_fields(Hash& hash, std::string_view name, const Field (&fields)[count]) {
  static_assert(has_exactly<T, count>, "list every field of the type");
  add_opaque<T>(hash, name);
  for (const Field& field : fields) hash.add(field.name).add(field.offset).add(field.size);
}

#define EMBER_FIELD(field) \
  { #field, offsetof(Type, field), sizeof(decltype(Type::field)) }
#define EMBER_LAYOUT(type, ...)                                         \
  {                                                                     \
    using Type = type;                                                  \
    constexpr ::ember::driver::layout::Field kFields[] = {__VA_ARGS__}; \
    ::ember::driver::layout::add_fields<Type>(hash, #type, kFields);    \
  }

/// A function of Driver that is in no list because it cannot fail, and its place in the table of
/// virtual functions.
struct Place {
  const char* name;
  std::size_t slot;
};
inline constexpr Place kUnlisted[] = {{"name", 2},          {"simulated", 3}, {"device_count", 4},
                                      {"device_active", 6}, {"may_wait", 9},  {"device_epoch", 10},
                                      {"epoch_ended", 11}};

/// What crosses the boundary, but for the table of entries itself (cuda_object.h).
constexpr void add_seam(Hash& hash) {
  // The standard library's part: its strings cross in Status and in DeviceProperties.
  add_opaque<std::string>(hash, "std::string");
  add_opaque<Code>(hash, "Code");
  add_opaque<Status>(hash, "Status");
  add_opaque<Params>(hash, "Params");
  add_opaque<HostLaunch>(hash, "HostLaunch");
  add_opaque<CudaLaunch>(hash, "CudaLaunch");
  add_opaque<Name>(hash, "Name");
  add_opaque<Context>(hash, "Context");
  add_opaque<HostImplementation>(hash, "HostImplementation");
  add_opaque<CudaImplementation>(hash, "CudaImplementation");
  EMBER_LAYOUT(KernelNeeds, EMBER_FIELD(scratch))
  add_opaque<Kernel>(hash, "Kernel");
  hash.add(offsetof(Kernel, name)).add(offsetof(Kernel, host)).add(offsetof(Kernel, cuda));
  hash.add(offsetof(Kernel, context));
  EMBER_LAYOUT(StreamHandle, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(EventHandle, EMBER_FIELD(native), EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(PeerMemory, EMBER_FIELD(device), EMBER_FIELD(epoch))
  EMBER_LAYOUT(GraphHandle, EMBER_FIELD(native), EMBER_FIELD(device))
  EMBER_LAYOUT(GraphExecHandle, EMBER_FIELD(native), EMBER_FIELD(device))
  EMBER_LAYOUT(EventOptions, EMBER_FIELD(timing), EMBER_FIELD(blocking), EMBER_FIELD(interprocess))
  EMBER_LAYOUT(PriorityRange, EMBER_FIELD(least), EMBER_FIELD(greatest))
  EMBER_LAYOUT(MemoryInfo, EMBER_FIELD(free), EMBER_FIELD(total))
  EMBER_LAYOUT(PointerInfo, EMBER_FIELD(kind), EMBER_FIELD(device), EMBER_FIELD(base),
               EMBER_FIELD(bytes))
  add_opaque<IpcHandle>(hash, "IpcHandle");
  EMBER_LAYOUT(
      DeviceProperties, EMBER_FIELD(name), EMBER_FIELD(major), EMBER_FIELD(minor),
      EMBER_FIELD(is_multi_gpu_board), EMBER_FIELD(is_integrated), EMBER_FIELD(simulated),
      EMBER_FIELD(multi_processor_count), EMBER_FIELD(total_memory),
      EMBER_FIELD(max_threads_per_multi_processor), EMBER_FIELD(max_threads_per_block),
      EMBER_FIELD(regs_per_multiprocessor), EMBER_FIELD(warp_size), EMBER_FIELD(L2_cache_size),
      EMBER_FIELD(shared_memory_per_block), EMBER_FIELD(shared_memory_per_block_optin),
      EMBER_FIELD(shared_memory_per_multiprocessor), EMBER_FIELD(clock_rate),
      EMBER_FIELD(memory_clock_rate), EMBER_FIELD(memory_bus_width), EMBER_FIELD(pci_domain_id),
      EMBER_FIELD(pci_bus_id), EMBER_FIELD(pci_device_id), EMBER_FIELD(uuid))
  // The seam's functions in the order of the table that they are called through, and those between
  // them. A test holds both lists against that table.
  add_opaque<Driver>(hash, "Driver");
  for (const Place& place : kUnlisted) hash.add(place.name).add(place.slot);
#define EMBER_SEAM_CALL(name, parameters, arguments) hash.add(#name).add(#parameters);
#include "ember/driver/seam_calls.inc"
#undef EMBER_SEAM_CALL
}

}  // namespace ember::inline v0::driver::layout
