"""What devices hold, and how much they may."""

from ember._C import _refuse_name
from ember._C.cuda import (
    MemPool as MemPool, OutOfMemoryReport as OutOfMemoryReport,
    _set_allocator_settings as _set_allocator_settings,
    add_out_of_memory_callback as add_out_of_memory_callback, caching_allocator_alloc as caching_allocator_alloc,
    caching_allocator_delete as caching_allocator_delete,
    caching_allocator_disabled as caching_allocator_disabled,
    caching_allocator_enable as caching_allocator_enable,
    caching_allocator_enabled as caching_allocator_enabled, empty_cache as empty_cache,
    get_allocator_backend as get_allocator_backend,
    get_per_process_memory_fraction as get_per_process_memory_fraction,
    list_gpu_processes as list_gpu_processes, max_memory_allocated as max_memory_allocated,
    max_memory_cached as max_memory_cached, max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info, memory_allocated as memory_allocated,
    memory_cached as memory_cached, memory_reserved as memory_reserved,
    memory_stats as memory_stats, memory_stats_as_nested_dict as memory_stats_as_nested_dict,
    memory_summary as memory_summary,
    remove_out_of_memory_callback as remove_out_of_memory_callback, reset_max_memory_allocated as reset_max_memory_allocated,
    reset_max_memory_cached as reset_max_memory_cached,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_per_process_memory_fraction as set_per_process_memory_fraction,
    use_mem_pool as use_mem_pool)

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda.memory", name)
