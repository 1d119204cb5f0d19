"""The commands `ember race` and `ember replay`, on programs in Python and in C++."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import SANITIZER_VARIABLES

import ember
from ember import race

pytestmark = pytest.mark.once

PROBE = pathlib.Path(ember.__file__).parents[2] / "bin" / "watched_probe"

BUG = """
    import ember as torch
    side = torch.cuda.Stream()
    x = torch.ones(64, device="cuda")
    x += 1
    with torch.cuda.stream(side):
        y = x * 10
    torch.cuda.synchronize()
    print("the sum is", y.sum().item())
"""
FIXED = BUG.replace("with torch", "side.wait_stream(torch.cuda.current_stream())\n    with torch")
SECRETIVE = """
    import ember as torch
    torch.cuda._host_function(lambda: None)
    torch.cuda.synchronize()
"""
# Which of two streams is first is not decided, and no memory is shared.
ORDER = """
    import ember as torch
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(one):
        x = torch.ones(8, device="cuda")
        a.record()
    with torch.cuda.stream(other):
        y = torch.ones(8, device="cuda")
        b.record()
    torch.cuda.synchronize()
    print("first" if a.elapsed_time(b) > 0 else "second")
"""


@pytest.fixture
def command(tmp_path):
    def command(*arguments, source=None, **environment):
        """What the command says of a program in Python, or of what stands behind --."""
        program = []
        if source is not None:
            (tmp_path / "program.py").write_text(textwrap.dedent(source))
            program = ["--", sys.executable, "program.py"]
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(SANITIZER_VARIABLES) and "SCHEDULE" not in name
                and name not in ("EMBER_DEVICES", "PYTORCH_NO_CUDA_MEMORY_CACHING")}
        return subprocess.run([sys.executable, "-m", "ember", *arguments, *program], cwd=tmp_path,
                              env={**kept, "EMBER_SIM_SCHEDULE": "random:0", **environment},
                              capture_output=True, text=True, timeout=200, check=False)
    return command


def test_race(command):
    done = command("race", source=BUG)
    assert done.returncode == race.RACE
    assert "CSAN detected a possible data race" in done.stderr and "in <module>" in done.stderr
    assert "ember race: under the sanitizer: 1 race in " in done.stdout
    assert "different results with 10 seeds" in done.stdout
    assert "with seed 0 'the sum is " in done.stdout and done.stdout.endswith("ember race: a race\n")
    line = next(line for line in done.stdout.splitlines() if "see it again: " in line)
    again = line.partition("see it again: ember ")[2].split(" -- ")[0].split()
    assert again[:3] == ["replay", "--devices", "sim:2"]
    first = command(*again, source=BUG)
    assert first.returncode == 0 and first.stdout.startswith("the sum is ")
    assert all(command(*again, source=BUG).stdout == first.stdout for _ in range(3))


def test_clean(command):
    done = command("race", "--seeds", "12", "--devices", "sim:3@64MiB", source=FIXED)
    assert done.returncode == race.CLEAN, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "the sum is 1280.0",  # of ones, +=, *, sum and the copy to the host
        "ember race: under the sanitizer: 0 races in 5 operations",
        "ember race: seeds 0, 1, 2, 3, 4, 5, 6, 7, ... (12): the same result, exit status 0",
        "ember race: clean"]
    done = command("race", "--seeds", "0", source=FIXED)
    assert done.returncode == race.CLEAN and "seed" not in done.stdout


def test_result_that_differs(command):
    done = command("race", source=ORDER)
    assert done.returncode == race.DIFFERS, done.stdout + done.stderr
    assert "no race was found, but the result differs" in done.stdout
    assert command("race", "--status-only", source=ORDER).returncode == race.CLEAN
    failing = ORDER + "    raise SystemExit(5 if a.elapsed_time(b) > 0 else 0)\n"
    done = command("race", "--status-only", source=failing)
    assert done.returncode == race.DIFFERS
    assert ": exit status 5" in done.stdout and ": exit status 0" in done.stdout


@pytest.mark.parametrize("arguments", [["race"], ["replay", "3"], ["explore"]])
def test_the_numbers_of_the_machines_gpus_do_not_matter(command, arguments):
    done = command(*arguments, source=FIXED, CUDA_VISIBLE_DEVICES="7")
    assert done.returncode == race.CLEAN, done.stdout + done.stderr


def test_failure(command):
    done = command("race", source=FIXED + "    raise SystemExit('broken')\n")
    assert done.returncode == race.FAILED
    assert done.stdout.endswith("ember race: the program failed: exit status 1\n")
    done = command("race", "--seeds", "2", source=FIXED + "    import os; os.abort()\n")
    assert done.returncode == race.FAILED and "ended by SIGABRT" in done.stdout
    done = command("race", "--seeds", "0", "--timeout", "1",
                   source="import time; time.sleep(100)")
    assert done.returncode == race.FAILED and "not done after 1 s" in done.stdout


def test_nothing_watched_is_never_clean(command):
    for program in ("pass", "import ember", "import ember\nember.cuda.init()",
                    FIXED + "    import os; os._exit(0)\n"):
        done = command("race", source=program)
        assert done.returncode == race.NOT_WATCHED, program
        assert "nothing was watched" in done.stdout and "clean" not in done.stdout


def test_unchecked_is_not_clean(command):
    done = command("race", "--seeds", "2", source=SECRETIVE)
    assert done.returncode == race.NOT_CHECKED
    assert "1 unchecked launches: host function" in done.stdout
    assert "ember race: clean" not in done.stdout


def test_not_started(command, tmp_path):
    (tmp_path / "script").write_text("pass")
    for name in ("race", "replay"):
        arguments = [name] + ["3"] * (name == "replay")
        done = command(*arguments, "--", "./nowhere")
        assert done.returncode == race.NOT_STARTED
        assert "'./nowhere' cannot be started: No such file or directory" in done.stderr
        done = command(*arguments, "--", "./script")
        assert done.returncode == race.NOT_STARTED
        assert "'./script' cannot be started: Permission denied" in done.stderr


@pytest.mark.parametrize("arguments", [
    ["replay", "3"], ["replay", "3", "--"], ["replay", "--devices", "sim:1", "3"],
    ["replay", "--devices=sim:1", "3", "--"]])
def test_the_program_needs_no_dashes_before_it(command, tmp_path, arguments):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:], sys.executable)")
    done = command(*arguments, "script.py", "--seeds", "--", "-x")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"['--seeds', '--', '-x'] {sys.executable}\n"


def test_a_program_in_python_that_can_be_executed_says_itself_by_what(command, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("#!/bin/sh\necho by the shell")
    script.chmod(0o755)
    assert command("replay", "3", "./script.py").stdout == "by the shell\n"


def test_race_and_explore_without_dashes(command, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(FIXED))
    for arguments in (["race", "--seeds", "2", "--status-only"], ["race", "--status-only"],
                      ["explore", "--runs", "20"]):
        done = command(*arguments, "program.py")
        assert done.returncode == race.CLEAN, done.stdout + done.stderr


@pytest.mark.parametrize("arguments, text", [
    (["race"], "expected a program to run"), (["race", "--"], "expected a program to run"),
    (["race", "--seeds", "-1", "--", "true"], "--seeds is '-1', expected a number from 0"),
    (["race", "--seeds", "x", "--", "true"], "--seeds is 'x', expected a number from 0"),
    (["race", "--timeout", "0", "--", "true"], "--timeout is '0', expected a number from 1"),
    (["race", "--devices", "cuda", "--", "true"], "--devices is 'cuda', expected simulated devices"),
    (["replay", "nowhere", "--", "true"], "SEED_OR_FILE is 'nowhere', expected a seed"),
    (["replay", "3"], "expected a program to run")])
def test_mistakes(command, arguments, text):
    done = command(*arguments)
    assert done.returncode == 2 and text in done.stderr


def test_statuses_are_documented(command):
    said = command("race", "--help").stdout
    for status in (race.CLEAN, race.RACE, race.DIFFERS, race.FAILED, race.NOT_WATCHED,
                   race.NOT_CHECKED, race.NO_FOLDER, race.NOT_STARTED):
        assert f"\n  {status:<5}" in said


def test_replay_of_a_log_and_of_a_schedule(command, tmp_path):
    recorded = command("replay", "pct:5:3", source=BUG, EMBER_SIM_LOG="run.log")
    assert recorded.returncode == 0
    again = command("replay", "run.log", source=BUG)
    assert again.returncode == 0 and again.stdout == recorded.stdout
    other = command("replay", "run.log", source=BUG.replace("x * 10", "x - 10"))
    assert other.returncode != 0 and "sub.float32" in other.stderr


@pytest.mark.skipif(not PROBE.exists(), reason="the programs of the C++ tests were not built")
@pytest.mark.parametrize("what, status", [
    ("bug", race.RACE), ("fixed", race.CLEAN), ("reuse", race.RACE), ("lambda", race.NOT_CHECKED),
    ("nothing", race.NOT_WATCHED), ("host", race.NOT_WATCHED)])
def test_programs_in_cpp(command, what, status):
    done = command("race", "--seeds", "3", "--", str(PROBE), what)
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.parametrize("arguments, program", [
    (["race", "--seeds", "9" * 5000], ["true"]),
    (["race", "--timeout", "99999999999999999999"], ["true"]),
    (["explore", "--timeout", "1" * 5000], ["true"]), (["replay", "9" * 5000], ["true"]),
    (["race"], [""]), (["explore"], [""]), (["replay", "5"], [""])])
def test_numbers_and_programs_that_are_none(command, arguments, program):
    done = command(*arguments, "--", *program)
    assert done.returncode == 2 and "usage: ember" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr) < 1000


def test_what_stands_behind_commands_that_run_nothing(command):
    assert "unrecognized arguments" in command("top", "--once", "--", "true").stderr
    assert "memory view: -x: [Errno 2]" in command("memory", "view", "--", "-x").stderr


@pytest.mark.parametrize("name", ["race", "explore"])
def test_program_that_leaves_others_behind(command, name):
    """It is done when its own process is, although another one holds its output."""
    done = command(name, "--timeout", "20", *(["--seeds", "4"] if name == "race" else []),
                   source=FIXED + """
    import subprocess
    subprocess.Popen(["sleep", "100"]) if "EMBER_SANITIZER" not in __import__("os").environ else 0
""")
    assert done.returncode == race.CLEAN, done.stdout + done.stderr


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


ENDLESS = """
    import subprocess
    import time
    held = subprocess.Popen(["sleep", "500"])
    with open("pids", "a") as pids:
        pids.write(f"{held.pid}\\n")
    time.sleep(500)
"""


def gone(tmp_path):
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    until = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return pids and not any(map(alive, pids))


@pytest.mark.parametrize("name", ["race", "explore"])
def test_program_without_end(command, name, tmp_path):
    done = command(name, "--timeout", "2", *(["--seeds", "1"] if name == "race" else []),
                   source=ENDLESS)
    assert done.returncode == race.FAILED and "not done after 2 s" in done.stdout
    assert gone(tmp_path)


@pytest.mark.parametrize("name", ["race", "explore"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal(name, number, tmp_path):
    """It goes on to what was started, folders are put away, and who started it sees the signal."""
    (tmp_path / "program.py").write_text(textwrap.dedent(ENDLESS))
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen([sys.executable, "-m", "ember", name, "--", sys.executable, "program.py"],
                          cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path / "tmp"),
                                             "EMBER_DEVICES": "sim:1"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 60
        while not (tmp_path / "pids").exists() and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(number)
        output, error = running.communicate(timeout=60)
    assert running.returncode == -number and not output and not error
    assert gone(tmp_path) and not os.listdir(tmp_path / "tmp")


def test_reader_that_goes_away(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(FIXED).replace('print("the sum is", ', "float("))
    with subprocess.Popen([sys.executable, "-m", "ember", "race", "--seeds", "1", "--",
                           sys.executable, "program.py"], cwd=tmp_path,
                          env={**os.environ, "EMBER_DEVICES": "sim:1"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        error = running.stderr.read()
        running.wait()
    assert running.returncode == -signal.SIGPIPE and not error, error


def test_output_that_is_no_text(command):
    """Escapes reach no terminal, long lines are cut where they differ, and encodings do not matter."""
    done = command("race", "--seeds", "2", PYTHONIOENCODING="ascii", source=FIXED + """
    import os
    import sys
    sys.stdout.flush()
    "EMBER_SANITIZER" in os.environ or sys.stdout.buffer.write(b"a" * 3000000 + b"\\x1b[31m\\xff\\x00" + "\u4e2d".encode() +
                            os.environ.get("EMBER_SIM_SCHEDULE", "").encode())
""")
    assert done.returncode == race.DIFFERS, done.stderr
    said = done.stdout[done.stdout.index("ember race: 2 different"):]
    assert "a\\x1b[31m\\xff\\x00\\u4e2drandom:1', with seed 0 '...aaa" in said
    assert len(said) < 2000


def test_more_output_than_anybody_reads(command):
    done = command("explore", "--", "yes")
    assert done.returncode == race.FAILED
    assert "the program failed: printed more than 256 MiB" in done.stdout


@pytest.mark.parametrize("line", ["{\"half\":", "[]", "{}", "3"])
def test_summaries_of_others(command, line):
    done = command("race", "--seeds", "1", source=FIXED + f"""
    import os
    file = os.environ.get("EMBER_SANITIZER_SUMMARY")
    if file:
        with open(file, "a") as summary:
            summary.write({line!r} + "\\n")
""")
    assert done.returncode == race.NOT_CHECKED, done.stderr
    assert "1 summaries of processes that cannot be read" in done.stdout and not done.stderr


def test_folder_that_goes_away(command):
    done = command("race", "--seeds", "1", source=FIXED + """
    import os
    import shutil
    file = os.environ.get("EMBER_SANITIZER_SUMMARY")
    if file:
        shutil.rmtree(os.path.dirname(file))
""")
    assert done.returncode == race.NO_FOLDER and "cannot be started" not in done.stderr
    assert "Traceback" not in done.stderr


def test_replay_leaves_signals_as_they_were(command):
    done = command("replay", "1", "--", sys.executable, "-c",
                   "print(*(line for line in open('/proc/self/status') if 'SigIgn' in line))")
    alone = subprocess.run([sys.executable, "-c", "print(*(line for line in "
                            "open('/proc/self/status') if 'SigIgn' in line))"],
                           capture_output=True, text=True, check=True)
    assert done.stdout == alone.stdout
