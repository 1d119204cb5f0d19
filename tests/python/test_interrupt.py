"""Ctrl-C ends a wait for a simulated device at once."""
import os
import signal
import subprocess
import sys

import pytest
from conftest import environment_with

WAITS = {
    "device": "cuda.synchronize()",
    "stream": "cuda.current_stream().synchronize()",
    "event": "event.synchronize()",
    "item": "x[0].item()",
    "copy": "x.cpu()",
    "print": "repr(x)",
    # What has not begun is dropped, and not waited for.
    "reset": "exec('while True: cuda._sleep(10 ** 12); cuda.reset_device()')",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait):
    code = f"""
import os
import ember
from ember import cuda
x = ember.ones(4, device="cuda")
event = cuda.Event()
cuda._sleep(10 ** 12)  # a quarter of an hour
event.record()
try:
    print("waiting", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    cuda.current_stream().query()
    print("and nothing else", flush=True)
except BaseException as error:
    print(error, flush=True)
os._exit(0)  # without caching, the end of x would wait for the device
"""
    child = subprocess.Popen([sys.executable, "-c", code], text=True,
                             env=environment_with(EMBER_DEVICES="sim:1"),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=10)  # a wait that goes on would take far longer
    finally:
        child.kill()
    assert (out, err, child.returncode) == ("interrupted\nand nothing else\n", "", 0)


def test_a_reset_that_is_interrupted_ends_captures():
    """The device is as new, but for what still runs."""
    code = """
import os
import threading
import ember
from ember import cuda
side, graph = cuda.Stream(), None

def reset():
    # Beside a kernel, unless that has not begun: then it is dropped, and not waited for.
    global graph
    cuda.set_stream(cuda.default_stream())
    aside, captured = cuda.Stream(), cuda.Stream()
    with cuda.stream(aside):
        cuda._sleep(10 ** 12)
    graph = cuda.CUDAGraph()
    cuda.set_stream(captured)
    graph.capture_begin(capture_error_mode="relaxed")
    cuda.reset_device()

def tell():
    try:
        while True:
            side.query()
    except RuntimeError:  # of a stream from before a reset, which has begun
        print("waiting", flush=True)

threading.Thread(target=tell).start()
try:
    while True:
        reset()
except KeyboardInterrupt:
    print("interrupted", flush=True)
cuda.set_stream(cuda.default_stream())
del graph
x = ember.ones(3, device="cuda")
print(cuda.is_current_stream_capturing(), (x + 1).sum().item() if cuda.Stream().query() else "busy", flush=True)
os._exit(0)
"""
    child = subprocess.Popen([sys.executable, "-c", code], text=True,
                             env=environment_with(EMBER_DEVICES="sim:1", PYTORCH_NO_CUDA_MEMORY_CACHING=None),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    finally:
        child.kill()
    assert (out, err, child.returncode) == ("interrupted\nFalse 6.0\n", "", 0)
