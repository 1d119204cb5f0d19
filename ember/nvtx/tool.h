// Whatever tool follows the process, through NVTX: the one place that knows NVTX's header. Without
// it every function here is nothing.
#pragma once

#include <string>

#include "ember/nvtx/nvtx.h"

namespace ember::inline v0::cuda::nvtx {

namespace detail {
/// A string in the domain that it is registered in; null is the one without a name.
struct StringState {
  const DomainState* domain = nullptr;
  std::string text;
  void* handle = nullptr;  ///< NVTX's; null without a tool
};
}  // namespace detail

/// The text that is said: a registered string's, if there is one.
inline const char* text_of(const Attributes& attributes) noexcept {
  return attributes.registered == RegisteredString() ? attributes.message
                                                     : attributes.registered.text();
}

namespace tool {

/// NVTX's handle of a domain; null is the one without a name, and what every domain is while there
/// is no tool.
using DomainHandle = void*;

DomainHandle make_domain(const char* name) noexcept;
/// NVTX's handle of a string; null without a tool.
void* register_string(DomainHandle domain, const char* text) noexcept;
void name_category(DomainHandle domain, std::uint32_t category, const char* name) noexcept;

/// What a range or a mark says, and NVTX's handle of its string, if there is one.
struct Said {
  const Attributes& attributes;
  void* string = nullptr;
};

void mark(DomainHandle domain, const Said& said) noexcept;
void mark(DomainHandle domain, const char* message) noexcept;
/// A depth, or a negative number.
int push(DomainHandle domain, const Said& said) noexcept;
int push(DomainHandle domain, const char* message) noexcept;
int pop(DomainHandle domain) noexcept;
/// 0 without a tool.
RangeId start(DomainHandle domain, const Said& said) noexcept;
RangeId start(DomainHandle domain, const char* message) noexcept;
void end(DomainHandle domain, RangeId range) noexcept;

}  // namespace tool
}  // namespace ember::inline v0::cuda::nvtx
