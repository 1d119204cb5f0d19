"""Devices, streams, events and memory."""

import sys as _sys
from types import ModuleType as _ModuleType

from ember import _C
from ember._C import (AcceleratorError as AcceleratorError,
                      DeferredCudaCallError as DeferredCudaCallError,
                      OutOfMemoryError as OutOfMemoryError, _refuse_name)
from ember._C.cuda import *
from ember._C.cuda import (_device_count_nvml as _device_count_nvml,
                           _get_device_index as _get_device_index,
                           _get_nvml_device_index as _get_nvml_device_index,
                           _get_pynvml_handler as _get_pynvml_handler,
                           _get_rng_state_offset as _get_rng_state_offset,
                           _host_function as _host_function, _is_in_bad_fork as _is_in_bad_fork,
                           _parse_visible_devices as _parse_visible_devices,
                           _raw_device_count_nvml as _raw_device_count_nvml,
                           _raw_device_uuid_nvml as _raw_device_uuid_nvml,
                           _set_rng_state_offset as _set_rng_state_offset, _sleep as _sleep,
                           _transform_uuid_to_ordinals as _transform_uuid_to_ordinals)

# In place of the extension's own submodule of this name; and for type checkers, which take what is
# imported `as` itself for public.
import ember.cuda._cudart
import ember.cuda._gpu_trace
import ember.cuda._sanitizer
import ember.cuda._utils
import ember.cuda.comm
import ember.cuda.graphs
import ember.cuda.jiterator
import ember.cuda.memory
import ember.cuda.nvtx
import ember.cuda.profiler
import ember.cuda.random
import ember.cuda.streams
from ember.cuda.graphs import (graph as graph, graphed as graphed,
                               make_graphed_callables as make_graphed_callables)
from ember.cuda import (_cudart as _cudart, _gpu_trace as _gpu_trace, _sanitizer as _sanitizer, _utils as _utils,
                        comm as comm, graphs as graphs, jiterator as jiterator, memory as memory,
                        nvtx as nvtx, profiler as profiler, random as random, streams as streams)
from ember.cuda._typed import (BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor,
                               ByteTensor as ByteTensor, CharTensor as CharTensor,
                               DoubleTensor as DoubleTensor, FloatTensor as FloatTensor,
                               HalfTensor as HalfTensor, IntTensor as IntTensor,
                               LongTensor as LongTensor, ShortTensor as ShortTensor)
from ember.cuda.memory import (CUDAPluggableAllocator as CUDAPluggableAllocator,
                               change_current_allocator as change_current_allocator)


def cudart() -> _ModuleType:
    """What of the CUDA runtime tools ask for: ``cudaMemGetInfo``, ``cudaHostRegister`` and so on."""
    init()
    return _cudart


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether devices compute with bfloat16 by themselves, or, unless told otherwise, at all."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def ipc_collect() -> None:
    """Gives back what other processes no longer use, which happens by itself, too. Gives up tensors
    that were sent and can no longer be received: with the start of a process that has ended, and all
    of them, if this process has no living child and was not started by another one."""
    if "ember.multiprocessing" in _sys.modules:
        _sys.modules["ember.multiprocessing.reductions"].collect()
    _C._ipc_collect()


# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda", name)
