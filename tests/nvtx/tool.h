// What the tool of the tests has seen of a process: see tool.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ember::test {

struct SeenByTool {
  enum class Kind : std::uint8_t { mark, push, pop, start, end };
  Kind kind = Kind::mark;
  std::uint64_t thread = 0;  ///< its number for the kernel
  std::string domain{};      ///< "" without a name
  std::string message{};
  bool is_registered = false;  ///< the message came as the number of a string
  std::string category{};      ///< its name; "" without one
  bool has_color = false;
  std::uint32_t color = 0;
  int payload_type = 0;       ///< NVTX's number
  std::uint64_t payload = 0;  ///< the bits, the upper ones zero
  int depth = 0;              ///< what was returned for push and pop
  std::uint64_t range = 0;    ///< of start and end
};

/// The symbol of the tool that is a function of this type: what came since the last call.
using TakeSeen = void (*)(std::vector<SeenByTool>& out);
inline constexpr const char* kTakeSeen = "take_seen";

}  // namespace ember::test
