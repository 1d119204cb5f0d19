"""ember.integrations: PyTorch and CuPy on ember's allocator."""

import ctypes
import gc
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


def _in_c(functions):
    """The functions in C, called as CuPy does: with Python's lock, and errors are looked for."""
    malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(
        functions.malloc_function)
    free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
        functions.free_function)
    return (lambda size, device: malloc(functions.address, size, device),
            lambda pointer, device: free(functions.address, pointer, device))


def _capsule(function, kind):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(ctypes.cast(function, ctypes.c_void_p), kind, None)


def test_memory_for_a_library_by_functions_in_c(caching):
    stream, pool = ember.cuda.Stream(), ember.cuda.MemPool()
    current = _Stream(stream.cuda_stream)
    native = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: stream.cuda_stream)
    kind = b"intptr_t (void)"
    for of, functions in (
            (pool, _LibraryAllocator(lambda: current, pool)),
            (None, _LibraryAllocator(lambda: current, stream_function=_capsule(native, b"int (void)"))),
            (None, _LibraryAllocator(lambda: 1 // 0, stream_function=_capsule(native, kind)))):
        malloc, free = _in_c(functions)
        held = ember.cuda.memory_allocated()
        pointer = malloc(1000, 0)
        assert ember.cuda.memory_allocated() == held + 1024
        segment, = (s for s in ember.cuda.memory_snapshot()
                    if s["address"] <= pointer < s["address"] + s["total_size"])
        assert segment["stream"] == stream.cuda_stream
        assert segment["segment_pool_id"] == (pool.id if of else (0, 0))
        free(pointer, 0)
        assert ember.cuda.memory_allocated() == held
        assert malloc(0, 0) is None
        with pytest.raises(ember.AcceleratorError, match="invalid device ordinal"):
            malloc(8, 99)
        failures = ember.cuda.memory_stats()["num_ooms"]
        with pytest.raises(ember.cuda.OutOfMemoryError, match="Tried to allocate 1048576.00 GiB"):
            malloc(1 << 50, 0)
        assert ember.cuda.memory_stats()["num_ooms"] == failures + 1
        free(ctypes.c_void_p(-1).value, 0)  # what a failure has returned
    pointer, address = malloc(1000, 0), functions.address
    free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
        functions.free_function)
    del functions, malloc
    gc.collect()
    free(address, pointer, 0)
    assert ember.cuda.memory_allocated() == held
    malloc, _ = _in_c(_LibraryAllocator(lambda: 1 // 0))
    with pytest.raises(ZeroDivisionError):
        malloc(8, 0)


def test_an_error_of_free_in_c_is_written():
    _, free = _in_c(_LibraryAllocator(lambda: _Stream(0)))
    told = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda one: told.append(str(one.exc_value))
    try:
        free(12345, 0)
    finally:
        sys.unraisablehook = hook
    assert len(told) == 1 and told[0].startswith("invalid device pointer: 0x3039")


def test_functions_in_c_are_for_libraries_that_pass_errors_on():
    functions = _LibraryAllocator(lambda: _Stream(0))

    def passes(size, parameter, malloc, free, device):
        assert (parameter, free) == (functions.address, functions.free_function)
        ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc)(
            parameter, size, device)

    assert functions.passes_errors_on(passes)
    assert not functions.passes_errors_on(lambda *_: None)
    assert not functions.passes_errors_on(lambda: None)

    def ignores(*_):
        raise SystemError("returned a result with an exception set")

    assert not functions.passes_errors_on(ignores)
    if importlib.util.find_spec("cupy") is not None:
        memory = importlib.import_module("cupy").cuda.memory
        assert functions.passes_errors_on(memory.CFunctionAllocatorMemory)


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
