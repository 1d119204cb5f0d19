"""Settings of the allocator: environment variables, and changes at run time."""

import os
import pickle
import subprocess
import sys

import pytest

import ember
from ember import cuda
from ember.multiprocessing import reductions

PRINT = "import ember, sys; x = ember.zeros(2100, dtype=ember.uint8, device='cuda')\n"


def run(program, **environment):
    """A process with these settings: the last line of its output, or of its errors."""
    known = {key: value for key, value in os.environ.items() if not key.endswith("_ALLOC_CONF")}
    known.pop("PYTORCH_NO_CUDA_MEMORY_CACHING", None)
    done = subprocess.run([sys.executable, "-c", PRINT + program], env={**known, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.strip().splitlines()[-1]


def test_environment():
    """The first of three variables counts; a wrong one is a ValueError that names it."""
    program = "print(ember.cuda.memory_allocated())"
    four, two = "roundup_power2_divisions:4", "roundup_power2_divisions:2"
    assert run(program) == "2560"
    assert run(program, PYTORCH_CUDA_ALLOC_CONF=two) == "3072"
    assert run(program, PYTORCH_CUDA_ALLOC_CONF=two, PYTORCH_ALLOC_CONF=four) == "2560"
    assert run(program, EMBER_ALLOC_CONF=two, PYTORCH_ALLOC_CONF=four) == "3072"
    error = run(program, PYTORCH_ALLOC_CONF="max_split_size_mb:7")
    assert ": CachingAllocator option max_split_size_mb too small, must be >= 20" in error
    assert error.endswith("(in PYTORCH_ALLOC_CONF)")


def test_a_limit_is_told_before_there_is_memory():
    program = "from ember import cuda; cuda.init(); print(cuda.memory_stats()['max_split_size'])"
    known = {key: value for key, value in os.environ.items() if not key.endswith("_ALLOC_CONF")}
    printed = subprocess.check_output([sys.executable, "-c", program],
                                      env={**known, "EMBER_ALLOC_CONF": "max_split_size_mb:64"})
    assert int(printed) == 64 << 20


def test_fraction_of_the_environment():
    """per_process_memory_fraction is what set_per_process_memory_fraction would set."""
    program = "print(ember.cuda.get_per_process_memory_fraction())"
    assert run(program, PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.25") == "0.25"


def test_changes(caching):
    """Changes hold from then on; three options begin at their defaults each time."""
    change = cuda.memory._set_allocator_settings
    ember.zeros(1, device="cuda")  # the device's allocator is made at its first use
    change("max_split_size_mb:64")
    try:
        assert cuda.memory_stats()["max_split_size"] == 64 << 20
        with pytest.raises(ValueError, match="Unrecognized key 'x' in CUDA allocator config."):
            change("x:1")
        assert cuda.memory_stats()["max_split_size"] == 64 << 20
        with pytest.warns(UserWarning, match="no effect in ember: pinned_use_background_threads"):
            change("pinned_use_background_threads:True")
        assert cuda.memory_stats()["max_split_size"] == -1
    finally:
        change("pinned_use_background_threads:False")


def test_segments_that_grow(caching):
    """A block grows where the free memory before it ends; what is mapped is in the history and in snapshots."""
    memory = cuda.memory
    change = memory._set_allocator_settings
    cuda.empty_cache()
    reserved = cuda.memory_reserved()
    change("expandable_segments:True")
    memory._record_memory_history()
    try:
        # On a stream of its own, whose memory nobody else has.
        with cuda.stream(cuda.Stream()):
            first = ember.empty(30 << 20, dtype=ember.uint8, device="cuda")
            address = first.data_ptr()
            del first
            second = ember.empty(50 << 20, dtype=ember.uint8, device="cuda")
        assert second.data_ptr() == address
        assert cuda.memory_reserved() - reserved == 50 << 20
        snapshot = memory._snapshot()
        assert snapshot["allocator_settings"]["expandable_segments"] is True
        (segment,) = (each for each in snapshot["segments"] if each["address"] == address)
        assert segment["is_expandable"] is True and segment["total_size"] == 50 << 20
        maps = [(each["addr"], each["size"]) for each in snapshot["device_traces"][0]
                if each["action"] == "segment_map"]
        assert maps == [(address, 30 << 20), (address + (30 << 20), 20 << 20)]
        data, handles = reductions.dumps(second)
        assert len(handles) == 1
        assert pickle.loads(data).data_ptr() == address
        del second
        cuda.empty_cache()
        assert cuda.memory_reserved() == reserved
        assert [each["size"] for each in memory._snapshot()["device_traces"][0]
                if each["action"] == "segment_unmap"] == [30 << 20, 20 << 20]
    finally:
        memory._record_memory_history(None)
        change("expandable_segments:False")


def test_pinned_memory(caching):
    """The settings of pinned memory do what they say."""
    settings = ("pinned_max_cached_size_mb:8,pinned_use_cuda_host_register:True,"
                "pinned_num_register_threads:4")
    program = """
import warnings
warnings.simplefilter("error")  # such as the one of options without effect
x = ember.empty(9 << 20, dtype=ember.uint8, pin_memory=True)
assert x.is_pinned()
assert (x.fill_(3).cuda().cpu() == x).all()
y = ember.empty(7 << 20, dtype=ember.uint8, pin_memory=True)
assert y.is_pinned() and ember.cuda.host_memory_stats()["allocations.current"] == 2
del x, y
stats = ember.cuda.host_memory_stats()
assert stats["num_host_alloc"] == 2 and stats["num_host_free"] == 1, stats
ember.cuda.memory._set_allocator_settings("pinned_use_cuda_host_register:False")
print("fine")
"""
    assert run(program, EMBER_ALLOC_CONF=settings) == "fine"
