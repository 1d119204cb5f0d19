#include "ember/ops/assert_async.h"

#include "ember/driver/kernels.h"
#include "ember/ops/assert_args.h"
#include "ember/ops/run.h"
#include "ember/scalar/math.h"

namespace ember::inline v0 {
namespace {

template <class T>
Status host_implementation(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<ops::AssertArgs>();
  const T* element = on.at(static_cast<const T*>(args.element), 1);
  if (element == nullptr) return on.fault();
  if (convert<bool>(*element)) return {};
  return Status(Code::device_assert, args.message);
}

constinit driver::Kernel assert_kernels[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"_assert_async." name, &host_implementation<type>, nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const driver::kernels::Table assert_table(assert_kernels, driver::arguments<ops::AssertArgs>());

}  // namespace

void assert_async(const Tensor& condition, const std::string& message) {
  if (condition.numel() != 1)
    throw Error(std::string("Boolean value of Tensor with ") +
                (condition.numel() == 0 ? "no values" : "more than one value") + " is ambiguous");
  driver::Kernel kernel = assert_kernels[static_cast<int>(condition.dtype())];
  const char* said = "Expected Tensor with single nonzero value, but got zero";
  if (!message.empty()) {
    said = driver::Name::intern(message).c_str();
    kernel.name = driver::Name::intern(std::string(kernel.name.c_str()) + ": " + message);
  }
  const cuda::Access access = ops::reads(condition, "self");
  ops::run(ops::at(condition), kernel, ops::AssertArgs{condition.address(), said},
           std::span(&access, 1));
}

}  // namespace ember::inline v0
