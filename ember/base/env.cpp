#include "ember/base/env.h"

#include <cstdlib>

namespace ember::inline v0::env {

std::optional<std::string> get(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): ember never writes to the environment.
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

bool flag(const char* name) {
  const std::optional<std::string> value = get(name);
  return value && !value->empty() && *value != "0";
}

}  // namespace ember::inline v0::env
