"""ember.cuda: allocators of the program's own, from the shared object of tests/memory/plugin.cpp."""

import ctypes
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import environment_with

import ember as torch
from ember import cuda

PLUGIN = os.environ.get("EMBER_TEST_ALLOCATOR_PLUGIN")
MIB = 1 << 20
pytestmark = pytest.mark.counts_memory
needs_plugin = pytest.mark.skipif(not PLUGIN, reason="needs EMBER_TEST_ALLOCATOR_PLUGIN")


class Seen(ctypes.Structure):
    """PluginSeen of tests/memory/plugin.h."""
    _fields_ = [("mallocs", ctypes.c_int), ("frees", ctypes.c_int), ("inits", ctypes.c_int),
                ("resets", ctypes.c_int), ("held", ctypes.c_int), ("bytes", ctypes.c_size_t), ("pointer", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("device", ctypes.c_int), ("stream", ctypes.c_void_p)]


def seen():
    now = Seen()
    ctypes.CDLL(PLUGIN).plugin_seen(ctypes.byref(now))
    return now


def plugged(alloc_fn="counting_malloc", free_fn="counting_free"):
    return cuda.CUDAPluggableAllocator(PLUGIN, alloc_fn, free_fn)


def in_a_process(program, settings=""):
    """Of its own: the allocator of a process can be changed once."""
    begin = """
        import ember as torch
        from ember import cuda
        from test_allocators import PLUGIN, plugged, seen
    """
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(
        [os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]))
    environment.pop("PYTORCH_NO_CUDA_MEMORY_CACHING", None)
    environment["PYTORCH_CUDA_ALLOC_CONF"] = settings
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(program)],
                          env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


@needs_plugin
def test_change_current_allocator():
    in_a_process("""
        assert cuda.get_allocator_backend() == "native"
        cuda.change_current_allocator(plugged())
        assert cuda.get_allocator_backend() == "pluggable" and not cuda.is_initialized()
        x = torch.arange(1000, device="cuda")
        assert seen().pointer == x.data_ptr() and seen().size == 8000 and seen().held >= 1
        assert x.sum().item() == 499500
        try:
            cuda.change_current_allocator(plugged())
            raise AssertionError
        except RuntimeError as error:
            assert str(error).startswith("Can't swap an already initialized allocator")
        del x
        cuda.empty_cache()
        assert seen().held == 0 and cuda.memory_reserved() == 0
    """)


@needs_plugin
def test_everything_is_told_of_it():
    """Statistics, history, snapshots, limits, scopes and pools, where torch raises."""
    in_a_process("""
        cuda.change_current_allocator(plugged())
        cuda.memory._record_memory_history()
        with cuda.memory.scope("here"):
            x = torch.empty(1000, dtype=torch.uint8, device="cuda")
        stats = cuda.memory_stats()
        assert stats["allocated_bytes.all.current"] == 1000 == stats["reserved_bytes.all.current"]
        assert stats["segment.all.current"] == 1 == stats["allocation.small_pool.current"]
        snapshot = cuda.memory._snapshot()
        segment, = snapshot["segments"]
        assert segment["total_size"] == 1000 and segment["address"] == x.data_ptr()
        block, = segment["blocks"]
        assert block["size"] == 1000 and block["state"] == "active_allocated" and block["frames"]
        assert [entry["action"] for entry in snapshot["device_traces"][0]] == [
            "segment_alloc", "alloc"]
        assert "Allocated memory" in cuda.memory_summary()
        pool = cuda.MemPool()
        with cuda.use_mem_pool(pool):
            y = torch.empty(2000, dtype=torch.uint8, device="cuda")
        assert [s["total_size"] for s in pool.snapshot()] == [2000]
        calls = seen().mallocs
        cuda.set_per_process_memory_fraction(4000 / cuda.mem_get_info()[1])
        try:
            torch.empty(3000, dtype=torch.uint8, device="cuda")
            raise AssertionError
        except cuda.OutOfMemoryError as error:
            assert error.report.verdict == "over_limit" and seen().mallocs == calls
    """)


@needs_plugin
def test_functions_that_fail():
    in_a_process("""
        cuda.change_current_allocator(plugged("null_malloc"))
        try:
            torch.empty(1000, device="cuda")
            raise AssertionError
        except cuda.OutOfMemoryError as error:
            assert f"It was null_malloc of {PLUGIN} that had no memory left" in str(error)
        assert cuda.memory_reserved() == 0
    """)
    in_a_process("""
        cuda.change_current_allocator(plugged("throwing_malloc"))
        try:
            torch.empty(1000, dtype=torch.uint8, device="cuda")
            raise AssertionError
        except RuntimeError as error:
            assert str(error) == (f"throwing_malloc of {PLUGIN} threw, when it was called for 1000 "
                                  "bytes of cuda:0: out of paper")
    """)


@needs_plugin
def test_init_and_reset():
    """The hooks of the chapter that ember has a use for, by the addresses of functions."""
    in_a_process("""
        import ctypes
        functions = ctypes.CDLL(PLUGIN)
        address = lambda name: ctypes.cast(getattr(functions, name), ctypes.c_void_p).value
        allocator = plugged()
        allocator.allocator().set_init_fn(address("counting_init"))
        allocator.allocator().set_reset_fn(address("counting_reset"))
        cuda.change_current_allocator(allocator)
        assert seen().inits == 0 == seen().resets
        torch.empty(1000, device="cuda")
        torch.empty(1000, device="cuda")
        assert seen().inits == 1
        before = seen().resets
        cuda.empty_cache()
        assert seen().resets > before and seen().inits == 1
    """)


@needs_plugin
def test_mem_pool(caching):
    """As in torch: the pool caches segments that the allocator gave."""
    allocator = plugged()
    pool = cuda.MemPool(allocator.allocator())
    assert pool.allocator == allocator.allocator() and pool.allocator != plugged().allocator()
    mallocs, held = seen().mallocs, seen().held
    with cuda.use_mem_pool(pool):
        x = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        assert seen().mallocs == mallocs + 1 and seen().size == 2 * MIB
        y = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        assert seen().mallocs == mallocs + 1
    z = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    assert seen().mallocs == mallocs + 1 and len(pool.snapshot()) == 1
    x.fill_(7)
    assert x.sum().item() == 7 * MIB
    del x, y, z, pool
    cuda.empty_cache()
    assert seen().held == held


@needs_plugin
def test_bad_arguments():
    with pytest.raises(OSError, match="/nowhere/plugin.so"):
        cuda.CUDAPluggableAllocator("/nowhere/plugin.so", "a", "b")
    with pytest.raises(AttributeError, match="missing_malloc"):
        plugged("missing_malloc")
    with pytest.raises(AttributeError, match="missing_free"):
        plugged(free_fn="missing_free")
    with pytest.raises(TypeError, match=r"MemPool: allocator: expected what .*allocator\(\) gives"):
        cuda.MemPool(plugged())
    with pytest.raises(TypeError, match="expected a CUDAPluggableAllocator, got int"):
        cuda.change_current_allocator(3)


def test_memory_in_the_order_of_streams():
    """backend:cudaMallocAsync: everything is counted, where torch counts bytes alone."""
    in_a_process("""
        import warnings
        assert cuda.get_allocator_backend() == "cudaMallocAsync" and not cuda.is_initialized()
        x = torch.arange(1000, device="cuda")
        stats = cuda.memory_stats()
        assert stats["allocated_bytes.all.current"] == 8000 == stats["reserved_bytes.all.current"]
        assert stats["segment.small_pool.current"] == 1 == stats["num_device_alloc"]
        segment, = cuda.memory_snapshot()
        assert segment["total_size"] == 8000 and len(segment["blocks"]) == 1
        assert x.sum().item() == 499500
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            cuda.memory._set_allocator_settings("backend:cudaMallocAsync,max_split_size_mb:40")
        assert str(shown[0].message) == (
            "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
            "garbage_collect_threshold.")
        try:
            cuda.memory._set_allocator_settings("backend:native")
            raise AssertionError
        except ValueError as error:
            assert str(error).startswith(
                "Allocator backend parsed at runtime != allocator backend parsed at load time")
        del x
        cuda.empty_cache()
        assert cuda.memory_reserved() == 0
    """, settings="backend:cudaMallocAsync")


FORGOTTEN = """
import sys
import ember as torch
cuda = torch.cuda

def program(record):
    side = cuda.Stream()
    x = torch.full((64,), 3.0, device="cuda")
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y = x * 2
    if record:
        x.record_stream(side)
    del x
    z = torch.full((64,), 9.0, device="cuda")
    side.synchronize()
    torch.sim.result(y, "y")

def given_to_a_third():
    side, third = cuda.Stream(), cuda.Stream()
    with cuda.stream(side):
        x = torch.full((64,), 3.0, device="cuda")
        x.add_(1)
        del x
        z = torch.empty(64, device="cuda")
    with cuda.stream(third):
        z.fill_(9)  # not behind what may still write there
    third.synchronize()
    torch.sim.result(z, "z")

def trimmed():
    side = cuda.Stream()
    x = torch.full((64,), 3.0, device="cuda")
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y = x * 2
    del x
    cuda.empty_cache()  # waits for the device
    z = torch.full((64,), 9.0, device="cuda")
    side.synchronize()
    torch.sim.result(y, "y")

def apart():
    for stream in (cuda.Stream(), cuda.Stream()):  # what one has freed, the other may have
        with cuda.stream(stream):
            x = torch.full((64,), 1.0, device="cuda")
            x.add_(1)
            del x
"""


@pytest.mark.parametrize("settings", ["backend:native", "backend:cudaMallocAsync"])
def test_a_forgotten_record_stream_is_found_whoever_gives_memory(settings):
    """Where nobody waits when memory is given back, too, the next use is compared with the last."""
    environment = environment_with(EMBER_DEVICES="sim:1", EMBER_ALLOC_CONF=settings,
                                   PYTORCH_NO_CUDA_MEMORY_CACHING=None)  # with which a free waits

    def run(rest, **more):
        return subprocess.run([sys.executable, "-c", FORGOTTEN + rest], capture_output=True, text=True, timeout=120,
                              env={**environment, **more}, check=False)

    said = run("for body in (lambda: program(False), given_to_a_third, lambda: program(True), trimmed, apart):\n"
               "    print(torch.sim.explore(body).verdict)")
    assert said.stdout == "differs\ndiffers\nproved\nproved\nproved\n", said.stdout + said.stderr
    for body in ("program(False)", "given_to_a_third()"):
        found = run(body, EMBER_SANITIZER="continue").stderr
        assert "CSAN detected a possible data race" in found and "Kind: reuse" in found, body
    for body in ("program(True)", "trimmed()", "apart()"):
        assert "CSAN detected" not in run(body, EMBER_SANITIZER="continue").stderr, body
