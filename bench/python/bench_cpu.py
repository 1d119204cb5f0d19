#!/usr/bin/env python3
"""Operations on the CPU beside NumPy, in one process and one run: both take turns, round by round.

    python3 bench_cpu.py [--json FILE] [--markdown FILE] [--only TEXT] [--size N] [--quick]

Times are microseconds per call, the least of all rounds, since whatever else runs on the machine
only adds; a ratio above one means that ember is faster. Rows are called as in ordinary programs, with their results written into a given array
where the name says "out". Neither library is told to use fewer threads than it wants: that
concerns matrix products only.
"""

import argparse
import datetime
import json
import platform
import sys
import time

import numpy as np

import ember as em

SIZES = [1000, 1_000_000, 1 << 24]
SIDES = {1000: (25, 40), 1_000_000: (1000, 1000), 1 << 24: (4096, 4096)}
#: Within so much a goal counts as met: the figures are not more exact than that.
EXACT = 0.995
ROWS = []


class Data:
    """The same elements for both libraries."""

    def __init__(self, n):
        random = np.random.default_rng(n)
        self.n = n
        self.shape = SIDES[n]
        self.x = random.standard_normal(n, dtype=np.float32)
        self.y = random.standard_normal(n, dtype=np.float32)
        self.positive = np.abs(self.x) + np.float32(1e-3)
        self.d = self.x.astype(np.float64)
        self.i = random.integers(-1000, 1000, n)
        self.mask = self.x > 0
        self.zeros = np.zeros(n, dtype=np.float32)
        self.index = random.integers(0, n, n)
        self.rows = random.integers(0, self.shape[0], self.shape[0])


def row(name, make, sizes=None):
    """`make(data)` gives two functions without arguments, ember's and NumPy's."""
    for size in sizes or SIZES:
        ROWS.append((name, size, make))


def t(array):
    return em.from_numpy(array)


def pair(*names, ours, theirs):
    """Functions of the arrays of these names."""

    def make(d):
        arrays = [getattr(d, name) for name in names]
        tensors = [t(array) for array in arrays]
        return (lambda: ours(*tensors)), (lambda: theirs(*arrays))

    return make


def with_output(*names, ours, theirs, dtype=np.float32):
    """Functions of the arrays of these names and of an output as large as they are."""

    def make(d):
        arrays = [getattr(d, name) for name in names]
        tensors = [t(array) for array in arrays]
        out, made = np.zeros(d.n, dtype), t(np.zeros(d.n, dtype))
        return (lambda: ours(*tensors, made)), (lambda: theirs(*arrays, out))

    return make


def square(ours, theirs, out=None, dtype=np.float32):
    """Functions of a matrix, and of an output that `out` says the shape of."""

    def make(d):
        x = d.x.reshape(d.shape)
        if out is None:
            return (lambda e=t(x): ours(e)), (lambda: theirs(x))
        shape = out(*d.shape)
        z, made = np.zeros(shape, dtype), t(np.zeros(shape, dtype))
        return (lambda e=t(x): ours(e, made)), (lambda: theirs(x, z))

    return make


# ---- Element by element
row("a + b", pair("x", "y", ours=lambda x, y: x + y, theirs=lambda x, y: x + y))
row("add, out", with_output("x", "y", ours=lambda x, y, z: em.add(x, y, out=z),
                            theirs=lambda x, y, z: np.add(x, y, out=z)))
row("mul by a number, out", with_output("x", ours=lambda x, z: em.mul(x, 2.5, out=z),
                                        theirs=lambda x, z: np.multiply(x, np.float32(2.5), out=z)))


def function(name, source="x"):
    row(f"{name}, out", with_output(source, ours=lambda x, z, f=getattr(em, name): f(x, out=z),
                                    theirs=lambda x, z, f=getattr(np, name): f(x, out=z)))


function("sqrt", "positive")
function("exp")
function("log", "positive")
function("tanh")
row("copy", with_output("x", ours=lambda x, z: z.copy_(x), theirs=lambda x, z: np.copyto(z, x)))
row("cast f32 to f64", with_output("x", ours=lambda x, z: z.copy_(x),
                                   theirs=lambda x, z: np.copyto(z, x), dtype=np.float64))


def broadcast(d):
    column, line = d.x[:d.shape[0]].reshape(-1, 1), d.y[:d.shape[1]].reshape(1, -1)
    z = np.zeros(d.shape, np.float32)
    e, f, g = t(column), t(line), t(z.copy())
    return (lambda: em.add(e, f, out=g)), (lambda: np.add(column, line, out=z))


row("broadcasting add, out", broadcast)
row("transposed copy", square(lambda x, z: z.copy_(x.t()), lambda x, z: np.copyto(z, x.T),
                              out=lambda a, b: (b, a)))
row("copy of every second column", square(lambda x, z: z.copy_(x[:, ::2]),
                                          lambda x, z: np.copyto(z, x[:, ::2]),
                                          out=lambda a, b: (a, b // 2)))
row("x < y, out", with_output("x", "y", ours=lambda x, y, z: em.lt(x, y, out=z),
                              theirs=lambda x, y, z: np.less(x, y, out=z), dtype=np.bool_))
row("where", pair("mask", "x", "y", ours=lambda m, x, y: em.where(m, x, y), theirs=np.where))


# ---- Reductions
def reduction(name, ours, theirs=None):
    theirs = theirs or getattr(np, name)
    row(f"{name} of all", pair("x", ours=ours, theirs=theirs))
    for dim in (0, 1):
        row(f"{name}, dim {dim}", square(lambda x, k=dim: ours(x, k),
                                         lambda x, k=dim: theirs(x, axis=k)))


reduction("sum", em.sum)
row("sum of all, float64", pair("d", ours=em.sum, theirs=np.sum))
row("sum of all, int64", pair("i", ours=em.sum, theirs=np.sum))
reduction("mean", em.mean)
reduction("max", em.amax)
reduction("min", em.amin)
reduction("argmax", em.argmax)
reduction("var", em.var, lambda x, axis=None: np.var(x, axis=axis, ddof=1))
row("any of all, none true", pair("zeros", ours=em.any, theirs=np.any))
for dim in (0, 1):
    row(f"any, dim {dim}, half true",
        (lambda k: lambda d: ((lambda m=t(d.mask.reshape(d.shape)): em.any(m, k)),
                              (lambda m=d.mask.reshape(d.shape): np.any(m, axis=k))))(dim))
row("cumsum", pair("x", ours=lambda x: em.cumsum(x, 0), theirs=np.cumsum))
row("cumsum, dim 1", square(lambda x: em.cumsum(x, 1), lambda x: np.cumsum(x, axis=1)))


# ---- Order
def sorted_both(x):
    """What a sort of ember gives: the elements in order, and where each of them was."""
    index = np.argsort(x, kind="stable")
    return x[index], index


row("sort (values and indices)", pair("x", ours=em.sort, theirs=sorted_both))
row("sort beside values only", pair("x", ours=em.sort, theirs=np.sort))
row("argsort beside any order of ties", pair("x", ours=em.argsort, theirs=np.argsort))


def largest(x, k=10):
    """NumPy's way to the largest elements, in order, and where they are."""
    index = np.argpartition(x, len(x) - k)[len(x) - k:]
    index = index[np.argsort(x[index])[::-1]]
    return x[index], index


row("topk, 10", pair("x", ours=lambda x: em.topk(x, 10), theirs=largest))


# ---- Choosing
row("take, random places", pair("x", "index", ours=em.take, theirs=np.take))


def index_select(d):
    x = d.x.reshape(d.shape)
    e, i = t(x), t(d.rows)
    return (lambda: em.index_select(e, 0, i)), (lambda: np.take(x, d.rows, axis=0))


row("index_select rows", index_select)
row("nonzero, half true", pair("mask", ours=em.nonzero, theirs=np.argwhere))
row("masked_select, half true", pair("x", "mask", ours=em.masked_select,
                                     theirs=lambda x, m: x[m]))


# ---- Matrix products: the "size" is a side
def matmul(side, dtype):
    def make(_):
        random = np.random.default_rng(side)
        a, b = (random.standard_normal((side, side)).astype(dtype) for _ in range(2))
        e, f = t(a), t(b)
        return (lambda: em.matmul(e, f)), (lambda: np.matmul(a, b))

    return make


for kind, dtype in (("f32", np.float32), ("f64", np.float64)):
    for side in (32, 512, 2048):
        ROWS.append((f"matmul {kind}", side, matmul(side, dtype)))


# ---- Measuring
def burst(f, count):
    start = time.perf_counter()
    for _ in range(count):
        f()
    return (time.perf_counter() - start) / count


def measure(ours, theirs, quick):
    """Seconds per call of both: the least of rounds in which they take turns."""
    ours()
    theirs()
    once = max(burst(ours, 1), burst(theirs, 1), 1e-7)
    count = 1 if quick else max(1, min(2000, int(2e-3 / once)))
    rounds = 1 if quick else 41 if once < 0.02 else 9 if once < 0.2 else 3
    times = ([], [])
    for turn in range(rounds):
        for which in ((0, 1), (1, 0))[turn % 2]:
            times[which].append(burst((ours, theirs)[which], count))
    return [min(each) for each in times]


def processor():
    try:
        with open("/proc/cpuinfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def vectors():
    """The widest vector instructions that Linux reports."""
    try:
        with open("/proc/cpuinfo", encoding="ascii") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    return next((name for name in ("avx512f", "avx2", "avx", "sse2") if name in flags), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, help="rows of this size only")
    parser.add_argument("--quick", action="store_true", help="one call each: does everything run?")
    arguments = parser.parse_args()
    cpu = f"{processor()} ({vectors()})"
    lines = ["| operation | size | ember | NumPy | NumPy/ember | met |", "|---|--:|--:|--:|--:|---|"]
    print(cpu)
    print("\n".join(lines), flush=True)
    results, data = [], {}
    for name, size, make in ROWS:
        if arguments.only not in name or (arguments.size and size != arguments.size):
            continue
        if arguments.quick and size > 1000:
            continue
        if size in SIDES and size not in data:
            data = {size: Data(size)}
        ours, theirs = measure(*make(data.get(size)), arguments.quick)
        ratio = theirs / ours
        verdict = "yes" if ratio >= EXACT else "no"
        lines.append(f"| {name} | {size} | {ours * 1e6:.4g} us | {theirs * 1e6:.4g} us | "
                     f"{ratio:.2f} x | {verdict} |")
        print(lines[-1], flush=True)
        results.append({"name": name, "size": size, "ours": ours, "numpy": theirs, "met": verdict})
    reached = sum(entry["met"] == "yes" for entry in results)
    summary = f"{reached} of {len(results)} rows at least as fast as NumPy."
    print(summary)
    head = {"date": datetime.date.today().isoformat(), "cpu": cpu, "numpy": np.__version__,
            "python": platform.python_version()}
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**head, "rows": results}, file, indent=1)
            file.write("\n")
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(f"# Operations on the CPU, {head['date']}\n\n- processor: {cpu}\n"
                       f"- NumPy {head['numpy']}, Python {head['python']}\n\n")
            file.write("\n".join(lines) + f"\n\n{summary}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
