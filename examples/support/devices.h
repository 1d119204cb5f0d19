// The devices that an example runs on.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace example {

/// How many devices to use: `wanted`, or as many as there are, up to `usual`. Simulated ones are
/// used only when asked for by name: by EMBER_DEVICES, or here, where it is said. Initialises.
/// UsageError if there are not as many as wanted.
int choose_devices(const std::optional<int>& wanted, int usual = std::numeric_limits<int>::max());

/// "cuda:0".
std::string device_text(int device);

/// A line for each of the first `used` devices: its name, which says if it is simulated, and
/// memory.
void print_devices(int used);

}  // namespace example
