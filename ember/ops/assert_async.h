// A check of a value that lies on a device, without a wait for it.
#pragma once

#include <string>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// Asserts that the only element of `condition` is not zero; a NaN is not. Error at once `Boolean
/// value of Tensor with no values is ambiguous`, or `with more than one value`, for other tensors.
///
/// On the CPU a zero is an Error with the message. On a device this returns before the value is
/// known, and a zero is a fault: a later call reports `device-side assert triggered` and names the
/// operation `_assert_async`, with the message behind it. May be captured; replays check anew. The
/// message is kept until the process ends: give a literal, no text with a number in it.
/// Thread-safe. Chapter 24 of the documents.
EMBER_API void assert_async(const Tensor& condition, const std::string& message = "");

}  // namespace ember::inline v0
