"""Runs in which a seed decides, proof and exploration: ember.sim. In processes of their own, since a process's devices
are made with one kind of schedule."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import environment_with

BEGIN = """
import ember as torch

def add_and_multiply(fixed, named=True):
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    x.add_(5)
    if fixed:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(7)
        x.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    if named:
        torch.sim.result(x, "x")
    return x
"""


def run_whole(program, schedule="", file=None):
    if file is not None:
        file.write_text(program)
    how = ["-c", program] if file is None else [file]
    done = subprocess.run([sys.executable, *how], capture_output=True, text=True, timeout=120,
                          env=environment_with(EMBER_DEVICES="sim:2@256MiB", EMBER_SIM_SCHEDULE=schedule))
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(program, schedule=""):
    return run_whole(BEGIN + program, schedule)


def test_a_fixed_program_is_proved():
    said = run("print(torch.sim.explore(lambda: add_and_multiply(True)))")
    assert said.startswith("proved: every order does the same\n"), said
    assert "0 unordered pairs; 1 class of orders in 1 run" in said


def test_a_bug_is_shown_with_two_schedules_and_the_lines_that_decide():
    said = run("""
made = torch.sim.explore(lambda: add_and_multiply(False), max_runs=100, max_seconds=60)
print(made.verdict, made.pairs, made.both, made.clean, made.first, made.second)
print(made.difference)
print(made.deciding[0])
""")
    lines = said.splitlines()
    assert lines[0].startswith("differs 1 1 False steps: steps:"), said
    assert lines[1] == "result 'x', element 0: tensor(42.) and tensor(12.)"
    assert 'in add_and_multiply' in said and "mul.float32" in said and "add.float32" in said


def test_the_second_schedule_shows_the_bug_again():
    second = run("print(torch.sim.explore(lambda: add_and_multiply(False)).second)").strip()
    value = "print(add_and_multiply(False, named=False).cpu()[0].item())"
    assert run(value, schedule="steps:").strip() == "42.0"
    assert run(value, schedule=second).strip() == "12.0"


def test_the_program_of_the_guide_says_what_the_guide_shows(tmp_path):
    """docs/order.md, "Proof and exploration"."""
    guide = (pathlib.Path(__file__).parents[2] / "docs" / "order.md").read_text()
    part = guide[guide.index("## Proof and exploration"):]
    program = re.search(r"```python\n(.*?)```", part, re.S).group(1)
    shown = [block.strip().splitlines() for block in re.findall(r"```\n(\$ EMBER_DEVICES.*?)```", part, re.S)]
    assert len(shown) == 2
    for block, end in zip(shown, ["print(torch.sim.explore(program))",
                                  "print(torch.sim.explore(lambda: program(fixed=True)))"]):
        said = run_whole(program.rstrip() + "\n\n" + end, file=tmp_path / "batches.py")
        for line in block[1:]:
            # Addresses and the place of the file are another one each time.
            expected = re.sub(r"0x[0-9a-f]+|[0-9]{12,}|(?<=\")batches", ".*", re.escape(line.strip()))
            assert re.search(expected, said), (line, said)


def test_what_a_seed_shows_is_shrunk():
    said = run("""
def fails():
    return add_and_multiply(False).cpu()[0].item() != 42
for seed in range(200):
    torch.sim.begin_run(seed)
    if fails():
        break
fewest = torch.sim.shrink(f"random:{seed}", fails)
torch.sim.begin_run(fewest)
print(fewest, fails(), torch.sim.replay_line())
""", schedule="random:0")
    fewest, fails, line = said.split(" ", 2)
    assert fewest.startswith("steps:") and fewest.count(",") <= 1
    assert fails == "True"
    assert line.startswith(f"EMBER_SIM_SCHEDULE={fewest}")


def test_exceptions_are_results():
    said = run("""
def program():
    x = add_and_multiply(False, named=False)
    if x.cpu()[0].item() != 42:
        raise ValueError("not 42")
print(torch.sim.explore(program).difference)
""")
    assert said.strip() == "what is thrown: nothing and 'ValueError: not 42'"


def test_conditions_are_named():
    said = run("""
def program():
    add_and_multiply(True)
    torch.cuda.current_stream().query()
    torch.cuda.memory_allocated()
made = torch.sim.explore(program)
print(made.verdict, *made.reasons, sep="\\n")
""")
    assert said.splitlines() == [
        "not_proved", "(a) the program queries whether work is done, which depends on the order",
        "(a) the program asks for what depends on time or on other work: memory_allocated"]


def test_an_interruption_ends_it():
    said = run("""
runs = []
def program():
    runs.append(1)
    add_and_multiply(False)
    if len(runs) == 2:
        raise KeyboardInterrupt("enough")
try:
    torch.sim.explore(program)
except KeyboardInterrupt as error:
    print(len(runs), error)
print(torch.sim.explore(lambda: add_and_multiply(True)).verdict)
""")
    assert said == "2 enough\nproved\n"


@pytest.mark.parametrize("call, error", [
    ("explore(lambda: None, max_runs=0)", "ValueError: explore: max_runs is 0"),
    ("explore(lambda: None, max_seconds=0)", "ValueError: explore: max_seconds is 0"),
    ("explore(3)", "TypeError"),
    ("shrink('random:x', lambda: True)", "ValueError: EMBER_SIM_SCHEDULE='random:x'"),
    ("begin_run('steps:3')", "ValueError: EMBER_SIM_SCHEDULE='steps:3'"),
])
def test_bad_input(call, error):
    said = run(f"""
try:
    torch.sim.{call}
except Exception as raised:
    kind = ValueError if isinstance(raised, ValueError) else type(raised)
    print(kind.__name__ + ": " + str(raised))
""", schedule="steps:")
    assert said.startswith(error), said


def test_where_threads_decide_it_is_refused():
    said = run("""
torch.zeros(1, device="cuda")
try:
    torch.sim.explore(lambda: None)
except RuntimeError as error:
    print(error)
""")
    assert "the devices were made with 'threads'" in said
    assert "before the first use of a device: sim.schedule(" in said


def test_what_is_added_to_is_read_first():
    """Memory that was never written has something else in it with each seed."""
    said = run("""
def index():
    return torch.arange(4, device="cuda")
def one(*sizes):
    return torch.ones(*sizes, device="cuda")
def empty(*sizes):
    return torch.empty(*sizes, device="cuda")
for name, add in {
    "scatter_add_": lambda: empty(4).scatter_add_(0, index(), one(4)),
    "index_add_": lambda: empty(4).index_add_(0, index(), one(4)),
    "index_put_": lambda: empty(4).index_put_((index(),), one(4), accumulate=True),
    "addmm_": lambda: empty(4, 4).addmm_(one(4, 4), one(4, 4)),
    "baddbmm_": lambda: empty(2, 4, 4).baddbmm_(one(2, 4, 4), one(2, 4, 4)),
}.items():
    made = torch.sim.explore(lambda: torch.sim.result(add()))
    print(name, made.verdict, "never written" in str(made))
made = torch.sim.explore(lambda: torch.sim.result(empty(4, 4).addmm_(one(4, 4), one(4, 4), beta=0)))
print("beta=0", made.verdict)
""")
    lines = said.splitlines()
    assert lines[-1] == "beta=0 proved", said
    assert all(line.split()[1:] == ["not_proved", "True"] for line in lines[:-1]) and len(lines) == 6, said


def test_an_update_may_be_lost():
    """Two that both read what was there before either has written."""
    said = run("""
def lost(ordered):
    x, one = torch.zeros(4, 4, device="cuda"), torch.ones(4, 4, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.addmm_(one, one)
    if ordered:
        torch.cuda.current_stream().wait_stream(side)
    x.addmm_(one, one)
    torch.cuda.synchronize()
    torch.sim.result(x, "x")
print(torch.sim.explore(lambda: lost(False)).verdict, torch.sim.explore(lambda: lost(True)).verdict)
""")
    assert said == "differs proved\n"


@pytest.mark.parametrize("schedule", ["random:3", "pct:1:3", "model", "steps:"])
@pytest.mark.parametrize("first", ["", "torch.zeros(1, device='cuda')\n"])
def test_generators_have_the_seed_of_the_first_run(schedule, first):
    """Those of the CPU, too, which an import makes; unless somebody has seeded them."""
    program = "import ember as torch\n" + first + "print(torch.rand(4).tolist(), torch.rand(4, device='cuda').tolist())"
    assert run_whole(program, schedule) == run_whole(program, schedule)
    seeded = "import ember as torch\ntorch.default_generator.manual_seed(5)\n" + first + "print(torch.rand(4).tolist())"
    assert run_whole(seeded, schedule) == run_whole(seeded, "threads")


def test_generators_have_the_seed_of_a_schedule_that_is_set_later():
    said = [run_whole("import ember as torch\ntorch.sim.schedule('random:5')\ntorch.cuda.synchronize()\n"
                      "print(torch.initial_seed(), torch.rand(2).tolist())") for _ in range(2)]
    assert said[0] == said[1] and said[0].startswith("5 ")


def test_an_explored_program_begins_no_runs():
    """It would be another one than what is explored."""
    said = run("""
def begin():
    torch.sim.begin_run("random:3")
    add_and_multiply(False)
made = torch.sim.explore(begin)
print(made.verdict, "begin_run: a program is being explored" in str(made))
torch.sim.begin_run("random:3")
print(torch.sim.explore(lambda: add_and_multiply(False)).verdict)
""")
    assert said == "not_proved True\ndiffers\n"


def test_what_was_chosen_before_an_exploration_holds_after_it():
    """Also where that is the first use of devices."""
    said = run("""
torch.sim.schedule("random:4")
print(torch.sim.explore(lambda: add_and_multiply(False)).verdict)
for seed in range(2):
    torch.sim.begin_run(seed)
    print(torch.sim.replay_line().split(" (")[0])
""")
    assert said == "differs\nEMBER_SIM_SCHEDULE=random:0\nEMBER_SIM_SCHEDULE=random:1\n"


def test_graphed_functions_can_be_proved():
    """What the library asks for itself is nothing that the program's results depend on."""
    said = run("""
def replay():
    double = torch.cuda.graphed(lambda x: x * 2)
    x = torch.ones(8, device="cuda")
    for _ in range(3):
        y = double(x)
    torch.sim.result(y, "y")
print(torch.sim.explore(replay).verdict)
""")
    assert said == "proved\n"
