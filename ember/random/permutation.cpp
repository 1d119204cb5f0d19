// randperm: Note [Random permutations] in scalar/permutation.h.
#include <algorithm>
#include <array>

#include "ember/base/error.h"
#include "ember/driver/kernels.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/random/distributions.h"
#include "ember/random/host_source.h"
#include "ember/random/host_vectors.h"
#include "ember/random/permutation_args.h"

namespace ember::inline v0 {
namespace random {
namespace {

using driver::HostLaunch;

template <class T>
void order_keys(const PermutationArgs& args, T* out) {
  struct Entry {
    ShuffleKey key;
    std::uint64_t i;
  };
  Entry entries[kRankedPermutation];
  const auto count = static_cast<std::size_t>(args.count);
  for (std::size_t i = 0; i < count; ++i)
    entries[i] = {shuffle_key(args.source.own.seed, args.source.own.step(), i), i};
  std::sort(entries, entries + count,
            [](const Entry& a, const Entry& b) { return comes_before(a.key, a.i, b.key, b.i); });
  for (std::size_t i = 0; i < count; ++i)
    out[i] = convert<T>(static_cast<std::int64_t>(entries[i].i));
}

/// Number is what the numbers below twice the count fit into.
template <class T, class Number>
EMBER_HD void permute_all(const PermutationArgs& args, T* out) {
  constexpr int kLanes = 64;
  FeistelKeys keys;
  for (int call = 0; call < FeistelKeys::kCalls; ++call)
    keys.draw(args.source.own.seed, args.source.own.step(), call);
  const auto count = static_cast<std::uint64_t>(args.count);
  const Feistel feistel(count);
  // Many at once; those whose result is out of range stay for the next pass, and others join them.
  Number numbers[kLanes] = {};
  std::uint64_t places[kLanes] = {};
  std::uint64_t next = 0;
  int waiting = 0;
  while (waiting > 0 || next < count) {
    for (; waiting < kLanes && next < count; ++waiting, ++next) {
      numbers[waiting] = static_cast<Number>(Feistel::exchanged(keys, next));
      places[waiting] = next;
    }
    for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = feistel.pass(keys, numbers[lane]);
    int kept = 0;
    for (int lane = 0; lane < waiting; ++lane) {
      if (numbers[lane] < count) {
        out[places[lane]] = convert<T>(static_cast<std::int64_t>(numbers[lane]));
      } else {
        numbers[kept] = numbers[lane];
        places[kept++] = places[lane];
      }
    }
    waiting = kept;
  }
}

template <class T>
EMBER_WIDE_VECTORS void permute_wide(const PermutationArgs& args, T* out) {
  permute_all<T, std::uint32_t>(args, out);
}
template <class T>
void permute_plain(const PermutationArgs& args, T* out) {
  permute_all<T, std::uint32_t>(args, out);
}

template <class T>
Status host_implementation(const driver::Params& params, const HostLaunch& on) {
  auto args = params.as<PermutationArgs>();
  if (!read_source(on, args.source)) return on.fault();
  T* out = on.at(static_cast<T*>(args.out), static_cast<std::size_t>(args.count));
  if (out == nullptr) return on.fault();
  if (args.count <= kRankedPermutation)
    order_keys(args, out);
  else if (args.count > std::int64_t{1} << 32)
    permute_all<T, std::uint64_t>(args, out);
  else if (has_wide_vectors())
    permute_wide(args, out);
  else
    permute_plain(args, out);
  return {};
}

constinit driver::Kernel kernels[] = {
#define EMBER_KERNEL(dtype, type) {"randperm." #dtype, &host_implementation<type>, nullptr},
    EMBER_FOR_EACH_PERMUTED(EMBER_KERNEL)
#undef EMBER_KERNEL
};
const driver::kernels::Table table(kernels, driver::arguments<PermutationArgs>());

/// A dtype's kernel, and how many numbers from zero on it holds.
struct Entry {
  Dtype dtype;
  std::int64_t most;
};
template <class T>
constexpr std::int64_t most_of() {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto last = static_cast<std::int64_t>(std::numeric_limits<T>::max());
    return sizeof(T) == 8 ? last : last + 1;
  } else {
    constexpr int digits = std::is_same_v<T, Half>       ? 11
                           : std::is_same_v<T, BFloat16> ? 8
                           : sizeof(T) == 4              ? 24
                                                         : 53;
    return (std::int64_t{1} << digits) + 1;
  }
}
constexpr Entry entries[] = {
#define EMBER_KERNEL(dtype, type) {Dtype::dtype, most_of<type>()},
    EMBER_FOR_EACH_PERMUTED(EMBER_KERNEL)
#undef EMBER_KERNEL
};

}  // namespace
}  // namespace random

Tensor randperm(std::int64_t n, const Options& options, const GeneratorArg& given) {
  if (n < 0) throw Error("n must be non-negative, got " + std::to_string(n));
  Options all = options;
  if (!all.dtype) all.dtype = int64;
  int kernel = -1;
  for (int i = 0; i < static_cast<int>(std::size(random::entries)); ++i)
    if (random::entries[i].dtype == *all.dtype) kernel = i;
  if (kernel < 0) ops::throw_not_implemented("randperm", *all.dtype);
  if (n > random::entries[kernel].most)
    throw Error("n is too large for result tensor type: '" + std::string(legacy_name(*all.dtype)) +
                "' holds the whole numbers below " + std::to_string(random::entries[kernel].most) +
                ", n is " + std::to_string(n));
  Tensor made = empty({n}, all);
  const Generator generator = random::generator_for(made.device(), given);
  if (n == 0) return made;
  const random::PermutationArgs args{made.address(), n, generator.draw(4)};
  const std::array<cuda::Access, 2> accesses{ops::writes_output(made),
                                             random::reads_source(args.source)};
  ops::run(ops::at(made), random::kernels[kernel], args,
           std::span(accesses).first(args.source.replayed != nullptr ? 2 : 1));
  return made;
}

}  // namespace ember::inline v0
