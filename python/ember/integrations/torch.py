"""PyTorch on ember's allocator.

    import ember.integrations.torch
    ember.integrations.torch.install()

Tensors of PyTorch on CUDA devices then live in memory of ember's allocator, side by side with
ember's own: what one frees, the other can use. `ember.cuda`'s statistics, limits, settings, history,
snapshots and reports of exhausted memory tell of both.
"""

import ctypes as _ctypes
import importlib as _importlib
import typing as _typing

from ember import cuda as _cuda
from ember._C.cuda import _core_library

#: PyTorch's setters, and the functions of ember/memory/allocator_functions.h that they are given.
_HOOKS = {
    "set_reset_fn": "ember_allocator_empty_cache",
    "set_memory_fraction_fn": "ember_allocator_set_fraction",
    "set_base_alloc_fn": "ember_allocator_base",
    "set_record_stream_fn": "ember_allocator_record_stream",
    "set_begin_allocate_to_pool": "ember_allocator_begin_pool",
    "set_end_allocate_to_pool_fn": "ember_allocator_end_pool",
    "set_release_pool": "ember_allocator_release_pool",
}


def install() -> _typing.Any:
    """From now on PyTorch asks ember for memory of CUDA devices. Returns PyTorch's allocator object.

    Call it before PyTorch has used a device: RuntimeError (PyTorch's) after that. RuntimeError on
    simulated devices, whose memory PyTorch cannot use, and ImportError without PyTorch. Where memory
    is exhausted, PyTorch's call raises a RuntimeError with ember's text; once memory is freed it
    succeeds. PyTorch's own figures (`torch.cuda.memory_allocated()`) are not told by allocators that
    are plugged in: ask `ember.cuda`. Blocks for nothing."""
    if _cuda.is_simulated():
        raise RuntimeError("ember.integrations.torch: ember's devices are simulated (EMBER_DEVICES), "
                           "and PyTorch can use memory of real ones only")
    torch = _importlib.import_module("torch")
    path = _core_library()
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "ember_allocator_malloc", "ember_allocator_free")
    library = _ctypes.CDLL(path)
    hooks = allocator.allocator()
    for setter, function in _HOOKS.items():
        getattr(hooks, setter)(_ctypes.cast(getattr(library, function), _ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)
    return allocator
