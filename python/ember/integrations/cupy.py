"""CuPy on ember's allocator.

    import ember.integrations.cupy
    ember.integrations.cupy.install()
"""

import importlib as _importlib
import typing as _typing

import ember._C.cuda as _native
from ember import cuda as _cuda


def install(pool: "_cuda.MemPool | None" = None) -> _typing.Any:
    """From now on CuPy asks ember for memory of CUDA devices, for work on the stream that is current
    in CuPy; with a `pool` of ember's, from that. Returns CuPy's allocator object, which keeps the
    pool.

    Memory that CuPy has already stays where it is. `cupy.cuda.set_allocator()` ends it. RuntimeError
    on simulated devices, whose memory CuPy cannot use, and ImportError without CuPy. Where memory is
    exhausted, CuPy's call raises `ember.cuda.OutOfMemoryError`. Blocks for nothing."""
    if _cuda.is_simulated():
        raise RuntimeError("ember.integrations.cupy: ember's devices are simulated (EMBER_DEVICES), "
                           "and CuPy can use memory of real ones only")
    cupy = _importlib.import_module("cupy")

    streams = _importlib.import_module("cupy_backends.cuda.stream")
    functions = _native._LibraryAllocator(
        cupy.cuda.get_current_stream, pool,
        getattr(streams, "__pyx_capi__", {}).get("get_current_stream_ptr"))
    if functions.passes_errors_on(cupy.cuda.memory.CFunctionAllocatorMemory):
        allocator = cupy.cuda.CFunctionAllocator(
            functions.address, functions.malloc_function, functions.free_function, functions)
    else:
        allocator = cupy.cuda.PythonFunctionAllocator(functions.malloc, functions.free)
    cupy.cuda.set_allocator(allocator.malloc)
    return allocator
