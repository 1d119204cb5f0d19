"""The command `ember explore`, on programs as they are."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import SANITIZER_VARIABLES, environment_with

from ember import race

pytestmark = pytest.mark.once

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
# Both orders write the same.
SAME = """
    import ember as torch
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(64, device="cuda")
    torch.cuda.synchronize()
    for stream in one, other:
        with torch.cuda.stream(stream):
            x.fill_(3)
    torch.cuda.synchronize()
    print(x.sum().item())
"""
QUERY = FIXED.replace("torch.cuda.synchronize()", "print(side.query())\n    torch.cuda.synchronize()")


@pytest.fixture
def explore(tmp_path):
    def explore(source, *arguments, **environment):
        (tmp_path / "program.py").write_text(textwrap.dedent(source))
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(SANITIZER_VARIABLES) and "SCHEDULE" not in name
                and name not in ("EMBER_DEVICES", "CUDA_VISIBLE_DEVICES",
                                 "PYTORCH_NO_CUDA_MEMORY_CACHING")}
        return subprocess.run(
            [sys.executable, "-m", "ember", "explore", *arguments, "--", sys.executable,
             "program.py"], cwd=tmp_path, env={**kept, **environment}, capture_output=True,
            text=True, timeout=300, check=False)
    return explore


def test_differs(explore, tmp_path):
    done = explore(BUG, CUDA_VISIBLE_DEVICES="7")
    assert "env -u CUDA_VISIBLE_DEVICES EMBER_DEVICES=" in done.stdout
    assert done.returncode == race.DIFFERS, done.stdout + done.stderr
    assert "5 operations, 5 tasks, 2 unordered pairs\n" in done.stdout
    assert "CSAN detected a possible data race" in done.stdout and "in <module>" in done.stdout
    assert "two orders differ" in done.stdout and "'the sum is " in done.stdout
    orders = re.findall(r"EMBER_DEVICES=(\S+) EMBER_SIM_SCHEDULE=(\S+)", done.stdout)
    assert len(orders) == 2 and orders[0][1] == "steps:" and len(orders[1][1]) < 40
    printed = [subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True,
                              env=environment_with(EMBER_DEVICES=devices, EMBER_SIM_SCHEDULE=steps), check=True).stdout
               for devices, steps in orders]
    assert printed[0] != printed[1]


def test_an_update_that_is_lost_where_two_overlap(explore):
    done = explore("""
        import ember as torch
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        x = torch.zeros(4, device="cuda")
        side.wait_stream(main)
        x += 1
        with torch.cuda.stream(side):
            x += 1
        main.wait_stream(side)
        print(x.sum().item())
        """)
    assert done.returncode == race.DIFFERS, done.stdout + done.stderr
    assert "line 1 of what is printed: '8.0' and '4.0'" in done.stdout
    assert re.search(r"EMBER_SIM_SCHEDULE=steps:\S*\+s", done.stdout)


def test_proved(explore):
    done = explore(FIXED)
    assert done.returncode == race.CLEAN, done.stdout + done.stderr
    assert "0 unordered pairs" in done.stdout
    assert done.stdout.endswith("ember explore: proved: every order does the same\n")


def test_a_race_that_changes_nothing(explore):
    done = explore(SAME)
    assert done.returncode == race.RACE, done.stdout + done.stderr
    assert done.stdout.endswith("ember explore: a race; 2 classes of orders did the same\n")
    assert "no run left" not in done.stdout


def test_not_proved(explore):
    done = explore(QUERY)
    assert done.returncode == race.NOT_PROVED, done.stdout + done.stderr
    assert "- (a) " in done.stdout and done.stdout.endswith("ember explore: not proved\n")


@pytest.mark.parametrize("other, status", [(FIXED, race.NOT_PROVED), (BUG, race.RACE)])
def test_several_processes(explore, tmp_path, other, status):
    (tmp_path / "other.py").write_text(textwrap.dedent(other))
    done = explore(FIXED + "    import subprocess, sys\n"
                           "    subprocess.run([sys.executable, 'other.py'], check=True)\n")
    assert done.returncode == status, done.stdout + done.stderr
    assert "- (a) several processes take part" in done.stdout
    assert ("CSAN detected a possible data race" in done.stdout) == (other is BUG)


def test_a_process_that_ends_at_once(explore):
    """Without what it does at its end, as children of multiprocessing do."""
    done = explore('''
        import os
        if os.fork() == 0:
            import ember as torch
            torch.ones(1, device="cuda").item()
            os._exit(0)
        os.wait()
        import ember as torch
        print(torch.ones(1, device="cuda").item())
    ''')
    assert done.returncode == race.NOT_PROVED, done.stdout + done.stderr
    assert "- (a) several processes take part" in done.stdout


def test_other_ends(explore):
    done = explore("raise SystemExit(3)")
    assert done.returncode == race.FAILED and "exit status 3" in done.stdout
    done = explore("print('nothing')")
    assert done.returncode == race.NOT_WATCHED and "nothing was watched" in done.stdout
    done = explore(BUG, EMBER_DEVICES="none")
    assert done.returncode == 2 and "expected simulated devices" in done.stderr
    done = explore(BUG, "--runs", "1")
    assert done.returncode == 2 and "--runs is '1', expected a number from 2" in done.stderr


def test_the_program_of_the_guide(explore):
    """docs/order.md, "Proof and exploration"."""
    guide = (pathlib.Path(__file__).parents[2] / "docs" / "order.md").read_text()
    part = guide[guide.index("## Proof and exploration"):]
    program = re.search(r"```python\n(.*?)```", part, re.S).group(1)
    shown = re.search(r"\$ ember explore -- python batches.py.*?\n(.*?)```", part, re.S).group(1)
    done = explore(program.replace('torch.sim.result(total, "total")', "print(total[0].item())") + "\nprogram()\n")
    said = done.stdout.replace(sys.executable, "python").replace("program.py", "batches.py")
    for line in shown.strip().splitlines():
        assert line == "..." or line + "\n" in said, (line, said)
