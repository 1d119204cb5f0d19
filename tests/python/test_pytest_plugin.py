"""The pytest plugin: each test here runs pytest in a process of its own, on small files of tests."""

import re
import shlex
import subprocess
import sys
import textwrap

import pytest
from conftest import environment_with

pytestmark = pytest.mark.once

BUG = """
    import ember as torch
    import pytest

    @pytest.mark.ember(seeds=10, sanitizer=False)
    def test_product():
        side = torch.cuda.Stream()
        x = torch.ones(64, device="cuda")
        x += 1
        with torch.cuda.stream(side):
            y = x * 10
        torch.cuda.synchronize()
        assert y.sum().item() == 64 * 20
"""
FIXED = BUG.replace("with torch", "side.wait_stream(torch.cuda.current_stream())\n        with torch")


class Ended:
    def __init__(self, done):
        self.status, self.output = done.returncode, done.stdout + done.stderr
        last = done.stdout.strip().splitlines()[-1:] or [""]
        self.counts = {what: int(number) for number, what in re.findall(r"(\d+) (\w+)", last[0])}
        self.failed = re.findall(r"^FAILED (\S+)", self.output, re.MULTILINE)


@pytest.fixture
def run(tmp_path):
    def run(source, *arguments, command=None, **environment):
        """What pytest says of a file of tests, in a process whose devices nobody has chosen."""
        (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
        chosen = ("EMBER_DEVICES", "EMBER_SANITIZER", "EMBER_SIM_SCHEDULE", "CI", "BUILD_NUMBER", "PYTEST_ADDOPTS")
        left_out = {name: None for name in chosen}
        command = command or [sys.executable, "-m", "pytest", "-p", "ember.pytest_plugin", "-ra", *arguments]
        return Ended(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
                                    env=environment_with(COLUMNS="200", **{**left_out, **environment})))
    return run


def replay_lines(ended):
    return re.findall(r"To see it again: (.*)", ended.output)


def test_seed_that_fails_is_in_the_name_and_can_be_replayed(run):
    ended = run(BUG)
    assert ended.counts["failed"] + ended.counts["passed"] == 10
    assert 0 < len(ended.failed) < 10, "the order decides, and each comes"
    assert run(BUG).failed == ended.failed, "the seeds decide"
    line = replay_lines(ended)[0]
    assert line.endswith(f"{shlex.quote(ended.failed[0])} --ember-replay {re.search('seed([0-9]+)', line)[1]}")
    python, *arguments = shlex.split(line)
    assert python == "python"
    again = run(BUG, command=[sys.executable, *arguments, "-ra"])
    assert again.failed == ended.failed[:1] and again.counts == {"failed": 1}
    fixed = run(FIXED, command=[sys.executable, *arguments, "-ra"])
    assert fixed.status == 0 and fixed.counts == {"passed": 1}


def test_fixed_one_passes_with_every_seed(run):
    ended = run(FIXED, "--ember-seeds", "25")
    assert ended.status == 0 and ended.counts == {"passed": 25}
    assert not replay_lines(ended)


def test_race_is_the_failure(run):
    ended = run(BUG.replace("sanitizer=False", "sanitizer=True").replace("seeds=10", "seeds=0")
                .replace("assert y", "y"))
    assert ended.failed == ["test_it.py::test_product"], "without seeds it runs once"
    assert "Failed: 1 race between streams" in ended.output
    assert "CSAN detected a possible data race" in ended.output
    assert "in test_product\n    y = x * 10" in ended.output
    assert "What would have ordered them: a wait of stream " in ended.output
    assert "/_pytest/" not in ended.output and "/pluggy/" not in ended.output
    assert run(FIXED.replace("sanitizer=False", "sanitizer=True")).status == 0
    assert run(FIXED.replace(", sanitizer=False", "")).status == 0


def test_race_beside_another_failure_is_shown_too(run):
    ended = run(BUG.replace("sanitizer=False", "sanitizer=True").replace("20", "21"))
    assert ended.counts == {"failed": 10} and "AssertionError" in ended.output
    assert "ember sanitizer" in ended.output and "1 race between streams" in ended.output


def test_race_in_an_expected_failure_is_expected(run):
    assert run(BUG.replace("seeds=10", "seeds=1").replace("sanitizer=False", "sanitizer=True")
               .replace("@pytest", "@pytest.mark.xfail(strict=True)\n    @pytest")).counts == {"xfailed": 1}


def test_fixtures_are_watched_and_belong_to_the_run(run):
    ended = run("""
        import ember as torch
        import pytest

        @pytest.fixture
        def x():
            made = torch.ones(64, device="cuda")
            yield made
            with torch.cuda.stream(torch.cuda.Stream()):
                made.zero_()

        @pytest.mark.ember
        def test_it(x):
            with torch.cuda.stream(torch.cuda.Stream()):
                x + 1

        @pytest.mark.ember
        def test_only_its_end(x):
            pass

        @pytest.mark.ember(seeds=2)
        def test_run(x, ember_seed):
            assert torch.sim.replay_line().startswith(f"EMBER_SIM_SCHEDULE=random:{ember_seed}")

        def test_without(ember_seed):
            assert ember_seed is None
    """)
    assert "FAILED test_it.py::test_it" in ended.output
    assert "ERROR test_it.py::test_only_its_end" in ended.output
    assert "FAILED test_it.py::test_run" not in ended.output
    assert ended.counts["passed"] == 4, "the calls of three tests had nothing wrong"


def test_unchecked_launches_are_warned_of(run):
    ended = run("""
        import ember as torch
        import pytest

        @pytest.mark.ember
        def test_it():
            torch.cuda._host_function(lambda: None)
    """)
    assert ended.status == 0
    assert "UncheckedLaunches" in ended.output and "what they access: host function" in ended.output


def test_devices(run):
    source = """
        import ember as torch
        import pytest

        @pytest.mark.ember(devices=3)
        def test_three():
            assert torch.cuda.device_count() == 3 and torch.cuda.get_device_properties(0).simulated

        @pytest.mark.ember(devices=1, seeds=1)
        def test_one():
            assert torch.sim.seeded()

        def test_unmarked():
            pass
    """
    assert run(source).counts == {"passed": 3}
    ended = run(source, EMBER_DEVICES="sim:2")
    assert ended.counts == {"passed": 2, "skipped": 1}
    assert "needs 3 devices, and there are 2: EMBER_DEVICES is 'sim:2'" in ended.output
    ended = run(source, EMBER_DEVICES="none")
    assert ended.counts == {"passed": 1, "skipped": 2}
    used = "import ember\nember.cuda.simulate(2)\nember.cuda.init()\n" + textwrap.dedent(source)
    ended = run(used)
    assert ended.counts == {"error": 1, "passed": 1, "skipped": 1}
    assert "there are 2: they were chosen before the tests began" in ended.output
    assert "no seed decides the order of the devices, which were in use before the tests began" in ended.output
    assert run(used.replace("ember.cuda.init()", "")).counts == {"passed": 2, "skipped": 1}
    assert run(used, EMBER_SIM_SCHEDULE="random:0").counts == {"passed": 2, "skipped": 1}


def test_log_of_a_run_is_replayed(run):
    source = BUG.replace("assert y", "right = y").replace("20", """20
        torch.sim.save_log("run.log")
        assert right""")
    first = run(source, "--ember-seeds", "1")
    again = run(source, "--ember-replay", "run.log")
    assert again.counts == first.counts and again.failed == [
        name.replace("seed0", "replay") for name in first.failed]
    two = source + "\n    test_other = test_product\n"
    ended = run(two, "--ember-replay", "run.log")
    assert ended.status == pytest.ExitCode.USAGE_ERROR
    assert "a log is that of one test, and 2 are selected" in ended.output
    assert run(two, "--ember-replay", "run.log", "test_it.py::test_product").counts == first.counts
    other = run(source.replace("x += 1", "x.mul_(3)"), "--ember-replay", "run.log")
    assert other.status != 0 and not other.counts
    assert "expected" in other.output and "mul.float32" in other.output, "not captured"


def test_schedule_in_full_is_replayed(run):
    ended = run(BUG, "--ember-replay", "pct:3:2")
    assert sum(ended.counts.values()) == 1
    for line in replay_lines(ended):
        assert line.endswith("'test_it.py::test_product[pct3]' --ember-replay pct:3:2")
    for schedule, name in (("swarm:2", "swarm2"), ("model", "model"), ("model:h100,seed=7", "model7"),
                           ("steps:", "steps"), ("random:4", "random4")):
        fixed = run(FIXED, "--ember-replay", schedule, "-v")
        assert fixed.counts == {"passed": 1} and f"test_product[{name}]" in fixed.output, fixed.output


SHOWS = """
    import ember as torch
    import pytest

    @pytest.mark.ember(seeds=4{more})
    def test_it(ember_seed):
        torch.ones(4, device="cuda")
        print("the run", ember_seed, torch.sim.replay_line())
"""


@pytest.mark.parametrize("kind, first, name", [
    ("random", "random:1", "random1"), ("pct", "pct:1:3", "pct1"), ("pct:5", "pct:1:5", "pct1"),
    ("model", "model:h200,seed=1", "model1"), ("model:h100", "model:h100,seed=1", "model1")])
def test_seeds_decide_in_the_way_that_was_asked_for(run, kind, first, name):
    for ended in (run(SHOWS.format(more=f', schedule="{kind}"'), "-s", "-v"),
                  run(SHOWS.format(more=', schedule="swarm"'), "--ember-schedule", kind, "-s", "-v")):
        assert ended.counts == {"passed": 4}
        assert f"the run {first} EMBER_SIM_SCHEDULE={first}" in ended.output and f"[{name}]" in ended.output


def test_swarm_draws_what_decides(run):
    source = SHOWS.format(more=', schedule="swarm"').replace("seeds=4", "seeds=16")
    ended = run(source, "-s", "-v")
    lines = re.findall(r"the run (swarm:[0-9]+) EMBER_SIM_SCHEDULE=([a-z]+):", ended.output)
    assert [line[0] for line in lines] == [f"swarm:{seed}" for seed in range(16)], ended.output
    assert {line[1] for line in lines} == {"random", "pct", "model"}
    failing = run(BUG.replace("seeds=10", 'seeds=20, schedule="swarm"'))
    assert failing.failed and all("[swarm" in name for name in failing.failed)
    line = replay_lines(failing)[0]
    _, *arguments = shlex.split(line)
    assert re.search(r"--ember-replay swarm:[0-9]+$", line)
    assert run(BUG, command=[sys.executable, *arguments, "-ra"]).failed == failing.failed[:1]


@pytest.mark.parametrize("arguments, text", [
    ("seeds=-1", "seeds is -1, expected a number from 0"), ("seeds='5'", "seeds is '5', expected a number from 0"),
    ("seeds=True", "seeds is True, expected a number from 0"), ("devices=0", "devices is 0, expected a number from 1"),
    ("devices=65", "devices is 65, expected at most 64"), ("sanitizer=1", "sanitizer is 1, expected True or False"),
    ("schedule='sorted'", "schedule is 'sorted', expected random, pct, pct:DEPTH, swarm, model"),
    ("schedule='pct:65'", "schedule is 'pct:65', expected random"), ("schedule=3", "schedule is 3, expected random"),
    ("schedule='swarm:3'", "schedule is 'swarm:3', expected random"),
    ("seed=3", "seed is not an argument, expected devices=, seeds=, schedule= or sanitizer="),
    ("3", "got 3, expected arguments with names: devices=, seeds=, schedule=, sanitizer=")])
def test_wrong_markers(run, arguments, text):
    ended = run(f"""
        import pytest

        @pytest.mark.ember({arguments})
        def test_it():
            pass
    """)
    assert ended.status == pytest.ExitCode.USAGE_ERROR
    assert "test_it.py::test_it: @pytest.mark.ember: " + text in ended.output


def test_seeds_of_unittest(run):
    ended = run("""
        import unittest
        import pytest

        class TestIt(unittest.TestCase):
            @pytest.mark.ember(seeds=2)
            def test_it(self):
                pass
    """)
    assert ended.status == pytest.ExitCode.USAGE_ERROR and "unittest.TestCase" in ended.output


@pytest.mark.parametrize("option, value, text", [
    ("--ember-seeds", "0", "--ember-seeds is '0', expected a positive number"),
    ("--ember-seeds", "-1", "--ember-seeds is '-1', expected a positive number"),
    ("--ember-seeds", "1.5", "--ember-seeds is '1.5', expected a positive number"),
    ("--ember-schedule", "threads", "--ember-schedule is 'threads', expected random, pct"),
    ("--ember-schedule", "model:h200,seed=1", "--ember-schedule is 'model:h200,seed=1', expected random"),
    ("--ember-replay", "nowhere.log", "--ember-replay is 'nowhere.log', expected a seed, the file of a log"),
    ("--ember-replay", str(2 ** 64), "--ember-replay is '18446744073709551616', expected a seed")])
def test_wrong_options(run, option, value, text):
    ended = run("def test_it(): pass", f"{option}={value}")
    assert ended.status == pytest.ExitCode.USAGE_ERROR and text in ended.output
