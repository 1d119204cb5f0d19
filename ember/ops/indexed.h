// Moving elements whose place along one dimension an index says: what index_select, gather, scatter
// and advanced indexing are made of.
#pragma once

#include "ember/ops/indexed_kernels.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// One move. The grid has `sizes`; each tensor has strides of its own in it, in elements. The
/// strides of the indexed tensor (the source of a read, the target of a write) are zero in the
/// dimensions that the index decides about.
struct IndexedMove {
  Shape sizes;
  Tensor target;
  Shape target_strides;
  Tensor source;
  Shape source_strides;
  Tensor index;  ///< int64, on the same device
  Shape index_strides;
  std::int64_t limit = 0;  ///< places along the indexed dimension
  std::int64_t step = 0;   ///< elements of the indexed tensor from one place to the next
  int dim = 0;             ///< the indexed dimension, for errors
  bool wrap = false;       ///< negative indices count from the end
};

/// Runs a move; nothing happens for an empty grid. An index out of bounds: IndexError on the CPU
/// (Error from gather and the kinds of scatter), and nothing was written; a fault of the device
/// that names the operation, on devices.
void move_indexed(Reads op, const IndexedMove& move);
void move_indexed(Writes op, const IndexedMove& move);
/// For half and bfloat16 it is done in float: through a copy of the target. NotImplementedError for
/// uint16, uint32 and uint64.
void move_indexed(Combines op, const IndexedMove& move);

/// The index, checked against `limit` and wrapped, times `step`. Contiguous int64 in, the same out.
Tensor index_offsets(const Tensor& index, std::int64_t limit, std::int64_t step, int dim);

/// The one element of a tensor, or a number, without dimensions, in the dtype and on the device of
/// `like`. Error as require_fits(); an element on a device is not looked at, so that nothing waits:
/// there only a complex dtype is an error. A CPU tensor goes to any device.
Tensor one_value(const Operand& value, const Tensor& like);

}  // namespace ember::inline v0::ops
