"""What ember.cuda says of what devices are doing."""

import os
import re
import subprocess
import sys
import time

import pytest

import ember

SENSORS = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")


@pytest.mark.needs_devices(1)
def test_a_busy_device():
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        ember.cuda._sleep(50_000_000)
        ember.cuda.synchronize()
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


def test_mistakes():
    count = ember.cuda.device_count()
    for name in SENSORS + ("list_gpu_processes",):
        with pytest.raises(RuntimeError, match=rf"device {count} is not visible \(CUDA_VISIBLE_"):
            getattr(ember.cuda, name)(count)
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            getattr(ember.cuda, name)("cpu")


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=100, check=True).stdout


def test_a_number_initialises_nothing():
    assert run("import ember; print(ember.cuda.utilization(1), ember.cuda.list_gpu_processes(0),"
               "ember.cuda.temperature(0), ember.cuda.is_initialized())",
               EMBER_DEVICES="sim:3", CUDA_VISIBLE_DEVICES="2,1"
               ) == "0 GPU:2\nno processes are running 30 False\n"


def test_without_devices():
    assert run("""import ember
try:
    ember.cuda.utilization(0)
except RuntimeError as error:
    print(error)""", EMBER_DEVICES="none") == (
        "device 0 is not visible (CUDA_VISIBLE_DEVICES=[])\n")
