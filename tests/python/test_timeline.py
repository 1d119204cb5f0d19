"""The recorder of timelines: its two kinds of files, as programs and a browser read them."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import ember as torch
from ember import cuda
from ember.cuda import nvtx

DRIVE = pathlib.Path(__file__).resolve().parents[1] / "timeline" / "page_in_browser.py"


def events_of(path, phase):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == phase]


def record(path, **options):
    """A small run with everything in it."""
    with cuda.Timeline(path, **options) as timeline:
        x = torch.zeros(1000, device="cuda")
        host = torch.ones(1000).pin_memory()
        side = cuda.Stream()
        with nvtx.range("step"), nvtx.range("copying"):
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                x.copy_(host, non_blocking=True)
                x += 1
        cuda.current_stream().wait_stream(side)
        y = x * 2
        nvtx.mark("half way")
        number = nvtx.range_start("any thread's")
        cuda.synchronize()
        nvtx.range_end(number)
    assert y.sum().item() == 4000
    return timeline


def test_trace_events(tmp_path):
    path = tmp_path / "run.json"
    timeline = record(path)
    assert not timeline.recording
    events = json.loads(path.read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
               if e.get("name") == "thread_name"}
    slices = events_of(path, "X")
    assert {processes[e["pid"]] for e in slices} == {"host", "cuda:0"}
    assert all((e["pid"], e["tid"]) in threads for e in slices)

    by_name = {e["name"]: e for e in slices}
    copy = by_name["copy HtoD (pinned)"]
    assert copy["cat"] == "copy" and copy["args"]["bytes"] == 4000
    assert threads[copy["pid"], copy["tid"]].startswith("stream ")
    add, product = by_name["add.float32"], by_name["mul.float32"]
    assert add["cat"] == product["cat"] == "kernel" and "bytes" not in add["args"]
    assert add["tid"] == copy["tid"] != product["tid"]
    assert threads[product["pid"], product["tid"]] == "default stream"
    assert add["ts"] >= copy["ts"] + copy["dur"] - 1e-3
    assert product["ts"] >= add["ts"] + add["dur"] - 1  # two events' times are rounded
    wait = by_name["wait for cuda:0"]
    assert wait["cat"] == "wait" and wait["cname"] == "terrible"

    step, copying = by_name["step"], by_name["copying"]
    assert step["tid"] == copying["tid"] == wait["tid"] and step["cat"] == "range"
    assert step["ts"] <= copying["ts"]
    assert copying["ts"] + copying["dur"] <= step["ts"] + step["dur"] + 1e-6
    assert step["ts"] + step["dur"] <= wait["ts"] + 1e-6
    assert [e["name"] for e in events_of(path, "i")] == ["half way"]
    begin, = events_of(path, "b")
    end, = events_of(path, "e")
    assert begin["name"] == end["name"] == "any thread's" and begin["id"] == end["id"]
    assert begin["ts"] <= wait["ts"] and end["ts"] >= wait["ts"] + wait["dur"] - 1e-6


def test_slices_of_a_track_nest(tmp_path):
    path = tmp_path / "run.json"
    record(path)
    tracks = {}
    for event in events_of(path, "X"):
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    assert len(tracks) >= 3
    for track in tracks.values():
        stack = []
        for event in track:  # in the order in which they begin
            end = event["ts"] + event["dur"]
            while stack and stack[-1] <= event["ts"] + 1e-6:
                stack.pop()
            assert not stack or end <= stack[-1] + 1e-6, event
            stack.append(end)


def test_arrows(tmp_path):
    path = tmp_path / "run.json"
    timeline = record(path)
    starts = {e["id"]: e for e in events_of(path, "s")}
    ends = {e["id"]: e for e in events_of(path, "f")}
    assert starts.keys() == ends.keys() and len(starts) == timeline.summary().arrows
    slices = events_of(path, "X")

    def at(event):
        """The innermost slice that an arrow ends at."""
        return min((e for e in slices if (e["pid"], e["tid"]) == (event["pid"], event["tid"])
                    and e["ts"] - 1e-6 <= event["ts"] <= e["ts"] + e["dur"] + 1e-6),
                   key=lambda e: abs(e["ts"] + (e["dur"] if event["ph"] == "s" else 0)
                                     - event["ts"]))["name"]

    pairs = {(at(starts[number]), at(ends[number])) for number in starts}
    assert ("add.float32", "mul.float32") in pairs
    assert any(pair[1] == "copy HtoD (pinned)" for pair in pairs)


def test_page(tmp_path):
    path = tmp_path / "run.html"
    record(path)
    page = path.read_text()
    assert "copy HtoD (pinned)" in page and "wait for cuda:0" in page
    assert "http://" not in page and "https://" not in page and "src=" not in page
    start = page.index('id="data">') + len('id="data">')
    data = json.loads(page[start:page.index("</script>", start)])
    assert sum(len(track["label"]) for track in data["tracks"]) == data["counts"]["slices"]
    for track in data["tracks"]:
        assert len(track["label"]) == len(track["begin"]) == len(track["length"])
        assert min(track["length"]) >= 0 and min(track["begin"][1:], default=0) >= 0


@pytest.mark.not_watched
def test_in_a_browser(tmp_path):
    """The times of frames say nothing on a machine that does other things, so none are expected."""
    path = tmp_path / "run.html"
    with cuda.Timeline(path) as timeline:
        x, y = (torch.zeros(64, device="cuda") for _ in range(2))
        side = cuda.Stream()
        side.wait_stream(cuda.default_stream())
        for i in range(300):
            with nvtx.range(f"step {i % 7}"):
                if i % 2 == 0:
                    x += i
                else:
                    with cuda.stream(side):
                        y += i
            if i % 10 == 0:
                side.wait_stream(cuda.default_stream())
                side.synchronize()
        cuda.synchronize()
    program = subprocess.run(
        [sys.executable, str(DRIVE), str(path), "--search", "add.float32"],
        capture_output=True, text=True, timeout=120, check=False)
    if program.returncode == 3:
        pytest.skip("no Chromium to open the page in (EMBER_TEST_BROWSER names one)")
    assert program.returncode == 0, program.stderr
    seen = json.loads(program.stdout)
    assert seen["errors"] == [] and seen["requests"] == []
    summary = timeline.summary()
    assert seen["slices"] == summary.slices and seen["arrows"] == summary.arrows
    assert seen["matches"] == 300 and seen["at"] == 4, "Enter was pressed five times"
    assert seen["chosen"][0] == "add.float32" and "kernel, cuda:0, " in seen["chosen"][1]
    assert seen["frames"] > 10 and seen["bytes"] < 1_000_000


def test_start_stop_and_save(tmp_path):
    timeline = cuda.Timeline()
    assert timeline.recording
    torch.ones(4, device="cuda")
    cuda.synchronize()
    timeline.stop()
    before = timeline.summary().slices
    assert before >= 2
    torch.ones(4, device="cuda")
    cuda.synchronize()
    assert timeline.summary().slices == before
    timeline.start()
    cuda.synchronize()
    timeline.finish()  # without a file: nothing is written
    assert timeline.summary().slices == before + 1
    assert str(timeline.summary()).startswith(f"{before + 1} slices, ")
    timeline.save(tmp_path / "a.json")
    timeline.save(str(tmp_path / "a.html"))
    timeline.save_json(tmp_path / "b")
    assert (tmp_path / "b").read_text() == (tmp_path / "a.json").read_text()


def test_limit(tmp_path):
    path = tmp_path / "run.json"
    with cuda.Timeline(path, limit=5) as timeline:
        x = torch.zeros(4, device="cuda")
        for _ in range(10):
            x += 1
        cuda.synchronize()
    assert timeline.summary().slices == 5 and timeline.summary().over_limit == 7
    assert json.loads(path.read_text())["otherData"]["over_limit"] == 7
    assert len(events_of(path, "X")) == 5


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="Timeline: file is 'run.png', expected a file whose name "
                                         "ends in .json or .html"):
        cuda.Timeline("run.png")
    with pytest.raises(ValueError, match="limit is 0"):
        cuda.Timeline(limit=0)
    with pytest.raises(TypeError):
        cuda.Timeline(3)
    timeline = cuda.Timeline()
    with pytest.raises(ValueError, match="file is 'run'"):
        timeline.save("run")
    with pytest.raises(FileNotFoundError, match="No such file or directory: .*none/run.json"):
        timeline.save(tmp_path / "none" / "run.json")
    with pytest.raises(ZeroDivisionError), cuda.Timeline(tmp_path / "raised.json"):
        1 / 0
    assert (tmp_path / "raised.json").exists(), "what an error came out of is of interest"


PROGRAM = """
import ember as torch
x = torch.zeros(8, device="cuda")
for _ in range(3):
    x += 1
torch.cuda.synchronize()
"""


def run(file):
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          env={**os.environ, "EMBER_TIMELINE": str(file)}, check=False)


def test_environment(tmp_path):
    said = run(tmp_path / "run-%p.json")
    assert said.returncode == 0 and said.stderr == ""
    path, = tmp_path.iterdir()
    assert path.stem.replace("run-", "").isdigit()
    assert [e["name"] for e in events_of(path, "X")].count("add.float32") == 3
    assert run(tmp_path / "run.html").returncode == 0
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")

    said = run(tmp_path / "run.txt")
    assert said.returncode != 0 and "expected a file whose name ends in .json or .html" in said.stderr
    said = run(tmp_path / "none" / "run.json")
    assert said.returncode == 0 and "EMBER_TIMELINE: Timeline: '" in said.stderr
