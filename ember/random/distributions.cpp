#include "ember/random/distributions.h"

#include <array>
#include <cmath>

#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/random/draw_kernels.h"
#include "ember/random/host_source.h"

namespace ember::inline v0 {
namespace {

using random::DrawArgs;
using random::DrawId;

/// What reports call the two tensors of a distribution.
struct ArgumentsOf {
  const char* filled = "self";
  const char* probabilities = "p";
};

/// Fills `self`, whose dtype the distribution must have.
void fill(DrawId draw, const Tensor& self, const DrawParams& params, const Tensor* probabilities,
          const GeneratorArg& given, const ArgumentsOf& arguments = {}) {
  ops::require_no_internal_overlap(self);
  const Generator generator = random::generator_for(self.device(), given);
  if (self.numel() == 0) return;
  // Elements are numbered in the order of the dimensions, so others are drawn beside.
  const Tensor out =
      self.is_contiguous() ? self : empty(self.sizes(), {self.dtype(), self.device()});
  DrawArgs args{};
  args.out = out.address();
  args.count = out.numel();
  args.params = params;
  if (probabilities != nullptr) args.probabilities = probabilities->address<float>();
  args.source = generator.draw(
      random::offset_increment(args.count, random::numbers_per_call(draw, self.dtype())));
  std::array<cuda::Access, 3> accesses{ops::writes(out, arguments.filled)};
  std::size_t known = 1;
  if (probabilities != nullptr) {
    accesses[known++] = ops::reads(*probabilities, arguments.probabilities);
  }
  if (args.source.replayed != nullptr) accesses[known++] = random::reads_source(args.source);
  const ops::Site site = ops::at(out);
  if (probabilities != nullptr) ops::require_same_epoch(site, *probabilities);
  ops::run(site, *random::draw_kernel(draw, self.dtype()), args, std::span(accesses).first(known));
  if (!out.is(self)) Tensor(self).copy_(out);
}

void require_floating(const Tensor& self, const char* name) {
  if (!is_floating_point(self.dtype())) ops::throw_not_implemented(name, self.dtype());
}

/// The largest finite number of a floating dtype.
double largest(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 65504;
    case Dtype::bfloat16: return 0x1.fep127;
    case Dtype::float32: return 0x1.fffffep127;
    default: return 0x1.fffffffffffffp1023;
  }
}

/// Up to which a floating dtype holds every whole number, as a power of two.
int digits(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 11;
    case Dtype::bfloat16: return 8;
    case Dtype::float32: return 24;
    default: return 53;
  }
}

/// The whole numbers that a dtype holds.
struct Bounds {
  std::int64_t low;
  std::int64_t high;
};
Bounds bounds_of(Dtype dtype) {
  if (is_floating_point(dtype)) {
    const std::int64_t most = std::int64_t{1} << digits(dtype);
    return {-most, most};
  }
  return with_type(dtype, []<class T>() -> Bounds {
    if constexpr (std::is_integral_v<T>)
      return {static_cast<std::int64_t>(std::numeric_limits<T>::min()),
              std::is_same_v<T, std::uint64_t>
                  ? INT64_MAX
                  : static_cast<std::int64_t>(std::numeric_limits<T>::max())};
    else
      return {0, 0};
  });
}

/// `count` whole numbers from `low` on; a count of zero stands for 2^64.
void fill_integers(const Tensor& self, std::int64_t low, std::uint64_t count,
                   const GeneratorArg& generator) {
  // Zero counts as a power of two, which 2^64 is.
  const bool power_of_two = (count & (count - 1)) == 0;
  const bool in_32_bits =
      count != 0 && (count <= 1U << 16 || (power_of_two && count <= std::uint64_t{1} << 32));
  const bool in_64_bits = power_of_two || count <= std::uint64_t{1} << 48;
  const DrawId draw = in_32_bits   ? DrawId::integers_32
                      : in_64_bits ? DrawId::integers_64
                                   : DrawId::integers_128;
  DrawParams params;
  params.u = count;
  params.low = low;
  fill(draw, self, params, nullptr, generator);
}

void require_real(const Tensor& self, const char* name) {
  if (self.is_complex()) ops::throw_not_implemented(name, self.dtype());
}

void require_bound(const Tensor& self, const char* name, std::int64_t value) {
  const Bounds bounds = bounds_of(self.dtype());
  if (value >= bounds.low && value <= bounds.high) return;
  if (is_floating_point(self.dtype())) {
    const std::string most = "2^" + std::to_string(digits(self.dtype()));
    throw Error(std::string(name) + " is out of bounds [-(" + most + "), " + most + "], got " +
                std::to_string(value) + ". Due to precision limitations " +
                legacy_name(self.dtype()) +
                " can support discrete uniform distribution only within this range.");
  }
  throw Error(std::string(name) + " is out of bounds for " + legacy_name(self.dtype()) + ": got " +
              std::to_string(value) + ", expected " + std::to_string(bounds.low) + " to " +
              std::to_string(bounds.high));
}

}  // namespace

Generator random::generator_for(Device device, const GeneratorArg& given) {
  if (!given) return default_generator(device);
  const Device own = given->device();
  const auto kind = [](Device of) { return of.is_cuda() ? "cuda" : "cpu"; };
  if (own.type() != device.type())
    throw Error(std::string("Expected a '") + kind(device) +
                "' device type for generator but found '" + kind(own) + "'");
  if (own != device)
    throw Error("Expected a '" + device.str() + "' generator device but found '" + own.str() + "'");
  return *given;
}

const Tensor& uniform_(const Tensor& self, double from, double to, const GeneratorArg& generator) {
  if (self.is_complex()) {
    uniform_(self.view_as_real(), from, to, generator);
    return self;
  }
  require_floating(self, "check_uniform_bounds");
  const double most = largest(self.dtype());
  const auto require_inside = [&](const char* name, double value) {
    if (!(std::abs(value) <= most))
      throw Error(std::string(name) + " is out of bounds for " + legacy_name(self.dtype()) +
                  ": got " + number_text(value));
  };
  require_inside("from", from);
  require_inside("to", to);
  if (from > to)
    throw Error("uniform_ expects to return a [from, to) range, but found from=" +
                number_text(from) + " > to=" + number_text(to));
  if (to - from > most)
    throw Error("uniform_ expects to-from <= std::numeric_limits<" +
                std::string(legacy_name(self.dtype())) +
                ">::max(), but found to=" + number_text(to) + " and from=" + number_text(from) +
                " which result in to-from to exceed the limit");
  DrawParams params;
  params.a = from;
  params.b = to;
  fill(DrawId::uniform, self, params, nullptr, generator);
  return self;
}

const Tensor& normal_(const Tensor& self, double mean, double std, const GeneratorArg& generator) {
  if (!(std >= 0)) throw Error("normal expects std >= 0.0, but found std " + number_text(std));
  if (self.is_complex()) {
    // The imaginary part has no mean.
    normal_(self.view_as_real(), 0, std / std::sqrt(2.0), generator);
    if (mean != 0) Tensor(self).add_(mean);
    return self;
  }
  require_floating(self, self.is_cuda() ? "normal_kernel_cuda" : "normal_kernel_cpu");
  DrawParams params;
  params.a = mean;
  params.b = std;
  fill(DrawId::normal, self, params, nullptr, generator);
  return self;
}

const Tensor& exponential_(const Tensor& self, double lambda, const GeneratorArg& generator) {
  if (!is_floating_point(self.dtype()))
    throw Error(
        std::string("Exponential distribution is a continuous probability distribution. dtype must "
                    "be a floating point but you specified ") +
        legacy_name(self.dtype()));
  if (!(lambda > 0))
    throw Error("exponential_ expects lambda > 0.0, but found lambda=" + number_text(lambda));
  DrawParams params;
  params.a = 1 / lambda;
  fill(DrawId::exponential, self, params, nullptr, generator);
  return self;
}

const Tensor& bernoulli_(const Tensor& self, double p, const GeneratorArg& generator) {
  if (!(p >= 0 && p <= 1))
    throw Error("bernoulli_ expects p to be in [0, 1], but got p=" + number_text(p));
  require_real(self, "bernoulli_scalar");
  DrawParams params;
  params.u = static_cast<std::uint64_t>(std::llround(p * 0x1p32));
  fill(DrawId::bernoulli, self, params, nullptr, generator);
  return self;
}

namespace {

void fill_bernoulli(const Tensor& self, const Tensor& p, const GeneratorArg& generator,
                    const ArgumentsOf& arguments) {
  require_real(self, "bernoulli_tensor");
  require_floating(p, "bernoulli_tensor");
  ops::require_same_device(self.device(), p.device());
  const Tensor each = p.expand(self.sizes()).to(float32).contiguous();
  fill(DrawId::bernoulli_each, self, {}, &each, generator, arguments);
}
/// Of the function of that name, whose argument `self` is the probabilities.
constexpr ArgumentsOf kBernoulli{cuda::kOutputArgument, "self"};

}  // namespace

const Tensor& bernoulli_(const Tensor& self, const Tensor& p, const GeneratorArg& generator) {
  fill_bernoulli(self, p, generator, {});
  return self;
}

const Tensor& random_(const Tensor& self, std::int64_t from, std::optional<std::int64_t> to,
                      const GeneratorArg& generator) {
  require_real(self, "random_from_to");
  require_bound(self, "from", from);
  if (to && from >= *to)
    throw Error("random_ expects 'from' to be less than 'to', but got from=" +
                std::to_string(from) + " >= to=" + std::to_string(*to));
  const std::int64_t last = to ? *to - 1 : bounds_of(self.dtype()).high;
  require_bound(self, "to - 1", last);
  fill_integers(self, from, static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(from) + 1,
                generator);
  return self;
}

const Tensor& random_(const Tensor& self, const GeneratorArg& generator) {
  return random_(self, 0, std::nullopt, generator);
}

Tensor rand(const Shape& sizes, const Options& options, const GeneratorArg& generator) {
  Tensor made = empty(sizes, options);
  uniform_(made, 0, 1, generator);
  return made;
}
Tensor rand_like(const Tensor& other, const Options& options, const GeneratorArg& generator) {
  Tensor made = empty_like(other, options);
  uniform_(made, 0, 1, generator);
  return made;
}
Tensor randn(const Shape& sizes, const Options& options, const GeneratorArg& generator) {
  return normal(0, 1, sizes, options, generator);
}
Tensor randn_like(const Tensor& other, const Options& options, const GeneratorArg& generator) {
  Tensor made = empty_like(other, options);
  normal_(made, 0, 1, generator);
  return made;
}
Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes, const Options& options,
               const GeneratorArg& generator) {
  Options all = options;
  if (!all.dtype) all.dtype = int64;
  Tensor made = empty(sizes, all);
  random_(made, low, high, generator);
  return made;
}
Tensor randint_like(const Tensor& other, std::int64_t low, std::int64_t high,
                    const Options& options, const GeneratorArg& generator) {
  Tensor made = empty_like(other, options);
  random_(made, low, high, generator);
  return made;
}
Tensor normal(double mean, double std, const Shape& sizes, const Options& options,
              const GeneratorArg& generator) {
  Tensor made = empty(sizes, options);
  normal_(made, mean, std, generator);
  return made;
}
namespace {

/// Fills an output of these sizes; one of others gets what was filled apart.
template <class Fill>
Tensor& fill_out(Tensor& out, const Shape& sizes, const Fill& fill,
                 ops::Resizing resizing = ops::Resizing::is_silent) {
  if (out.sizes() == sizes) {
    fill(out);
    return out;
  }
  const Tensor made = empty(sizes, {out.dtype(), out.device()});
  fill(made);
  return ops::put_result(out, made, resizing);
}

}  // namespace

Tensor& rand_out(Tensor& out, const Shape& sizes, const GeneratorArg& generator) {
  return fill_out(out, sizes, [&](const Tensor& into) { uniform_(into, 0, 1, generator); });
}
Tensor& normal_out(Tensor& out, double mean, double std, const Shape& sizes,
                   const GeneratorArg& generator) {
  return fill_out(out, sizes, [&](const Tensor& into) { normal_(into, mean, std, generator); });
}
Tensor& randn_out(Tensor& out, const Shape& sizes, const GeneratorArg& generator) {
  return normal_out(out, 0, 1, sizes, generator);
}
Tensor& randint_out(Tensor& out, std::int64_t low, std::int64_t high, const Shape& sizes,
                    const GeneratorArg& generator) {
  return fill_out(out, sizes, [&](const Tensor& into) { random_(into, low, high, generator); });
}
Tensor& randperm_out(Tensor& out, std::int64_t n, const GeneratorArg& generator) {
  return ops::put_result(out, randperm(n, {out.dtype(), out.device()}, generator),
                         ops::Resizing::is_silent);
}
namespace {

/// Error unless these can be standard deviations.
void require_deviations(const Tensor& std) {
  if (std.is_complex()) throw Error("normal expects standard deviation to be non-complex");
  if (std.numel() > 0 && !(std.min().item<double>() >= 0))  // nor is NaN
    throw Error("normal expects all elements of std >= 0.0");
}

/// A parameter that the output does not overwrite before it is read.
Tensor apart(const Tensor& parameter, const Tensor& out) {
  return ops::overlap(parameter, out) ? parameter.clone() : parameter;
}

/// Standard normal numbers in `self`, stretched and moved.
template <class Mean, class Std>
void scaled_normal(const Tensor& self, const Mean& mean, const Std& std,
                   const GeneratorArg& generator) {
  normal_(self, 0, 1, generator);
  self.mul_(std);
  self.add_(mean);
}

}  // namespace

Tensor normal(const Tensor& mean, const Tensor& std, const GeneratorArg& generator) {
  require_deviations(std);
  Tensor made = empty(broadcast_shapes(mean.sizes(), std.sizes()), {mean.dtype(), mean.device()});
  scaled_normal(made, mean, std, generator);
  return made;
}
Tensor normal(const Tensor& mean, double std, const GeneratorArg& generator) {
  Tensor made = empty(mean.sizes(), {mean.dtype(), mean.device()});
  normal_(made, 0, std, generator);
  return made.add_(mean);
}
Tensor normal(double mean, const Tensor& std, const GeneratorArg& generator) {
  require_deviations(std);
  Tensor made = empty(std.sizes(), {std.dtype(), std.device()});
  scaled_normal(made, mean, std, generator);
  return made;
}
Tensor& normal_out(Tensor& out, const Tensor& mean, const Tensor& std,
                   const GeneratorArg& generator) {
  require_deviations(std);
  return fill_out(
      out, broadcast_shapes(mean.sizes(), std.sizes()),
      [&](const Tensor& into) {
        scaled_normal(into, apart(mean, into), apart(std, into), generator);
      },
      ops::Resizing::warns);
}
Tensor& normal_out(Tensor& out, const Tensor& mean, double std, const GeneratorArg& generator) {
  return fill_out(
      out, mean.sizes(),
      [&](const Tensor& into) {
        const Tensor moved_by = apart(mean, into);
        normal_(into, 0, std, generator);
        into.add_(moved_by);
      },
      ops::Resizing::warns);
}
Tensor& normal_out(Tensor& out, double mean, const Tensor& std, const GeneratorArg& generator) {
  require_deviations(std);
  return fill_out(
      out, std.sizes(),
      [&](const Tensor& into) { scaled_normal(into, mean, apart(std, into), generator); },
      ops::Resizing::warns);
}

Tensor& bernoulli_out(Tensor& out, const Tensor& p, const GeneratorArg& generator) {
  return fill_out(out, p.sizes(),
                  [&](const Tensor& into) { fill_bernoulli(into, p, generator, kBernoulli); });
}
Tensor& multinomial_out(Tensor& out, const Tensor& p, std::int64_t count, bool replacement,
                        const GeneratorArg& generator) {
  return ops::put_result(out, multinomial(p, count, replacement, generator),
                         ops::Resizing::is_silent);
}

Tensor bernoulli(const Tensor& p, const GeneratorArg& generator) {
  Tensor made = empty(p.sizes(), {p.dtype(), p.device()});
  fill_bernoulli(made, p, generator, kBernoulli);
  return made;
}
Tensor bernoulli(const Tensor& like, double p, const GeneratorArg& generator) {
  Tensor made = empty(like.sizes(), {like.dtype(), like.device()});
  bernoulli_(made, p, generator);
  return made;
}

// The members of Tensor.
#define EMBER_FILL(name, parameters, with_generator, ...)     \
  Tensor& Tensor::name parameters const {                     \
    ember::name(*this __VA_OPT__(, ) __VA_ARGS__);            \
    return self();                                            \
  }                                                           \
  Tensor& Tensor::name with_generator const {                 \
    ember::name(*this __VA_OPT__(, ) __VA_ARGS__, generator); \
    return self();                                            \
  }
EMBER_FILL(uniform_, (double from, double to), (double from, double to, const Generator& generator),
           from, to)
EMBER_FILL(normal_, (double mean, double std),
           (double mean, double std, const Generator& generator), mean, std)
EMBER_FILL(exponential_, (double lambda), (double lambda, const Generator& generator), lambda)
EMBER_FILL(bernoulli_, (double p), (double p, const Generator& generator), p)
EMBER_FILL(bernoulli_, (const Tensor& p), (const Tensor& p, const Generator& generator), p)
EMBER_FILL(random_, (), (const Generator& generator))
EMBER_FILL(random_, (std::int64_t to), (std::int64_t to, const Generator& generator), to)
EMBER_FILL(random_, (std::int64_t from, std::int64_t to),
           (std::int64_t from, std::int64_t to, const Generator& generator), from, to)
#undef EMBER_FILL
Tensor Tensor::bernoulli() const { return ember::bernoulli(*this); }
Tensor Tensor::bernoulli(const Generator& generator) const {
  return ember::bernoulli(*this, generator);
}

}  // namespace ember::inline v0
