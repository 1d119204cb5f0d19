"""Lines for flame graphs beside PyTorch's; its own functions read the files that ember writes."""

import pickle

import pytest
from torch.cuda import _memory_viz as theirs

import ember
from ember import cuda

ours = cuda.memory._memory_viz


def test_lines():
    """The same text for the same snapshot."""
    cuda.memory._record_memory_history(stacks="python")
    try:
        kept = [ember.zeros(n, device="cuda") for n in (1, 1000, 5_000_000)]
        before = cuda.memory._snapshot()
        del kept[1:]
        kept.append(ember.zeros(30_000_000, device="cuda"))
        after = cuda.memory._snapshot()
    finally:
        cuda.memory._record_memory_history(None)
    for of in (lambda viz: viz.segments(before, format_flamegraph=str),
               lambda viz: viz.memory(after, format_flamegraph=str),
               lambda viz: viz.compare(before["segments"], after["segments"], format_flamegraph=str)):
        assert of(ours) == of(theirs) != ""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Of blocks that are used and free ones, two streams and a pool, with their history."""
    path = tmp_path_factory.mktemp("snapshot") / "snapshot.pickle"
    cuda.memory._record_memory_history(max_entries=1000)
    kept = [ember.ones(1000 * i, device="cuda") for i in range(1, 30)]
    del kept[::3]
    with cuda.stream(cuda.Stream()):
        kept.append(ember.ones(1 << 20, device="cuda"))
    with cuda.use_mem_pool(cuda.MemPool()):
        kept.append(ember.ones(5000, device="cuda"))
    cuda.memory._dump_snapshot(path)
    cuda.memory._record_memory_history(enabled=None)
    return pickle.loads(path.read_bytes())


def test_sums(file):
    allocated = sum(segment["allocated_size"] for segment in file["segments"])
    text = theirs.segsum(file)
    assert f"segments: {len(file['segments'])}\n" in text
    assert f"total_allocated: {theirs.Bytes(allocated)}\n" in text


def test_trace(file):
    lines = theirs.trace(file).splitlines()
    entries = file["device_traces"][0]
    assert lines[1] == f"{len(entries)} entries"
    segments = sum(entry["action"] == "segment_alloc" for entry in entries)
    assert segments > 0 and sum("= cudaMalloc(" in line for line in lines) == segments


@pytest.mark.parametrize("name", ["trace_plot", "segment_plot"])
def test_pages(file, name):
    assert "MemoryViz.js" in getattr(theirs, name)(file)
