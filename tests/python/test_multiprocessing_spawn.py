"""Several processes that run one function: ember.multiprocessing.spawn."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time

import pytest

import ember as torch
import ember.multiprocessing as mp

pytestmark = pytest.mark.usefixtures("own_sockets")


def adds(i, x):
    x[i] += i + 1


def raises_in_the_second(i, length):
    if i == 1:
        raise KeyError("from the second" + "!" * length)
    time.sleep(600)  # until it is ended


def exits(i, code):
    if i == 0:
        sys.exit(code)
    time.sleep(600)


def dies(i, number):
    if i == 0:
        os.kill(os.getpid(), number)
    time.sleep(600)


def ignores_sigterm(i, started):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started.put(i)
    if i == 0:
        while started.qsize() < 2:
            time.sleep(0.01)
        sys.exit(5)
    time.sleep(600)


def sends_and_raises(i, results):
    if i == 0:
        results.put(torch.ones(2, device="cuda"))
        raise KeyError("after sending")
    time.sleep(600)


def is_killed_while_it_tells(i):
    if i == 0:
        class Long(Exception):
            def __str__(self):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
                return "!" * (1 << 26)
        raise Long
    time.sleep(600)


def starts_two(i, pids):
    context = mp.spawn(sleeps, nprocs=2, join=False)
    for pid in context.pids():
        pids.put(pid)
    time.sleep(600)


def sleeps(i):
    time.sleep(600)


def waits_for(i, event):
    event.wait()


def names_its_method(i, results):
    process = multiprocessing.current_process()
    results.put((i, type(process).__name__, process.daemon))


def test_each_gets_its_number():
    x = torch.zeros(3).share_memory_()
    assert mp.spawn(adds, args=(x,), nprocs=3) is None
    assert x.tolist() == [1, 2, 3]


@pytest.mark.needs_devices(1)
def test_tensors_of_devices():
    x = torch.zeros(2, device="cuda")
    mp.spawn(adds, args=(x,), nprocs=2)
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("length", [0, 1 << 20])
def test_an_error_ends_the_others(length):
    """A traceback may be longer than a pipe takes at once."""
    with pytest.raises(mp.ProcessRaisedException) as caught:
        mp.spawn(raises_in_the_second, args=(length,), nprocs=3)
    error = caught.value
    assert not [each for each in multiprocessing.active_children() if each.name.startswith("Spawn")]
    assert str(error).startswith("\n\n-- Process 1 terminated with the following error:\nTraceback ")
    assert str(error).endswith("KeyError: 'from the second" + "!" * length + "'\n")
    assert error.error_index == 1 and error.pid == error.error_pid > 0
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.pid == error.pid


@pytest.mark.needs_devices(1)
def test_an_error_is_told_at_once():
    """Though the process stays for what it has sent and nobody received."""
    begin = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="KeyError: 'after sending'"):
        mp.spawn(sends_and_raises, args=(mp.get_context("spawn").Queue(),), nprocs=2)
    assert time.monotonic() - begin < 25


def test_killed_while_it_tells():
    with pytest.raises((mp.ProcessExitedException, mp.ProcessRaisedException)):
        mp.spawn(is_killed_while_it_tells, nprocs=2)


def test_the_end_of_the_parent():
    """Ends its processes, too, however it came about."""
    context = mp.get_context("spawn")
    pids = context.Queue()
    parent = mp.start_processes(starts_two, (pids,), join=False)
    children = [pids.get(timeout=60) for _ in range(2)]
    os.kill(parent.pids()[0], signal.SIGKILL)
    until = time.monotonic() + 30
    while any(map(lives, children)):
        assert time.monotonic() < until
        time.sleep(0.01)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_an_exit_code():
    with pytest.raises(mp.ProcessExitedException, match="^process 0 terminated with exit code 3$") as caught:
        mp.spawn(exits, args=(3,), nprocs=2)
    assert caught.value.exit_code == 3 and caught.value.signal_name is None
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == 3


def test_a_signal():
    with pytest.raises(mp.ProcessExitedException,
                       match="^process 0 terminated with signal SIGKILL$") as caught:
        mp.spawn(dies, args=(signal.SIGKILL,), nprocs=2)
    assert caught.value.exit_code == -9 and caught.value.signal_name == "SIGKILL"


def test_join():
    event = mp.get_context("spawn").Event()
    context = mp.spawn(waits_for, args=(event,), nprocs=2, join=False)
    assert isinstance(context, mp.SpawnContext) and isinstance(context, mp.ProcessContext)
    assert context.pids() == [process.pid for process in context.processes]
    assert context.join(timeout=0) is False and context.join(timeout=0.01) is False
    event.set()
    while not context.join():
        pass
    assert [process.exitcode for process in context.processes] == [0, 0]
    assert context.join() is True


def test_the_grace_period():
    started = mp.get_context("spawn").Queue()
    context = mp.spawn(ignores_sigterm, args=(started,), nprocs=2, join=False)
    with pytest.raises(mp.ProcessExitedException, match="exit code 5"):
        while not context.join(grace_period=0.1):
            pass
    assert context.processes[1].exitcode == -signal.SIGKILL


@pytest.mark.parametrize("method, name", [("spawn", "SpawnProcess"), ("fork", "ForkProcess"),
                                          ("forkserver", "ForkServerProcess")])
def test_start_methods(method, name):
    results = mp.get_context(method).Queue()
    assert mp.start_processes(names_its_method, (results,), 2, daemon=True, start_method=method) is None
    assert sorted(results.get(timeout=10) for _ in range(2)) == [(0, name, True), (1, name, True)]


def test_mistakes():
    with pytest.warns(FutureWarning, match="start_method='fork' has no effect"):
        mp.spawn(adds, args=(torch.zeros(1),), start_method="fork")
    with pytest.raises(ValueError, match="cannot find context for 'threads'"):
        mp.start_processes(adds, start_method="threads")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        mp.spawn(lambda i: None, nprocs=2)  # has no name to be found by
    assert mp.spawn(adds, args=(torch.zeros(1),), nprocs=0) is None


def test_sharing_strategies():
    """They are names without an effect."""
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="new_strategy: expected one of .*, got 'pigeons'"):
        mp.set_sharing_strategy("pigeons")
