"""Simulated machines on which several processes live."""

import ast
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import environment_with

pytestmark = pytest.mark.once

MIB = 1 << 20

SERVE = """
import sys
import ember as torch
cuda = torch.cuda
kept = {}
for line in sys.stdin:
    try:
        answer = eval(line)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(repr(answer), flush=True)
"""


@pytest.fixture
def place(tmp_path_factory, monkeypatch):
    """The folder of the records, which are this test's own."""
    path = tmp_path_factory.mktemp("m")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("PYTORCH_NO_CUDA_MEMORY_CACHING", raising=False)
    if len(str(path)) > 59:
        pytest.skip("the folder of the tests is too long for a socket's path")
    return path / "ember"


def records(place):
    return [path.name for path in place.iterdir()] if place.exists() else []


class Program:
    """A process that evaluates what it is told."""

    def __init__(self, devices="sim:2@256MiB", machine="shared", **environment):
        environment = environment_with(EMBER_DEVICES=devices, EMBER_SIM_MACHINE=machine, **environment)
        self.process = subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    @property
    def pid(self):
        return self.process.pid

    def tell(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def answer(self):
        return ast.literal_eval(self.process.stdout.readline())

    def ask(self, expression):
        self.tell(expression)
        return self.answer()

    def hold(self, mib, device=0):
        return self.ask(f"kept.update(x{device}=torch.empty({mib} << 20, dtype=torch.uint8, "
                        f"device='cuda:{device}'))")

    def free(self, device=0):
        return self.ask(f"cuda.mem_get_info({device})")[0]

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=30)


def listed(text):
    """The bytes of each process, in MiB."""
    return {int(pid): float(size)
            for pid, size in re.findall(r"process +(\d+) uses +([\d.]+) MB GPU memory", text)}


# ---- One limit

def test_two_processes_share_a_limit(place):
    with Program() as first, Program() as second:
        assert first.hold(100) is None
        free = first.free()
        assert free < 156 * MIB
        assert second.free() <= free
        error = second.hold(160)
        assert error.startswith("OutOfMemoryError: CUDA out of memory. Tried to allocate 160.00 MiB.")
        assert re.search(rf"is free\. .*Process {first.pid} has 10\d\.\d\d MiB memory in use\. ",
                         error)
        assert "Including non-ember memory, this process has 1.33 MiB memory in use. " in error
        assert re.search(r" more have to be free of what others hold of the device, which is 10\d\.",
                         error)
        assert second.hold(100) is None, "it goes on, and gets what there is"
        assert second.hold(200, device=1) is None, "each device has its own memory"
        assert first.ask("kept.clear(), cuda.empty_cache()")
        assert second.free() > 150 * MIB
        assert second.ask("kept.clear(), cuda.empty_cache()")
        assert second.hold(160) is None, "as the error said"
        assert records(place) == ["shared.machine"]
    assert records(place) == []


def test_a_killed_process_holds_nothing(place):
    with Program() as first, Program() as second:
        before = first.free()
        for _ in range(3):
            with Program() as third:
                assert third.hold(200) is None
                assert "OutOfMemoryError" in first.hold(100)
                assert third.pid in listed(first.ask("cuda.list_gpu_processes(0)"))
                third.kill()
                assert third.pid not in listed(first.ask("cuda.list_gpu_processes(0)"))
        assert first.free() == before
        assert second.hold(240) is None
        second.kill()
        assert first.free() == before


def test_a_machine_goes_with_its_last_process(place):
    with Program() as first:
        assert first.hold(1) is None
        first.kill()
    assert records(place) == ["shared.machine"], "nobody was there to take it away"
    with Program(devices="sim:3") as second:
        assert second.ask("cuda.device_count()") == 3
        assert second.hold(1) is None, "of a machine that was made anew"
    assert records(place) == []


def test_a_process_has_a_machine_of_its_own_without_a_name(place):
    for machine in (None, ""):
        with Program(machine=machine) as first, Program(machine=machine) as second:
            assert first.hold(200) is None
            assert second.hold(200) is None
            assert list(listed(first.ask("cuda.list_gpu_processes()"))) == [first.pid]
    assert records(place) == []


def test_a_reset_gives_back(place):
    with Program() as first, Program() as second:
        before = second.free()
        assert first.hold(200) is None
        assert first.ask("cuda.reset_device(0)") is None
        assert second.free() == before
        assert listed(second.ask("cuda.list_gpu_processes(0)")).keys() == {second.pid}
        assert first.hold(200) is None


def test_a_context_needs_room(place):
    with Program() as first, Program() as second:
        assert first.hold(254) is None  # what is left is less than a context
        error = second.ask("cuda.mem_get_info(0)")
        assert error.startswith("AcceleratorError: CUDA error: out of memory")
        assert "cuda:0 has no room for the context of this process: 1.33 MiB do not fit" in error
        assert first.ask("kept.clear(), cuda.empty_cache()")
        assert second.free() > 200 * MIB


def test_visible_devices_are_those_of_the_machine(place):
    with Program() as first, Program(CUDA_VISIBLE_DEVICES="1") as second:
        assert second.hold(200) is None
        assert first.free(0) > 250 * MIB > 100 * MIB > first.free(1)
        uuid = "str(cuda.get_device_properties({}).uuid)"
        assert first.ask(uuid.format(1)) == second.ask(uuid.format(0))
        assert first.ask("cuda.list_gpu_processes(1)").startswith("GPU:1\n")
        assert second.ask("cuda.list_gpu_processes(0)").startswith("GPU:1\n")


# ---- Who does what

def test_processes_and_sensors_are_those_of_the_machine(place):
    with Program() as first, Program() as second, Program() as looking:
        assert first.hold(20) is None and second.hold(30) is None
        # Also for one that has not used a device, and does not by asking.
        for program in (first, second, looking):
            sizes = listed(program.ask("cuda.list_gpu_processes(0)"))
            assert sizes.keys() == {first.pid, second.pid}
            assert 20 < sizes[first.pid] < 30 < sizes[second.pid] < 40
            assert 50 * MIB < program.ask("cuda.device_memory_used(0)") < 70 * MIB
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            first.ask("cuda._sleep(50_000_000), cuda.synchronize()")
        for program in (first, second, looking):
            assert 50 < program.ask("cuda.utilization(0)") <= 100
            assert program.ask("cuda.temperature(0)") > 45
            assert program.ask("cuda.utilization(1)") == 0
        assert looking.ask("cuda.is_initialized()") is False
        first.kill()
        assert second.ask("cuda.utilization(0)") == 0


def test_shared_memory_counts_once(place, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import ember as torch, ember.multiprocessing as mp

def use(x, pipe):
    x.add_(1)
    torch.cuda.synchronize()
    pipe.send(torch.cuda.list_gpu_processes(0))
    pipe.recv()

if __name__ == "__main__":
    context = mp.get_context("spawn")
    x = torch.zeros(50 << 18, device="cuda:0")
    mine, theirs = context.Pipe()
    child = context.Process(target=use, args=(x, theirs))
    child.start()
    print(child.pid, mine.recv())
    mine.send(None)
    child.join()
    assert x[0].item() == 1
""")
    done = run(script)
    child = int(done.split()[0])
    sizes = listed(done)
    assert len(sizes) == 2
    assert sizes[child] < 20 and sum(sizes.values()) < 80


# ---- Children

CHILDREN = """
import os, sys
import ember as torch, ember.multiprocessing as mp
cuda = torch.cuda

def child(pipe):
    try:
        x = torch.empty(150 << 20, dtype=torch.uint8, device="cuda:0")
        pipe.send((os.getpid(), cuda.device_count(), cuda.mem_get_info(0)[1], None))
    except torch.OutOfMemoryError as error:
        pipe.send((os.getpid(), cuda.device_count(), 0, str(error)))
    pipe.recv()

def start(context):
    mine, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    return process, mine, mine.recv()

if __name__ == "__main__":
    method, how = sys.argv[1:]
    if how == "simulate":
        cuda.simulate(2, 256 << 20)
    context = mp.get_context(method)
    if method != "fork" and how != "later":  # of a machine that is in use already
        mine = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:1")
    first, pipe, (pid, count, total, error) = start(context)
    assert (pid, count, total, error) == (first.pid, 2, 256 << 20, None)
    second, other, (pid, count, total, error) = start(context)
    assert pid == second.pid and f"Process {first.pid} has 15" in error, error
    if method != "fork" and how != "later":
        assert 50 << 20 < 256 << 20 > cuda.mem_get_info(1)[0]
    assert cuda.mem_get_info(0)[0] < 110 << 20
    text = cuda.list_gpu_processes(0)
    assert all(str(each.pid) in text for each in (first, second)), text
    first.kill()
    first.join()
    assert cuda.mem_get_info(0)[0] > 240 << 20
    mine = torch.empty(200 << 20, dtype=torch.uint8, device="cuda:0")
    other.send(None)
    second.join()
    assert second.exitcode == 0
    print("done")
"""


def run(script, *arguments, devices="sim:2@256MiB", **environment):
    done = subprocess.run([sys.executable, str(script), *arguments], text=True, timeout=100,
                          env=environment_with(EMBER_DEVICES=devices, **environment),
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["environment", "simulate", "named", "later"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_live_on_the_machine_of_their_parent(place, tmp_path, method, how):
    script = tmp_path / "script.py"
    script.write_text(CHILDREN)
    environment = {"EMBER_SIM_MACHINE": "mine"} if how == "named" else {}
    if how == "simulate":  # the number of a real GPU, of which these devices know nothing
        environment["CUDA_VISIBLE_DEVICES"] = "7"
    devices = "none" if how == "simulate" else "sim:2@256MiB"
    assert run(script, method, how, devices=devices, **environment) == "done\n"
    assert records(place) == []


def test_others_leave_nothing_that_stays(place, tmp_path):
    """A machine whose processes were all killed is taken away by the next that is made."""
    script = tmp_path / "script.py"
    script.write_text("""
import os, signal
import ember, ember.multiprocessing as mp

def end():
    pass

if __name__ == "__main__":
    child = mp.get_context("spawn").Process(target=end)
    child.start()
    child.join()
    if "KILLED" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
""")
    for _ in range(2):
        assert subprocess.run([sys.executable, str(script)], timeout=100,
                              env=environment_with(EMBER_DEVICES="sim:2", KILLED="1"),
                              check=False).returncode == -signal.SIGKILL
    assert len(records(place)) == 1
    run(script)
    assert records(place) == []


def test_without_simulated_devices_there_is_no_record(place, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import ember, ember.multiprocessing as mp
def end():
    assert ember.ones(3).sum().item() == 3
if __name__ == "__main__":
    child = mp.get_context("spawn").Process(target=end)
    child.start()
    child.join()
    assert child.exitcode == 0 and ember._C.cuda._share_machine() is None
""")
    run(script, devices="none")
    assert records(place) == []


# ---- Mistakes

def test_other_devices_are_refused(place):
    with Program() as first:
        assert first.hold(1) is None
        for devices, theirs in (("sim:3@256MiB", "3 devices of 256.00 MiB"),
                                ("sim:2@128MiB", "2 devices of 128.00 MiB")):
            with Program(devices=devices) as second:
                error = second.hold(1)
                assert error.startswith(
                    "InvalidValueError: simulated machine 'shared': it has 2 devices of 256.00 MiB "
                    "(268435456 bytes), but this process asks for " + theirs), error
        with Program(devices="none") as second:
            assert second.ask("cuda.simulate(3)") is None
            assert "but this process asks for 3 devices of 2.00 GiB" in second.hold(1)


def test_a_machine_says_which_devices_it_has(place):
    with Program(devices=None) as second:
        error = second.hold(1)
        assert error == ("InvalidValueError: EMBER_SIM_MACHINE='shared': there is no such machine "
                         "yet; EMBER_DEVICES='sim:N' or 'sim:N@SIZE' makes one")
        with Program() as first:
            assert first.hold(1) is None
            assert second.ask("cuda.device_count()") == 2
            assert second.hold(1) is None
            assert second.ask("cuda.mem_get_info(0)")[1] == 256 * MIB


@pytest.mark.parametrize("name", ["a/b", "..", ".x", "a b", "x" * 65, "ä"])
def test_names_are_names(place, name):
    with Program(machine=name) as first:
        error = first.hold(1)
        assert error.startswith(
            f"InvalidValueError: EMBER_SIM_MACHINE='{name}': expected a name"), error
    assert records(place) == []


@pytest.mark.parametrize("devices", ["cuda", "none"])
def test_devices_that_are_not_simulated_are_refused(place, devices):
    with Program(devices=devices) as first:
        assert first.hold(1).startswith(
            "InvalidValueError: EMBER_SIM_MACHINE='shared' names a simulated machine, but "
            f"EMBER_DEVICES='{devices}'")


def test_a_record_that_is_none_is_refused(place):
    place.mkdir(mode=0o700)
    record = place / "shared.machine"
    record.write_text("somebody's notes, which are longer than a header is")
    record.chmod(0o600)
    with Program() as first:
        error = first.hold(1)
        assert error.startswith(
            f"RuntimeError: simulated machine 'shared': {record} is no record of a simulated machine: "
            "it does not begin as one"), error
        record.unlink()
        assert first.hold(1) is None
    place.chmod(0o755)
    with Program() as first:
        assert "closed to others (0700)" in first.hold(1)
