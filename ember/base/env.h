// Environment variables. All of them are listed in docs/environment.md.
#pragma once

#include <optional>
#include <string>

namespace ember::inline v0::env {

/// The value of a variable, or nothing when it is not set. An empty value is a value.
std::optional<std::string> get(const char* name);

/// True when the variable is set to anything but "" and "0".
bool flag(const char* name);

}  // namespace ember::inline v0::env
