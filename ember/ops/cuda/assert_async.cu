#undef NDEBUG  // what is asserted here is how a kernel refuses its data
#include <cassert>

#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/ops/assert_args.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

template <class T>
__global__ void assert_kernel(AssertArgs args) {
  const bool element_is_not_zero = convert<bool>(*static_cast<const T*>(args.element));
  assert(element_is_not_zero);
}

template <class T>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  return driver::cuda::start<&assert_kernel<T>>(on, driver::cuda::Grid{1, 1},
                                                params.as<AssertArgs>());
}

constexpr NamedImplementation implementations[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) {"_assert_async." name, &implementation<type>},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const Implementations table(implementations, driver::arguments<AssertArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
