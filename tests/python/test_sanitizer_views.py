"""The sanitizer and views: work beside other work on the columns between its own is no race, and on its own it is."""

import pytest

import ember as torch

ROWS = 6


def ones(*sizes, dtype=torch.float32):
    return torch.ones(*sizes, device="cuda", dtype=dtype)


def indices(*numbers):
    return torch.tensor(numbers, device="cuda")


def zeros_at(*sizes):
    return torch.zeros(*sizes, device="cuda", dtype=torch.int64)


# What writes a view of six rows and two columns.
WRITES = {
    "cat along columns": lambda x: torch.cat([ones(ROWS, 1), ones(ROWS, 1)], 1, out=x),
    "cat along rows": lambda x: torch.cat([ones(3, 2), ones(3, 2)], 0, out=x),
    "stack": lambda x: torch.stack([ones(ROWS), ones(ROWS)], 1, out=x),
    "add": lambda x: torch.add(ones(ROWS, 2), ones(ROWS, 2), out=x),
    "where": lambda x: torch.where(ones(ROWS, 2) > 0, ones(ROWS, 2), ones(ROWS, 2), out=x),
    "fill": lambda x: x.fill_(2),
    "copy": lambda x: x.copy_(ones(ROWS, 2)),
    "sum": lambda x: torch.sum(ones(ROWS, 2, 3), 2, out=x),
    "amax": lambda x: torch.amax(ones(ROWS, 2, 3), 2, out=x),
    "mm": lambda x: torch.mm(ones(ROWS, 3), ones(3, 2), out=x),
    "tril": lambda x: torch.tril(ones(ROWS, 2), out=x),
    "index_select": lambda x: torch.index_select(ones(9, 2), 0, indices(0, 1, 2, 3, 4, 5), out=x),
    "gather": lambda x: torch.gather(ones(ROWS, 2), 1, zeros_at(ROWS, 2), out=x),
    "index_copy_": lambda x: x.index_copy_(0, indices(1, 2), ones(2, 2)),
    "index_add_": lambda x: x.index_add_(0, indices(1, 2), ones(2, 2)),
    "index_fill_": lambda x: x.index_fill_(0, indices(1, 2), 3.0),
    "scatter_": lambda x: x.scatter_(0, zeros_at(ROWS, 2), ones(ROWS, 2)),
    "scatter_add_": lambda x: x.scatter_add_(0, zeros_at(ROWS, 2), ones(ROWS, 2)),
    "index_put_": lambda x: x.index_put_((indices(1, 2),), ones(2, 2)),
    "index_put_ of two": lambda x: x.index_put_((indices(1, 2), indices(0, 1)), ones(2)),
    "masked_fill_": lambda x: x.masked_fill_(ones(ROWS, 2) > 0, 3.0),
    "cumsum": lambda x: torch.cumsum(ones(ROWS, 2), 0, out=x),
    "softmax": lambda x: torch.softmax(ones(ROWS, 2), 1, out=x),
    "sort": lambda x: torch.sort(ones(ROWS, 2), 0, out=(x, zeros_at(ROWS, 2))),
    "topk": lambda x: torch.topk(ones(9, 2), ROWS, 0, out=(x, zeros_at(ROWS, 2))),
    "uniform_": lambda x: x.uniform_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "fft": lambda x: torch.fft.fft(ones(ROWS, 2), dim=0, out=x),
}
# What reads one.
READS = {
    "cat along columns": lambda x: torch.cat([x, x], 1),
    "cat along rows": lambda x: torch.cat([x, x], 0),
    "stack": lambda x: torch.stack([x, x]),
    "add": lambda x: x + ones(ROWS, 2),
    "clone": lambda x: x.clone(),
    "flip rows": lambda x: torch.flip(x, (0,)),
    "flip columns": lambda x: torch.flip(x, (1,)),
    "roll": lambda x: torch.roll(x, 1, 0),
    "repeat": lambda x: x.repeat(2, 2),
    "tril": torch.tril,
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: x.sum(0),
    "sum of rows": lambda x: x.sum(1),
    "argmax": lambda x: x.argmax(1),
    "var": lambda x: x.var(0),
    "norm": lambda x: x.norm(),
    "mm": lambda x: x @ ones(2, 3),
    "mm from the right": lambda x: ones(3, ROWS) @ x,
    "mv": lambda x: x @ ones(2),
    "index_select": lambda x: x.index_select(0, indices(1, 2)),
    "gather": lambda x: x.gather(0, zeros_at(ROWS, 2)),
    "index": lambda x: x[indices(1, 2)],
    "index of two": lambda x: x[indices(1, 2), indices(0, 1)],
    "take": lambda x: torch.take(x, indices(1, 2)),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(0),
    "topk": lambda x: x.topk(1),
    "softmax": lambda x: x.softmax(1),
    "fft": lambda x: torch.fft.fft(x, dim=0),
    "rfft": lambda x: torch.fft.rfft(x, dim=0),
    "multinomial": lambda x: torch.multinomial(x, 1),
    "bernoulli": torch.bernoulli,
}
CASES = [(name, run, True) for name, run in WRITES.items()] + [(name, run, False) for name, run in READS.items()]


@pytest.mark.parametrize("every", ["other column", "column of a half"])
@pytest.mark.parametrize("name, run, writes", CASES,
                         ids=[f"{'into' if case[2] else 'of'} {case[0]}" for case in CASES])
def test_work_beside_other_work(name, run, writes, every):
    if torch.cuda.device_count() == 0:
        pytest.skip("needs a device")
    base = ones(ROWS, 4, dtype=torch.complex64 if writes and name == "fft" else torch.float32)
    mine, others = (base[:, ::2], base[:, 1::2]) if every == "other column" else (base[:, :2], base[:, 2:])
    touch = (lambda x: x + 1) if writes else (lambda x: x.mul_(1))
    run(mine)  # loads, plans and pieces of memory are there
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    watch = torch.cuda._sanitizer.Watch()
    kept = [run(mine)]
    with torch.cuda.stream(side):
        kept.append(touch(others))
    assert watch.reports() == []
    with torch.cuda.stream(side):
        kept.append(touch(mine))
    reports = watch.reports()
    assert reports and all("Kind: race" in report for report in reports)
    torch.cuda.synchronize()
    watch.stop()


NAMES = [
    (lambda x: x.add_(1), "writing to argument(s) self, and to the output"),
    (lambda x: torch.add(ones(4), x), "reading from argument(s) other"),
    (lambda x: torch.add(ones(4), ones(4), out=x), "writing to the output"),
    (lambda x: torch.lerp(ones(4), ones(4), x), "reading from argument(s) weight"),
    (lambda x: torch.addcmul(ones(4), x, ones(4)), "reading from argument(s) tensor1"),
    (lambda x: torch.where(ones(4) > 0, ones(4), x), "reading from argument(s) other"),
    (lambda x: x.fill_(1), "writing to argument(s) self, and to the output"),
    (lambda x: x.copy_(ones(4)), "writing to argument(s) self, and to the output"),
    (lambda x: ones(4).copy_(x), "reading from argument(s) src"),
    (lambda x: torch.cat([ones(4), x]), "reading from argument(s) tensors"),
    (lambda x: x.sum(), "reading from argument(s) self"),
    (lambda x: torch.sum(ones(4, 2), 1, out=x), "writing to the output"),
    (lambda x: x.cumsum(0), "reading from argument(s) self"),
    (lambda x: x.softmax(0), "reading from argument(s) self"),
    (lambda x: x.sort(), "reading from argument(s) self"),
    (lambda x: x.flip(0), "reading from argument(s) self"),
    (lambda x: x.index_select(0, indices(1)), "reading from argument(s) self"),
    (lambda x: x.index_add_(0, indices(1), ones(1)), "writing to argument(s) self, and to the output"),
    (lambda x: ones(4).scatter_(0, zeros_at(4), x), "reading from argument(s) src"),
    (lambda x: x[ones(4) > 0], "reading from argument(s) self"),
    (lambda x: torch.fft.rfft(x), "reading from argument(s) self"),
    (lambda x: x.uniform_(), "writing to argument(s) self, and to the output"),
    (lambda x: torch.bernoulli(x), "reading from argument(s) self"),
    (lambda x: ones(4).bernoulli_(x), "reading from argument(s) p"),
    (lambda x: torch.bernoulli(ones(4), out=x), "writing to the output"),
    (lambda x: x.bernoulli_(0.5), "writing to argument(s) self, and to the output"),
    (lambda x: torch.multinomial(x, 2, replacement=True), "reading from argument(s) self"),
    (lambda x: torch.dot(ones(4), x), "reading from argument(s) tensor"),
    (lambda x: torch.mv(ones(4, 4), x), "reading from argument(s) vec"),
    (lambda x: torch.mm(x.reshape(2, 2), ones(2, 2)), "reading from argument(s) self"),
    (lambda x: torch.mm(ones(2, 2), x.reshape(2, 2)), "reading from argument(s) mat2"),
    (lambda x: torch.mm(ones(2, 2), ones(2, 2), out=x.reshape(2, 2)), "writing to the output"),
    (lambda x: ones(2, 2) @ x.reshape(2, 2), "reading from argument(s) other"),
    (lambda x: ones(4, 4) @ x, "reading from argument(s) other"),
    (lambda x: torch.bmm(ones(1, 2, 2), x.reshape(1, 2, 2)), "reading from argument(s) mat2"),
    (lambda x: torch.addmm(ones(2, 2), x.reshape(2, 2), ones(2, 2)),
     "reading from argument(s) mat1"),
    (lambda x: x.reshape(2, 2).addmm_(ones(2, 2), ones(2, 2)), "writing to argument(s) self, and to the output"),
    (lambda x: torch.baddbmm(ones(1, 2, 2), ones(1, 2, 2), x.reshape(1, 2, 2)),
     "reading from argument(s) batch2"),
]
COMM = [
    (lambda x: torch.cuda.comm.broadcast(x, [0, 1]), "reading from argument(s) tensor"),
    (lambda x: torch.cuda.comm.broadcast(ones(4).cpu(), out=[x]), "writing to argument(s) out, and to the output"),
    (lambda x: torch.cuda.comm.broadcast_coalesced([x, ones(4)], [0, 1]),
     "reading from argument(s) tensors"),
    (lambda x: torch.cuda.comm.reduce_add([x, ones(4).to("cuda:1")], 0),
     "reading from argument(s) inputs"),
    (lambda x: torch.cuda.comm.scatter(x, [1, 0]), "reading from argument(s) tensor"),
    (lambda x: torch.cuda.comm.gather([x, ones(4).to("cuda:1")]),
     "reading from argument(s) tensors"),
]


@pytest.mark.parametrize("devices, run, said", [(1, *row) for row in NAMES] + [(2, *row) for row in COMM])
def test_reports_name_the_argument(devices, run, said):
    if torch.cuda.device_count() < devices:
        pytest.skip(f"needs {devices} devices")
    x = ones(4)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    watch = torch.cuda._sanitizer.Watch()
    with torch.cuda.stream(side):
        kept = [x.fill_(1)]
    kept.append(run(x))
    # The last line of either side before its stack.
    now = [report.split("\nWith stack trace:")[0].splitlines()[-1] for report in watch.reports()]
    torch.cuda.synchronize()
    watch.stop()
    assert said in now
