"""What devices hold, and how much they may."""

import ctypes as _ctypes
import os as _os
import sys as _sys
import typing as _typing

import ember.cuda._memory_viz
from ember._C import _refuse_name
from ember._C.cuda import (
    MemPool as MemPool, OutOfMemoryReport as OutOfMemoryReport,
    SharingCaps as SharingCaps, _PluggableAllocator,
    _change_current_allocator, _dump_snapshot as _dump_snapshot,
    _holders as holders, _MemoryScope as scope, _record_history, _record_history_legacy,
    _set_allocator_settings as _set_allocator_settings, _snapshot as _snapshot,
    add_out_of_memory_callback as add_out_of_memory_callback, caching_allocator_alloc as caching_allocator_alloc,
    caching_allocator_delete as caching_allocator_delete,
    caching_allocator_disabled as caching_allocator_disabled,
    caching_allocator_enable as caching_allocator_enable,
    caching_allocator_enabled as caching_allocator_enabled, empty_cache as empty_cache,
    get_allocator_backend as get_allocator_backend,
    get_per_process_memory_fraction as get_per_process_memory_fraction,
    host_memory_stats as host_memory_stats,
    host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict,
    list_gpu_processes as list_gpu_processes, max_memory_allocated as max_memory_allocated,
    max_memory_cached as max_memory_cached, max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info, memory_allocated as memory_allocated,
    memory_cached as memory_cached, memory_reserved as memory_reserved,
    memory_snapshot as memory_snapshot, memory_stats as memory_stats, memory_stats_as_nested_dict as memory_stats_as_nested_dict,
    memory_summary as memory_summary,
    remove_out_of_memory_callback as remove_out_of_memory_callback,
    reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats, reset_max_memory_allocated as reset_max_memory_allocated,
    reset_max_memory_cached as reset_max_memory_cached,
    reset_accumulated_memory_stats as reset_accumulated_memory_stats,
    reset_peak_host_memory_stats as reset_peak_host_memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_per_process_memory_fraction as set_per_process_memory_fraction,
    sharing_caps as sharing_caps, use_mem_pool as use_mem_pool)
from ember.cuda import _memory_viz as _memory_viz


class _CUDAAllocator:
    """An allocator of the program's own."""

    def __init__(self, allocator: _PluggableAllocator) -> None:
        self._allocator = allocator

    def allocator(self) -> _PluggableAllocator:
        """What MemPool takes."""
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    """Two functions of a shared object, which bring device memory and take it back:

        void* alloc_fn(size_t size, int device, cudaStream_t stream);
        void free_fn(void* ptr, size_t size, int device, cudaStream_t stream);

    docs/memory.md says what is demanded of them. OSError if there is no such object, AttributeError
    if it has no such symbol."""

    def __init__(self, path_to_so_file: "str | _os.PathLike[str]", alloc_fn_name: str,
                 free_fn_name: str) -> None:
        path = _os.fspath(path_to_so_file)
        library = _ctypes.CDLL(path)
        for name in (alloc_fn_name, free_fn_name):
            getattr(library, name)
        super().__init__(_PluggableAllocator(path, alloc_fn_name, free_fn_name))


def change_current_allocator(allocator: _CUDAAllocator) -> None:
    """From now on device memory comes from the allocator. Only before any was asked for:
    RuntimeError after that."""
    if not isinstance(allocator, _CUDAAllocator):
        raise TypeError("allocator: expected a CUDAPluggableAllocator, got "
                        + type(allocator).__name__)
    _change_current_allocator(allocator.allocator())


def _record_memory_history(enabled: "str | bool | None" = "all", *args: _typing.Any,
                           **kwargs: _typing.Any) -> None:
    """Records which memory comes and goes, and where the program stands, or stops and forgets it
    (None). The options are those of `_record_history_options`; with a bool first, those of
    `_record_history_options_legacy`."""
    if isinstance(enabled, bool):
        _record_history_options_legacy(enabled, *args, **kwargs)
    else:
        _record_history_options(enabled, *args, **kwargs)


def _record_history_options(
        enabled: "str | None" = "all", context: "str | None" = "all", stacks: str = "all",
        max_entries: int = _sys.maxsize, device: _typing.Any = None, clear_history: bool = False,
        compile_context: bool = False, global_record_annotations: bool = False,
        skip_actions: "_typing.Sequence[str] | None" = None) -> None:
    """`enabled`: "all" (entries and the stacks of memory in use), "state" (these, and the last entry) or None.
    `context`: None, "state", "alloc" or "all". `stacks`: "python" or "all", with native code's.
    Concerns all devices whatever `device` is, as in torch; nothing is compiled, so what concerns
    compilers has no effect."""
    _record_history(enabled, context, stacks, max_entries, clear_history, list(skip_actions or ()))


def _record_history_options_legacy(
        enabled: bool, record_context: bool = True, trace_alloc_max_entries: int = 1,
        trace_alloc_record_context: bool = False, device: _typing.Any = None,
        record_context_cpp: bool = False, clear_history: bool = False,
        compile_context: bool = False, global_record_annotations: bool = False) -> None:
    """The options of older programs."""
    _record_history_legacy(enabled, record_context, trace_alloc_max_entries,
                           trace_alloc_record_context, record_context_cpp, clear_history)


def _save_segment_usage(filename: str = "output.svg",
                        snapshot: "dict[str, _typing.Any] | None" = None) -> None:
    """Writes a flame graph (SVG) of who holds how much of which segment; now, or in a snapshot."""
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_memory_viz.segments(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename: str = "output.svg",
                       snapshot: "dict[str, _typing.Any] | None" = None) -> None:
    """Writes a flame graph (SVG) of who holds how much on which stream; now, or in a snapshot."""
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_memory_viz.memory(_snapshot() if snapshot is None else snapshot))


# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda.memory", name)
