"""Messages that could not be sent, and processes that could not be started: nothing stays of them."""

import os
import pickle
import resource
import time

import pytest

import ember as torch
import ember.multiprocessing as mp

pytestmark = pytest.mark.usefixtures("own_sockets", "caching")

SPAWN = mp.get_context("spawn")
PATIENCE = mp.reductions.LINGER / 3  # what is not withdrawn keeps a child for LINGER


def not_picklable():
    return lambda: 0


def send_what_cannot_be(how, connection, done):
    tensor = torch.ones(1000, device="cuda" if torch.cuda.is_available() else "cpu")
    try:
        if how == "pipe":
            connection.send([tensor, not_picklable()])
        elif how == "simple queue":
            connection.put([tensor, not_picklable()])
        else:
            done.wait()  # the other end is closed then
            connection.send(tensor)
    except (AttributeError, TypeError, pickle.PicklingError, OSError):
        return
    raise AssertionError("it was sent")


@pytest.mark.parametrize("how", ["pipe", "simple queue", "closed pipe"])
def test_a_child_ends_at_once(how):
    queue = SPAWN.SimpleQueue()
    reader, writer = SPAWN.Pipe()
    done = SPAWN.Event()
    child = SPAWN.Process(target=send_what_cannot_be, args=(how, queue if "queue" in how else writer, done))
    child.start()
    writer.close()
    reader.close()
    done.set()
    child.join(60)
    # From when its work was done; what comes before, an import, takes long on a busy machine.
    assert child.exitcode == 0
    start = time.monotonic()
    child = SPAWN.Process(target=send_what_cannot_be, args=("simple queue", queue, done))
    child.start()
    child.join()
    assert time.monotonic() - start < PATIENCE and child.exitcode == 0


def give_what_cannot_be_sent(_):
    return [torch.ones(1000), not_picklable()]


def test_a_pool_ends_at_once():
    pool = SPAWN.Pool(1)
    with pytest.raises(mp.pool.MaybeEncodingError if hasattr(mp, "pool") else Exception, match="Error sending result"):
        pool.map(give_what_cannot_be_sent, [0])
    start = time.monotonic()
    pool.close()
    pool.join()
    assert time.monotonic() - start < PATIENCE


def wait_for(event):
    event.wait()


def test_the_sender_gets_its_memory_back():
    """Also with a living child that might have received it."""
    done = SPAWN.Event()
    child = SPAWN.Process(target=wait_for, args=(done,))
    child.start()
    try:
        torch.cuda.ipc_collect()
        before = torch.cuda.memory_allocated()
        queue = SPAWN.SimpleQueue()
        for _ in range(3):
            reader, writer = SPAWN.Pipe()
            with pytest.raises((AttributeError, pickle.PicklingError)):
                writer.send([torch.ones(1000, device="cuda"), not_picklable()])
            with pytest.raises((AttributeError, pickle.PicklingError)):
                queue.put([torch.ones(1000, device="cuda"), not_picklable()])
            reader.close()
            with pytest.raises(BrokenPipeError):
                writer.send(torch.ones(1000, device="cuda"))
            with pytest.raises(OSError, match="closed"):
                reader.send(torch.ones(1000, device="cuda"))
        assert torch.cuda.memory_allocated() == before
    finally:
        done.set()
        child.join()


def test_a_process_that_cannot_be_started():
    torch.cuda.ipc_collect()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        with pytest.raises((AttributeError, pickle.PicklingError)):
            SPAWN.Process(target=print, args=(torch.ones(1000, device="cuda"), not_picklable())).start()
    torch.cuda.ipc_collect()
    assert torch.cuda.memory_allocated() == before


def receive_without_descriptors(connection, kind):
    """First without a descriptor to be had, then with them."""
    message = connection.recv_bytes()
    torch.ones(1, device=kind)  # a driver takes dozens for itself, and cannot begin twice if there are none
    most = len(os.listdir("/proc/self/fd")) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    said = []
    for _ in range(2):
        try:
            said.append(pickle.loads(message).sum().item())
        except RuntimeError as error:
            said.append(str(error))
        for descriptor in held:
            os.close(descriptor)
        held.clear()
    connection.send(said)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_descriptors_that_run_out_are_named_and_may_come_back(kind):
    parent, child = SPAWN.Pipe()
    process = SPAWN.Process(target=receive_without_descriptors, args=(child, kind))
    process.start()
    message, _ = mp.reductions.dumps(torch.ones(5, device=kind))
    parent.send_bytes(message)
    first, second = parent.recv()
    process.join()
    assert "Too many open files" in first or "descriptors" in first
    assert second == 5


def send_inherited(shared, connection):
    try:
        connection.send(shared)
    except RuntimeError as error:
        connection.send(str(error))
    connection.send(shared.clone())
    shared.fill_(3)


def test_memory_of_the_process_that_forked():
    """The child writes it, and does not send a copy in its place."""
    fork = mp.get_context("fork")
    shared = torch.zeros(2).share_memory_()
    parent, child = fork.Pipe()
    process = fork.Process(target=send_inherited, args=(shared, child))
    process.start()
    refusal = parent.recv()
    assert isinstance(refusal, str) and "shared with the process that this one was forked from" in refusal
    assert parent.recv().tolist() == [0, 0]
    process.join()
    assert shared.tolist() == [3, 3]


def lets_go(given, done):
    while (x := given.get()) is not None:
        first = x[0].item()
        del x
        torch.cuda.synchronize()
        done.put(first)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="for memory of devices")
def test_memory_on_its_way_back_serves_the_next_allocation():
    mib = 1 << 20
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(256.5 * mib / torch.cuda.mem_get_info()[1])
    given, done = SPAWN.SimpleQueue(), SPAWN.SimpleQueue()
    child = SPAWN.Process(target=lets_go, args=(given, done))
    child.start()
    failures, rounds = 0, 30
    try:
        for number in range(rounds):
            try:
                x = torch.full((150 * mib,), number, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError:
                failures += 1  # the other process, or its threads, did not get to run for so long
                time.sleep(0.5)
                continue
            given.put(x)
            del x
            assert done.get() == number
    finally:
        given.put(None)
        child.join()
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert failures <= rounds / 6  # without waiting half of them
