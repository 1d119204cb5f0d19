// Categories drawn by their weights.
//
// With replacement: Note [Categories by whole numbers] in multinomial_args.h.
//
// Without: of exponential variables divided by weights the smallest one belongs to each category
// with the probability that its weight has among all, and the order of the others is that of
// drawing without putting back. So the largest of weight / exponential is drawn.
#include <array>
#include <bit>
#include <limits>

#include "ember/base/error.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/ops/scan.h"
#include "ember/ops/sort.h"
#include "ember/random/distributions.h"
#include "ember/random/multinomial_kernels.h"
#include "ember/reduce/reduce.h"

namespace ember::inline v0 {
namespace {

constexpr std::int64_t kMostCategories = std::int64_t{1} << 24;

void check(const Tensor& weights, std::int64_t count, bool replacement) {
  if (weights.dim() != 1 && weights.dim() != 2) throw Error("prob_dist must be 1 or 2 dim");
  if (!weights.is_floating_point())
    throw Error(std::string("multinomial only supports floating-point dtypes for input, got: ") +
                legacy_name(weights.dtype()));
  if (count <= 0) throw Error("cannot sample n_sample <= 0 samples");
  const std::int64_t categories = weights.size(-1);
  if (!replacement && count > categories)
    throw Error("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  if (categories > kMostCategories) throw Error("number of categories cannot exceed 2^24");
  if (categories == 0 && (weights.dim() == 1 || weights.size(0) > 0))
    throw Error("invalid multinomial distribution (sum of probabilities <= 0)");
}

/// What drawing without replacement asks of the weights. Waits for a device.
void check_elements(const Tensor& weights, std::int64_t count) {
  if (!(weights.isfinite() & (weights >= 0)).all().item<bool>())
    throw Error("probability tensor contains either `inf`, `nan` or element < 0");
  const std::int64_t least = count_nonzero(weights, -1).min().item<std::int64_t>();
  if (least == 0) throw Error("invalid multinomial distribution (sum of probabilities <= 0)");
  if (least < count)
    throw Error(
        "invalid multinomial distribution (with replacement=False, not enough non-negative "
        "category to sample)");
}

/// For each category its weight over an exponential variable, as often as `sizes` say. The largest
/// weight is 1, so that the winner's is a number between zero and infinity.
Tensor race(const Tensor& weights, const Shape& sizes, const GeneratorArg& generator) {
  Tensor lots = empty(sizes, {weights.dtype(), weights.device()});
  exponential_(lots, 1, generator);
  return div_out(lots, weights, lots);
}

/// The parts of each weight of rows without gaps: Note [Categories by whole numbers].
Tensor parts_of(const Tensor& weights) {
  const std::int64_t categories = weights.size(-1);
  const Tensor largest = weights.amax(-1, true);
  Tensor parts = empty(weights.sizes(), {Dtype::int64, weights.device()});
  const random::PartsArgs args{
      weights.address(),
      largest.address(),
      parts.address<std::int64_t>(),
      weights.numel() / categories,
      categories,
      62 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(categories - 1)))};
  const driver::Kernel& kernel = random::parts_kernel(weights.dtype());
  std::array<cuda::Access, 3> all;
  std::span<const cuda::Access> accesses;
  if (cuda::accesses_wanted()) {
    all = {ops::reads(weights, "self"), ops::reads(largest), ops::writes_output(parts)};
    accesses = all;
  }
  if (weights.is_cuda()) {
    ops::run(ops::at(weights, largest, parts), kernel, args, accesses);
  } else if (const Status status = ops::run_here(kernel, driver::Params(args), accesses);
             !status.ok()) {
    throw Error(status.detail());
  }
  return parts;
}

Tensor with_replacement(const Tensor& weights, const Shape& sizes, const GeneratorArg& generator) {
  const Tensor sums = parts_of(weights.contiguous()).cumsum(-1);
  Tensor drawn = empty(sizes, {Dtype::int64, weights.device()});
  random_(drawn, std::numeric_limits<std::int64_t>::min(), std::nullopt, generator);
  const std::int64_t categories = weights.size(-1);
  const random::SearchArgs args{sums.address<std::int64_t>(), drawn.address<std::int64_t>(),
                                sums.numel() / categories, categories, sizes.back()};
  const std::array<cuda::Access, 2> accesses{ops::reads(sums), ops::writes_output(drawn)};
  ops::run(ops::at(sums, drawn), random::search_kernel(), args, accesses);
  return drawn;
}

}  // namespace

Tensor multinomial(const Tensor& p, std::int64_t count, bool replacement,
                   const GeneratorArg& generator) {
  check(p, count, replacement);
  Shape sizes = p.sizes();
  sizes[p.dim() - 1] = count;
  if (p.numel() == 0) return empty(sizes, {Dtype::int64, p.device()});
  const Tensor given = item_size(p.dtype()) < 4 ? p.to(Dtype::float32) : p;
  if (replacement) return with_replacement(given, sizes, generator);
  check_elements(given, count);
  const Tensor weights = given / given.amax(-1, true);
  if (count == 1) return race(weights, p.sizes(), generator).argmax(-1, true);
  // A weight may be so small that its number is zero; those without any weight come after it.
  Tensor lots = race(weights, p.sizes(), generator);
  lots.masked_fill_(given == 0, -1);
  return topk(lots, count, -1).indices;
}

}  // namespace ember::inline v0
