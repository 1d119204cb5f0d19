// Random numbers: filling tensors, and new tensors of random numbers. Chapter 5 of the documents.
//
// Each function draws from the default generator of the tensor's device, or from the one it is
// given, which must be for that device (Error `Expected a 'cuda' device type for generator but
// found 'cpu'`). The numbers depend on the generator's seed and offset and on the index of the
// element in the order of the dimensions, not on strides nor on the machine: Note [Which numbers an
// element takes] in draw_args.h. 16-bit types are drawn as float and rounded. Tensors without
// elements draw nothing. Nothing blocks but multinomial without replacement.
//
// Shapes, dtypes and devices of new tensors: see ops/factories.h. On an error nothing is drawn.
#pragma once

#include <cstdint>
#include <optional>

#include "ember/base/export.h"
#include "ember/random/generator.h"

namespace ember::inline v0 {

using GeneratorArg = std::optional<Generator>;

namespace random {
/// The generator that an operation on an existing device draws from.
EMBER_API Generator generator_for(Device device, const GeneratorArg& given);
}  // namespace random

// ---- Filling a tensor. All return their first argument. (The members of Tensor of these names do
// the same.)

/// From `from` to below `to`; floating and complex dtypes. Error `uniform_ expects to return a
/// [from, to) range, but found from=1 > to=0`, and where from, to or to - from is beyond the dtype.
EMBER_API const Tensor& uniform_(const Tensor& self, double from = 0, double to = 1,
                                 const GeneratorArg& generator = {});
/// Floating and complex dtypes (of complex numbers each part has half the variance). Error `normal
/// expects std >= 0.0, but found std -1`.
EMBER_API const Tensor& normal_(const Tensor& self, double mean = 0, double std = 1,
                                const GeneratorArg& generator = {});
/// With density lambda * exp(-lambda * x); never zero; floating dtypes. Error `exponential_ expects
/// lambda > 0.0, but found lambda=0`.
EMBER_API const Tensor& exponential_(const Tensor& self, double lambda = 1,
                                     const GeneratorArg& generator = {});
/// One with probability p, else zero; any dtype but complex. Error `bernoulli_ expects p to be in
/// [0, 1], but got p=2`.
EMBER_API const Tensor& bernoulli_(const Tensor& self, double p = 0.5,
                                   const GeneratorArg& generator = {});
/// The same with a floating-point tensor of probabilities, which is broadcast. One that is outside
/// [0, 1] is a device assert on CUDA devices.
EMBER_API const Tensor& bernoulli_(const Tensor& self, const Tensor& p,
                                   const GeneratorArg& generator = {});
/// Whole numbers from `from` to below `to`, any dtype but complex; without `to`, to the largest of
/// the dtype. Error `random_ expects 'from' to be less than 'to', but got from=5 >= to=5`, or where
/// the dtype does not hold them all.
EMBER_API const Tensor& random_(const Tensor& self, std::int64_t from,
                                std::optional<std::int64_t> to, const GeneratorArg& generator = {});
inline const Tensor& random_(const Tensor& self, std::int64_t to,
                             const GeneratorArg& generator = {}) {
  return random_(self, 0, to, generator);
}
/// From zero to the largest of an integer dtype; of a floating one, to the largest number up to
/// which it holds all whole numbers.
EMBER_API const Tensor& random_(const Tensor& self, const GeneratorArg& generator = {});

// ---- New tensors.

/// Uniform from 0 to below 1.
EMBER_API Tensor rand(const Shape& sizes, const Options& options = {},
                      const GeneratorArg& generator = {});
EMBER_API Tensor rand_like(const Tensor& other, const Options& options = {},
                           const GeneratorArg& generator = {});
/// Standard normal.
EMBER_API Tensor randn(const Shape& sizes, const Options& options = {},
                       const GeneratorArg& generator = {});
EMBER_API Tensor randn_like(const Tensor& other, const Options& options = {},
                            const GeneratorArg& generator = {});
/// Whole numbers from `low` to below `high`, int64 unless another dtype is given.
EMBER_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes,
                         const Options& options = {}, const GeneratorArg& generator = {});
inline Tensor randint(std::int64_t high, const Shape& sizes, const Options& options = {},
                      const GeneratorArg& generator = {}) {
  return randint(0, high, sizes, options, generator);
}
EMBER_API Tensor randint_like(const Tensor& other, std::int64_t low, std::int64_t high,
                              const Options& options = {}, const GeneratorArg& generator = {});
inline Tensor randint_like(const Tensor& other, std::int64_t high, const Options& options = {},
                           const GeneratorArg& generator = {}) {
  return randint_like(other, 0, high, options, generator);
}
/// 0, 1, ... n - 1 in random order, int64 unless another dtype is given. Error `n must be
/// non-negative`, and `n is too large for result tensor type` if the dtype does not hold them all.
EMBER_API Tensor randperm(std::int64_t n, const Options& options = {},
                          const GeneratorArg& generator = {});
/// Normal with these parameters.
EMBER_API Tensor normal(double mean, double std, const Shape& sizes, const Options& options = {},
                        const GeneratorArg& generator = {});
/// Normal, each element with its own mean, standard deviation, or both, which are broadcast. The
/// dtype is that of `mean`, or of `std` if the mean is a number: floating or complex. Error `normal
/// expects all elements of std >= 0.0`, for which it waits until `std` is there; `normal expects
/// standard deviation to be non-complex`.
EMBER_API Tensor normal(const Tensor& mean, const Tensor& std, const GeneratorArg& generator = {});
EMBER_API Tensor normal(const Tensor& mean, double std = 1, const GeneratorArg& generator = {});
EMBER_API Tensor normal(double mean, const Tensor& std, const GeneratorArg& generator = {});
EMBER_API Tensor& normal_out(Tensor& out, const Tensor& mean, const Tensor& std,
                             const GeneratorArg& generator = {});
EMBER_API Tensor& normal_out(Tensor& out, const Tensor& mean, double std = 1,
                             const GeneratorArg& generator = {});
EMBER_API Tensor& normal_out(Tensor& out, double mean, const Tensor& std,
                             const GeneratorArg& generator = {});
// The same in an output that exists, as in ops/factories.h.
EMBER_API Tensor& rand_out(Tensor& out, const Shape& sizes, const GeneratorArg& generator = {});
EMBER_API Tensor& randn_out(Tensor& out, const Shape& sizes, const GeneratorArg& generator = {});
EMBER_API Tensor& randint_out(Tensor& out, std::int64_t low, std::int64_t high, const Shape& sizes,
                              const GeneratorArg& generator = {});
EMBER_API Tensor& randperm_out(Tensor& out, std::int64_t n, const GeneratorArg& generator = {});
EMBER_API Tensor& normal_out(Tensor& out, double mean, double std, const Shape& sizes,
                             const GeneratorArg& generator = {});
/// Ones and zeros of the shape and dtype of the probabilities `p`.
EMBER_API Tensor bernoulli(const Tensor& p, const GeneratorArg& generator = {});
/// Of the same shape and dtype, with one probability for all.
EMBER_API Tensor bernoulli(const Tensor& like, double p, const GeneratorArg& generator = {});
/// Both in an output that exists, of any floating dtype; that of `p` may be another.
EMBER_API Tensor& bernoulli_out(Tensor& out, const Tensor& p, const GeneratorArg& generator = {});
/// The numbers of `count` categories (int64), drawn by the weights in `p` with or without putting
/// back; `p` is one row of weights, or a matrix with a result for every row. Floating dtypes; at
/// most 2^24 categories. Errors `prob_dist must be 1 or 2 dim`, `cannot sample n_sample >
/// prob_dist.size(-1) samples without replacement`, `probability tensor contains either `inf`,
/// `nan` or element < 0`, with replacement `invalid multinomial distribution (encountering
/// probability entry < 0)`, `... (sum of probabilities <= 0)` and so on.
/// With replacement it costs memory and time for the categories and for the samples, and does not
/// block: on CUDA devices weights that make no sense are a fault, `device-side assert triggered`,
/// that names multinomial. Without, it blocks until the weights are there, to look at them.
EMBER_API Tensor multinomial(const Tensor& p, std::int64_t count, bool replacement = false,
                             const GeneratorArg& generator = {});
/// The same in an output of int64 that exists.
EMBER_API Tensor& multinomial_out(Tensor& out, const Tensor& p, std::int64_t count,
                                  bool replacement = false, const GeneratorArg& generator = {});

}  // namespace ember::inline v0
