#!/usr/bin/env python3
"""Every operation beside PyTorch's, in one process and one run: both take turns, round by round.

    python3 sweep.py [--device cpu|cuda] [--host] [--json FILE] [--markdown FILE]
                     [--only TEXT]... [--quick]

A case is an operation, a dtype and a layout:

    large    adjacent elements: 2^20 on the CPU, 2^26 on a GPU
    rows     as many, in rows of 64; what works along rows goes along these
    strided  every second column of as many

Figures are microseconds per call, the least of all rounds, since whatever else runs on the machine
only adds. On a GPU it is the device's time, between events around a burst of calls; with --host,
there or on the CPU, the time until calls on 2^12 elements return.
Both libraries work on the same numbers, in shared memory, and some elements of their results are
compared; what one of them does not have is named. Neither is told how many threads to use.
"""

import argparse
import datetime
import json
import math
import platform
import sys
import time

import torch

import ember

DTYPES = ("float32", "bfloat16", "int64")
CASES = []


class Data:
    """Tensors of one library, of one dtype, layout and device; the numbers are ember's for both."""

    def __init__(self, t, dtype, layout, elements, device):
        self.t, self.device, self.n = t, device, elements
        side = 1 << (elements.bit_length() // 2)
        self.shape = {"large": (elements,), "rows": (elements // 64, 64),
                      "strided": (elements // side, side)}[layout]
        self.layout, self.type = layout, dtype
        ember.manual_seed(1)
        whole = dtype == "int64"
        self.x = self.share(ember.randint(-9, 10, self.stored()) if whole
                            else ember.randn(self.stored()))
        self.y = self.share(ember.randint(1, 10, self.stored()) if whole
                            else ember.randn(self.stored()))
        self.z = self.share(ember.randint(0, 5, self.stored()) if whole
                            else ember.rand(self.stored()))
        #: Positive numbers, and numbers within (-1, 1).
        self.p = self.share(ember.randint(1, 10, self.stored()) if whole
                            else ember.rand(self.stored()) + 0.01)
        self.u = self.share(ember.randint(0, 2, self.stored()) if whole
                            else ember.rand(self.stored()) * 1.98 - 0.99)
        self.mask = self.share(ember.rand(self.stored()) < 0.5, dtype="bool")
        self.out = t.empty_like(self.x) if layout != "strided" else None
        last = self.x.shape[-1]
        self.index = self.share(ember.randint(0, last, self.shape), dtype="int64", cut=False)
        self.few = self.share(ember.randint(0, self.x.shape[0], (self.x.shape[0],)), dtype="int64",
                              cut=False)

    def stored(self):
        return self.shape[:-1] + (2 * self.shape[-1],) if self.layout == "strided" else self.shape

    def share(self, tensor, dtype=None, cut=True):
        tensor = tensor.to(getattr(ember, dtype or self.type)).to(self.device)
        if self.t is torch:
            tensor = torch.from_dlpack(tensor)
        return tensor[..., ::2] if cut and self.layout == "strided" else tensor


def case(name, call, dtypes=DTYPES, layouts=("large", "strided"), compare=True):
    for dtype in dtypes:
        for layout in layouts:
            CASES.append((name, dtype, layout, call, compare))


FLOATING = ("float32", "bfloat16")
WHOLE = ("int64",)
LARGE = ("large",)
ROWS = ("rows",)


def unary(names, source="x", dtypes=DTYPES):
    for name in names.split():
        case(name, lambda t, d, f=name, s=source: getattr(t, f)(getattr(d, s)), dtypes)


def binary(names, first="x", second="y", dtypes=DTYPES):
    for name in names.split():
        case(name, lambda t, d, f=name, a=first, b=second:
             getattr(t, f)(getattr(d, a), getattr(d, b)), dtypes)


# ---- Element by element
unary("abs neg sign square ceil floor trunc round relu isnan isinf isfinite signbit logical_not")
unary("frac", dtypes=FLOATING)
unary("reciprocal exp exp2 expm1 sin cos tan sinh cosh tanh asinh atan erf erfc sigmoid deg2rad")
unary("sqrt rsqrt log log2 log10 log1p lgamma", "p")
unary("asin acos atanh", "u")
case("acosh", lambda t, d: t.acosh(d.p))
unary("bitwise_not", dtypes=WHOLE)
binary("add sub mul div maximum minimum fmax fmin eq ne lt le gt ge "
       "logical_and logical_or logical_xor")
binary("floor_divide remainder fmod", "x", "y")
binary("pow", "p", "z")
binary("atan2 hypot copysign nextafter", dtypes=FLOATING)
binary("bitwise_and bitwise_or bitwise_xor gcd", dtypes=WHOLE)
binary("bitwise_left_shift bitwise_right_shift", "x", "z", WHOLE)
case("x + 2", lambda t, d: d.x + 2)
case("x * 2.5", lambda t, d: d.x * 2.5)
case("x / 3", lambda t, d: d.x / 3)
case("x // 3", lambda t, d: d.x // 3)
case("x % 3", lambda t, d: d.x % 3)
for power in (2, 3, -1, 0.5, 2.5):
    case(f"x ** {power}", lambda t, d, p=power: d.p ** p, DTYPES if power in (2, 3) else FLOATING)
case("2 ** x", lambda t, d: 2 ** d.u)
case("x < 1", lambda t, d: d.x < 1)
case("clamp, numbers", lambda t, d: t.clamp(d.x, -1, 1))
case("clamp, one number", lambda t, d: t.clamp(d.x, min=0))
case("clamp, tensors", lambda t, d: t.clamp(d.x, d.u, d.p))
case("addcmul", lambda t, d: t.addcmul(d.x, d.y, d.z, value=2))
case("addcdiv", lambda t, d: t.addcdiv(d.x, d.y, d.p, value=2), FLOATING)
case("lerp", lambda t, d: t.lerp(d.x, d.y, 0.3), FLOATING)
case("lerp, tensors", lambda t, d: t.lerp(d.x, d.y, d.z), FLOATING)
case("where", lambda t, d: t.where(d.mask, d.x, d.y))
case("x += y", lambda t, d: d.x.add_(d.y), compare=False)
case("masked_fill", lambda t, d: d.x.masked_fill(d.mask, 1))
case("rows + a row", lambda t, d: d.x + d.y[0], layouts=ROWS)
case("rows + a column", lambda t, d: d.x + d.y[:, :1], layouts=ROWS)

# ---- Copies and shapes
case("clone", lambda t, d: d.x.clone())
case("fill_", lambda t, d: d.x.clone().fill_(2), layouts=LARGE)
case("zeros", lambda t, d: t.zeros(d.n, device=d.device), ("float32",), LARGE)
case("arange", lambda t, d: t.arange(d.n, device=d.device), WHOLE, LARGE)
case("to float64", lambda t, d: d.x.to(t.float64))
case("to float16", lambda t, d: d.x.to(t.float16))
case("to bool", lambda t, d: d.x.to(t.bool))
case("transposed, contiguous", lambda t, d: d.x.view(1024, -1).t().contiguous(), layouts=LARGE)
case("rows transposed, contiguous", lambda t, d: d.x.t().contiguous(), layouts=ROWS)
case("flip", lambda t, d: t.flip(d.x, (0,)), layouts=("large", "rows"))
case("flip of rows", lambda t, d: t.flip(d.x, (1,)), layouts=ROWS)
case("roll", lambda t, d: t.roll(d.x, 5, 0), layouts=("large", "rows"))
case("cat of 2", lambda t, d: t.cat((d.x, d.y)))
case("cat of rows", lambda t, d: t.cat((d.x, d.y), 1), layouts=ROWS)
case("stack of 2", lambda t, d: t.stack((d.x, d.y)))
case("tril", lambda t, d: t.tril(d.x.view(1024, -1)), layouts=LARGE)
case("triu", lambda t, d: t.triu(d.x.view(1024, -1)), layouts=LARGE)

# ---- Reductions
for reduced in "sum mean prod amax amin argmax argmin var std any all norm".split():
    types = FLOATING if reduced in ("mean", "var", "std", "norm") else DTYPES
    case(f"{reduced} of all", lambda t, d, f=reduced: getattr(t, f)(d.u), types)
    case(f"{reduced} of rows", lambda t, d, f=reduced: getattr(t, f)(d.u, dim=1), types, ROWS)
    case(f"{reduced} of columns", lambda t, d, f=reduced: getattr(t, f)(d.u, dim=0), types, ROWS)
for reduced in ("max", "min"):
    for dim, what in ((1, "rows"), (0, "columns")):
        case(f"{reduced} of {what}, with indices",
             lambda t, d, f=reduced, k=dim: getattr(t, f)(d.x, k)[0], layouts=ROWS)
case("count_nonzero", lambda t, d: t.count_nonzero(d.x))
for scan in ("cumsum", "cumprod"):
    case(f"{scan}", lambda t, d, f=scan: getattr(t, f)(d.u, 0), layouts=LARGE, compare=False)
    case(f"{scan} of rows", lambda t, d, f=scan: getattr(t, f)(d.u, 1), layouts=ROWS)
    case(f"{scan} of columns", lambda t, d, f=scan: getattr(t, f)(d.u, 0), layouts=ROWS,
         compare=False)
for name in ("softmax", "log_softmax"):
    case(name, lambda t, d, f=name: getattr(t, f)(d.x, 0), FLOATING, LARGE)
    case(f"{name} of rows", lambda t, d, f=name: getattr(t, f)(d.x, 1), FLOATING, ROWS)
    case(f"{name} of columns", lambda t, d, f=name: getattr(t, f)(d.x, 0), FLOATING, ROWS)

# ---- Order
case("sort", lambda t, d: t.sort(d.x)[0], layouts=("large", "rows"))
case("argsort", lambda t, d: t.argsort(d.x), layouts=LARGE, compare=False)
case("topk of 16", lambda t, d: t.topk(d.x, 16)[0], layouts=("large", "rows"))

# ---- Choosing
case("gather", lambda t, d: t.gather(d.x, -1, d.index), layouts=("large", "rows"))
case("take", lambda t, d: t.take(d.x, d.index), layouts=LARGE)
case("index_select", lambda t, d: t.index_select(d.x, 0, d.few), layouts=("large", "rows"))
case("x[index]", lambda t, d: d.x[d.few], layouts=("large", "rows"))
case("x[mask]", lambda t, d: d.x[d.mask], layouts=LARGE)
case("nonzero", lambda t, d: t.nonzero(d.mask), WHOLE, LARGE)
case("scatter", lambda t, d: t.scatter(d.x, -1, d.index, d.y), layouts=("large", "rows"),
     compare=False)
case("scatter_add", lambda t, d: t.scatter_add(d.x, -1, d.index, d.y), layouts=("large", "rows"),
     compare=False)
case("index_add", lambda t, d: t.index_add(d.x, 0, d.few, d.y), layouts=("large", "rows"),
     compare=False)

# ---- Products
case("matmul", lambda t, d: d.x.view(1024, -1) @ d.y.view(-1, 1024), FLOATING, LARGE)
case("matrix and vector", lambda t, d: d.x.view(1024, -1) @ d.y[:d.n // 1024], FLOATING, LARGE)
case("bmm", lambda t, d: t.bmm(d.x.view(-1, 32, 32), d.y.view(-1, 32, 32)), FLOATING, LARGE)
case("dot", lambda t, d: t.dot(d.x, d.y), layouts=LARGE)

# ---- Random numbers
case("rand", lambda t, d: t.rand(d.n, device=d.device), ("float32",), LARGE, compare=False)
case("randn", lambda t, d: t.randn(d.n, device=d.device), ("float32",), LARGE, compare=False)
case("randint", lambda t, d: t.randint(0, 100, (d.n,), device=d.device), WHOLE, LARGE,
     compare=False)
case("randperm", lambda t, d: t.randperm(d.n, device=d.device), WHOLE, LARGE, compare=False)


# ---- Measuring
def host_burst(t, on_cpu):
    def burst(call, count):
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if not on_cpu:
            t.cuda.synchronize()
        return took / count

    return burst


def device_burst(t):
    def burst(call, count):
        begin, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    return burst


def least(calls, bursts, on_cpu, quick):
    """Seconds per call of each: the least of rounds in which they take turns."""
    once = []
    for call, burst in zip(calls, bursts):
        call()
        once.append(max(burst(call, 1), 1e-7))
    if quick:
        return once
    count = max(1, min(200, int(3e-3 / max(once))))
    # On the CPU whatever else runs there disturbs, the other library's threads first of all, until
    # they have stopped looking for work.
    rounds = max(3, min(15 if on_cpu else 8, int(0.2 / (count * sum(once)))))
    pause = 0.004 if on_cpu else 0
    times = [[], []]
    for turn in range(rounds):
        for which in ((0, 1), (1, 0))[turn % 2]:
            time.sleep(pause)
            calls[which]()
            times[which].append(bursts[which](calls[which], count))
    return [min(each) for each in times]


def differ(ours, theirs):
    """What is different about two results, or nothing."""
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"shape {tuple(ours.shape)} beside {tuple(theirs.shape)}"
    a = ours.flatten()[:4096].to(ember.float64).cpu().numpy()
    b = theirs.flatten()[:4096].to(torch.float64).cpu().numpy()
    near = abs(a - b) <= 0.05 * abs(b) + 0.02
    same = (a == b) | ((a != a) & (b != b)) | near
    # An element at the edge of a step (x // y, argmax of equals) may fall on either side.
    return None if same.mean() > 0.99 else f"{(~same).sum()} of {len(a)} elements differ"


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return next((line.split(":", 1)[1].strip() for line in file
                     if line.startswith("model name")), platform.processor())


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def run_case(name, dtype, layout, call, compare, data, arguments):
    calls = [lambda t=t, d=d: call(t, d) for t, d in data]
    for (t, _), one in zip(data, calls):
        try:
            result = one()
        except Exception as error:  # what a library does not have stands in the table
            return {"missing": f"{t.__name__}: {str(error).splitlines()[0][:70]}"}
        if t is ember:
            ours = result
    if compare and (wrong := differ(ours, result)):
        return {"missing": wrong}
    del ours, result
    on_cpu = arguments.device == "cpu"
    bursts = [host_burst(t, on_cpu) if on_cpu or arguments.host else device_burst(t)
              for t, _ in data]
    ours, theirs = least(calls, bursts, on_cpu, arguments.quick)
    return {"ours": ours * 1e6, "torch": theirs * 1e6, "ratio": ours / theirs}


def table(title, rows):
    lines = [f"| {title} | dtype | layout | ember, us | PyTorch, us | ember / PyTorch |",
             "|---|---|---|--:|--:|--:|"]
    for row in rows:
        where = f"| {row['name']} | {row['dtype']} | {row['layout']} "
        if "missing" in row:
            lines.append(where + f"| | | {row['missing']} |")
        else:
            lines.append(where + f"| {row['ours']:.4g} | {row['torch']:.4g} | {row['ratio']:.2f} |")
    return lines


def summary(rows, limit):
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    over = sum(ratio > limit for ratio in ratios)
    return (f"{len(ratios)} cases: geometric mean {geometric_mean(ratios):.2f}, "
            f"{over} above {limit}, largest {max(ratios, default=float('nan')):.2f}; "
            f"{len(rows) - len(ratios)} not compared")


def measure(arguments, elements):
    rows, made = [], {}
    for name, dtype, layout, call, compare in CASES:
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        if (dtype, layout) not in made:
            made[dtype, layout] = [(t, Data(t, dtype, layout, elements, arguments.device))
                                   for t in (ember, torch)]
        row = {"name": name, "dtype": dtype, "layout": layout}
        row |= run_case(name, dtype, layout, call, compare, made[dtype, layout], arguments)
        rows.append(row)
        print(table("", [row])[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--host", action="store_true", help="until calls on 2^12 elements return")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--only", action="append", help="operations whose name contains this")
    parser.add_argument("--quick", action="store_true", help="one call each: does everything run?")
    arguments = parser.parse_args()
    on_cpu = arguments.device == "cpu"
    limit = 0.6 if arguments.host else 3 if on_cpu else 1.05
    elements = 1 << (12 if arguments.host or arguments.quick else 20 if on_cpu else 26)
    head = [processor() if on_cpu else torch.cuda.get_device_name(),
            f"PyTorch {torch.__version__} with {torch.get_num_threads()} threads, ember "
            f"{ember.__version__} with {ember.get_num_threads()}, Python "
            f"{platform.python_version()}",
            "microseconds until calls return" if arguments.host else "microseconds per call"]
    print("\n".join(head))
    rows = measure(arguments, elements)
    end = summary(rows, limit)
    print(end)
    for row in sorted((r for r in rows if r.get("ratio", 0) > limit), key=lambda r: -r["ratio"]):
        print(f"  {row['ratio']:.2f} {row['name']} {row['dtype']} {row['layout']}")
    today = datetime.date.today().isoformat()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"date": today, "head": head, "rows": rows}, file, indent=1)
            file.write("\n")
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            title = f"# Every operation beside PyTorch, {'CPU' if on_cpu else 'GPU'}, {today}"
            file.write("\n".join([title, "", *(f"- {line}" for line in head), "",
                                  *table("operation", rows), "", end, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
