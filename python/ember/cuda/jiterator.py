"""Element-wise kernels from a text of CUDA C++, compiled while the program runs."""

from ember._C.cuda.jiterator import (_create_jit_fn as _create_jit_fn,
                                     _create_multi_output_jit_fn as _create_multi_output_jit_fn,
                                     _JittedFunction as _JittedFunction)
