"""Programs that are wrong, or given what makes no sense: a clear error, and nothing hangs."""

import os
import subprocess
import sys
import textwrap

import pytest
from conftest import environment_with

pytestmark = pytest.mark.skipif(not os.environ.get("EMBER_DEVICES", "").startswith("sim"),
                                reason="about simulated devices")
SCHEDULES = ["threads", "random:1", "pct:1:3", "model"]


def run(code, **environment):
    left_out = {name: None for name in os.environ
                if name.startswith("EMBER_S") or "SANITIZER" in name}
    return subprocess.run(
        [sys.executable, "-c", "import ember as torch, os\ncuda = torch.cuda\n" + textwrap.dedent(code)],
        env=environment_with(**{"EMBER_DEVICES": "sim:2@256MiB", **left_out, **environment}), capture_output=True,
        text=True, timeout=120, check=False)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_streams_of_a_device_that_was_lost(schedule):
    done = run("""
        here, lost = cuda.Stream(device=1), cuda.Stream(device=0)
        event = cuda.Event()
        event.record(lost)
        x = torch.ones(4, device="cuda:0")
        calls = [lost.synchronize, lost.query, lambda: lost.wait_stream(here), lambda: event.record(lost),
                 event.synchronize, lambda: x + 1, lambda: cuda.synchronize(0),
                 lambda: torch.ones(1, device="cuda:0"), lambda: x.cpu()]
        try:
            for _ in range(10):
                x += 1
        except torch.AcceleratorError:
            pass
        for call in calls:
            try:
                print("answered", call())
            except torch.AcceleratorError as error:
                assert "cuda:0 fell off the bus" in str(error), error
        cuda.reset_peak_memory_stats(1)
        print(torch.ones(4, device="cuda:1").sum().item())
        """, EMBER_SIM_SCHEDULE=schedule, EMBER_SIM_FAULTS="lost:0@5")
    assert (done.returncode, done.stdout) == (0, "4.0\n"), done.stderr


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_fork_beside_the_sanitizer(schedule):
    done = run("""
        def fork(work):
            child = os.fork()
            if child == 0:
                try:
                    work()
                except Exception as error:
                    print(f"{type(error).__name__}: {str(error).strip()[:60]}", flush=True)
                os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3

        def race():
            x = torch.ones(4, device="cuda")
            side = cuda.Stream()
            with cuda.stream(side):
                x += 1
            cuda.synchronize()

        fork(race)                  # in a child that uses devices by itself
        x = torch.ones(4, device="cuda")
        fork(race)                  # in one that cannot
        print(x.sum().item())
        """, EMBER_SIM_SCHEDULE=schedule, EMBER_SANITIZER="1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[0].startswith("CUDASanitizerErrors: "), done.stdout
    assert lines[1].startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess"), done.stdout
    assert lines[2:] == ["4.0"]


@pytest.mark.parametrize("what", [
    "x += 1", "event.query()", "cuda.synchronize()",
    "pass", "torch.ones(4) + 1", "torch.empty(4, device='cuda')", "cuda.Event()", "cuda.current_device()",
    "time.sleep(0.01)", "try: 1 / 0\n                except Exception: pass"])
def test_a_program_that_never_ends_is_not_explored_for_ever(what):
    done = run(f"""
        import time
        def program():
            x = torch.ones(4, device="cuda")
            event = cuda.Event()
            event.record()
            while True:
                {what}
        print(torch.sim.explore(program, max_seconds=0.5))
        print(torch.sim.explore(lambda: torch.ones(4, device="cuda").sum().item(), max_seconds=30))
        """, EMBER_SIM_SCHEDULE="random:1")
    assert done.returncode == 0, done.stderr
    assert "not proved\n" in done.stdout
    assert "- the program does not end: it was ended after 0.5 s (max_seconds)\n" in done.stdout
    assert "proved: every order does the same\n" in done.stdout, done.stdout


def test_a_command_that_never_ends_is_not_explored_for_ever(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ember", "explore", "--timeout", "2", "--", sys.executable, "-c",
         "import ember as torch\nx = torch.ones(4, device='cuda')\nwhile True: x += 1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "the program failed: not done after 2 s" in done.stdout


def test_priorities_beyond_the_range_are_the_nearest_ones():
    done = run("""
        print(*cuda.Stream.priority_range())
        for priority in (-2 ** 31, -10 ** 6, 10 ** 6, 2 ** 31 - 1):
            print(cuda.Stream(priority=priority).priority)
        for priority in (2 ** 31, -2 ** 70, 1.5):
            try:
                cuda.Stream(priority=priority)
            except TypeError:
                print("TypeError")
        """)
    least, greatest, *made = done.stdout.split()
    assert made == [greatest, greatest, least, least] + 3 * ["TypeError"], done.stderr


@pytest.mark.parametrize("name", ["EMBER_DEVICES", "EMBER_SIM_SCHEDULE", "EMBER_SIM_FAULTS", "EMBER_SANITIZER",
                                  "EMBER_RECORD_LAUNCHES"])
def test_settings_that_are_no_text(name):
    """The error names the setting, and shows what it was."""
    done = run("""
        try:
            torch.ones(1, device="cuda").sum().item()
        except (ValueError, RuntimeError) as error:
            assert type(error) is not UnicodeDecodeError
            print(ascii(str(error)))
        """, **{name: "sim:1\udcff"})
    said = done.stdout + done.stderr
    assert name in said and "xff" in said and "UnicodeDecodeError" not in said, said
