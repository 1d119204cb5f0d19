// Looking at errors of devices when they are made.
#pragma once

#include <string>

#include "ember/base/status.h"

namespace ember::inline v0 {

/// From now on `tell` is called with the status of each AcceleratorError that is made, by the
/// thread that makes it. It may be any thread, with any lock that an error is thrown under; `tell`
/// must not throw. What it returns, unless empty, stands in the error in place of the status's
/// detail. Null for nobody.
void on_accelerator_error(std::string (*tell)(const Status& status) noexcept) noexcept;

}  // namespace ember::inline v0
