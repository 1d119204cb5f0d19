// What the kernel of assert_async gets.
#pragma once

#include "ember/driver/arguments.h"

namespace ember::inline v0::ops {

struct AssertArgs {
  const void* element;
  const char* message;  ///< of the host, lives as long as the program
};
EMBER_ARGUMENTS(AssertArgs, EMBER_FIELD(element), EMBER_FIELD(message))

}  // namespace ember::inline v0::ops
