#include "ember/driver/cuda/cupti_api.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "ember/base/env.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/cuda/library.h"

namespace ember::inline v0::driver::cuda::cupti {
namespace {

bool resolve_all(void* library, Calls& out) {
  bool complete = true;
  const auto resolve = [&](const char* name, auto& pointer) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(dlsym(library, name));
    complete &= pointer != nullptr;
  };
  resolve("cuptiSubscribe", out.subscribe);
  resolve("cuptiUnsubscribe", out.unsubscribe);
  resolve("cuptiActivityEnable", out.enable);
  resolve("cuptiActivityDisable", out.disable);
  resolve("cuptiActivityRegisterCallbacks", out.set_buffers);
  resolve("cuptiActivityRegisterTimestampCallback", out.set_clock);
  resolve("cuptiActivityGetNextRecord", out.next_record);
  resolve("cuptiActivityPushExternalCorrelationId", out.push);
  resolve("cuptiActivityPopExternalCorrelationId", out.pop);
  resolve("cuptiActivityFlushAll", out.flush);
  resolve("cuptiGetResultString", out.error_text);
  return complete;
}

struct Loaded {
  Calls calls;
  Status status;
};

Loaded open() {
  const auto named = env::get("EMBER_CUPTI");
  if (named == "none") return {{}, Status(Code::not_supported, "EMBER_CUPTI is 'none'")};
  const Library library = open_library({.what = "the times of work itself need CUPTI",
                                        .version = "CUPTI 11.6",
                                        .variable = "EMBER_CUPTI",
                                        .named = named,
                                        .files = {"libcupti.so.13", "libcupti.so.12"}},
                                       [](void* handle) {
                                         Calls found;
                                         return resolve_all(handle, found);
                                       });
  Loaded loaded{{}, library.status};
  if (loaded.status.ok()) resolve_all(library.handle, loaded.calls);
  return loaded;
}

}  // namespace

Status load(const Calls*& out) noexcept {
  static NoDestructor<Loaded> loaded(open());
  if (!loaded->status.ok()) return loaded->status;
  out = &loaded->calls;
  return {};
}

Status failure(const Calls& calls, const char* what, Result result) {
  const char* text = nullptr;
  (void)calls.error_text(result, &text);
  return Status(Code::not_supported, std::string("CUPTI, ") + what + ": " +
                                         (text != nullptr ? text : std::to_string(result)));
}

}  // namespace ember::inline v0::driver::cuda::cupti
