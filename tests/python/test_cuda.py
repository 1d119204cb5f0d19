"""ember.cuda: devices, streams, events."""

import concurrent.futures
import ctypes
import gc
import mmap
import threading
import subprocess
import sys

import pytest

import ember
import ember as torch
from ember import cuda


def fresh(code, **environment):
    """Runs code in a new process; what it printed."""
    import os
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_devices():
    assert cuda.is_available() and cuda.device_count() >= 1
    cuda.init()
    assert cuda.is_initialized()
    assert cuda.current_device() == 0
    cuda.set_device(0)
    cuda.set_device(-1)  # no effect
    cuda.set_device("cuda:0")
    assert cuda.current_device() == 0
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.set_device("cpu")
    with pytest.raises(ValueError, match="Expected a torch.device with a specified index or an "
                                         "integer, but got:cuda"):
        cuda.set_device("cuda")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal") as caught:
        cuda.set_device(99)
    assert caught.value.error_code == 101
    assert isinstance(caught.value, RuntimeError)


def test_properties():
    about = cuda.get_device_properties(0)
    assert about == cuda.get_device_properties() and hash(about) == hash(cuda.get_device_properties())
    if cuda.device_count() > 1:
        assert about != cuda.get_device_properties(1)
    assert about != "a device"
    assert about.name == cuda.get_device_name() == cuda.get_device_name("cuda:0")
    assert (about.major, about.minor) == cuda.get_device_capability(torch.device("cuda"))
    assert about.total_memory == cuda.mem_get_info()[1]
    assert repr(about).startswith("_CudaDeviceProperties(name='")
    assert len(str(about.uuid)) == 36 and len(about.uuid.bytes) == 16
    with pytest.raises(AttributeError):
        about.name = "other"
    with pytest.raises(AssertionError, match="Invalid device id"):
        cuda.get_device_properties(99)
    assert isinstance(cuda.get_arch_list(), list) and isinstance(cuda.get_gencode_flags(), str)


@pytest.mark.needs_devices(2)
def test_peers():
    """Questions about pairs of devices, and torch's errors for devices that are not there."""
    assert isinstance(cuda.can_device_access_peer(0, 1), bool)
    with pytest.raises(AssertionError, match="Invalid peer device id"):
        cuda.can_device_access_peer(0, 99)
    with pytest.raises(AssertionError, match="Invalid device id"):
        cuda.can_device_access_peer(-1, 0)


def test_nothing_is_initialised_early():
    assert fresh("""
import ember
ember.cuda.device_count(), ember.cuda.is_available(), ember.cuda.memory_allocated()
ember.cuda.empty_cache(), ember.ones(2).is_pinned(), ember.device('cuda:1'), ember.cuda.Event()
ember.manual_seed(1), ember.cuda.manual_seed_all(2)
with ember.cuda.device(-1): pass
print(ember.cuda.is_initialized(), ember.cuda.memory_stats())
ember.cuda.init()
print(ember.cuda.is_initialized())
""") in ("False OrderedDict()\nTrue", "False {}\nTrue")


def test_import_is_quick():
    times = [float(fresh("import time; t = time.perf_counter(); import ember; "
                         "print(time.perf_counter() - t)")) for _ in range(5)]
    assert min(times) < 0.2  # 0.05 on a machine that does nothing else: bench/ has that


@pytest.mark.needs_devices(2)
def test_device_context():
    with cuda.device(1) as outer:
        assert isinstance(outer, cuda.device)
        assert (cuda.current_device(), outer.idx, outer.prev_idx) == (1, 1, 0)
        last = cuda.device_count() - 1
        with cuda.device(f"cuda:{last}"):
            assert cuda.current_device() == last
            with cuda.device(torch.device("cuda")), cuda.device(None), cuda.device(-1):
                assert cuda.current_device() == last
        assert cuda.current_device() == 1
        with outer:  # once more
            assert cuda.current_device() == 1
        with cuda.device(cuda.device(0)):
            assert cuda.current_device() == 0
    assert cuda.current_device() == 0
    assert cuda.device_ctx_manager is cuda.device
    with pytest.raises(KeyError):
        with cuda.device(1):
            raise KeyError
    assert cuda.current_device() == 0


@pytest.mark.needs_devices(2)
def test_device_of():
    """A tensor's device is current inside; a CPU tensor changes nothing."""
    with cuda.device_of(torch.ones(1, device="cuda:1")) as context:
        assert cuda.current_device() == 1 and isinstance(context, cuda.device)
    with cuda.device_of(torch.ones(1)):
        assert cuda.current_device() == 0


@pytest.mark.needs_devices(2)
def test_current_device_belongs_to_the_thread():
    seen = []
    with cuda.device(1):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_streams():
    s = cuda.Stream()
    assert s.device == torch.device("cuda:0") and s.device_index == 0 and s.device_type == 1
    assert s.priority == 0 and s.stream_id % 2 == 1
    assert repr(s) == f"<torch.cuda.Stream device=cuda:0 cuda_stream={hex(s.cuda_stream)}>"
    again = cuda.Stream(stream_id=s.stream_id, device_index=0, device_type=1)
    assert again == s and hash(again) == hash(s) and again.cuda_stream == s.cuda_stream
    assert cuda.Stream() != s and (s == "stream") is False
    assert isinstance(s._as_parameter_, ctypes.c_void_p)
    assert s.__cuda_stream__() == (0, s.cuda_stream)
    least, greatest = cuda.Stream.priority_range()
    assert least == 0 and greatest <= 0
    assert cuda.Stream(priority=-1).priority <= 0
    assert cuda.Stream("cuda:0", -100).priority == greatest
    assert len({cuda.Stream() for _ in range(40)}) >= 1
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.Stream("cpu")
    with pytest.raises(ValueError, match="go together"):
        cuda.Stream(stream_id=1)


def test_external_streams():
    s = cuda.Stream()
    e = cuda.ExternalStream(s.cuda_stream)
    assert isinstance(e, cuda.Stream) and e.cuda_stream == s.cuda_stream
    with cuda.stream(e):
        assert cuda.current_stream() == e
        assert cuda.current_stream().cuda_stream == s.cuda_stream
    assert cuda.Stream(stream_ptr=s.cuda_stream) == e
    with pytest.raises(RuntimeError, match="Priority was explicitly set for a external stream"):
        cuda.Stream(stream_ptr=s.cuda_stream, priority=-1)


def test_streams_from_external():
    s = cuda.Stream()
    e = cuda.get_stream_from_external(s.cuda_stream, device=0)
    assert isinstance(e, cuda.ExternalStream) and e.cuda_stream == s.cuda_stream
    assert cuda.get_stream_from_external(data_ptr=s.cuda_stream) == e


@pytest.mark.reported_by_tools
def test_cudart():
    """What tools call of the CUDA runtime: numbers of errors, 0 for success."""
    rt = cuda.cudart()
    free, total = rt.cudaMemGetInfo(0)
    assert 0 < free <= total
    assert rt.cudaGetErrorString(700) == "an illegal memory access was encountered"
    memory = mmap.mmap(-1, 1 << 16)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert rt.cudaHostRegister(address, 1 << 16, 0) == 0
    assert rt.cudaHostRegister(address, 1 << 16, 0) == 712
    assert rt.cudaHostUnregister(address) == 0
    assert rt.cudaHostUnregister(address) == 713
    assert rt.cudaProfilerStart() == 0 and rt.cudaProfilerStop() == 0
    handle = ctypes.c_void_p()
    assert rt.cudaStreamCreate(ctypes.addressof(handle)) == 0 and handle.value
    with cuda.stream(cuda.ExternalStream(handle.value)):
        assert (torch.ones(2, device="cuda") + 1).tolist() == [2, 2]
    assert rt.cudaStreamDestroy(handle.value) == 0
    assert rt.cudaStreamDestroy(handle.value) == 400
    cuda.check_error(0)


def test_profiler():
    with cuda.profiler.profile():
        assert (torch.ones(2, device="cuda") + 1).tolist() == [2, 2]
    with pytest.raises(KeyError), cuda.profiler.profile():
        raise KeyError
    assert cuda.profiler.start() is None and cuda.profiler.stop() is None


def test_bf16():
    assert cuda.is_bf16_supported() is True
    enough = cuda.get_device_capability()[0] >= 8
    assert cuda.is_bf16_supported(including_emulation=False) is enough


@pytest.mark.needs_devices(2)
def test_current_streams():
    """A stream is current on its own device, and None changes nothing."""
    default = cuda.default_stream()
    assert cuda.current_stream() == default and default.cuda_stream == 0
    s, other = cuda.Stream(), cuda.Stream(device=1)
    with cuda.stream(s):
        assert cuda.current_stream() == s
        with cuda.stream(other):
            assert cuda.current_device() == 1 and cuda.current_stream() == other
            assert cuda.current_stream(0) == s
        assert cuda.current_device() == 0 and cuda.current_stream() == s
        with cuda.stream(None):
            assert cuda.current_stream() == s
    assert cuda.current_stream(1) == cuda.default_stream(1)
    with s:
        assert cuda.current_stream() == s
    assert cuda.current_stream() == default
    context = cuda.StreamContext(s)
    assert context.stream == s
    cuda.set_stream(None)
    cuda.set_stream(other)
    assert cuda.current_device() == 1
    cuda.set_stream(cuda.default_stream(1))
    cuda.set_stream(default)
    assert cuda.current_device() == 0
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.current_stream("cpu")


def test_contexts_that_are_never_left():
    """They stay in force, as PyTorch's do, and whichever thread collects them keeps its own."""
    mine, other = cuda.Stream(), cuda.Stream()
    before = cuda.current_stream()
    held = [cuda.stream(mine), cuda.device(cuda.current_device())]
    for each in held:
        each.__enter__()

    def collect():
        with cuda.stream(other):
            held.clear()
            gc.collect()
            return cuda.current_stream() == other

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            assert thread.submit(collect).result()
        assert cuda.current_stream() == mine
        cuda.stream(other).__enter__()
        gc.collect()
        assert cuda.current_stream() == other
    finally:
        cuda.set_stream(before)


@pytest.mark.needs_devices(2)
def test_devices_that_are_never_left():
    held = [cuda.device(1)]
    held[0].__enter__()
    held[0].__enter__()

    def collect():
        cuda.set_device(1)
        held.clear()
        gc.collect()
        return cuda.current_device()

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            assert thread.submit(collect).result() == 1
        assert cuda.current_device() == 1
    finally:
        cuda.set_device(0)


def test_streams_wait():
    """What was recorded on a busy stream is seen by the stream that waited for it."""
    s = cuda.Stream()
    with cuda.stream(s):
        cuda._sleep(2_000_000)
        x = torch.ones(4, device="cuda")
    event = s.record_event()
    assert isinstance(event, cuda.Event)
    cuda.current_stream().wait_event(event)
    y = x + 1
    mine = cuda.Event()
    assert cuda.current_stream().record_event(mine) is mine
    mine.synchronize()
    assert event.query() and s.query() and y.tolist() == [2.0] * 4
    cuda.current_stream().wait_stream(s)
    s.synchronize()
    cuda.synchronize()
    cuda.synchronize(torch.device("cuda:0"))


def test_generic_streams_and_events():
    """cuda.Stream and cuda.Event are torch.Stream's and torch.Event's."""
    assert torch.Stream in type(torch.cuda.Stream()).mro() and torch.Event in type(torch.cuda.Event()).mro()
    assert issubclass(torch.cuda.Stream, torch.Stream) and issubclass(torch.cuda.Event, torch.Event)
    assert issubclass(torch.cuda.ExternalStream, torch.Stream)
    assert not issubclass(torch.cuda.Stream, torch.Event)
    assert isinstance(torch.cuda.current_stream(), torch.Stream)
    stream = torch.Stream("cuda:0", priority=-1)
    assert type(stream) is torch.cuda.Stream and stream.priority == -1
    assert torch.Stream().device == torch.device("cuda", torch.cuda.current_device())
    same = torch.Stream(stream_id=stream.stream_id, device_index=0, device_type=stream.device_type)
    assert same == stream
    event = torch.Event("cuda", enable_timing=True)
    assert type(event) is torch.cuda.Event and event.device is None
    event.record(stream)
    assert event.device == stream.device
    assert torch.Event(torch.device("cuda:0")).query() and torch.Event(interprocess=True).ipc_handle()
    for wrong in (lambda: torch.Stream("cpu"), lambda: torch.Event("cpu")):
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            wrong()
    with pytest.raises(TypeError):
        torch.Event("cuda", True)


def test_events():
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert repr(start) == "<torch.cuda.Event uninitialized>"
    assert start.device is None and start.cuda_event == 0 and start.query()
    assert start._as_parameter_.value is None
    start.synchronize()
    start.wait()
    with pytest.raises(ValueError, match="Both events must be recorded before calculating elapsed time."):
        start.elapsed_time(end)
    start.record()
    cuda._sleep(1_000_000)
    end.record(cuda.current_stream())
    end.synchronize()
    assert end._as_parameter_.value == end.cuda_event
    assert start.elapsed_time(end) > 0
    assert start.device == torch.device("cuda:0") and start.cuda_event != 0
    assert repr(start) == f"<torch.cuda.Event {hex(start.cuda_event)}>"
    assert start.event_id == start.cuda_event
    plain = cuda.Event()
    plain.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        plain.elapsed_time(end)
    with pytest.raises(ValueError):
        cuda.Event(enable_timing=True, interprocess=True)


@pytest.mark.needs_devices(2)
def test_events_of_another_device():
    event = cuda.Event()
    event.record(cuda.Stream(device=1))
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0."):
        event.record()
    event.wait(cuda.Stream(device=cuda.device_count() - 1))


@pytest.mark.parametrize("visible", ["1", "7", "", "GPU-0123"])
def test_simulate(visible):
    """Devices can be chosen before first use, and not after it. All are visible."""
    text = fresh("""
import ember
ember.cuda.simulate(2, 64 << 20)
print(ember.cuda._device_count_nvml(), ember.cuda.utilization(1))
print(ember.cuda.device_count(), ember.cuda.is_simulated(), ember.cuda.mem_get_info()[1] >> 20)
try:
    ember.cuda.simulate(3)
except RuntimeError:
    print("refused")
""", EMBER_DEVICES="none", CUDA_VISIBLE_DEVICES=visible)
    assert text == "2 0\n2 True 64\nrefused"


@pytest.mark.skipif(not cuda.is_simulated(), reason="a GPU ends the process's use of it")
def test_fault_that_nobody_saw():
    """A program that waits for nothing says at its end what went wrong; one that was told does not."""
    code = """
import ember as torch
torch.cuda.synchronize()
torch.ones(3, device="cuda").gather(0, torch.tensor([7], device="cuda"))
"""
    def end_of(rest):
        done = subprocess.run([sys.executable, "-c", code + rest], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0
        return done.stderr

    # Nothing else shows that the kernel has run: on a busy machine it may take a while.
    for pause in (0, 0.1, 1, 10):
        text = end_of(f"import time; time.sleep({pause})")
        if text:
            break
    assert "fault of cuda:0" in text and "gather" in text
    assert end_of("try: torch.cuda.synchronize()\nexcept RuntimeError: pass") == ""


def test_without_devices():
    text = fresh("""
import ember
print(ember.cuda.is_available(), ember.cuda.device_count())
ember.cuda.manual_seed(1)
print((ember.ones(2) + 1).tolist(), ember.cuda.get_rng_state_all())
try:
    ember.ones(1, device="cuda")
except RuntimeError as error:
    print(error)
""", EMBER_DEVICES="none")
    assert text.split("\n")[:2] == ["False 0", "[2.0, 2.0] []"]
    assert "No CUDA GPUs are available" in text


def test_forks():
    """A child of a process that used CUDA is refused in the documented words."""
    assert fresh("""
import os, ember
ember.cuda.init()
child = os.fork()
if child == 0:
    assert not ember.cuda.is_initialized()
    try:
        ember.ones(1, device="cuda")
    except RuntimeError as error:
        os._exit(0 if "Cannot re-initialize CUDA in forked subprocess" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""") == "0"


def test_names_are_the_packages():
    assert cuda.OutOfMemoryError is ember.OutOfMemoryError
    assert issubclass(ember.OutOfMemoryError, RuntimeError)
    assert cuda.AcceleratorError is ember.AcceleratorError
