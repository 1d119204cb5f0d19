#include "ember/nvtx/tool.h"

#ifdef EMBER_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace ember::inline v0::cuda::nvtx {

#ifdef EMBER_NVTX

bool is_compiled_in() noexcept { return true; }

namespace tool {
namespace {

nvtxDomainHandle_t native(DomainHandle domain) noexcept {
  return static_cast<nvtxDomainHandle_t>(domain);
}

struct SetPayload {
  nvtxEventAttributes_t& out;

  void operator()(std::monostate) const noexcept {}
  void operator()(std::uint64_t value) const noexcept {
    out.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    out.payload.ullValue = value;
  }
  void operator()(std::int64_t value) const noexcept {
    out.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    out.payload.llValue = value;
  }
  void operator()(std::uint32_t value) const noexcept {
    out.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
    out.payload.uiValue = value;
  }
  void operator()(std::int32_t value) const noexcept {
    out.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    out.payload.iValue = value;
  }
  void operator()(double value) const noexcept {
    out.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    out.payload.dValue = value;
  }
  void operator()(float value) const noexcept {
    out.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
    out.payload.fValue = value;
  }
};

nvtxEventAttributes_t event(const char* message) noexcept {
  nvtxEventAttributes_t made{};
  made.version = NVTX_VERSION;
  made.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  made.messageType = NVTX_MESSAGE_TYPE_ASCII;  // tools take it for UTF-8
  made.message.ascii = message;
  return made;
}

nvtxEventAttributes_t event(const Said& said) noexcept {
  const Attributes& attributes = said.attributes;
  nvtxEventAttributes_t made = event(text_of(attributes));
  if (said.string != nullptr) {
    made.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    made.message.registered = static_cast<nvtxStringHandle_t>(said.string);
  }
  made.category = attributes.category;
  if (attributes.color) {
    made.colorType = NVTX_COLOR_ARGB;
    made.color = *attributes.color;
  }
  std::visit(SetPayload{made}, attributes.payload);
  return made;
}

}  // namespace

// Tools hear of a plain message without a domain by the oldest functions, as from torch.

DomainHandle make_domain(const char* name) noexcept { return nvtxDomainCreateA(name); }

void* register_string(DomainHandle domain, const char* text) noexcept {
  return nvtxDomainRegisterStringA(native(domain), text);
}

void name_category(DomainHandle domain, std::uint32_t category, const char* name) noexcept {
  if (domain == nullptr) return nvtxNameCategoryA(category, name);
  nvtxDomainNameCategoryA(native(domain), category, name);
}

void mark(DomainHandle domain, const Said& said) noexcept {
  const nvtxEventAttributes_t made = event(said);
  if (domain == nullptr) return nvtxMarkEx(&made);
  nvtxDomainMarkEx(native(domain), &made);
}
void mark(DomainHandle domain, const char* message) noexcept {
  if (domain == nullptr) return nvtxMarkA(message);
  const nvtxEventAttributes_t made = event(message);
  nvtxDomainMarkEx(native(domain), &made);
}

int push(DomainHandle domain, const Said& said) noexcept {
  const nvtxEventAttributes_t made = event(said);
  if (domain == nullptr) return nvtxRangePushEx(&made);
  return nvtxDomainRangePushEx(native(domain), &made);
}
int push(DomainHandle domain, const char* message) noexcept {
  if (domain == nullptr) return nvtxRangePushA(message);
  const nvtxEventAttributes_t made = event(message);
  return nvtxDomainRangePushEx(native(domain), &made);
}
int pop(DomainHandle domain) noexcept {
  if (domain == nullptr) return nvtxRangePop();
  return nvtxDomainRangePop(native(domain));
}

RangeId start(DomainHandle domain, const Said& said) noexcept {
  const nvtxEventAttributes_t made = event(said);
  if (domain == nullptr) return nvtxRangeStartEx(&made);
  return nvtxDomainRangeStartEx(native(domain), &made);
}
RangeId start(DomainHandle domain, const char* message) noexcept {
  if (domain == nullptr) return nvtxRangeStartA(message);
  const nvtxEventAttributes_t made = event(message);
  return nvtxDomainRangeStartEx(native(domain), &made);
}
void end(DomainHandle domain, RangeId range) noexcept {
  if (domain == nullptr) return nvtxRangeEnd(range);
  nvtxDomainRangeEnd(native(domain), range);
}

}  // namespace tool

#else

bool is_compiled_in() noexcept { return false; }

namespace tool {

DomainHandle make_domain(const char*) noexcept { return nullptr; }
void* register_string(DomainHandle, const char*) noexcept { return nullptr; }
void name_category(DomainHandle, std::uint32_t, const char*) noexcept {}
void mark(DomainHandle, const Said&) noexcept {}
void mark(DomainHandle, const char*) noexcept {}
int push(DomainHandle, const Said&) noexcept { return kNoTool; }
int push(DomainHandle, const char*) noexcept { return kNoTool; }
int pop(DomainHandle) noexcept { return kNoTool; }
RangeId start(DomainHandle, const Said&) noexcept { return 0; }
RangeId start(DomainHandle, const char*) noexcept { return 0; }
void end(DomainHandle, RangeId) noexcept {}

}  // namespace tool

#endif

}  // namespace ember::inline v0::cuda::nvtx
