"""Python's lock: released while waiting, taken by host functions."""

import threading
import time

import pytest

import ember as torch
from ember import cuda


def while_waiting(wait):
    """Holds the current stream back with a host function until another thread of Python's, which
    needs the lock, has run during `wait`. Ends only if `wait` has released the lock."""
    go, ran = threading.Event(), []
    cuda._host_function(lambda: go.wait(60))

    def other():
        time.sleep(0.02)  # lets `wait` begin; right in any case
        ran.append(True)
        go.set()

    thread = threading.Thread(target=other)
    thread.start()
    wait()
    thread.join()
    assert ran == [True] and go.is_set()


def test_stream_synchronize():
    stream = cuda.Stream()
    with cuda.stream(stream):
        while_waiting(stream.synchronize)


def test_device_synchronize():
    while_waiting(cuda.synchronize)


def test_event_synchronize():
    def wait():
        event = cuda.Event()
        event.record()
        event.synchronize()
    while_waiting(wait)


@pytest.mark.parametrize("read", [
    lambda x: x.item(), lambda x: float(x), lambda x: bool(x), lambda x: x.tolist(),
    lambda x: x.cpu(), lambda x: x.to("cpu"), str, lambda x: torch.zeros(()).copy_(x),
    lambda x: x.to("cpu", torch.float64),
])
def test_reading(read):
    """Whatever waits for a device's values lets other Python threads run."""
    x = torch.tensor(1.0, device="cuda")
    while_waiting(lambda: read(x))


def test_copies_from_the_host():
    """A copy that waits for its stream lets other Python threads run."""
    x = torch.ones(10)
    while_waiting(lambda: x.cuda())


def test_full_queues():
    """Launching into a queue that nothing empties must not hold the lock either."""
    x = torch.zeros(4, device="cuda")

    def launch():
        for _ in range(5000):
            x.add_(1)
        cuda.synchronize()
    while_waiting(launch)
    assert x.tolist() == [5000.0] * 4


def test_host_functions_run_in_order():
    order = []
    for i in range(5):
        cuda._host_function(lambda i=i: order.append(i))
    cuda.synchronize()
    assert order == list(range(5))


def test_threads():
    """Many threads at once, each on a stream of its own."""
    results = {}

    def work(number):
        with cuda.stream(cuda.Stream()):
            x = torch.full((1000,), float(number), device="cuda")
            for _ in range(50):
                x = x + 1
            results[number] = x.tolist() == [number + 50.0] * 1000
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: True for i in range(8)}


def test_a_device_context_may_be_entered_by_many_threads():
    context = cuda.device(0)

    def enter():
        for _ in range(2000):
            with context:
                pass

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with context:
        assert cuda.current_device() == 0
