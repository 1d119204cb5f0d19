// A tool that follows a process through NVTX, as Nsight Systems would: NVTX loads it when
// NVTX_INJECTION64_PATH names it. It keeps what it is told.
#include "tests/nvtx/tool.h"

#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace {

using ember::test::SeenByTool;

struct Domain {
  std::string name;
  std::map<std::uint32_t, std::string> categories{};
  std::vector<std::string> strings{};  ///< their handles count from 1
};

std::mutex mutex;  // of all that follows
std::vector<SeenByTool> seen;
std::map<nvtxDomainHandle_t, Domain*> domains;
std::uint64_t last_range = 0;
Domain unnamed{""};

/// How deep the calling thread is, by domain.
thread_local std::map<nvtxDomainHandle_t, int> depths;

Domain& domain_of(nvtxDomainHandle_t handle) {
  return handle == nullptr ? unnamed : *domains.at(handle);
}

SeenByTool& add(SeenByTool::Kind kind, nvtxDomainHandle_t domain, const char* message) {
  SeenByTool& made = seen.emplace_back();
  made.kind = kind;
  made.thread = static_cast<std::uint64_t>(gettid());
  made.domain = domain_of(domain).name;
  if (message != nullptr) made.message = message;
  return made;
}

SeenByTool& add(SeenByTool::Kind kind, nvtxDomainHandle_t domain,
                const nvtxEventAttributes_t& event) {
  const bool is_registered = event.messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  SeenByTool& made = add(kind, domain, is_registered ? nullptr : event.message.ascii);
  made.is_registered = is_registered;
  if (is_registered)
    made.message = domain_of(domain).strings.at(
        reinterpret_cast<std::uintptr_t>(event.message.registered) - 1);
  if (event.category != 0) made.category = domain_of(domain).categories.at(event.category);
  made.has_color = event.colorType == NVTX_COLOR_ARGB;
  made.color = event.color;
  made.payload_type = event.payloadType;
  const bool wide = event.payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 ||
                    event.payloadType == NVTX_PAYLOAD_TYPE_INT64 ||
                    event.payloadType == NVTX_PAYLOAD_TYPE_DOUBLE;
  std::memcpy(&made.payload, &event.payload, wide ? 8 : 4);
  return made;
}

template <class Said>
int push(nvtxDomainHandle_t domain, const Said& said) {
  const std::lock_guard lock(mutex);
  return add(SeenByTool::Kind::push, domain, said).depth = depths[domain]++;
}
int pop(nvtxDomainHandle_t domain) {
  const std::lock_guard lock(mutex);
  int& depth = depths[domain];
  if (depth == 0) return -1;
  return add(SeenByTool::Kind::pop, domain, nullptr).depth = --depth;
}
template <class Said>
nvtxRangeId_t start(nvtxDomainHandle_t domain, const Said& said) {
  const std::lock_guard lock(mutex);
  return add(SeenByTool::Kind::start, domain, said).range = ++last_range;
}
void end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  const std::lock_guard lock(mutex);
  add(SeenByTool::Kind::end, domain, nullptr).range = range;
}
template <class Said>
void mark(nvtxDomainHandle_t domain, const Said& said) {
  const std::lock_guard lock(mutex);
  add(SeenByTool::Kind::mark, domain, said);
}
void name_category(nvtxDomainHandle_t domain, std::uint32_t category, const char* name) {
  const std::lock_guard lock(mutex);
  domain_of(domain).categories[category] = name;
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char* text) {
  const std::lock_guard lock(mutex);
  std::vector<std::string>& strings = domain_of(domain).strings;
  strings.emplace_back(text);
  return reinterpret_cast<nvtxStringHandle_t>(strings.size());
}
nvtxDomainHandle_t make_domain(const char* name) {
  const std::lock_guard lock(mutex);
  auto* made = new Domain{name};
  const auto handle = reinterpret_cast<nvtxDomainHandle_t>(made);
  domains[handle] = made;
  return handle;
}

/// Puts a function into the place that NVTX calls for it.
template <class Function>
void attach(NvtxFunctionTable table, int place, Function* function) {
  *table[place] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void take_seen(std::vector<SeenByTool>& out);
void take_seen(std::vector<SeenByTool>& out) {
  const std::lock_guard lock(mutex);
  out = std::exchange(seen, {});
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable core = nullptr;
  NvtxFunctionTable core2 = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) == 0 ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size) == 0)
    return 0;
  using Event = const nvtxEventAttributes_t*;
  using Handle = nvtxDomainHandle_t;
  attach(
      core, NVTX_CBID_CORE_MarkEx, +[](Event event) { mark(nullptr, *event); });
  attach(
      core, NVTX_CBID_CORE_MarkA, +[](const char* text) { mark(nullptr, text); });
  attach(
      core, NVTX_CBID_CORE_RangePushEx, +[](Event event) { return push(nullptr, *event); });
  attach(
      core, NVTX_CBID_CORE_RangePushA, +[](const char* text) { return push(nullptr, text); });
  attach(
      core, NVTX_CBID_CORE_RangePop, +[] { return pop(nullptr); });
  attach(
      core, NVTX_CBID_CORE_RangeStartEx, +[](Event event) { return start(nullptr, *event); });
  attach(
      core, NVTX_CBID_CORE_RangeStartA, +[](const char* text) { return start(nullptr, text); });
  attach(
      core, NVTX_CBID_CORE_RangeEnd, +[](nvtxRangeId_t range) { end(nullptr, range); });
  attach(
      core, NVTX_CBID_CORE_NameCategoryA,
      +[](std::uint32_t category, const char* name) { name_category(nullptr, category, name); });
  attach(core2, NVTX_CBID_CORE2_DomainCreateA, &make_domain);
  attach(core2, NVTX_CBID_CORE2_DomainNameCategoryA, &name_category);
  attach(core2, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
  attach(
      core2, NVTX_CBID_CORE2_DomainMarkEx,
      +[](Handle domain, Event event) { mark(domain, *event); });
  attach(
      core2, NVTX_CBID_CORE2_DomainRangePushEx,
      +[](Handle domain, Event event) { return push(domain, *event); });
  attach(core2, NVTX_CBID_CORE2_DomainRangePop, &pop);
  attach(
      core2, NVTX_CBID_CORE2_DomainRangeStartEx,
      +[](Handle domain, Event event) { return start(domain, *event); });
  attach(core2, NVTX_CBID_CORE2_DomainRangeEnd, &end);
  return 1;
}
}
