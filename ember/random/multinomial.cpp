// Categories drawn by their weights. Of exponential variables divided by weights the smallest one
// belongs to each category with the probability that its weight has among all, and the order of the
// others is that of drawing without putting back. So the largest of weight / exponential is drawn.
#include <algorithm>

#include "ember/base/error.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/rearrange.h"
#include "ember/ops/reduce.h"
#include "ember/ops/sort.h"
#include "ember/random/distributions.h"

namespace ember {
namespace {

constexpr std::int64_t kMostCategories = std::int64_t{1} << 24;
/// How many variables are drawn at once.
constexpr std::int64_t kAtOnce = std::int64_t{1} << 24;

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
  if (weights.numel() == 0) return;
  if (!(weights.isfinite() & (weights >= 0)).all().item<bool>())
    throw Error("probability tensor contains either `inf`, `nan` or element < 0");
  const std::int64_t least = count_nonzero(weights, -1).min().item<std::int64_t>();
  if (least == 0) throw Error("invalid multinomial distribution (sum of probabilities <= 0)");
  if (!replacement && least < count)
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

}  // namespace

Tensor multinomial(const Tensor& p, std::int64_t count, bool replacement,
                   const GeneratorArg& generator) {
  check(p, count, replacement);
  if (p.numel() == 0) {
    Shape sizes = p.sizes();
    sizes[p.dim() - 1] = count;
    return empty(sizes, {Dtype::int64, p.device()});
  }
  const Tensor given = item_size(p.dtype()) < 4 ? p.to(Dtype::float32) : p;
  const Tensor weights = given / given.amax(-1, true);
  if (count == 1) return race(weights, p.sizes(), generator).argmax(-1, true);
  if (!replacement) {
    // A weight may be so small that its number is zero; those without any weight come after it.
    Tensor lots = race(weights, p.sizes(), generator);
    lots.masked_fill_(given == 0, -1);
    return topk(lots, count, -1).second;
  }
  const std::int64_t lots = std::max<std::int64_t>(1, kAtOnce / p.numel());
  Shape sizes = p.sizes();
  sizes[p.dim() - 1] = count;
  Tensor drawn = empty(sizes, {Dtype::int64, p.device()});
  for (std::int64_t start = 0; start < count; start += lots) {
    const std::int64_t now = std::min(lots, count - start);
    const Shape lot_sizes =
        p.dim() == 1 ? Shape({now, p.size(0)}) : Shape({now, p.size(0), p.size(1)});
    const Tensor found = race(weights, lot_sizes, generator).argmax(-1);  // [now] or [now, rows]
    drawn.narrow(-1, start, now).copy_(p.dim() == 1 ? found : found.t());
  }
  return drawn;
}

}  // namespace ember
