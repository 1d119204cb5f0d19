"""What ember.cuda says of what devices are doing."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from conftest import environment_with

import ember

SENSORS = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")


@pytest.mark.needs_devices(1)
def test_a_busy_device():
    begin = time.monotonic()
    busy = 0
    # Real devices tell of a second that may lie behind.
    while time.monotonic() < begin + 1.2 or busy <= 50 and time.monotonic() < begin + 20:
        ember.cuda._sleep(50_000_000)
        ember.cuda.synchronize()
        busy = ember.cuda.utilization()
    values = {name: getattr(ember.cuda, name)() for name in SENSORS}
    assert all(isinstance(value, int) for value in values.values())
    assert 50 < values["utilization"] <= 100
    assert 0 <= values["memory_usage"] <= 100
    assert 0 < values["temperature"] < 120
    assert 1_000 < values["power_draw"] < 2_000_000
    assert 100 < values["clock_rate"] < 5_000
    if ember.cuda.is_simulated():
        assert values["temperature"] > 45 and values["power_draw"] > 300_000
        assert values["clock_rate"] == 1000


# What nvidia-smi calls the sensors, and how far the two may be apart: of power that is a share.
BESIDE = {"temperature": ("temperature.gpu", 1), "clock_rate": ("clocks.sm", 15),
          "power_draw": ("power.draw", 0.05), "utilization": ("utilization.gpu", 10)}


@pytest.fixture
def nvidia_smi():
    """What nvidia-smi says of device 0: the values of BESIDE, in ember's units."""
    if ember.cuda.is_simulated():
        pytest.skip("nvidia-smi knows no simulated devices")
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("nvidia-smi was not found")
    query = ",".join(name for name, _ in BESIDE.values())
    uuid = ember.cuda.get_device_properties(0).uuid

    def ask():
        asked = subprocess.run([program, f"--id=GPU-{uuid}", f"--query-gpu={query}",
                                "--format=csv,noheader,nounits"], capture_output=True, text=True,
                               timeout=60)
        if asked.returncode != 0 or "N/A" in asked.stdout:
            pytest.skip(f"nvidia-smi does not tell: {asked.stdout}{asked.stderr}")
        values = dict(zip(BESIDE, map(float, asked.stdout.split(","))))
        values["power_draw"] *= 1000
        return values
    return ask


@pytest.mark.needs_devices(1)
def test_beside_nvidia_smi(nvidia_smi):
    """Under a steady load of five seconds. A program takes a while to answer, so that it is held
    against the nearest of what ember said meanwhile."""
    x = ember.ones(1 << 28, device="cuda:0")  # 1 GiB
    stop, samples = threading.Event(), []

    def load():  # of copies, which keep the clock where it is; never without work
        y, events = ember.empty_like(x), []
        while not stop.is_set():
            for _ in range(20):
                y.copy_(x)
            events.append(ember.cuda.Event(blocking=True))
            events[-1].record()
            if len(events) > 2:
                events.pop(0).synchronize()
        ember.cuda.synchronize()

    def watch():
        while not stop.is_set():
            samples.append((time.monotonic(), {name: getattr(ember.cuda, name)(0) for name in BESIDE}))
            time.sleep(0.01)

    threads = [threading.Thread(target=each) for each in (load, watch)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1.5)  # until sensors that tell of the last second tell of the load
        asked, end = [], time.monotonic() + 5
        while time.monotonic() < end:
            begin = time.monotonic()
            asked.append((begin, nvidia_smi(), time.monotonic()))
            time.sleep(0.1)
        time.sleep(0.1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(asked) >= 2
    for begin, theirs, end in asked:
        ours = [values for at, values in samples if begin - 0.1 <= at <= end + 0.1]
        for name, (_, bound) in BESIDE.items():
            if name == "power_draw":
                bound *= theirs[name]
            apart = min(abs(values[name] - theirs[name]) for values in ours)
            assert apart <= bound, (name, theirs[name], [values[name] for values in ours])
    assert max(theirs["utilization"] for _, theirs, _ in asked) > 50, "there was a load"


@pytest.mark.needs_devices(1)
def test_processes():
    x = ember.empty(1 << 20, device="cuda:0")
    # Other processes of a real device come and go between two calls.
    for _ in range(100):
        text = ember.cuda.list_gpu_processes()
        if text == ember.cuda.list_gpu_processes(0) == ember.cuda.list_gpu_processes("cuda:0"):
            break
    else:
        pytest.fail("the same device is told of in two ways")
    assert text.startswith("GPU:")
    if ember.cuda.is_simulated():
        line = text.splitlines()[1]
        pid, size = re.fullmatch(r"process (.{10}) uses (.{12}) MB GPU memory", line).groups()
        assert int(pid) == os.getpid() and float(size) >= 4
    del x


@pytest.mark.needs_devices(1)
def test_memory_used():
    """Bytes of the whole device, whoever has them."""
    x = ember.zeros(64 << 20, dtype=ember.uint8, device="cuda:0")
    used = ember.cuda.device_memory_used("cuda:0")
    free, total = ember.cuda.mem_get_info(0)
    assert isinstance(used, int) and ember.cuda.memory_reserved(0) <= used <= total
    if ember.cuda.is_simulated():
        assert used == total - free
    else:  # beside what the driver keeps, and what others do meanwhile
        assert abs(used - (total - free)) < total // 20
    del x


def test_mistakes():
    count = ember.cuda.device_count()
    for name in SENSORS + ("device_memory_used", "list_gpu_processes",):
        with pytest.raises(RuntimeError, match=rf"device {count} is not visible \(CUDA_VISIBLE_"):
            getattr(ember.cuda, name)(count)
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            getattr(ember.cuda, name)("cpu")


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", program], env=environment_with(**environment),
                          capture_output=True, text=True, timeout=100, check=True).stdout


def test_a_number_initialises_nothing():
    assert run("import ember; print(ember.cuda.utilization(1), ember.cuda.list_gpu_processes(0),"
               "ember.cuda.temperature(0), ember.cuda.device_memory_used(0),"
               "ember.cuda.is_initialized())",
               EMBER_DEVICES="sim:3", CUDA_VISIBLE_DEVICES="2,1"
               ) == "0 GPU:2\nno processes are running 30 0 False\n"


def test_without_devices():
    assert run("""import ember
try:
    ember.cuda.utilization(0)
except RuntimeError as error:
    print(error)""", EMBER_DEVICES="none") == (
        "device 0 is not visible (CUDA_VISIBLE_DEVICES=[])\n")
