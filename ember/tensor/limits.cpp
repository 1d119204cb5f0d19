#include "ember/tensor/limits.h"

#include <cfloat>
#include <limits>
#include <string>
#include <type_traits>

#include "ember/base/error.h"

namespace ember::inline v0 {

FloatLimits finfo(Dtype dtype) {
  switch (real_dtype(dtype)) {
    case Dtype::float16: return {Dtype::float16, 16, 65504, -65504, 0x1p-10, 0x1p-14, 1e-3};
    case Dtype::bfloat16:
      return {Dtype::bfloat16, 16, 0x1.fep127, -0x1.fep127, 0x1p-7, 0x1p-126, 1e-2};
    case Dtype::float32: return {Dtype::float32, 32, FLT_MAX, -FLT_MAX, FLT_EPSILON, FLT_MIN, 1e-6};
    case Dtype::float64:
      return {Dtype::float64, 64, DBL_MAX, -DBL_MAX, DBL_EPSILON, DBL_MIN, 1e-15};
    default:
      throw TypeError(std::string("finfo: dtype: got ") + dtype_name(dtype) +
                      ", expected a floating point one; iinfo is for integers");
  }
}

IntegerLimits iinfo(Dtype dtype) {
  if (!is_integral(dtype, false))
    throw TypeError(std::string("iinfo: dtype: got ") + dtype_name(dtype) +
                    ", expected an integer one; finfo is for floating point numbers");
  return with_type(dtype, [&]<class T>() -> IntegerLimits {
    if constexpr (std::is_integral_v<T>)
      return {dtype, static_cast<int>(sizeof(T)) * 8,
              static_cast<std::uint64_t>(std::numeric_limits<T>::max()),
              static_cast<std::int64_t>(std::numeric_limits<T>::min())};
    else
      __builtin_unreachable();
  });
}

}  // namespace ember::inline v0
