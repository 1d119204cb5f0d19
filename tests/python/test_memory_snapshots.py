"""Snapshots in files: what `ember memory json` reads, beside Python's own pickle and json."""

import concurrent.futures
import json
import os
import pickle
import pickletools
import random
import subprocess
import sys

import pytest

import ember
from ember import cuda
from ember._C.cuda import _snapshot_json as snapshot_json

FRAME = {"filename": "a \"file\"\\ü\n.py", "line": 7, "name": "f<\U0001F600>"}
SNAPSHOT = {
    "segments": [{"device": 0, "address": 2**47 - 512, "frames": [FRAME, FRAME], "blocks": [],
                  "segment_pool_id": (0, 0), "is_expandable": False, "stream": 2**64 - 1}],
    "device_traces": [[{"action": "alloc", "addr": -2**63, "size": 2**31, "time_us": 2**53 + 1,
                        "frames": [FRAME]} for _ in range(1500)], []],
    "allocator_settings": {"garbage_collection_threshold": 0.1, "none": None, "empty": ()},
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(protocol):
    """What Python pickled is read as what it was."""
    expected = json.loads(json.dumps(SNAPSHOT))
    assert json.loads(snapshot_json(pickle.dumps(SNAPSHOT, protocol))) == expected
    plain = pickletools.optimize(pickle.dumps(SNAPSHOT, protocol))
    assert json.loads(snapshot_json(plain)) == expected


def random_value(rng, depth):
    """A value of the kinds that snapshots have."""
    kinds = [lambda: None, lambda: rng.random() < 0.5, lambda: rng.randrange(-2**63, 2**64),
             lambda: rng.randrange(-300, 70000), lambda: rng.uniform(-1e300, 1e300),
             lambda: "".join(chr(rng.choice([9, 34, 92, 65, 255, 8364, 0x1F600]))
                             for _ in range(rng.randrange(300)))]
    if depth > 0:
        kinds += 3 * [lambda: [random_value(rng, depth - 1) for _ in range(rng.randrange(5))],
                      lambda: tuple(random_value(rng, depth - 1) for _ in range(rng.randrange(5))),
                      lambda: {str(i): random_value(rng, depth - 1)
                               for i in range(rng.randrange(5))}]
    return rng.choice(kinds)()


def test_random_values():
    """The same for random values, by an independent reader of JSON."""
    rng = random.Random(5)
    for _ in range(300):
        value = [random_value(rng, 5)] * 2
        text = snapshot_json(pickle.dumps(value, rng.randrange(2, 6)))
        assert json.loads(text) == json.loads(json.dumps(value))


class Harmful:
    """Would run a function where it is unpickled."""

    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize("data, words", [
    (pickle.dumps(Harmful(), 4), r"opcode STACK_GLOBAL, which is not read, at byte \d+"),
    (pickle.dumps(Harmful(), 2), "opcode GLOBAL, which is not read, at byte 2"),
    (pickle.dumps(b"bytes", 4), "opcode SHORT_BINBYTES"),
    (pickle.dumps(2**80, 4), "an integer of more than 64 bits"),
    (pickle.dumps({1: 2}, 4), "a key that is no text"),
    (pickle.dumps([1], 0), "expected a pickle of protocol 2 to 5"),
    (pickle.dumps(SNAPSHOT, 4)[:-1], r"a frame that is larger than the pickle, at byte \d+"),
    (b"\x80\x04]", "the pickle ends before STOP, at byte 3"),
    (b"\x80\x06N.", "protocol 6, expected 2 to 5"),
    (b"\x80\x02h\x05.", "the memo has nothing under 5, at byte 2"),
    (b"\x80\x02Nr\xff\xff\xff\xff.", "a memo that is larger than the pickle"),
    (b"\x80\x02X\xff\xff\xff\xffa.", "the pickle ends within an argument"),
    (b"\x80\x04\x8c\x01\xff.", "text that is not UTF-8"),
    (b"\x80\x02]q\x00h\x00a.", "more than 64 deep"),
    (b"\x80\x02" + 1000 * b"]" + 999 * b"a" + b".", "more than 64 deep"),
    (b"\x80\x02(NN.", "STOP without exactly one value"),
    (b"\x80\x02(]Ne.", "there are too few values"),
    (b"", "expected a pickle"),
])
def test_what_is_refused(data, words, capsys):
    """An error that says what and where; nothing is executed."""
    with pytest.raises(ValueError, match=words):
        snapshot_json(data)
    assert capsys.readouterr().out == ""


def test_shared_values_do_not_explode():
    """Lists that hold the one before twice: 2^60 values in a hundred bytes."""
    value = []
    for _ in range(60):
        value = [value, value]
    with pytest.raises(ValueError, match="more than 1073741824 bytes"):
        snapshot_json(pickle.dumps(value, 4))


def test_every_prefix_is_refused():
    """A file that was cut off is never read as something else."""
    data = pickle.dumps(SNAPSHOT["segments"], 2)
    for end in range(len(data)):
        with pytest.raises(ValueError):
            snapshot_json(data[:end])


def test_command(tmp_path):
    """ember memory json FILE."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    command = [sys.executable, "-m", "ember", "memory", "json"]
    out = subprocess.run([*command, str(path)], capture_output=True, check=True).stdout
    assert json.loads(out) == json.loads(json.dumps(SNAPSHOT))
    path.write_bytes(pickle.dumps(Harmful()))
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "opcode STACK_GLOBAL" in done.stderr and not done.stdout
    done = subprocess.run([*command, str(tmp_path / "none")], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "No such file" in done.stderr


def view(*arguments, folder):
    return subprocess.run([sys.executable, "-m", "ember", "memory", "view", *arguments], cwd=folder,
                          capture_output=True, check=False)


def test_view_keeps_the_snapshots(tmp_path):
    """Also where the page's own name would be that of a snapshot."""
    text = pickle.dumps({"segments": [], "device_traces": []})
    (tmp_path / "one.html").write_bytes(text)
    (tmp_path / "two").symlink_to("one.html")
    for arguments in (["one.html"], ["two", "--out", "one.html"],
                      ["two", "--before", "one.html", "--out", "two"]):
        done = view(*arguments, folder=tmp_path)
        assert done.returncode == 1 and b"the page would take the place of the snapshot" in done.stderr
        assert (tmp_path / "one.html").read_bytes() == text
    assert view("two", folder=tmp_path).stdout == b"two.html\n"


def test_view_of_a_file_whose_name_is_no_text(tmp_path):
    name = os.fsdecode(b"x\xff.pickle")
    (tmp_path / name).write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    done = view(name, folder=tmp_path)
    assert done.returncode == 0 and not done.stderr
    assert "x\ufffd.pickle" in (tmp_path / os.fsdecode(b"x\xff.html")).read_text(encoding="utf-8")


def test_dump_leaves_links_and_special_files_what_they_are(tmp_path):
    real, link, pipe = tmp_path / "real", tmp_path / "link", tmp_path / "pipe"
    real.write_bytes(b"earlier")
    real.chmod(0o600)
    link.symlink_to(real)
    cuda.memory._dump_snapshot(str(link))
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600
    assert "segments" in pickle.loads(real.read_bytes())
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as end:
        cuda.memory._dump_snapshot(str(pipe))
        assert "segments" in pickle.loads(end.read())
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe", "real"]


def test_threads_dump_the_same_file(tmp_path):
    file = tmp_path / "snapshot"
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(cuda.memory._dump_snapshot, str(file)) for _ in range(100)]:
            done.result()
    assert "segments" in pickle.loads(file.read_bytes()) and os.listdir(tmp_path) == ["snapshot"]


@pytest.mark.parametrize("write", [
    cuda.memory._dump_snapshot, ember.sim.save_log, lambda name: captured().debug_dump(name)])
def test_names_of_files_that_are_none(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="expected the name of a file, got 'x' followed by a null"):
        write("x\0y")
    with pytest.raises(ValueError, match="expected the name of a file, got an empty text"):
        write("")
    assert not os.listdir(tmp_path)


def captured():
    graph = cuda.CUDAGraph()
    graph.enable_debug_mode()
    return graph
