"""ember.integrations: PyTorch and CuPy on ember's allocator."""

import importlib.util
import os
import subprocess
import sys

import pytest

import ember
import ember.integrations.cupy
import ember.integrations.torch
from ember._C.cuda import _LibraryAllocator

BENCH = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "python",
                     "bench_integrations.py")


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_simulated_devices_are_refused(library):
    if not ember.cuda.is_simulated():
        pytest.skip("needs simulated devices")
    install = getattr(ember.integrations, library).install
    with pytest.raises(RuntimeError, match=f"ember.integrations.{library}: ember's devices are "
                                           "simulated"):
        install()


class _Stream:
    def __init__(self, ptr):
        self.ptr = ptr


def test_memory_for_a_library_by_python_functions(caching):
    stream, pool = ember.cuda.Stream(), ember.cuda.MemPool()
    current = _Stream(stream.cuda_stream)
    for of, functions in ((pool, _LibraryAllocator(lambda: current, pool)),
                          (None, _LibraryAllocator(lambda: current))):
        held = ember.cuda.memory_allocated()
        pointer = functions.malloc(1000, 0)
        assert ember.cuda.memory_allocated() == held + 1024
        segment, = (s for s in ember.cuda.memory_snapshot()
                    if s["address"] <= pointer < s["address"] + s["total_size"])
        assert segment["stream"] == stream.cuda_stream
        assert segment["segment_pool_id"] == (pool.id if of else (0, 0))
        functions.free(pointer, 0)
        assert ember.cuda.memory_allocated() == held
        assert functions.malloc(0, 0) == 0
        with pytest.raises(RuntimeError, match="invalid device pointer"):
            functions.free(pointer, 0)
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            functions.malloc(8, 99)


def test_memory_for_a_library_of_which_nothing_is_known():
    with pytest.raises(TypeError, match="current_stream: expected a function, got int"):
        _LibraryAllocator(3)
    with pytest.raises(TypeError, match="pool: expected a MemPool, got tuple"):
        _LibraryAllocator(lambda: _Stream(0), (0, 1))
    for broken, kind in ((lambda: 3, AttributeError), (lambda: _Stream("x"), TypeError),
                         (lambda: 1 // 0, ZeroDivisionError)):
        with pytest.raises(kind):
            _LibraryAllocator(broken).malloc(8, 0)


@pytest.mark.parametrize("program", ["streams", "graph", "memory", "cupy"])
def test_same_results_on_embers_memory(program):
    """Both in processes of their own, which end in order."""
    if ember.cuda.is_simulated():
        pytest.skip("needs a GPU: other libraries cannot use simulated devices")
    library = "cupy" if program == "cupy" else "torch"
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    done = subprocess.run([sys.executable, BENCH, "--quick", "--only", program],
                          capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("| equal |")
