"""The history of device memory, snapshots and scopes: chapter 10 of the documents."""

import copy
import gc
import inspect
import json
import os
import pickle
import pickletools
import subprocess
import sys
import threading

import pytest

import ember as torch
from ember._C.cuda import _snapshot_json as snapshot_json

memory = torch.cuda.memory
MIB = 2**20
pytestmark = pytest.mark.skipif("PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ,
                                reason="is about caching")


OTHERS = set()  # addresses of what other tests have left on device 0


@pytest.fixture(autouse=True)
def clean():
    """Nothing is recorded or cached before or after a test."""
    def forget():
        memory._record_memory_history(None)
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    forget()
    OTHERS.clear()
    OTHERS.update(block["address"] for block in in_use(memory._snapshot()))
    yield
    forget()


def inner(size):
    """Where it is allocated."""
    return torch.empty(size, dtype=torch.uint8, device="cuda:0")


def outer(size):
    """Who calls that."""
    return inner(size)


def line_in(function, text):
    """The number of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def entries(snapshot=None):
    """Of device 0."""
    return (snapshot or memory._snapshot())["device_traces"][0]


def in_use(snapshot):
    """The blocks on device 0."""
    return [block for segment in snapshot["segments"] if segment["device"] == 0
            for block in segment["blocks"] if block["state"] == "active_allocated"]


def blocks(snapshot):
    """Those of them that the test has."""
    return [block for block in in_use(snapshot) if block["address"] not in OTHERS]


def test_structure():
    """The keys of chapter 10."""
    memory._record_memory_history()
    kept = outer(30 * MIB + 1)  # too large for a segment of others
    snapshot = memory._snapshot()
    assert set(snapshot) == {"segments", "device_traces", "allocator_settings"}
    segment, = [each for each in snapshot["segments"] if each["address"] == kept.data_ptr()]
    assert set(segment) == {
        "device", "address", "total_size", "allocated_size", "active_size", "requested_size",
        "stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"}
    size = 30 * MIB + 512
    assert segment["total_size"] == 32 * MIB and segment["allocated_size"] == size
    assert segment["active_size"] == size and segment["requested_size"] == 30 * MIB + 1
    assert segment["device"] == 0 and segment["segment_type"] == "large" and segment["segment_pool_id"] == (0, 0)
    assert segment["is_expandable"] is False
    assert [block["state"] for block in segment["blocks"]] == ["active_allocated", "inactive"]
    used, free = segment["blocks"]
    assert set(used) == set(free) == {"address", "size", "requested_size", "state", "frames"}
    assert used["address"] == segment["address"] == kept.data_ptr()
    assert free["frames"] == [] and free["size"] == 32 * MIB - size
    assert len(snapshot["device_traces"]) == torch.cuda.device_count()
    seen = entries(snapshot)
    assert [each["action"] for each in seen] == ["segment_alloc", "alloc"]
    for each in seen:
        assert {"action", "addr", "size", "stream", "time_us"} <= set(each)
    assert seen[1]["addr"] == kept.data_ptr() and seen[1]["size"] == 30 * MIB + 1
    later = entries()[2]
    assert later["action"] == "snapshot" and later["size"] == torch.cuda.memory_allocated(0)
    settings = snapshot["allocator_settings"]
    assert settings["max_split_size"] == -1 and settings["expandable_segments"] is False
    assert settings["roundup_power2_divisions"] == {str(2**i): 0 for i in range(16)}
    assert segment in torch.cuda.memory_snapshot()
    assert memory.memory_snapshot(mempool_id=(0, 7)) == []
    assert segment in memory.memory_snapshot(mempool_id=(0, 0), include_traces=False)


def test_python_frames():
    """Innermost first, with file, line and function."""
    memory._record_memory_history(stacks="python")
    kept = outer(1000)
    frames = blocks(memory._snapshot())[0]["frames"]
    assert frames[0] == {"filename": __file__, "line": line_in(inner, "torch.empty"),
                         "name": "inner"}
    assert frames[1] == {"filename": __file__, "line": line_in(outer, "inner(size)"),
                         "name": "outer"}
    assert frames[2]["name"] == "test_python_frames"
    del kept
    freed = entries()[-1]
    assert freed["action"] == "free_completed"
    assert freed["frames"][0]["name"] == "test_python_frames"


def test_native_frames():
    """With stacks="all" those of C++ come first."""
    memory._record_memory_history()
    kept = outer(1000)
    frames = blocks(memory._snapshot())[0]["frames"]
    names = [frame["name"] for frame in frames]
    at = names.index("inner")
    assert at > 2 and names[at + 1] == "outer"
    assert any("ember::" in name for name in names[:at])
    assert "libember" in frames[0]["filename"] and kept is not None
    assert not any("PyEval" in name or name == "Py_RunMain" for name in names)


@pytest.mark.parametrize("context, of_block, of_alloc, of_free", [
    (None, None, None, None), ("state", "inner", None, None), ("alloc", "inner", "inner", "inner"),
    ("all", "inner", "inner", "let_go")])
def test_context(context, of_block, of_alloc, of_free):
    """Whose frames are there."""
    def let_go(kept):
        kept.clear()

    def first(of):
        return of["frames"][0]["name"] if of.get("frames") else None

    memory._record_memory_history("all", context, "python", 100)
    kept = [outer(10)]
    assert first(blocks(memory._snapshot())[0]) == of_block
    let_go(kept)
    by_action = {each["action"]: each for each in entries()}
    assert first(by_action["alloc"]) == of_alloc
    assert first(by_action["free_requested"]) == of_free


def test_state_and_entries():
    """What is kept, forgotten and left out."""
    memory._record_memory_history("state", stacks="python")
    kept = outer(10)
    snapshot = memory._snapshot()
    assert [each["action"] for each in entries(snapshot)] == ["alloc"]
    assert blocks(snapshot)[0]["frames"][0]["name"] == "inner"
    memory._record_memory_history(max_entries=3, skip_actions=["segment_alloc", "free_requested"])
    for size in range(1, 20):
        outer(size)
    assert [(each["action"], each["size"]) for each in entries()] == [
        ("free_completed", 18), ("alloc", 19), ("free_completed", 19)]
    memory._record_memory_history(clear_history=True, skip_actions=None)
    assert entries() == []
    assert [each["action"] for each in entries()] == ["snapshot"]
    memory._record_memory_history(enabled=None)
    assert entries() == [] and kept is not None


def test_legacy_signature():
    """A bool first."""
    memory._record_memory_history(True, trace_alloc_max_entries=4, trace_alloc_record_context=True)
    outer(10)
    assert [each["action"] for each in entries()][-3:] == ["alloc", "free_requested", "free_completed"]
    assert entries()[0]["frames"][0]["name"] == "inner"
    memory._record_memory_history(True, True, 10)
    kept = outer(10)
    snapshot = memory._snapshot()
    assert blocks(snapshot)[0]["frames"][0]["name"] == "inner"
    assert all("frames" not in each for each in entries(snapshot)[-2:])
    memory._record_memory_history(False)
    assert entries() == [] and kept is not None
    with pytest.raises(TypeError):
        memory._record_memory_history(True, stacks="all")


@pytest.mark.parametrize("options, error, words", [
    ({"enabled": "on"}, RuntimeError, "expected state to be 'state', 'all', or None"),
    ({"context": "x"}, RuntimeError, "expected context to be 'state', 'alloc', 'all', or None"),
    ({"stacks": "c"}, RuntimeError, "expected stacks to be 'python', or 'all'"),
    ({"skip_actions": ["sleep"]}, ValueError, "skip_actions: got 'sleep', expected one of alloc"),
])
def test_what_is_refused(options, error, words):
    """With the documents' text; nothing changes."""
    with pytest.raises(error, match=words):
        memory._record_memory_history(**options)
    assert entries() == []


def test_running_out():
    """An entry that says how much the device had."""
    memory._record_memory_history()
    total = torch.cuda.mem_get_info(0)[1]
    torch.cuda.set_per_process_memory_fraction(64 * MIB / total, 0)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            outer(100 * MIB)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
    failed = entries()[0]
    assert failed["action"] == "oom" and failed["size"] == 100 * MIB and "addr" not in failed
    assert 0 < failed["device_free"] <= total
    assert "inner" in [frame["name"] for frame in failed["frames"]]


# ---- Files

OPCODES = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "APPENDS", "SETITEMS", "BININT", "BININT1",
           "BININT2", "LONG1", "SHORT_BINUNICODE", "BINUNICODE", "MEMOIZE", "BINGET",
           "LONG_BINGET", "TUPLE2", "NEWTRUE", "NEWFALSE", "BINFLOAT", "STOP"}


def test_pools():
    """Entries name the pool of their segment, one that a capture made too."""
    memory._record_memory_history()
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = torch.ones(1000, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        pooled = torch.ones(1000, device="cuda")
    plain = torch.ones(1000, device="cuda")
    assert graph.pool()[0] > 0 and pool.id[1] > 0
    snapshot = memory._snapshot()
    for tensor, expected in (captured, graph.pool()), (pooled, pool.id), (plain, (0, 0)):
        made = [entry for entry in entries(snapshot)
                if entry["addr"] == tensor.data_ptr() and entry["action"] == "alloc"]
        assert made and made[-1]["pool_id"] == expected
        for segment in snapshot["segments"]:
            if segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]:
                assert segment["segment_pool_id"] == expected
    assert {entry["pool_id"] for entry in entries(snapshot)
            if entry["action"] == "segment_alloc"} >= {graph.pool(), pool.id}


def test_errors_travel():
    """To another process, with their figures."""
    with pytest.raises(torch.cuda.OutOfMemoryError) as raised:
        torch.empty(2**45, dtype=torch.uint8, device="cuda")
    for error in pickle.loads(pickle.dumps(raised.value)), copy.deepcopy(raised.value):
        assert type(error) is torch.cuda.OutOfMemoryError and str(error) == str(raised.value)
        for name in dir(type(raised.value.report)):
            if not name.startswith("_"):
                assert getattr(error.report, name) == getattr(raised.value.report, name), name


def test_the_file(tmp_path):
    """Opens in Python, has only the opcodes that viewers read, and each stack once."""
    memory._record_memory_history(stacks="python")
    kept = [outer(512 * (1 + i % 5)) for i in range(2500)]
    path = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(path)
    data = path.read_bytes()
    snapshot = pickle.loads(data)
    assert len(entries(snapshot)) > 2500 and len(blocks(snapshot)) == len(kept)
    assert json.loads(snapshot_json(data)) == json.loads(json.dumps(snapshot))
    assert len({id(block["frames"]) for block in blocks(snapshot)}) == 1
    assert data.count(b"test_the_file") == 1
    opcodes = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(data)]
    assert {name for name, _ in opcodes} <= OPCODES and opcodes[0] == ("PROTO", 4)
    appended(data)
    memory._dump_snapshot(str(tmp_path / "snapshot.json"))
    again = json.loads((tmp_path / "snapshot.json").read_text(encoding="utf-8"))
    assert again["segments"] == json.loads(json.dumps(snapshot))["segments"]
    with pytest.raises(FileNotFoundError, match=r"^\[Errno 2\] No such file or directory: '/nowhere/x'$"):
        memory._dump_snapshot("/nowhere/x")
    with pytest.raises(IsADirectoryError):
        memory._dump_snapshot("/tmp")


def appended(data):
    """At most 1,000 values between a MARK and APPENDS, by a machine that only counts."""
    marks, depth = [], 0
    for opcode, _, _ in pickletools.genops(data):
        if opcode.name == "MARK":
            marks.append(depth)
        elif opcode.name in ("APPENDS", "SETITEMS"):
            if opcode.name == "APPENDS":
                assert 0 < depth - marks[-1] <= 1000
            depth = marks.pop()
        elif opcode.name == "TUPLE2":
            depth -= 1
        elif opcode.name not in ("PROTO", "MEMOIZE", "STOP"):
            depth += 1
    assert depth == 1 and not marks


def test_compare(tmp_path):
    """ember memory compare BEFORE AFTER."""
    memory._record_memory_history(stacks="python")
    memory._dump_snapshot(str(tmp_path / "a"))
    with memory.scope("leak"):
        kept = [outer(MIB) for _ in range(3)]
    memory._dump_snapshot(str(tmp_path / "b"))
    command = [sys.executable, "-m", "ember", "memory", "compare"]
    done = subprocess.run([*command, str(tmp_path / "a"), str(tmp_path / "b")], text=True,
                          capture_output=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("before: ") and lines[1].startswith("after:  ")
    assert lines[2] == "grew"
    assert lines[3] == "  +3.00 MiB: 0 bytes in 0 blocks -> 3.00 MiB in 3 blocks, tag leak"
    assert lines[4] == f"      {__file__}:{line_in(inner, 'torch.empty')} inner"
    # A name goes to a terminal, which does not obey it.
    frames = [{"filename": "a\x1b[2J\u009b.py", "line": 3, "name": "f\nä"}]
    blocks = [{"address": 512, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": frames}]
    segments = [{"address": 512, "total_size": 512, "stream": 0, "device": 0, "blocks": blocks}]
    (tmp_path / "odd").write_bytes(pickle.dumps({"segments": segments}, 4))
    (tmp_path / "none at all").write_bytes(pickle.dumps({"segments": []}, 4))
    done = subprocess.run([*command, str(tmp_path / "none at all"), str(tmp_path / "odd")], text=True,
                          capture_output=True, check=True)
    assert "      a?[2J?.py:3 f?ä\n" in done.stdout
    done = subprocess.run([*command, str(tmp_path / "b"), str(tmp_path / "none")], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and "No such file" in done.stderr and not done.stdout
    (tmp_path / "c").write_bytes(pickle.dumps({"segments": [{"total_size": -1}]}, 4))
    done = subprocess.run([*command, str(tmp_path / "b"), str(tmp_path / "c")], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and "'total_size' is not there, or no number" in done.stderr
    assert len(kept) == 3


# ---- Scopes

def test_scopes():
    """Nest, know their peaks, and name holders."""
    before = torch.cuda.memory_allocated(0)
    outside = outer(4 * MIB)
    torch.cuda.reset_peak_memory_stats(0)
    with memory.scope("train") as train:
        kept = outer(MIB)
        with memory.scope("optimizer") as optimizer:
            assert optimizer.tag == "train/optimizer"
            outer(8 * MIB)
            state = outer(2 * MIB)
        assert optimizer.held(0) == 2 * MIB and optimizer.peak(0) == 8 * MIB
        assert train.held(0) == 3 * MIB and train.peak("cuda:0") == 9 * MIB
    assert torch.cuda.max_memory_allocated(0) == before + 13 * MIB
    assert [(each["tag"], each["bytes"], each["blocks"]) for each in memory.holders(0)] == [
        ("", before + 4 * MIB, 1 + len(OTHERS)), ("train/optimizer", 2 * MIB, 1),
        ("train", MIB, 1)]
    assert len(memory.holders(0, 1)) == 1
    assert sorted(each.get("tag", "") for each in blocks(memory._snapshot())) == [
        "", "train", "train/optimizer"]
    del state
    assert optimizer.held(0) == 0 and outside is not None and kept is not None
    with pytest.raises(ValueError, match="expected a name"):
        memory.scope("").__enter__()
    with pytest.raises(RuntimeError, match="was entered before"):
        train.__enter__()


def test_scopes_belong_to_threads():
    """What another thread allocates meanwhile has no tag."""
    kept = []
    with memory.scope("mine") as mine:
        thread = threading.Thread(target=lambda: kept.append(outer(MIB)))
        thread.start()
        thread.join()
        assert mine.peak(0) == 0
    with memory.scope("mine") as mine:
        with pytest.raises(KeyError):
            with memory.scope("failing"):
                raise KeyError
        kept.append(outer(MIB))
        assert mine.held(0) == MIB


def test_tags_in_entries():
    """As `tag`, and where viewers show it."""
    memory._record_memory_history(context=None)
    with memory.scope("a"):
        kept = outer(10)
    del kept
    tagged = [(each["action"], each.get("tag"), each.get("user_metadata")) for each in entries()
              if each["action"] != "segment_alloc"]
    assert tagged == [("alloc", "a", "a"), ("free_requested", "a", "a"),
                      ("free_completed", "a", "a")]


def test_before_initialisation():
    """Nothing initialises, and what was asked for before holds."""
    program = """
import ember as torch
memory = torch.cuda.memory
memory._record_memory_history()
assert memory._snapshot()["segments"] == [] and memory.holders() == []
assert torch.cuda.memory_snapshot() == [] and not torch.cuda.is_initialized()
torch.empty(1, device="cuda")
assert len(memory._snapshot()["device_traces"][0]) == 4
"""
    subprocess.run([sys.executable, "-c", program], check=True)
