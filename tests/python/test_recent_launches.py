"""Faults name the call that enqueued what has failed, and the last launches can be listed."""

import os
import subprocess
import sys
import textwrap

import pytest

import ember
from ember import cuda


def run(program, **environment):
    """What a process of its own says: a fault stays with its device."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True,
                          text=True, env={**os.environ, **environment}, check=False)


@pytest.fixture
def recording():
    cuda.record_launches(32)
    yield
    cuda.record_launches(0)


def test_nothing_is_kept_unless_asked():
    ember.ones(4, device="cuda")
    assert cuda.recent_launches() == []


def enqueue(x):
    return x + 1


def test_what_is_kept(recording):
    with cuda.stream(cuda.Stream()):
        stream = cuda.current_stream()
        x = ember.ones(4, device="cuda")
        enqueue(x)
        stream.synchronize()
        last = [each for each in cuda.recent_launches() if each.cuda_stream == stream.cuda_stream][-1]
    assert last.name == "add.float32"
    assert last.device == 0
    assert last.state in ("finished", "unfinished")
    assert not cuda.current_device() and last.number >= 2
    assert "in enqueue" in last.stack and "return x + 1" in last.stack
    assert repr(last).startswith(f"'add.float32' number {last.number} of stream 0x")
    copies = [each for each in cuda.recent_launches() if each.name == "copy"]
    x.cpu()
    assert [each.name for each in cuda.recent_launches()].count("copy") == len(copies) + 1
    assert [each for each in cuda.recent_launches() if each.name == "copy"][-1].bytes == 16


def test_bad_counts():
    for count in (-1, 65537):
        with pytest.raises(ValueError, match=f"count is {count}, expected 0 to 65536"):
            cuda.record_launches(count)


FAULT = """
    import ember
    def culprit(x):
        return x[ember.tensor([7], device="cuda")]
    y = culprit(ember.ones(3, device="cuda"))
    try:
        ember.cuda.synchronize()
    except ember.AcceleratorError as error:
        print(error)
"""


@pytest.mark.reported_by_tools
def test_a_fault_names_the_call():
    said = run(FAULT, EMBER_RECORD_LAUNCHES="16")
    assert "number" in said.stdout and "the default stream" in said.stdout, said
    assert "in culprit" in said.stdout, said


@pytest.mark.reported_by_tools
def test_without_recording_it_names_the_operation():
    said = run(FAULT, EMBER_RECORD_LAUNCHES="")
    assert "in culprit" not in said.stdout
    assert "index" in said.stdout, said


@pytest.mark.parametrize("text", ["x", "-1", "65537", "1 ", "1.0"])
def test_a_malformed_setting(text):
    said = run("import ember; ember.cuda.init()", EMBER_RECORD_LAUNCHES=text)
    assert f"ValueError: EMBER_RECORD_LAUNCHES='{text}': expected" in said.stderr
