// Elements at places that an index tensor names, along one dimension. Index tensors are int64 or
// int32 (int64 only for take, put_, index_copy_ and index_fill_, as in torch) and lie where the
// tensor does: Error `Expected all tensors to be on the same device, ...` for all others (only
// x.index() and x.index_put_() copy indices from the CPU). Indices out of bounds: on the
// CPU IndexError `index 5 is out of bounds for dimension 0 with size 3`, plain Error from gather,
// scatter_ and scatter_add_ (as torch has it), and nothing was changed; on devices the kernel
// faults, and a later call reports `device-side assert triggered` and names the operation. Negative
// indices are out of bounds except in take, put_ and index_fill_. Nothing blocks on CUDA devices.
//
// Of several writes to one element the last one counts on the CPU and on simulated devices, any of
// them on GPUs. Additions to one element are made in the order of the index on the CPU and on
// simulated devices; on GPUs in any order, so that sums of floating-point numbers may differ from
// run to run in the last places. So it is with products. Those of half and bfloat16 are rounded
// after each element, as in torch; where there are more elements than the tensor has places they
// are made in float, and rounded once.
#pragma once

#include <string_view>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The slices of x along a dimension that the index (a vector, or one number) names.
EMBER_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
EMBER_API Tensor& index_select_out(Tensor& out, const Tensor& x, std::int64_t dim,
                                   const Tensor& index);

/// out[i][j][k] = x[i][index[i][j][k]][k] for dim = 1, and so on: the shape is the index's, whose
/// sizes are at most x's in the other dimensions.
EMBER_API Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
EMBER_API Tensor& gather_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index);
/// gather() of indices (of int64, without a dimension of int32 too) that are broadcast with x in
/// the other dimensions, and that wrap around the dimension, as torch has it: what argsort and
/// argmax find. Without a dimension both are one row. Error unless they have as many dimensions.
EMBER_API Tensor take_along_dim(const Tensor& x, const Tensor& indices,
                                std::optional<std::int64_t> dim = {});
EMBER_API Tensor& take_along_dim_out(Tensor& out, const Tensor& x, const Tensor& indices,
                                     std::optional<std::int64_t> dim = {});

/// x's elements at these places, x being taken as one row. The shape is the index's.
EMBER_API Tensor take(const Tensor& x, const Tensor& index);
/// Errors as for scatter_out; the output shares no memory with x either.
EMBER_API Tensor& take_out(Tensor& out, const Tensor& x, const Tensor& index);

// Copies of x with the changes that the methods of the same names with _ make.
EMBER_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index,
                         const Operand& source);
EMBER_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index,
                         const Operand& source, std::string_view reduce);
EMBER_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index,
                             const Tensor& source);
EMBER_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index,
                           const Tensor& source, const Scalar& alpha = 1);
EMBER_API Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index,
                            const Tensor& source);
// The same in an output of x's dtype, which may be x but shares no memory with index or source. One
// of other sizes is resized, with a warning unless it has no elements. Error for another dtype; the
// output is then as it was.
EMBER_API Tensor& scatter_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                              const Operand& source);
EMBER_API Tensor& scatter_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                              const Operand& source, std::string_view reduce);
EMBER_API Tensor& scatter_add_out(Tensor& out, const Tensor& x, std::int64_t dim,
                                  const Tensor& index, const Tensor& source);
EMBER_API Tensor& index_add_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                                const Tensor& source, const Scalar& alpha = 1);
EMBER_API Tensor& index_copy_out(Tensor& out, const Tensor& x, std::int64_t dim,
                                 const Tensor& index, const Tensor& source);
// More copies of x with changes.
EMBER_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index,
                            const Operand& value);
EMBER_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);

}  // namespace ember::inline v0
