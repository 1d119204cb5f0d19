// Where memory lies and threads run, on machines with several NUMA nodes: what the system says of
// them, and what it is asked for. Nothing here fails: a system that knows no nodes, or does not let
// them be chosen (as containers often do not), leaves memory and threads where they are.
#pragma once

#include <sched.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ember/driver/properties.h"

namespace ember::inline v0::memory::numa {

inline constexpr int kNone = -1;
inline constexpr const char* kSystem = "/sys";

/// The node that a GPU is attached to; kNone where there is but one, or nobody knows. `system` is
/// the folder of sysfs.
int node_of(const driver::DeviceProperties& device, const std::string& system = kSystem);

/// The numbers in a list of the system's: "0-3,8". Empty for a text that is none.
std::vector<int> numbers_in(std::string_view list);

/// The processors of a node; empty if that is not known.
std::vector<int> processors_of(int node, const std::string& system = kSystem);

/// Pages of [data, data + bytes) that nobody has touched yet are to come from a node as long as it
/// has room. Whole pages; false if the system refuses.
bool prefer(void* data, std::size_t bytes, int node) noexcept;

/// Keeps the calling thread on some processors for as long as this lives; without any, or if the
/// system refuses, it stays where it is.
class Bound {
 public:
  explicit Bound(const std::vector<int>& processors) noexcept;
  ~Bound();
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  bool bound_ = false;
  cpu_set_t before_;
};

}  // namespace ember::inline v0::memory::numa
