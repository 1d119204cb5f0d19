"""Random programs of 25 operations over views: NumPy, the CPU and the device hold the same.

Only what is exact everywhere: integers, and floating-point operations that are rounded once.
EMBER_TEST_PROGRAMS=N runs N programs instead of 60, EMBER_TEST_SEED=S starts with seed S.
"""

import os
import random

import pytest

np = pytest.importorskip("numpy")

import ember as torch  # noqa: E402  (pytest goes on without NumPy)

STEPS = 25
FIRST = int(os.environ.get("EMBER_TEST_SEED", 1))
COUNT = int(os.environ.get("EMBER_TEST_PROGRAMS", 60))
DTYPES = ["int64", "int32", "uint8", "float64", "float32", "bool"]


class Value:
    """An array, and the tensors that have to hold the same."""

    def __init__(self, name, array, cpu, device):
        self.name, self.array, self.cpu, self.device = name, array, cpu, device


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.values = []
        self.made = 0
        self.lines = []
        for dtype in self.random.sample(DTYPES, 4):
            self.start(dtype)

    def start(self, dtype):
        shape = self.random.choice([(3, 4), (2, 3, 4), (12,), (1, 5), (4, 1, 3), (6, 6)])
        count = int(np.prod(shape))
        numbers = [self.random.randint(0, 1 if dtype == "bool" else 50) for _ in range(count)]
        array = np.array(numbers, dtype="float64")
        array = (array / 4 if dtype.startswith("float") else array).astype(dtype).reshape(shape)
        self.add(f"a {dtype} tensor of {shape}",
                 array, torch.tensor(array), torch.tensor(array, device="cuda:0"))

    def add(self, text, array, cpu, device):
        name = f"v{self.made}"
        self.made += 1
        self.lines.append(f"{name} = {text}")
        if len(self.values) == 8:
            self.values.pop(self.random.randrange(8))
        self.values.append(Value(name, array, cpu, device))

    def pick(self, condition=lambda array: True):
        fit = [value for value in self.values if condition(value.array)]
        return self.random.choice(fit) if fit else None

    def make(self, text, value, of_array, of_tensor=None):
        """A new value, by the same function of arrays and tensors unless there are two."""
        of_tensor = of_tensor or of_array
        self.add(text.format(value.name), of_array(value.array), of_tensor(value.cpu),
                 of_tensor(value.device))

    def change(self, text, value, change_array, change_tensor=None):
        change_tensor = change_tensor or change_array
        self.lines.append(text.format(value.name))
        change_array(value.array)
        change_tensor(value.cpu)
        change_tensor(value.device)

    def check(self):
        for value in self.values:
            for tensor in (value.cpu, value.device):
                assert str(tensor.dtype) == f"torch.{value.array.dtype}", value.name
                assert tuple(tensor.shape) == value.array.shape, value.name
                np.testing.assert_array_equal(
                    tensor.cpu().numpy(), value.array, err_msg=f"{value.name} on {tensor.device}")


def slices(array, draw):
    """A random index of slices, with positive steps."""
    index = []
    for size in array.shape:
        start = draw.randint(0, size)
        index.append(slice(start, draw.randint(start, size), draw.randint(1, 3)))
    return tuple(index)


def writable(array):
    """What expand() gives repeats elements: NumPy says so itself."""
    return array.flags.writeable and array.size > 0


def view(p):
    value = p.pick(lambda array: array.ndim > 0)
    if value is None:
        return
    array, draw = value.array, p.random
    kind = draw.randrange(5)
    if kind == 0:
        index = slices(array, draw)
        p.make(f"{{}}[{index}]", value, lambda x: x[index])
    elif kind == 1:
        dims = draw.sample(range(array.ndim), array.ndim)
        p.make(f"{{}}.permute({dims})", value, lambda x: x.transpose(dims),
               lambda x: x.permute(dims))
    elif kind == 2 and array.shape[0] > 0:
        i = draw.randrange(array.shape[0])
        p.make(f"{{}}[..., None, {i}]" if array.ndim == 1 else f"{{}}[{i}]", value,
               (lambda x: x[i:i + 1]) if array.ndim == 1 else (lambda x: x[i]))
    elif kind == 3 and array.ndim >= 2:
        offset = draw.randint(-1, 1)
        p.make(f"{{}}.diagonal({offset})", value, lambda x: diagonal_view(x, offset),
               lambda x: x.diagonal(offset))
    elif array.ndim <= 3:
        shape = (draw.randint(1, 3), *array.shape)
        p.make(f"{{}}.expand({shape})", value, lambda x: np.broadcast_to(x, shape),
               lambda x: x.expand(shape))


def diagonal_view(array, offset):
    """As numpy.diagonal, but writable where the array is."""
    made = array.diagonal(offset)
    if array.flags.writeable:
        made.flags.writeable = True
    return made


def arithmetic(p):
    value = p.pick()
    other = p.pick(lambda array: array.shape == value.array.shape
                   and array.dtype == value.array.dtype)
    kinds = ["maximum", "minimum", "eq", "lt", "logical_xor"]
    if value.array.dtype != bool:
        kinds += ["add", "sub", "mul"]
    if value.array.dtype.kind in "iub":
        kinds += ["bitwise_and", "bitwise_or", "bitwise_xor"]
    name = p.random.choice(kinds)
    numpy_name = {"eq": "equal", "lt": "less", "sub": "subtract", "mul": "multiply"}.get(name, name)
    with np.errstate(all="ignore"):
        p.add(f"{name}({value.name}, {other.name})",
              getattr(np, numpy_name)(value.array, other.array),
              getattr(torch, name)(value.cpu, other.cpu),
              getattr(torch, name)(value.device, other.device))


def in_place(p):
    value = p.pick(lambda array: writable(array) and array.dtype != bool)
    if value is None:
        return
    number = p.random.randint(0, 3)

    def add(x):
        x += number

    def multiply(x):
        x *= number

    def fill(x):
        x[...] = number
    name, change = p.random.choice([("+=", add), ("*=", multiply), ("[...] =", fill)])
    with np.errstate(all="ignore"):
        p.change(f"{{}} {name} {number}", value, change)


def copy_between(p):
    """A part of one value becomes a part of another, cast on the way."""
    target = p.pick(lambda array: writable(array) and array.dtype.kind != "b")
    source = p.pick(lambda array: array.size > 0 and array.dtype.kind in "iub")
    if target is None or source is None:
        return
    index = tuple(p.random.randrange(size) for size in source.array.shape)
    part = slices(target.array, p.random)
    p.lines.append(f"{target.name}[{part}] = {source.name}[{index}].clone()")
    target.array[part] = source.array[index].copy().astype(target.array.dtype)
    target.cpu[part] = source.cpu[index].clone()
    target.device[part] = source.device[index].clone()


def reduce(p):
    value = p.pick(lambda array: array.ndim > 0 and array.size > 0)
    if value is None:
        return
    dim = p.random.randrange(value.array.ndim)
    kinds = ["any", "all", "argmax", "amax"]
    if value.array.dtype.kind in "iub":
        kinds += ["sum", "cumsum"]
    name = p.random.choice(kinds)
    if name == "argmax" and value.array.dtype == bool:
        name = "any"

    def of_array(x):
        made = getattr(np, name)(x, axis=dim)
        if name in ("any", "all"):
            # torch's any and all of uint8 are uint8.
            return np.asarray(made, dtype="uint8" if x.dtype == np.uint8 else "bool")
        return np.asarray(made, dtype="int64" if name in ("sum", "cumsum", "argmax") else x.dtype)
    p.make(f"{name}({{}}, {dim})", value, of_array, lambda x: getattr(torch, name)(x, dim))


def order(p):
    value = p.pick(lambda array: array.ndim > 0)
    if value is None:
        return
    dim = p.random.randrange(value.array.ndim)
    kind = p.random.randrange(4)
    if kind == 0:
        p.make(f"sort({{}}, {dim})", value, lambda x: np.sort(x, axis=dim),
               lambda x: torch.sort(x, dim)[0])
    elif kind == 1:
        p.make(f"argsort({{}}, {dim})", value,
               lambda x: np.argsort(x, axis=dim, kind="stable").astype("int64"),
               lambda x: torch.argsort(x, dim))
    elif kind == 2:
        p.make(f"flip({{}}, {dim})", value, lambda x: np.flip(x, dim).copy(),
               lambda x: torch.flip(x, [dim]))
    else:
        shift = p.random.randint(-3, 3)
        p.make(f"roll({{}}, {shift}, {dim})", value, lambda x: np.roll(x, shift, dim),
               lambda x: torch.roll(x, shift, dim))


def indexing(p):
    value = p.pick(lambda array: array.ndim > 0 and array.size > 0)
    if value is None:
        return
    size = value.array.shape[0]
    rows = p.random.sample(range(size), p.random.randint(1, size))
    mask = np.array([p.random.random() < 0.5 for _ in range(value.array.size)])
    mask = mask.reshape(value.array.shape)

    def on(x, index):
        return index if isinstance(x, np.ndarray) else torch.tensor(index, device=x.device)
    kind = p.random.randrange(5)
    if kind == 0:
        p.make(f"{{}}[{rows}]", value, lambda x: x[on(x, np.array(rows))])
    elif kind == 1:
        p.make("{}[a mask]", value, lambda x: x[on(x, mask)])
    elif kind == 2:
        places = p.random.sample(range(value.array.size), min(3, value.array.size))
        p.make(f"take({{}}, {places})", value, lambda x: np.take(x, places),
               lambda x: torch.take(x, on(x, np.array(places))))
    elif writable(value.array):
        def put(x):
            x[on(x, np.array(rows) if kind == 3 else mask)] = 1
        p.change("{}[indices or a mask] = 1", value, put)


def new(p):
    value = p.pick(lambda array: array.size < 500)
    if value is None:
        return
    kind = p.random.randrange(4)
    if kind == 0:
        p.make("{}.clone()", value, np.copy, lambda x: x.clone())
    elif kind == 1:
        p.make("{}.reshape(-1).clone()", value, lambda x: x.reshape(-1).copy(),
               lambda x: x.reshape(-1).clone())
    elif kind == 2 and value.array.ndim > 0:
        dim = p.random.randrange(value.array.ndim)
        p.make(f"cat([{{0}}, {{0}}], {dim})", value, lambda x: np.concatenate([x, x], dim),
               lambda x: torch.cat([x, x], dim))
    elif value.array.dtype.kind in "iub":
        to = p.random.choice(DTYPES)
        p.make(f"{{}}.to({to})", value, lambda x: x.astype(to),
               lambda x: x.to(getattr(torch, to), copy=True))


def journey(p):
    """By way of the host, of NumPy, and of DLPack."""
    value = p.pick()
    kind = p.random.randrange(3)
    if kind == 0:
        p.make("{}, by way of the other side", value, np.copy,
               lambda x: x.to("cpu" if x.is_cuda else "cuda:0").to(x.device))
    elif kind == 1:
        p.make("{}, by way of NumPy", value, np.copy,
               lambda x: torch.from_numpy(x.cpu().numpy().copy()).to(x.device))
    else:
        p.make("{}, by way of DLPack", value, np.copy, lambda x: torch.from_dlpack(x).clone())


STEP_KINDS = [view, view, view, arithmetic, in_place, in_place, copy_between, reduce, order,
              indexing, indexing, new, journey]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_program(seed):
    p = Program(seed)
    try:
        while len(p.lines) < 4 + STEPS:
            p.random.choice(STEP_KINDS)(p)
            p.check()
    except BaseException:
        print(f"program of seed {seed}:", *p.lines, sep="\n  ")
        raise
