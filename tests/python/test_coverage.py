"""docs/coverage.md is true in both directions."""

import pathlib
import re

import pytest

import ember

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Every public name of the documents (the reference's index of names).
PACKAGE = """StreamContext stream set_stream current_stream default_stream current_device set_device
device device_ctx_manager device_of device_count is_available is_initialized init synchronize
ipc_collect can_device_access_peer current_blas_handle get_arch_list get_gencode_flags
get_device_capability get_device_name get_device_properties OutOfMemoryError get_sync_debug_mode
set_sync_debug_mode memory_usage utilization temperature power_draw clock_rate"""
RANDOM = """get_rng_state get_rng_state_all set_rng_state set_rng_state_all manual_seed
manual_seed_all seed seed_all initial_seed"""
COMM = "comm.broadcast comm.broadcast_coalesced comm.reduce_add comm.scatter comm.gather"
STREAMS = """Stream Stream.query Stream.record_event Stream.synchronize Stream.wait_event
Stream.wait_stream ExternalStream Event Event.elapsed_time Event.ipc_handle Event.query Event.record
Event.synchronize Event.wait"""
GRAPHS = "is_current_stream_capturing graph_pool_handle CUDAGraph graph make_graphed_callables"
MEMORY = """empty_cache mem_get_info memory_stats memory_summary memory_snapshot memory_allocated
max_memory_allocated reset_max_memory_allocated memory_reserved max_memory_reserved
set_per_process_memory_fraction memory_cached max_memory_cached reset_max_memory_cached
reset_peak_memory_stats caching_allocator_alloc caching_allocator_delete get_allocator_backend
list_gpu_processes CUDAPluggableAllocator change_current_allocator"""
OTHERS = """nvtx.mark nvtx.range_push nvtx.range_pop jiterator._create_jit_fn
jiterator._create_multi_output_jit_fn _sanitizer.enable_cuda_sanitizer"""
NAMES = ["cuda." + name for group in (PACKAGE, RANDOM, COMM, STREAMS, GRAPHS, MEMORY, OTHERS)
         for name in group.split()]
NAMES += ["backends.cuda.cufft_plan_cache." + name
          for name in ("max_size", "size", "clear", "__getitem__")]

# Beside the documents, what tools build on.
TRACED = """event_creation event_deletion event_record event_wait memory_allocation memory_deallocation
stream_creation device_synchronization stream_synchronization event_synchronization"""
BESIDE = ["cuda._gpu_trace.register_callback_for_" + kind for kind in TRACED.split()]
BESIDE += ["cuda." + name for name in """_is_in_bad_fork _sleep _parse_visible_devices
_transform_uuid_to_ordinals _raw_device_count_nvml _raw_device_uuid_nvml _device_count_nvml
_get_nvml_device_index _get_pynvml_handler _get_rng_state_offset _set_rng_state_offset
_utils._get_device_index streams memory memory._set_allocator_settings
memory._record_memory_history memory._snapshot memory._dump_snapshot graphs
memory._save_segment_usage memory._save_memory_usage memory._memory_viz
MemPool use_mem_pool caching_allocator_enable host_memory_stats host_memory_stats_as_nested_dict
reset_peak_host_memory_stats reset_accumulated_host_memory_stats
reset_accumulated_memory_stats check_error default_generators cudart get_stream_from_external
device_memory_used is_bf16_supported profiler.start FloatTensor""".split()]
BESIDE += ["_C." + name for name in """_activate_gpu_trace _cuda_hasPrimaryContext
_cuda_attach_out_of_memory_observer _cuda_clearCublasWorkspaces
_host_emptyCache""".split()]
BESIDE += ["ops.aten", "backends.cuda.matmul.allow_fp16_accumulation"]


def rows():
    for line in (ROOT / "docs" / "coverage.md").read_text().splitlines():
        if line.startswith("| `"):
            yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def exists(name):
    found = ember
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


ROWS = {row[0]: row[1:] for row in rows()}


def test_every_name_stands_there_once():
    assert len(NAMES) == len(set(NAMES)) == 95
    assert sorted(row[0] for row in rows()) == sorted(NAMES + BESIDE)


@pytest.mark.parametrize("name", NAMES + BESIDE)
def test_name(name):
    """What docs/coverage.md says is done exists in C++ and Python and has that test; the rest does not."""
    cpp, python, test, stands = ROWS[name]
    assert stands == "done" or stands.startswith("later")
    assert exists(name) == (stands == "done")
    if stands != "done":
        assert not (cpp or python or test)
        return
    if not cpp:  # Python's alone: modules, and what another library's module is asked for
        assert name in BESIDE
        cpp = "Tensor"
    headers = "\n".join(path.read_text() for path in (ROOT / "ember").rglob("*.h"))
    declared = re.split(r"[(]", cpp)[0].split("::")[-1]
    assert re.search(rf"\b{declared}\b", headers), cpp
    assert name.split(".")[-1] in python or python.startswith("with ")
    file, case = test.split("::")
    assert re.search(rf"^def {case}\(", (ROOT / "tests/python" / file).read_text(), re.M), test
