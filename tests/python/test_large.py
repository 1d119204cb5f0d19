"""Tensors of more than 2^31 elements: places that do not fit into 32 bits.

Only real devices have the memory; whatever is expected follows from how the tensors were made.
"""

import pytest

import ember

N = 2**31 + 4097  # elements
FAR = N - 4092  # a place beyond 2^31
SIDE = 46400  # SIDE * SIDE is more than 2^31
NEEDED = 96 << 30  # bytes on the device: sorting needs the most


@pytest.fixture(autouse=True)
def enough_memory():
    if not ember.cuda.is_available() or ember.cuda.mem_get_info()[0] < NEEDED:
        pytest.skip("needs a device with 96 GiB of free memory")
    yield
    ember.cuda.empty_cache()


def zeros(dtype=ember.int8):
    return ember.zeros(N, dtype=dtype, device="cuda")


def marked():
    """Zeros with one 7 far away."""
    x = zeros()
    x[FAR:FAR + 1].fill_(7)
    return x


def numbers(*values):
    return ember.tensor(values, dtype=ember.int64, device="cuda")


def square():
    """Rows of one number each: row i holds i % 101."""
    rows = (ember.arange(SIDE, device="cuda") % 101).to(ember.int8)
    return rows, rows.view(SIDE, 1).expand(SIDE, SIDE).contiguous()


def test_elementwise():
    """Elements beyond 2^31 are reached."""
    x = zeros()
    x.add_(3)
    y = x * 2
    assert (y == 6).all().item()
    assert y.sum().item() == 6 * N
    y[FAR:].fill_(1)
    assert y.sum().item() == 6 * FAR + (N - FAR)
    half = ember.where(y == 1, y, x).to(ember.float16)
    assert half[FAR - 1:FAR + 1].tolist() == [3.0, 1.0]


def test_broadcasting_and_transposition():
    rows, x = square()
    z = ember.empty(SIDE, SIDE, dtype=ember.int8, device="cuda")
    z.copy_(x.t())
    assert (z == rows).all().item()  # broadcast along the rows
    z = ember.add(rows.view(SIDE, 1), rows.view(1, SIDE), out=z)
    for i in (0, 1, SIDE // 2, SIDE - 1):
        assert (z[i] == rows + i % 101).all().item()


def test_reductions():
    """Positions beyond 2^31, and sums that need 64 bits."""
    x = marked()
    assert x.argmax().item() == FAR
    assert x.max().item() == 7 and x.min().item() == 0
    values, places = x.max(0)
    assert (values.item(), places.item()) == (7, FAR)
    assert x.count_nonzero().item() == 1
    assert x.any().item() and not x.all().item()
    rows, x = square()
    assert (x.sum(1) == rows.to(ember.int64) * SIDE).all().item()
    assert (x.sum(0) == rows.sum()).all().item()


def test_scan():
    """Sums go on past 2^31."""
    total = ember.cumsum(zeros(ember.uint8).add_(1), 0)
    assert total[[0, 2**31 - 1, 2**31, N - 1]].tolist() == [1, 2**31, 2**31 + 1, N]


def test_where_the_true_ones_are():
    x = marked()
    assert ember.nonzero(x).tolist() == [[FAR]]
    assert ember.masked_select(x, x > 0).tolist() == [7]
    assert ember.masked_select(x, x == 0).numel() == N - 1


def test_indexing():
    """Indices beyond 2^31."""
    x = marked()
    assert ember.index_select(x, 0, numbers(0, FAR, N - 1)).tolist() == [0, 7, 0]
    assert ember.gather(x, 0, numbers(FAR, 1)).tolist() == [7, 0]
    assert ember.take(x, numbers(FAR - 1, FAR)).tolist() == [0, 7]
    assert x[numbers(FAR)].tolist() == [7]
    x.index_fill_(0, numbers(N - 1), 9)
    x.scatter_(0, numbers(FAR + 1), ember.tensor([5], dtype=ember.int8, device="cuda"))
    x[numbers(FAR + 2)] = 4
    assert x[FAR:FAR + 3].tolist() == [7, 5, 4] and x[-1:].tolist() == [9]
    assert x.sum().item() == 7 + 5 + 4 + 9
    rows, x = square()
    assert ember.index_select(x, 0, numbers(SIDE - 1, 3))[:, -1].tolist() == [(SIDE - 1) % 101, 3]
    assert (ember.index_select(x, 1, numbers(SIDE - 1)).view(-1) == rows).all().item()


def test_side_by_side():
    x = ember.cat([zeros()[:2**31 - 1], marked()[FAR:FAR + 1], zeros()[:10]])
    assert x.numel() == 2**31 + 10
    assert x.argmax().item() == 2**31 - 1 and x.sum().item() == 7


def test_sorting():
    """Positions beyond 2^31 come back."""
    x = marked()
    values, places = ember.topk(x, 3)
    assert values.tolist() == [7, 0, 0] and places.tolist() == [FAR, 0, 1]
    values, places = ember.sort(x, descending=True, stable=True)
    assert values[:2].tolist() == [7, 0] and values[1:].any().item() is False
    assert places[:2].tolist() == [FAR, 0]
    assert places[[FAR, FAR + 1, N - 1]].tolist() == [FAR - 1, FAR + 1, N - 1]


def test_random_numbers():
    """Elements 2^31 apart do not get the same numbers."""
    ember.manual_seed(7)
    x = ember.empty(N, dtype=ember.float16, device="cuda").uniform_()
    size = 4000
    tail = x[N - size:].to(ember.float64)
    assert abs(tail.mean().item() - 0.5) < 5 * (1 / 12 / size) ** 0.5
    for other in (0, N - 2**31 - size, 2**31 - size):  # what an index cut to 31 bits would repeat
        assert (x[other:other + size].to(ember.float64) != tail).any().item()
    assert x.max().item() < 1 and x.min().item() >= 0


def test_copies():
    """More than 2^31 bytes to the host, back, and to another device."""
    x = marked()
    host = ember.empty(N, dtype=ember.int8)
    host.copy_(x)
    assert host[FAR - 1:FAR + 2].tolist() == [0, 7, 0]
    host[N - 1:].fill_(3)
    x.copy_(host)
    assert x[[FAR, N - 1]].tolist() == [7, 3] and x.sum().item() == 10
    if ember.cuda.device_count() > 1:
        y = x.to("cuda:1")
        assert y.device.index == 1 and y[[FAR, N - 1]].tolist() == [7, 3]
        assert ember.cuda.comm.broadcast(x, [0, 1])[1].sum().item() == 10
