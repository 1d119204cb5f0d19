// The seed and offset of a kernel that is part of a graph: what its host implementation reads, and
// what observers are told of that.
#pragma once

#include "ember/driver/kernel.h"
#include "ember/runtime/observer.h"
#include "ember/scalar/philox.h"

namespace ember::inline v0::random {

/// Makes `own` the seed and offset to draw with. False where the memory cannot be read: a fault.
inline bool read_source(const driver::HostLaunch& on, PhiloxSource& source) {
  if (source.replayed == nullptr) return true;
  const PhiloxState* const there = on.at(source.replayed, 1);
  if (there == nullptr) return false;
  source.own = {there->seed, there->offset + source.own.offset};
  source.replayed = nullptr;
  return true;
}

inline cuda::Access reads_source(const PhiloxSource& source) noexcept {
  return cuda::reads(source.replayed, 1, "generator");
}

}  // namespace ember::inline v0::random
