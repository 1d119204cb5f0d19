"""Names beside the documents that profilers, debuggers and test suites build on."""

import logging
import subprocess
import sys

import pytest

import ember
import ember as torch
from ember.cuda import _gpu_trace

pytestmark = pytest.mark.once

KINDS = """event_creation event_deletion event_record event_wait memory_allocation memory_deallocation
stream_creation device_synchronization stream_synchronization event_synchronization""".split()


@pytest.fixture(scope="module")
def told():
    """What the callbacks were told, by kind. They stay registered: nothing takes them back."""
    lists = {kind: [] for kind in KINDS}
    for kind in KINDS:
        getattr(_gpu_trace, f"register_callback_for_{kind}")(
            lambda *handles, kind=kind: lists[kind].append(handles))
    ember._C._activate_gpu_trace()
    ember._C._activate_gpu_trace()  # once is enough, and twice is no harm
    return lists


@pytest.fixture
def fresh(told):
    for handles in told.values():
        handles.clear()
    return told


def test_streams_and_events(fresh):
    streams = [torch.cuda.Stream()]
    while not fresh["stream_creation"]:  # those that other tests let go are used again
        streams.append(torch.cuda.Stream())
    side = streams[-1]
    assert fresh["stream_creation"] == [(side.cuda_stream,)]
    event = torch.cuda.Event()
    assert not fresh["event_creation"]  # it is made by its first record
    event.record(side)
    event.record(side)
    assert fresh["event_creation"] == [(event.cuda_event,)]
    assert fresh["event_record"] == [(event.cuda_event, side.cuda_stream)] * 2
    event.wait()
    assert fresh["event_wait"] == [(event.cuda_event, torch.cuda.current_stream().cuda_stream)]
    event.synchronize()
    assert fresh["event_synchronization"] == [(event.cuda_event,)]
    side.synchronize()
    assert fresh["stream_synchronization"] == [(side.cuda_stream,)]
    torch.cuda.synchronize()
    assert fresh["device_synchronization"] == [()]
    handle = event.cuda_event
    del event
    assert fresh["event_deletion"] == [(handle,)]


def test_memory(fresh):
    x = torch.empty(1000, device="cuda")
    pointer = x.data_ptr()
    assert fresh["memory_allocation"] == [(pointer,)] and not fresh["memory_deallocation"]
    del x
    assert fresh["memory_deallocation"] == [(pointer,)]


def test_operations_that_wait_synchronise_their_stream(fresh):
    side = torch.cuda.Stream()
    x = torch.ones(10, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in (x.nonzero, x.sum().item):
            fresh["stream_synchronization"].clear()
            call()
            assert set(fresh["stream_synchronization"]) == {(side.cuda_stream,)}


def test_what_a_callback_raises_is_logged(fresh, caplog):
    def broken():
        if failing:
            raise KeyError("mine")

    failing = True
    order = []
    _gpu_trace.register_callback_for_device_synchronization(broken)
    _gpu_trace.register_callback_for_device_synchronization(lambda: order.append("after it"))
    with caplog.at_level(logging.ERROR):
        torch.cuda.synchronize()
    failing = False
    assert order == ["after it"]
    (record,) = caplog.records
    assert "registered with gpu trace" in record.message and "broken" in record.message
    assert record.exc_info[0] is KeyError
    with pytest.raises(TypeError, match="cb: expected a function, got int"):
        _gpu_trace.register_callback_for_event_wait(3)


def test_callbacks_may_use_devices_and_threads(fresh):
    """What a callback does itself is not told, and no lock is held that another thread wants."""
    code = """
import threading, ember as torch
from ember.cuda import _gpu_trace
count = []
def use(pointer):
    torch.ones(10, device="cuda").sum().item()
    count.append(threading.get_ident())
_gpu_trace.register_callback_for_memory_allocation(use)
torch._C._activate_gpu_trace()
def work():
    for _ in range(200):
        torch.zeros(100, device="cuda")
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(count) == 800)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_primary_contexts():
    code = """
import ember as torch
has = torch._C._cuda_hasPrimaryContext
assert not has(0) and not torch.cuda.is_initialized()
torch.zeros(1, device="cuda:0")
assert has(0) and has("cuda:0")
for device in (-1, 99):
    try:
        has(device)
        raise SystemExit(1)
    except RuntimeError as error:
        assert "invalid device ordinal" in str(error)
if torch.cuda.device_count() > 1:
    assert not has(1)
    torch.cuda.synchronize(1)
    assert has(1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_bad_forks():
    code = """
import os, sys, ember as torch
assert not torch.cuda._is_in_bad_fork()
def child():
    pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert child() == 0
torch.cuda.init()
assert child() == 1
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_device_index():
    index = torch.cuda._utils._get_device_index
    assert index(3) == 3 and index("cuda:1") == 1 and index(torch.device("cuda", 0)) == 0
    assert index(None, optional=True) == torch.cuda.current_device() == index("cuda", True)
    assert index("cpu", allow_cpu=True) == -1 == index(-1)  # an int is passed on as it is
    for wrong in (None, "cuda"):
        with pytest.raises(ValueError, match="with a specified index or an integer, but got:"):
            index(wrong)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        index("cpu")


def test_check_error():
    """CUDA's numbers of errors as exceptions."""
    torch.cuda.check_error(0)
    with pytest.raises(torch.cuda.CudaError, match=r"^out of memory \(2\)$"):
        torch.cuda.check_error(2)
    with pytest.raises(RuntimeError, match=r"^unrecognized error code \(12345\)$"):
        torch.cuda.check_error(12345)


def test_modules():
    assert torch.cuda.streams.Stream is torch.cuda.Stream
    assert torch.cuda.streams.Event is torch.cuda.Event
