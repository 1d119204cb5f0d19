"""The command `python -m ember top`."""

import os
import signal
import stat
import subprocess
import sys

import pytest
from conftest import environment_with

HOLDER = """
import sys
import ember
x = ember.empty(3 << 18, device="cuda:1")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path):
    # A path of a socket has to be short.
    return environment_with(XDG_RUNTIME_DIR=str(tmp_path), EMBER_DEVICES="sim:2")


def top(environment, *arguments):
    return subprocess.run([sys.executable, "-m", "ember", "top", *arguments], env=environment,
                          capture_output=True, text=True, timeout=100, check=False)


def test_once(environment, tmp_path):
    if len(str(tmp_path)) > 60:
        pytest.skip("the folder of the tests is too long for a socket's path")
    assert "no process allows to be asked" in top(environment, "--once").stdout
    with subprocess.Popen([sys.executable, "-c", HOLDER], env={**environment, "EMBER_TOP": "1"},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "ready\n"
        done = top(environment, "--once")
        assert stat.S_IMODE((tmp_path / "ember").stat().st_mode) == 0o700
        holder.stdin.close()
    assert done.returncode == 0 and not done.stderr
    lines = [line for line in done.stdout.splitlines() if str(holder.pid) in line]
    assert any("Simulated GPU" in line and "30 C" in line for line in lines)
    held, = (line for line in lines if line.lstrip().startswith(str(holder.pid))
             and f"sim 1 of {holder.pid}" in line)
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" not in os.environ:
        assert "3.00 MiB" in held
    assert "import sys import ember" in held and "\x1b" not in done.stdout


def test_live(environment):
    with subprocess.Popen([sys.executable, "-m", "ember", "top", "--every", "0.05"],
                          env=environment, stdout=subprocess.PIPE, text=True) as live:
        tables = 0
        while tables < 3:
            tables += "\x1b[H" in live.stdout.readline()
        live.send_signal(signal.SIGINT)
        live.stdout.read()
    assert live.returncode == 0


def test_mistakes(environment):
    assert "--every expects a positive number" in top(environment, "--every", "0").stderr
    assert top(environment, "--every", "x").returncode == 2
    for number in ("nan", "inf", "-1", "1e30"):
        done = top(environment, "--every", number)
        assert done.returncode == 2 and "--every expects a positive number" in done.stderr
