// What is generated compiles: by the machine's compiler and, where NVRTC is, by that. It needs no
// device for that.
#include "ember/driver/compiled.h"
#include "ember/jit/host_compiler.h"
#include "ember/jit/source.h"
#include "tests/jit/support.h"

namespace ember::test {
namespace {

using jit::Instance;
using jit::Layout;
using jit::Signature;

constexpr int kCapability = 90;

bool nvrtc_is_there() {
  std::string identity;
  return driver::cuda_compiler(identity).ok();
}
#define NEEDS_NVRTC()                                                              \
  do {                                                                             \
    if (std::string identity; !driver::cuda_compiler(identity).ok())               \
      GTEST_SKIP() << "needs NVRTC: " << driver::cuda_compiler(identity).detail(); \
  } while (false)

Signature signature_of(const std::string& code) {
  Signature signature;
  EXPECT_TRUE(jit::parse_signature(code, signature)) << code;
  return signature;
}

void expect_device_code(const std::string& code, const Instance& instance,
                        int capability = kCapability) {
  const std::string source = jit::device_source(code, signature_of(code), instance).text();
  std::string image, log;
  const Status status = driver::cuda_compile(source, capability, image, log);
  EXPECT_TRUE(status.ok()) << status.detail() << "\n" << log << "\n" << code;
  EXPECT_NE(image.find(driver::kCompiledEntry), std::string::npos);
}

void expect_host_code(const std::string& code, const Instance& instance) {
  const jit::Source source = jit::host_source(code, signature_of(code), instance);
  EXPECT_FALSE(jit::compile_for_host(jit::find_host_compiler(source.is_real()), source.text(), code)
                   .empty());
}

/// Every function of docs/jiterator.md, with what it takes.
std::string calls_of_all_functions(const std::string& type) {
  std::string code = "template <typename T> T f(T x) {\n  " + type + " y = x;\n  int n = 3;\n";
  for (const char* name :
       {"acos",  "acosh",  "asin",   "asinh", "atan",  "atanh", "cbrt",     "ceil",
        "cos",   "cosh",   "erf",    "erfc",  "exp",   "exp10", "exp2",     "expm1",
        "fabs",  "floor",  "lgamma", "log",   "log10", "log1p", "log2",     "nearbyint",
        "rcbrt", "rint",   "round",  "rsqrt", "sin",   "sinh",  "sqrt",     "tan",
        "tanh",  "tgamma", "trunc",  "abs",   "isnan", "isinf", "isfinite", "signbit"})
    code += std::string("  y += ::") + name + "(y);\n";
  for (const char* name : {"atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot",
                           "nextafter", "pow", "remainder", "min", "max"})
    code += std::string("  y += ::") + name + "(y, x);\n";
  code += "  y += fma(y, x, y);\n  n = min(n, 4) + max(n, 5) + abs(n);\n";
  for (const char* name :
       {"acosf",  "acoshf",      "asinf",      "asinhf",    "atanf",    "atanhf",  "cbrtf",
        "ceilf",  "cosf",        "coshf",      "erff",      "erfcf",    "expf",    "exp10f",
        "exp2f",  "expm1f",      "fabsf",      "floorf",    "lgammaf",  "logf",    "log10f",
        "log1pf", "log2f",       "nearbyintf", "rcbrtf",    "rintf",    "roundf",  "rsqrtf",
        "sinf",   "sinhf",       "sqrtf",      "tanf",      "tanhf",    "tgammaf", "truncf",
        "__expf", "__exp10f",    "__logf",     "__log2f",   "__log10f", "__sinf",  "__cosf",
        "__tanf", "__saturatef", "__frcp_rn",  "__fsqrt_rn"})
    code += std::string("  y += ") + name + "(static_cast<float>(y));\n";
  for (const char* name :
       {"atan2f", "copysignf", "fdimf", "fmaxf", "fminf", "fmodf", "hypotf", "nextafterf", "powf",
        "remainderf", "__powf", "__fdividef", "__fadd_rn", "__fsub_rn", "__fmul_rn", "__fdiv_rn"})
    code += std::string("  y += ") + name + "(static_cast<float>(y), 2.0f);\n";
  code +=
      "  y += fmaf(1.0f, 2.0f, 3.0f) + __fmaf_rn(1.0f, 2.0f, 3.0f);\n"
      "  y += __int_as_float(__float_as_int(1.0f)) + __uint_as_float(__float_as_uint(1.0f));\n"
      "  n += __popc(7u) + __popcll(7ull) + __clz(n) + __clzll(5) + __ffs(n) + __ffsll(4);\n"
      "  n += static_cast<int>(labs(-3L) + llabs(-4LL));\n"
      "  y += std::sin(y) + std::max(y, y) + std::pow(y, y);\n"
      "  return y + n;\n}";
  return code;
}

constexpr const char* kComplexFunctions =
    "template <typename T> T f(T x) {\n"
    "  T y = std::acos(x) + std::acosh(x) + std::asin(x) + std::asinh(x) + std::atan(x) +\n"
    "        std::atanh(x) + std::cos(x) + std::cosh(x) + std::exp(x) + std::log(x) +\n"
    "        std::log10(x) + std::log2(x) + std::sin(x) + std::sinh(x) + std::sqrt(x) +\n"
    "        std::tan(x) + std::tanh(x) + std::conj(x) + std::pow(x, x) / x - -x;\n"
    "  y += std::real(x) + std::imag(x) + std::abs(x) + std::arg(x) + std::norm(x);\n"
    "  y *= std::polar(x.real(), x.imag());\n"
    "  return std::isnan(y) || y == x ? y : T(1, 2);\n}";

constexpr const char* kAnyType =
    "template <typename T> T f(T x, T y, T n, T m, T o, double) { return x + y * T(n); }";

Instance instance_of(Dtype dtype, Layout layout) {
  Instance made;
  made.dtype = dtype;
  made.layout = layout;
  made.inputs = {dtype, dtype == Dtype::complex128 ? Dtype::float32 : Dtype::uint8};
  made.numbers = {Dtype::bool_, Dtype::int64, Dtype::float64, Dtype::int64};
  return made;
}

std::vector<Dtype> dtypes() {
  std::vector<Dtype> all;
  for (const Dtype dtype : all_dtypes())
    if (contains(dtypes::any, dtype)) all.push_back(dtype);
  return all;
}

TEST(Sources, EveryDtypeOnDevices) {
  NEEDS_NVRTC();
  bool wide = false;
  for (const Dtype dtype : dtypes()) {
    expect_device_code(kAnyType, instance_of(dtype, Layout::flat));
    expect_device_code(kAnyType, instance_of(dtype, wide ? Layout::wide : Layout::narrow));
    wide = !wide;
  }
}

TEST(Sources, EveryDtypeOnHosts) {
  for (const Dtype dtype : dtypes()) expect_host_code(kAnyType, instance_of(dtype, Layout::narrow));
}

TEST(Sources, EveryFunction) {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
    Instance instance;
    instance.dtype = dtype;
    instance.inputs = {dtype};
    const std::string code = calls_of_all_functions(dtype == Dtype::float32 ? "float" : "double");
    expect_host_code(code, instance);
    if (nvrtc_is_there()) expect_device_code(code, instance);
  }
  for (const Dtype dtype : {Dtype::complex64, Dtype::complex128}) {
    Instance instance;
    instance.dtype = dtype;
    instance.inputs = {dtype};
    expect_host_code(kComplexFunctions, instance);
    if (nvrtc_is_there()) expect_device_code(kComplexFunctions, instance);
  }
}

TEST(Sources, ManyOperandsOnDevices) {
  NEEDS_NVRTC();
  std::string parameters, body;
  Instance instance;
  instance.by_reference = true;
  instance.outputs = 20;
  for (int i = 0; i < 40; ++i) {
    instance.inputs.push_back(Dtype::float32);
    parameters += "T x" + std::to_string(i) + ", ";
  }
  for (int i = 0; i < 20; ++i) {
    parameters += std::string(i == 0 ? "" : ", ") + "T& y" + std::to_string(i);
    body += "y" + std::to_string(i) + " = x" + std::to_string(2 * i) + ";";
  }
  const std::string code = "template <typename T> void f(" + parameters + ") {" + body + "}";
  for (const Layout layout : {Layout::flat, Layout::narrow, Layout::wide}) {
    instance.layout = layout;
    expect_device_code(code, instance);
  }
}

TEST(Sources, NvrtcNamesTheUsersLine) {
  NEEDS_NVRTC();
  const std::string code =
      "template <typename T> T f(T x) {\n  // \"\xc3\xa9\n  return nowhere(x);\n}";
  Instance instance;
  instance.inputs = {Dtype::float32};
  std::string image, log;
  const Status status = driver::cuda_compile(
      jit::device_source(code, signature_of(code), instance).text(), kCapability, image, log);
  EXPECT_EQ(status.code(), Code::invalid_value);
  EXPECT_NE(log.find("code_string(3)"), std::string::npos) << log;
  EXPECT_NE(log.find("nowhere"), std::string::npos) << log;
}

/// Products and sums of users' kernels are rounded one after the other (docs/jiterator.md), those
/// of complex numbers and of their functions too.
TEST(Sources, NothingIsFusedInUsersKernels) {
  NEEDS_NVRTC();
  constexpr int kUnknown = 91;  // for which NVRTC makes PTX
  Instance instance;
  instance.dtype = Dtype::complex64;
  instance.inputs = {Dtype::complex64, Dtype::complex64};
  const auto fused = [&](const std::string& code) {
    std::string image, log;
    const Status status = driver::cuda_compile(
        jit::device_source(code, signature_of(code), instance).text(), kUnknown, image, log);
    EXPECT_TRUE(status.ok()) << status.detail() << "\n" << log;
    return image.find("fma.rn.f") != std::string::npos;
  };
  EXPECT_FALSE(fused("template <typename T> T f(T x, T y) { return x * y + x / y; }"));
  // The same text says so of what is fused on purpose.
  EXPECT_TRUE(
      fused("template <typename T> T f(T x, T y) {\n"
            "  return T(::fmaf(x.real(), y.real(), x.imag()), 0.0f);\n}"));
}

/// A device that came after this NVRTC gets PTX, which its driver finishes.
TEST(Sources, DevicesThatNvrtcDoesNotKnow) {
  NEEDS_NVRTC();
  const std::string code = "template <typename T> T f(T x) { return x; }";
  Instance instance;
  instance.inputs = {Dtype::float32};
  const std::string source = jit::device_source(code, signature_of(code), instance).text();
  std::string image, log;
  ASSERT_TRUE(driver::cuda_compile(source, 999, image, log).ok()) << log;
  EXPECT_NE(image.find(".target"), std::string::npos);
  EXPECT_EQ(image.back(), '\0');
  const Status status = driver::cuda_compile(source, 10, image, log);
  EXPECT_EQ(status.code(), Code::not_supported);
  EXPECT_NE(status.detail().find("capability 1.0"), std::string::npos) << status.detail();
}

}  // namespace
}  // namespace ember::test
