"""`ember memory replay`: histories, ember's and such as PyTorch writes, given to allocators."""

import gzip
import os
import pathlib
import pickle
import re
import subprocess
import sys

import ember as torch
import pytest

cuda = torch.cuda
memory = cuda.memory
MIB = 1 << 20
BASE = 0x7F0000000000

pytestmark = pytest.mark.usefixtures("caching")


def replay(*arguments, data=b""):
    return subprocess.run([sys.executable, "-m", "ember", "memory", "replay", *map(str, arguments)],
                          input=data, capture_output=True, check=False,
                          env={**os.environ, "EMBER_DEVICES": "none"})


def rows(done):
    """By policy: most in use, most reserved (MiB), calls, of which later."""
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.decode().splitlines():
        if has := re.fullmatch(r"\d+ (\S+) +([\d.]+) +([\d.]+) +[\d.]+% +(\d+) +(\d+)(  out of memory)?", line):
            name, used, reserved, calls, later, _ = has.groups()
            found[name] = (float(used), float(reserved), int(calls), int(later))
    return found


def entry(action, at, size=0, stream=0):
    return {"action": action, "addr": BASE + at, "size": size, "stream": stream, "time_us": 1, "frames": []}


def snapshot(entries, device=0):
    return pickle.dumps({"segments": [], "device_traces": [[]] * device + [entries]}, 4)


# Chapter 8 by hand: 12 MiB are a segment of their own; 9 more fit into none of its rest.
HISTORY = [
    entry("segment_alloc", 0, 12 * MIB), entry("alloc", 0, 12 * MIB),
    entry("free_requested", 0, 12 * MIB), entry("free_completed", 0, 12 * MIB),
    entry("alloc", 0, 4 * MIB), entry("segment_alloc", 64 * MIB, 20 * MIB), entry("alloc", 64 * MIB, 9 * MIB),
]


def test_a_program_of_embers(tmp_path):
    """What was held, without a device, from the history that the program wrote."""
    cuda.synchronize()
    cuda.empty_cache()
    memory._record_memory_history(max_entries=10000, clear_history=True)
    cuda.reset_peak_memory_stats()
    held = cuda.memory_reserved()
    kept = [torch.empty(n * MIB, dtype=torch.uint8, device="cuda") for n in (3, 5, 21, 2)]
    del kept[1]
    kept.append(torch.empty(4 * MIB, dtype=torch.uint8, device="cuda"))
    memory._dump_snapshot(str(tmp_path / "snapshot"))
    memory._record_memory_history(enabled=None)
    found = rows(replay(tmp_path / "snapshot"))
    assert list(found) == ["torch", "torch-expandable", "ember", "expandable_segments:True"]
    if held == 0:  # else some of it lay in segments from before
        peaks = (cuda.max_memory_allocated() / MIB, cuda.max_memory_reserved() / MIB)
        assert found["ember"][:2] == found["torch"][:2] == peaks
        assert "torch: every block and segment is where the trace has it" in replay(
            tmp_path / "snapshot").stdout.decode()


def test_policies_and_devices():
    data = snapshot(HISTORY, device=1)
    found = rows(replay("-", "--device", 1, "--policy", "ember", "--policy", "max_split_size_mb:20", data=data))
    assert found == {"ember": (13, 32, 2, 2), "max_split_size_mb:20": (13, 32, 2, 2)}
    assert rows(replay("-", "--device", 1, "--policy", "roundup_power2_divisions:2", data=data)) == {
        "roundup_power2_divisions:2": (16, 24, 2, 2)}  # 12 and 4 stay; 9 becomes 12, which is a segment of its own
    # The table over time has as many rows as wanted.
    text = replay("-", "--device", 1, "--policy", "torch", "--points", 3, data=data).stdout.decode()
    assert [line.split("%")[0].split()[-1] for line in text.splitlines() if line.startswith("  to ")] == [
        "33.3", "66.7", "100.0"]


def test_a_device_with_too_little():
    text = replay("-", "--memory", "24MiB", data=snapshot(HISTORY)).stdout.decode()
    # Segments that grow need 2 MiB more for it, and a first page of 20 MiB serves all.
    assert text.count("out of memory at entry 6") == 2
    assert "torch: out" in text and "ember: out" in text
    assert "ember: out of memory at entry 6: CUDA out of memory. Tried to allocate 20.00 MiB" in text
    assert "out of memory" not in replay("-", "--memory", "40MiB", data=snapshot(HISTORY)).stdout.decode()


@pytest.mark.parametrize("arguments,data,why", [
    (("-", "--policy", "pytorch"), snapshot(HISTORY), "policies: 'pytorch': expected 'torch', 'torch-expandable'"),
    (("-", "--policy", "backend:cudaMallocAsync"), snapshot(HISTORY), "expected settings of backend:native"),
    (("-", "--policy", "garbage_collection_threshold:0.5"), snapshot(HISTORY), "expected how much that is"),
    (("-", "--memory", "much"), snapshot(HISTORY), "memory: got 'much', expected bytes, such as 80GiB"),
    (("-", "--device", "1"), snapshot(HISTORY), "device 1 is asked for, and there are 1"),
    (("-",), pickle.dumps(print, 4), "GLOBAL"),
    (("-",), b"", "trace: it ends after line 0"),
    (("nowhere",), b"", "No such file"),
])
def test_bad_input(arguments, data, why):
    done = replay(*arguments, data=data)
    assert done.returncode == 1 and not done.stdout
    error = done.stderr.decode()
    assert error.startswith(f"ember memory replay: {arguments[0]}: ") and error.count("\n") == 1
    assert why in error


def test_damaged_files_are_refused_or_replayed():
    """Nothing else: in this process, so that a crash would be seen."""
    from ember._C.cuda import _replay_memory
    whole = snapshot(HISTORY)
    good = _replay_memory(whole, ["torch"], 0, "0", 3)
    for at in range(0, len(whole), 3):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:]):
            try:
                assert "torch" in _replay_memory(damaged, ["torch", "ember"], 0, "0", 3)
            except ValueError as error:
                assert str(error).startswith("trace: ")
    assert "7 entries" in good


def test_the_example_of_the_documentation(tmp_path):
    """docs/traces.md, with one of the traces that are kept."""
    root = pathlib.Path(__file__).resolve().parents[2]
    block = (root / "docs" / "traces.md").read_text().split("```console\n$ ember memory replay lengths.trace ")[1]
    command, expected = block.split("```")[0].replace("\\\n", " ").split("\n", 1)
    (tmp_path / "lengths.trace").write_bytes(
        gzip.decompress((root / "tests" / "replay" / "recorded" / "lengths.trace.gz").read_bytes()))
    done = replay(tmp_path / "lengths.trace", *command.split())
    assert done.stdout.decode() == expected
