"""Tensors and events between processes: ember.multiprocessing."""

import multiprocessing
import os
import queue
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler

import pytest
from conftest import environment_with

import ember as torch
import ember.multiprocessing as mp

pytestmark = pytest.mark.usefixtures("own_sockets")

SPAWN = mp.get_context("spawn")


@pytest.fixture(params=["spawn", "forkserver"])
def context(request):
    return mp.get_context(request.param)


def counts():
    """What has to come back to what it was."""
    with open("/proc/self/maps") as maps:
        # Of files, and shared ones; others are Python's own heap, which comes and goes, and CUDA's,
        # which keeps them.
        named = sum("/dev/" not in line and (len(line.split()) > 5 or line.split()[1].endswith("s"))
                    for line in maps)
    return {"allocated": torch.cuda.memory_allocated(0),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "mappings": named,
            "threads": len(os.listdir("/proc/self/task")),
            "sockets": len(sockets()),
            "files in /dev/shm": sum(not name.startswith(("cuda.shm.", "sem."))
                                    for name in os.listdir("/dev/shm"))}


def sockets():
    folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "ember")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [name for name in names if not name.endswith(".machine")]


def warm():
    """The counts once everything is there that stays: a device's file, a stream, a queue's helpers, and what
    a driver begins when memory is first lent and first borrowed."""
    with Child() as child:
        child.call(keep, "x", torch.ones(10, device="cuda:0"))
        assert values(child.call(kept, "x")) == [1] * 10
        child.call(make, "y", "cuda:0")
        assert values(child.call(kept, "y")) == [0, 1, 2, 3]
    torch.zeros(1_000_000).sum()  # by several threads
    parent, child = SPAWN.Pipe()
    del parent, child
    SPAWN.Queue().close()
    return counts()


def returns_to(before, seconds=1.0):
    until = time.monotonic() + seconds
    while True:
        torch.cuda.ipc_collect()
        now = counts()
        if all(now[name] <= before[name] for name in before) or time.monotonic() > until:
            return {name: (before[name], now[name]) for name in before if now[name] > before[name]}
        time.sleep(0.005)


class Child:
    """A process that calls what it is told, and answers with a pipe."""

    def __init__(self, context=SPAWN):
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.is_alive():
            self.pipe.send(None)
        self.process.join()
        self.process.close()
        self.pipe.close()

    def tell(self, function, *arguments):
        self.pipe.send((function, arguments))

    def answer(self):
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call(self, function, *arguments):
        self.tell(function, *arguments)
        return self.answer()


KEPT = {}


def serve(pipe):
    while (told := pipe.recv_bytes()):
        try:
            message = mp.reductions.ForkingPickler.loads(told)
            if message is None:
                break
            function, arguments = message
            answer = function(*arguments)
        except Exception as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        pipe.send(answer)
        del answer
        message = arguments = None
    KEPT.clear()


def keep(name, tensor):
    KEPT[name] = tensor


def kept(name):
    return KEPT[name]


def forget(name):
    del KEPT[name]


def values(tensor):
    return tensor.cpu().tolist()


def add_one(tensor):
    tensor.add_(1)
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def pointers(*tensors):
    return [tensor.data_ptr() for tensor in tensors]


def devices_seen():
    return [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]


# ---- What arrives

def test_a_tensor_is_the_same_memory(context, device):
    x = torch.arange(12.0, device=device).reshape(3, 4)
    x.share_memory_()
    assert x.is_shared()
    with Child(context) as child:
        assert child.call(values, x) == x.cpu().tolist()
        child.call(add_one, x)
        assert x.cpu().flatten().tolist() == [float(i + 1) for i in range(12)]


def test_a_tensor_of_the_cpu_that_is_not_shared_is_sent_as_it_is():
    x = torch.arange(4)
    assert not x.is_shared()
    with Child() as child:
        child.call(add_one, x)
    assert x.tolist() == [0, 1, 2, 3]
    assert not x.is_shared()


def test_slices_and_steps(device):
    x = torch.arange(60, device=device).reshape(3, 4, 5)
    views = [x[1], x[:, 2], x[..., ::2], x.T, x[2, 3, 4], x.transpose(0, 2)[1:3], x[1:1]]
    with Child() as child:
        for view in views:
            assert child.call(values, view) == view.cpu().tolist()
            child.call(keep, "view", view)
            back = child.call(kept, "view")
            assert back.shape == view.shape and back.dtype == view.dtype
            assert str(back.device) == device


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "bfloat16",
                                   "float32", "float64", "complex64"])
def test_dtypes(device, dtype):
    x = torch.arange(7, device=device).to(getattr(torch, dtype))
    with Child() as child:
        child.call(keep, "x", x)
        back = child.call(kept, "x")
    assert back.dtype == x.dtype


def test_empty_tensors_need_no_handle(device):
    with Child() as child:
        for shape in ((0,), (3, 0), (0, 2, 5)):
            x = torch.empty(shape, dtype=torch.int32, device=device)
            child.call(keep, "x", x)
            back = child.call(kept, "x")
            assert (back.shape, back.dtype, str(back.device)) == (x.shape, x.dtype, device)


def test_views_of_one_storage_arrive_as_one_storage(device):
    x = torch.arange(10, device=device)
    with Child() as child:
        first, second = child.call(pointers, x, x[3:])
        assert second - first == 24
        child.call(keep, "both", [x, x[3:]])
        a, b = child.call(kept, "both")
        b[0] = 77
        assert a[3].item() == 77


def test_a_tensor_that_comes_back_is_its_own(device):
    x = torch.arange(10, device=device)
    x.share_memory_()
    with Child() as child:
        child.call(keep, "x", x)
        assert child.call(kept, "x").data_ptr() == x.data_ptr()
        child.call(keep, "again", x)
        child.call(keep, "y", child.call(kept, "again"))


def test_attributes_travel(device):
    class_free = torch.arange(3, device=device)
    if not hasattr(class_free, "__dict__"):
        pytest.skip("tensors have no attributes of their own")
    class_free.name = "weights"
    with Child() as child:
        child.call(keep, "x", class_free)
        assert child.call(kept, "x").name == "weights"


# ---- For how long

def test_everything_goes_back(device):
    before = warm()
    with Child() as child:
        x = torch.zeros(100000, device=device)
        child.call(keep, "x", x)
        y = child.call(kept, "x")
        assert y.sum().item() == 0
        del x, y
        child.call(forget, "x")
    assert returns_to(before) == {}


def test_a_tensor_stays_while_it_is_on_its_way(device):
    q = SPAWN.SimpleQueue()
    with Child() as child:
        q.put(torch.full((1000,), 7, device=device))
        other = torch.full((1000,), 8, device=device)
        child.pipe.send((values, (q.get()[:2],)))
        assert child.answer() == [7, 7]
        del other
    q.close()


def test_leases_say_who_holds_what(device):
    with Child() as child:
        x = torch.zeros(1000, device=device).share_memory_()
        child.call(keep, "x", x)
        child.call(make, "y", device)
        y = child.call(kept, "y")
        found = sorted(lease for lease in mp.leases() if lease.process == child.process.pid)
        assert [(lease.granted, lease.device, lease.failed) for lease in found] == [
            (False, device, False), (True, device, False)]
        assert found[1].bytes >= 4000
        del y


def test_passing_on(device):
    with Child() as second, Child() as third:
        x = torch.arange(5, device=device)
        second.call(keep, "x", x)
        back = second.call(kept, "x")
        third.call(keep, "x", back)
        del back, x
        assert third.call(values, torch.arange(2)) == [0, 1]
    with Child() as owner, Child() as third:
        owner.call(keep, "x", torch.arange(3))
        owner.call(make, "y", device)
        y = owner.call(kept, "y")  # of the child's
        third.call(keep, "y", y)   # passed on by this process
        del y
        owner.call(forget, "y")
        assert values(third.call(kept, "y")) == [0, 1, 2, 3]


def make(name, device):
    KEPT[name] = torch.arange(4, device=device)


def test_three_consumers(device):
    x = torch.arange(1000, device=device)
    x.share_memory_()
    children = [Child() for _ in range(3)]
    for child in children:
        child.tell(values, x)
    for child in children:
        assert child.answer() == list(range(1000))
    for child in children:
        child.__exit__()


def test_a_child_ends_when_what_it_sent_was_received(context, device):
    """The end of a child waits for that."""
    q = context.Queue()
    process = context.Process(target=put_one, args=(q, device))
    process.start()
    time.sleep(0.3)  # it has come to its end by now, or soon will
    assert q.get(timeout=60).tolist() == [1, 2, 3]
    process.join(10)
    assert process.exitcode == 0
    q.close()


def put_one(q, device):
    q.put(torch.tensor([1, 2, 3], device=device).cpu() if device == "cpu" else
          torch.tensor([1, 2, 3], device=device))


def test_a_killed_sender_is_an_error(device):
    with Child() as child:
        child.call(make, "x", device)
        child.tell(kept, "x")
        assert child.pipe.poll(10)
        child.process.kill()
        child.process.join()
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="has ended"):
            child.pipe.recv()
        assert time.monotonic() - begin < 2


def test_a_killed_receiver_gives_everything_back(device):
    before = warm()
    child = Child()
    child.call(keep, "x", torch.zeros(100000, device=device))
    child.process.kill()
    child.process.join()
    child.process.close()
    child.pipe.close()
    assert returns_to(before) == {}


def test_killed_at_random_times():
    """EMBER_TEST_KILLS rounds from EMBER_TEST_SEED on."""
    first = int(os.environ.get("EMBER_TEST_SEED", 1))
    for seed in range(first, first + int(os.environ.get("EMBER_TEST_KILLS", 4))):
        chance = random.Random(seed)
        before = warm()
        device = ["cpu", "cuda:0"][seed % 2]
        child = Child()
        child.call(make, "x", device)
        end = time.monotonic() + chance.random() * 0.02
        child_is_killed = False
        for i in range(1000):
            if time.monotonic() > end and not child_is_killed:
                os.kill(child.process.pid, signal.SIGKILL)
                child_is_killed = True
            try:
                child.tell(keep, i % 7, torch.full((chance.randrange(1, 50000),), i, device=device))
                child.answer()
                got = child.call(kept, i % 7)
                assert got[0].item() == i, seed
                assert child.call(kept, "x").tolist() == [0, 1, 2, 3], seed
            except (EOFError, ConnectionError, BrokenPipeError):
                break  # no message at all
            except RuntimeError as error:
                assert "cannot receive" in str(error) or "has ended" in str(error), (seed, error)
        got = None
        child.process.join()
        child.process.close()
        child.pipe.close()
        assert returns_to(before) == {}, seed


def test_ten_thousand_tensors_need_few_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        before = warm()
        q = SPAWN.Queue()
        results = SPAWN.SimpleQueue()
        process = SPAWN.Process(target=sum_all, args=(q, results))
        process.start()
        for i in range(10000):
            q.put(torch.full((16,), i))
        q.put(None)
        assert results.get() == sum(range(10000)) * 16
        process.join()
        process.close()
        q.close()
        q.join_thread()
        results.close()
        del q, results
        assert returns_to(before) == {}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sum_all(q, results):
    held = []
    while (x := q.get()) is not None:
        held.append(x)
    results.put(sum(int(x.sum().item()) for x in held))


# ---- Order

def test_the_receiver_waits_for_the_senders_work():
    with Child() as child:
        side = torch.cuda.Stream(0)
        with torch.cuda.stream(side):
            x = torch.zeros(1000, device="cuda:0")
            torch.cuda._sleep(50_000_000)
            x.fill_(5)
            child.tell(values, x)
        assert child.answer() == [5.0] * 1000


def test_a_queue_takes_the_tensor_of_the_moment_and_the_callers_stream():
    q = SPAWN.Queue()
    x = torch.zeros(3)
    q.put(x)
    x.fill_(1)
    assert q.get(timeout=60).tolist() == [0, 0, 0]
    with torch.cuda.stream(torch.cuda.Stream(0)):
        y = torch.zeros(1000, device="cuda:0")
        torch.cuda._sleep(50_000_000)
        y.fill_(6)
        q.put(y)
    assert q.get(timeout=60).data_ptr() == y.data_ptr()
    with pytest.raises(queue.Empty):
        q.get(timeout=0.01)
    q.close()


def test_put_that_fails_keeps_nothing():
    before = warm()
    q = SPAWN.Queue(1)
    q.put(1)
    with pytest.raises(queue.Full):
        q.put(torch.zeros(100000, device="cuda:0"), block=False)
    with pytest.raises(TypeError):
        q.put([torch.zeros(100000, device="cuda:0"), open(os.devnull)])
    assert q.get(timeout=60) == 1
    q.close()
    q.join_thread()
    del q
    assert returns_to(before) == {}


# ---- Events

def record(event):
    event.record()


def wait_and_synchronize(event):
    event.wait()
    torch.cuda.synchronize(0)


def hold_and_record(event, nanoseconds):
    torch.cuda._sleep(nanoseconds)
    event.record()


def event_handle(name):
    KEPT[name] = torch.cuda.Event(interprocess=True)
    return KEPT[name].ipc_handle()


def query(name):
    return KEPT[name].query()


@pytest.mark.reported_by_tools
def test_event_ipc_handle():
    event = torch.cuda.Event(interprocess=True)
    assert event.device is None
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and len(handle) == 64
    assert event.device == torch.device("cuda", torch.cuda.current_device())
    if torch.cuda.is_simulated():
        assert torch.cuda.Event.from_ipc_handle("cuda:0", handle).query()
    else:  # CUDA's own limit: docs/differences.md
        with pytest.raises(RuntimeError, match="in other processes than their own only"):
            torch.cuda.Event.from_ipc_handle("cuda:0", handle)
    with pytest.raises(RuntimeError, match="cudaIpcEventHandle_t expects byte-like object of size "
                                           "64, but got 3"):
        torch.cuda.Event.from_ipc_handle("cuda:0", b"abc")
    with pytest.raises(RuntimeError, match="expected a CUDA device, got cpu"):
        torch.cuda.Event.from_ipc_handle("cpu", handle)
    with pytest.raises(RuntimeError, match="interprocess=True"):
        torch.cuda.Event().ipc_handle()
    with pytest.raises(ValueError):
        torch.cuda.Event(enable_timing=True, interprocess=True)


def test_events_both_ways():
    with Child() as child:
        mine = torch.cuda.Event(interprocess=True)
        torch.cuda._sleep(20_000_000)
        mine.record()
        child.call(wait_and_synchronize, mine)
        assert mine.query()
        theirs = torch.cuda.Event.from_ipc_handle("cuda:0", child.call(event_handle, "e"))
        assert theirs.query() and child.call(query, "e")
        child.call(hold_and_record, mine, 20_000_000)
        mine.synchronize()
        assert mine.query()


# ---- The machine

def test_ipc_collect():
    assert torch.cuda.ipc_collect() is None


def test_children_see_the_same_devices(context):
    with Child(context) as child:
        assert child.call(devices_seen) == devices_seen()


def send_late(queue):
    x = torch.ones(4, device="cuda")
    torch.cuda._sleep(300_000_000)
    queue.put(x.mul_(3))


def test_the_end_of_a_child_waits_for_the_work_before_what_it_sent():
    queue = SPAWN.Queue()
    process = SPAWN.Process(target=send_late, args=(queue,))
    process.start()
    x = queue.get()
    process.join()
    assert process.exitcode == 0 and x.tolist() == [3] * 4


class SentOnceTheEndHasBegun:
    """The thread of a standard queue pickles it when the process's end has begun, and not before."""

    def __reduce__(self):
        begun = threading.Event()
        util.Finalize(None, begun.set, exitpriority=-4)  # just before the end waits for that thread
        PICKLING.set()
        assert begun.wait(60)
        return SentOnceTheEndHasBegun, ()


PICKLING = threading.Event()


def send_at_the_end(queue):
    queue.put([SentOnceTheEndHasBegun(), torch.full((4,), 7, device="cuda")])
    assert PICKLING.wait(60)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_waits_for_what_the_thread_of_a_queue_sends_at_its_end(method):
    standard = multiprocessing.get_context(method)
    queue = standard.Queue()
    process = mp.get_context(method).Process(target=send_at_the_end, args=(queue,))
    process.start()
    message = queue._reader.recv_bytes()
    process.join(1)  # it would have ended by then
    assert process.exitcode is None
    assert ForkingPickler.loads(message)[1].tolist() == [7] * 4
    process.join()
    assert process.exitcode == 0


def test_children_see_what_simulate_made():
    import subprocess
    import sys
    code = """
import ember, ember.multiprocessing as mp
def seen(q):
    q.put((ember.cuda.device_count(), ember.cuda.mem_get_info(0)[1], ember.ones(2, device="cuda:2")))
if __name__ == "__main__":
    ember.cuda.simulate(3, 64 << 20)
    for method in ("spawn", "forkserver"):
        context = mp.get_context(method)
        q = context.Queue()
        p = context.Process(target=seen, args=(q,))
        p.start()
        count, total, x = q.get()
        print(count, total, x.tolist(), x.device)
        del x
        p.join()
"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=120,
                              env=environment_with(EMBER_DEVICES="sim:1"))
    assert done.stdout == "3 67108864 [1.0, 1.0] cuda:2\n" * 2, done.stderr


def test_pool(context):
    x = torch.arange(6.0, device="cuda:0")
    with context.Pool(2) as pool:
        assert pool.map(values, [x, x[2:], torch.arange(3)]) == [x.tolist(), x[2:].tolist(), [0, 1, 2]]
        doubled = pool.map(double, [x, x[1:]])
        assert [y.tolist() for y in doubled] == [(x * 2).tolist(), (x[1:] * 2).tolist()]
        del doubled
        pool.close()
        pool.join()


def double(x):
    y = x * 2
    KEPT["result"] = y
    return y


def test_a_forked_child_that_uses_devices_is_told():
    torch.cuda.init()
    context = mp.get_context("fork")
    q = context.SimpleQueue()
    process = context.Process(target=use_device, args=(q,))
    process.start()
    assert "Cannot re-initialize CUDA in forked subprocess" in q.get()
    process.join()
    assert process.exitcode == 0


def use_device(q):
    try:
        torch.ones(1, device="cuda:0")
    except RuntimeError as error:
        q.put(str(error))


def test_a_forked_child_shares_the_cpus_tensors():
    context = mp.get_context("fork")
    shared = torch.zeros(4).share_memory_()
    q = context.Queue()
    process = context.Process(target=fill_and_send, args=(shared, q))
    process.start()
    assert q.get(timeout=60).tolist() == [1, 2, 3]
    process.join()
    assert process.exitcode == 0
    assert shared.tolist() == [9, 9, 9, 9]


def fill_and_send(shared, q):
    shared.fill_(9)
    q.put(torch.tensor([1, 2, 3]))


SEEDED = """
import os
import time
import ember as torch
import ember.multiprocessing as mp

def serve(given, answers):
    while (message := given.get()) is not None:
        what, value = message
        if what == "sum":
            answers.put(sum(each.sum().item() for each in value))
        elif what == "touch":  # and waits for nothing
            value.add_(1)
            answers.put("enqueued")
        elif what == "back":
            answers.put(value.add_(1))
        elif what == "event":
            value.wait()
            mine = torch.cuda.Event(interprocess=True)
            mine.record()
            answers.put(mine)
        del message, value

def main():
    context = mp.get_context("spawn")
    given, answers = context.Queue(), context.Queue()
    child = context.Process(target=serve, args=(given, answers))
    child.start()
    def ask(what, value):
        given.put((what, value))
        return answers.get(timeout=60)
    base = torch.arange(100, device="cuda")
    assert ask("sum", [base[:50], base[50:], torch.ones(3, device="cuda")]) == 4953
    assert ask("back", base).sum().item() == 5050
    event = torch.cuda.Event(interprocess=True)
    event.record()
    answer = ask("event", event)
    base.add_(1)
    answer.wait()
    answer.synchronize()
    assert base.sum().item() == 5150
    assert ask("touch", base) == "enqueued"
    del base, event, answer
    until = time.monotonic() + 30  # the child asks and waits for nothing meanwhile
    while torch.cuda.memory_allocated() and time.monotonic() < until:
        torch.cuda.ipc_collect()
        time.sleep(0.01)
    assert torch.cuda.memory_allocated() == 0
    given.put(None)
    child.join(60)
    assert child.exitcode == 0

if __name__ == "__main__":
    main()
"""


@pytest.mark.once
@pytest.mark.parametrize("schedule", ["threads", "random:1", "pct:2:3", "model", "steps:"])
def test_where_a_seed_decides(schedule, tmp_path):
    """No process waits for work that another does only while its host is in a call."""
    (tmp_path / "program.py").write_text(SEEDED)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True,
                          env=environment_with(EMBER_DEVICES="sim:2@64MiB",
                                               EMBER_SIM_SCHEDULE=schedule), timeout=120, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_it_is_the_standard_module():
    import multiprocessing
    missing = [name for name in multiprocessing.__all__ if not hasattr(mp, name)]
    assert missing == []
    assert mp.get_all_start_methods() == multiprocessing.get_all_start_methods()
    assert mp.get_start_method() == multiprocessing.get_start_method()
    with pytest.raises(ValueError):
        mp.get_context("nonsense")
