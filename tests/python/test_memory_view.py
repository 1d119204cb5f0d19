"""The page of `ember memory view`: made of snapshots whose sums are counted here, and opened in a
browser."""

import json
import os
import pathlib
import pickle
import random
import subprocess
import sys

import pytest

from ember._C.cuda import _snapshot_page as snapshot_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEGMENT = 1 << 30


def made(events, seed=1):
    """A snapshot with so many entries of history, and what it must show: bytes that are active at
    the end, the most there ever were, and by innermost frame the bytes that are held."""
    rng = random.Random(seed)
    stacks = [[{"filename": f"/src/part{i % 7}.py", "line": i, "name": f"layer_{i}</script>"}] +
              [{"filename": "/src/train.py", "line": 100 + j, "name": f"step_{j}"} for j in range(12)]
              for i in range(50)]
    trace = [{"action": "segment_alloc", "addr": 1 << 40, "size": SEGMENT, "stream": 0, "time_us": 10**15,
              "frames": stacks[0]}]
    alive, free, top, active, most = {}, [], 1 << 40, 0, 0
    while len(trace) < events - 2:
        now = 10**15 + len(trace) * 3
        if alive and rng.random() < 0.49:
            at = rng.choice(list(alive)) if len(alive) < 50 else next(iter(alive))
            size, stack = alive.pop(at)
            for action in ("free_requested", "free_completed"):
                trace.append({"action": action, "addr": at, "size": size, "stream": 0, "time_us": now,
                              "frames": stacks[stack]})
            free.append((at, size))
            active -= size
        else:
            stack = rng.randrange(len(stacks))
            if free and rng.random() < 0.8:
                at, size = free.pop()
            else:
                at, size = top, 512 * (1 + stack)
                top += size
            alive[at] = (size, stack)
            trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": now,
                          "frames": stacks[stack]})
            active += size
            most = max(most, active)
    assert top < (1 << 40) + SEGMENT
    held = {}
    for size, stack in alive.values():
        held[f"layer_{stack}</script>"] = held.get(f"layer_{stack}</script>", 0) + size
    blocks = [{"address": at, "size": size, "requested_size": size, "state": "active_allocated",
               "frames": stacks[stack]} for at, (size, stack) in sorted(alive.items())]
    snapshot = {
        "segments": [{"device": 0, "address": 1 << 40, "total_size": SEGMENT, "stream": 0,
                      "segment_type": "large", "segment_pool_id": (0, 0), "blocks": blocks, "frames": []}],
        "device_traces": [trace], "allocator_settings": {}}
    return snapshot, active, most, held


def view(page, *options):
    seen = subprocess.run([sys.executable, str(ROOT / "tests/memory/view_in_browser.py"), str(page), *options],
                          capture_output=True, text=True, timeout=120)
    if seen.returncode == 3:
        pytest.skip("no Chromium was found")
    assert seen.returncode == 0, seen.stderr
    return json.loads(seen.stdout)


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "ember", "memory", "view", *map(str, arguments)],
                          capture_output=True, text=True)


def held_by_first_frame(holders):
    return {row["key"].split(" ")[0]: row["bytes"] for row in holders}


def test_page_in_a_browser(tmp_path):
    snapshot, active, most, held = made(3000)
    (tmp_path / "one.pickle").write_bytes(pickle.dumps(snapshot, 4))
    done = command(tmp_path / "one.pickle")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'one.html'}\n"
    seen = view(tmp_path / "one.html", "--search", "LAYER_")
    assert seen["errors"] == [] and seen["requests"] == []
    assert seen["events"] == len(snapshot["device_traces"][0])
    assert seen["active"] == [active, most] and seen["start"] == 0 and seen["reserved"] == SEGMENT
    largest = dict(sorted(held.items(), key=lambda each: -each[1])[:20])
    assert sorted(held_by_first_frame(seen["holders"]).values()) == sorted(largest.values())
    assert seen["found"] == len(held)
    assert any("train.py" in line for line in seen["at"])


def test_what_grew(tmp_path):
    before, _, _, held_before = made(500, seed=2)
    after, _, _, held = made(2500, seed=3)
    for name, snapshot in (("before", before), ("after", after)):
        (tmp_path / name).write_bytes(pickle.dumps(snapshot, 4))
    page = tmp_path / "page.html"
    assert command(tmp_path / "after", "--before", tmp_path / "before", "--out", page).returncode == 0
    seen = view(page)
    assert seen["errors"] == []
    grew = {name: held.get(name, 0) - held_before.get(name, 0) for name in {*held, *held_before}}
    shown = {row["key"].split(" ")[0]: row["grew"] for row in seen["holders"]}
    assert len(shown) == min(20, len(grew))
    assert all(grew[name] == bytes for name, bytes in shown.items())
    assert min(map(abs, shown.values())) >= sorted(map(abs, grew.values()), reverse=True)[len(shown) - 1]


def test_history_that_lost_its_beginning(tmp_path):
    """What was allocated before the history began was there all the time before its end."""
    snapshot, active, _, _ = made(1000)
    lost = snapshot["device_traces"][0][:400]
    snapshot["device_traces"][0] = snapshot["device_traces"][0][400:]
    start = sum({"alloc": each["size"], "free_completed": -each["size"]}.get(each["action"], 0) for each in lost)
    (tmp_path / "page.html").write_text(snapshot_page(pickle.dumps(snapshot, 4), "lost"))
    seen = view(tmp_path / "page.html")
    assert seen["errors"] == [] and seen["start"] == start and seen["active"][0] == active


def test_names_cannot_leave_their_element():
    page = snapshot_page(pickle.dumps(made(30)[0], 4), "</script><script>alert(1)</script><!--")
    assert page.count("</script>") == 2 and "<!--" not in page.split("<script>")[0].split("application/json")[1]


@pytest.mark.parametrize("snapshot, words", [
    ([], "not a snapshot: it is no dict"), ({}, "it has no 'segments'"),
    ({"segments": 3}, "segments is no list"), ({"segments": [3]}, "segments has what is no dict"),
    ({"segments": [{}]}, "a segment without blocks"),
    ({"segments": [{"blocks": [{"frames": 1}]}]}, "frames are no list"),
    ({"segments": [{"blocks": [{"frames": [1]}]}]}, "a frame is no dict"),
    ({"segments": [], "device_traces": [1]}, "a trace is no list")])
def test_what_is_no_snapshot(snapshot, words):
    with pytest.raises(ValueError, match=words):
        snapshot_page(pickle.dumps(snapshot, 4), "x")


def test_mistakes_of_the_command(tmp_path):
    done = command(tmp_path / "nowhere")
    assert done.returncode == 1 and f"ember memory view: {tmp_path / 'nowhere'}: " in done.stderr
    (tmp_path / "text").write_text("no pickle")
    assert "expected a pickle of protocol 2 to 5" in command(tmp_path / "text").stderr
    assert not (tmp_path / "text.html").exists()


@pytest.mark.skipif("EMBER_TEST_LARGE_VIEW" not in os.environ, reason="takes a while: EMBER_TEST_LARGE_VIEW=1")
def test_large(tmp_path):
    """200,000 entries: what the page costs."""
    snapshot, active, most, _ = made(200_000)
    page = tmp_path / "large.html"
    page.write_text(snapshot_page(pickle.dumps(snapshot, 4), "large"))
    seen = view(page)
    print(page.stat().st_size, {name: seen[name] for name in ("first_ms", "p50_ms", "p95_ms", "frames")})
    assert seen["first_ms"] <= 2000 and seen["p95_ms"] <= 100
    assert seen["active"] == [active, most] and page.stat().st_size <= 30_000_000
