"""Flame graphs of memory."""

import xml.etree.ElementTree as ET

import pytest

import ember as torch
from ember import cuda

viz = cuda.memory._memory_viz
SVG = "{http://www.w3.org/2000/svg}"


def plain(lines):
    return lines


def frame(name, line, filename="/some/where/train.py"):
    return {"filename": filename, "line": line, "name": name}


def block(size, requested, state, frames=()):
    return {"address": 0, "size": size, "requested_size": requested, "state": state,
            "frames": list(frames)}


def segment(address, *blocks, stream=0):
    return {"device": 0, "address": address, "stream": stream, "blocks": list(blocks),
            "total_size": sum(one["size"] for one in blocks)}


MODEL = [frame("layer", 12), frame("forward", 7), frame("main", 3)]
FIRST = segment(4096, block(1024, 1000, "active_allocated", MODEL),
                block(1024, 0, "inactive"), stream=5)
SECOND = segment(8192, block(512, 512, "active_pending_free", MODEL[1:]))


def test_lines():
    """Chapter 10: stream, segment, state, frames from the outermost on, bytes."""
    stack = "train.py:3:main;train.py:7:forward"
    first = f"stream_5;seg_4096;active_allocated;{stack};train.py:12:layer 1000\n" \
            "stream_5;seg_4096;active_allocated;<gaps> 24\n" \
            "stream_5;seg_4096;inactive;<non-python> 0\n" \
            "stream_5;seg_4096;inactive;<gaps> 1024\n"
    second = f"stream_0;seg_8192;active_pending_free;{stack} 512\n"
    snapshot = {"segments": [FIRST, SECOND], "device_traces": []}
    assert viz.segments(snapshot, format_flamegraph=plain) == first + second
    without = (first + second).replace("seg_4096;", "").replace("seg_8192;", "")
    assert viz.memory(snapshot, format_flamegraph=plain) == without
    changes = viz.compare([FIRST], {"segments": [SECOND]}, format_flamegraph=plain)
    assert changes == "".join("only_before;" + line + "\n" for line in first.splitlines()) + \
        "only_after;" + second
    assert viz.compare([FIRST], [FIRST, SECOND], format_flamegraph=plain) == "only_after;" + second


def parts(picture):
    """The names in a picture, with their left and right sides, and their heights."""
    root = ET.fromstring(picture)
    found = {}
    for group in root.iter(SVG + "g"):
        left, width = float(group.get("data-x")), float(group.get("data-w"))
        top = float(group.find(SVG + "rect").get("y"))
        found[group.get("data-name")] = (left, left + width, top)
    return found


def test_picture():
    """Widths are bytes; what was called lies on its caller."""
    picture = viz.format_flamegraph("main;a 300\nmain;b;<c>&\" 100\n\nmain;a 100\nother 0\n")
    found = parts(picture)
    assert set(found) == {"all", "main", "a", "b", "<c>&\""}
    assert found["all"][:2] == found["main"][:2] == (0, 1200)
    assert found["a"][:2] == (0, 960) and found["b"][:2] == found["<c>&\""][:2] == (960, 1200)
    heights = [found[name][2] for name in ("all", "main", "b", "<c>&\"")]
    assert heights == sorted(heights, reverse=True) and len(set(heights)) == 4
    assert "400 bytes, 80.00 %" in picture and "http" not in picture.replace(SVG[1:-1], "")
    assert parts(viz.format_flamegraph("")) == {"all": (0, 1200, 40)}


@pytest.mark.parametrize("lines, error", [
    ("main 1\nno number\n", "line 2: no number at its end"), ("main\n", "line 1: no number"),
    ("main -1", "line 1: no number at its end"), ("a 1.5", "line 1: no number at its end"),
    ("a 9223372036854775807\nb 1\n", "line 2: more than 2\\^63 - 1 bytes in all")])
def test_bad_lines(lines, error):
    with pytest.raises(ValueError, match="folded: " + error):
        viz.format_flamegraph(lines)


def test_bad_snapshots():
    for snapshot in ({}, {"segments": 1}, {"segments": [{}]}, {"segments": [FIRST, FIRST]},
                     {"segments": [{**FIRST, "blocks": [{}]}]},
                     {"segments": [{**FIRST, "address": -1}]}, {"segments": [{**FIRST, "stream": "x"}]}):
        with pytest.raises(ValueError, match="the snapshot: not a snapshot of memory"):
            viz.segments(snapshot)


def test_deep_stacks():
    """Names more than 1,000 deep are left out, and cost no stack of ours."""
    found = parts(viz.format_flamegraph(";".join(f"f{i}" for i in range(100_000)) + " 1\n"))
    assert len(found) == 1001 and "f999" in found


def test_files(tmp_path):
    """What is there now, with the frames that were recorded."""
    cuda.init()
    cuda.memory._record_memory_history(stacks="python")
    try:
        x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
        for save in (cuda.memory._save_segment_usage, cuda.memory._save_memory_usage):
            save(str(tmp_path / "usage.svg"))
            found = parts((tmp_path / "usage.svg").read_text(encoding="utf-8"))
            assert any(name.startswith("test_memory_viz.py:") and name.endswith(":test_files")
                       for name in found), found
            assert ("seg_%d" % cuda.memory_snapshot()[0]["address"] in found) == \
                (save is cuda.memory._save_segment_usage)
        del x
        page = viz.trace_plot(cuda.memory._snapshot(), filter_freed=True)
        assert page.startswith("<!") and viz.segment_plot(cuda.memory._snapshot()).startswith("<!")
    finally:
        cuda.memory._record_memory_history(None)
    with pytest.raises(FileNotFoundError):
        cuda.memory._save_memory_usage(str(tmp_path / "no" / "folder.svg"))
    with pytest.raises(AttributeError, match="segsum"):
        viz.segsum
