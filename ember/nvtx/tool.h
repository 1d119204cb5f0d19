// Whatever tool follows the process, through NVTX: the one place that knows NVTX's header. Without
// it every function here is nothing.
#pragma once

#include "ember/nvtx/nvtx.h"

namespace ember::inline v0::cuda::nvtx::tool {

/// NVTX's handle of a domain; null is the one without a name, and what every domain is while there
/// is no tool.
using DomainHandle = void*;

DomainHandle make_domain(const char* name) noexcept;
void name_category(DomainHandle domain, std::uint32_t category, const char* name) noexcept;

void mark(DomainHandle domain, const Attributes& attributes) noexcept;
void mark(DomainHandle domain, const char* message) noexcept;
/// A depth, or a negative number.
int push(DomainHandle domain, const Attributes& attributes) noexcept;
int push(DomainHandle domain, const char* message) noexcept;
int pop(DomainHandle domain) noexcept;
/// 0 without a tool.
RangeId start(DomainHandle domain, const Attributes& attributes) noexcept;
RangeId start(DomainHandle domain, const char* message) noexcept;
void end(DomainHandle domain, RangeId range) noexcept;

}  // namespace ember::inline v0::cuda::nvtx::tool
