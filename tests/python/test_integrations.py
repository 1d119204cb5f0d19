"""ember.integrations: PyTorch and CuPy on ember's allocator."""

import importlib.util
import os
import subprocess
import sys

import pytest

import ember
import ember.integrations.cupy
import ember.integrations.torch

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
