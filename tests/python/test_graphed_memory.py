"""Graphs of functions need no more memory than the functions: what their calls left in the cache is no obstacle."""

import pytest

import ember as torch

cuda = torch.cuda
MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("caching")


@pytest.fixture
def little_memory():
    """A tensor of 8 MiB, and 88 MiB beside it."""
    cuda.synchronize()
    cuda.empty_cache()
    x = torch.ones(2 * MIB, device="cuda")
    limit = cuda.memory_reserved() + 88 * MIB
    cuda.set_per_process_memory_fraction((limit + 1) / cuda.mem_get_info()[1])
    yield x
    cuda.set_per_process_memory_fraction(1.0)
    del x
    cuda.empty_cache()


def work(a):
    """64 MiB at a time."""
    parts = [a + i for i in range(8)]
    total = parts[0]
    for part in parts[1:]:
        total.add_(part)
    return total.sum()


def test_make_graphed_callables(little_memory):
    x = little_memory
    expected = work(x).item()
    assert cuda.memory_reserved() > 64 * MIB  # that lie in the cache
    graphed = cuda.make_graphed_callables(work, (x,))
    assert graphed(x).item() == expected


def test_graphed(little_memory):
    x = little_memory
    expected = work(x).item()
    calls = []
    graphed = cuda.graphed(lambda a: calls.append(1) or work(a))
    assert [graphed(x).item() for _ in range(6)] == [expected] * 6
    assert len(calls) == 3  # the first one, and two attempts at a graph: replays are no calls


def test_graphs_that_are_gone_leave_room(little_memory):
    """2 MiB each, if nobody gave them back."""
    x = torch.ones(256, device="cuda")
    for i in range(60):
        calls = []
        graphed = cuda.graphed(lambda a, i=i, calls=calls: calls.append(1) or a + i)
        assert [graphed(x)[0].item() for _ in range(5)] == [1 + i] * 5
        assert len(calls) <= 3, i
        made = cuda.make_graphed_callables(lambda a, i=i: a + i, (x,))
        assert made(x)[0].item() == 1 + i


def test_what_does_not_fit_at_all(little_memory):
    """Is the function's own error, and nothing is left of the attempts."""
    x = little_memory

    def too_much(a):
        return a.sum() + torch.empty(100 * MIB, dtype=torch.uint8, device="cuda").sum()

    graphed = cuda.graphed(too_much)
    before = cuda.memory_allocated()
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError):
            graphed(x)
    with pytest.raises(torch.OutOfMemoryError):
        cuda.make_graphed_callables(too_much, (x,))
    assert cuda.memory_allocated() == before
    assert cuda.graphed(work)(x).item() == work(x).item()
