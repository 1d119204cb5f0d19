#!/usr/bin/env python3
"""Operations beside PyTorch, in one process and one run: both take turns, round by round.

    python3 bench_ops.py [--json FILE] [--markdown FILE] [--only TEXT]... [--no-torch] [--quick]

Device throughput counts every input read once and every output written once, in GB/s; times of
calls are the host's. With several GPUs the collectives are measured as well. A goal that starts
with `x` is a factor of PyTorch's figure; `ms` and `us` rows are better when smaller.
Both libraries work on the same numbers, in shared memory. Before a row is timed, its results are
looked at: they must be where the row is timed, and the libraries must agree on some of their
elements. What is wrong stands in the row instead of a figure.
Without PyTorch, or with --no-torch, only ember is measured.
"""

import argparse
import datetime
import json
import subprocess
import sys
import time

import ember

try:
    import torch
    import torch.cuda.comm
except ImportError:
    torch = None

GB = 1 << 30
ROWS = []


class Row:
    def __init__(self, name, unit, amount, make, goal, devices=1, random=False):
        self.name, self.unit, self.amount, self.make, self.goal = name, unit, amount, make, goal
        self.devices = devices
        self.random = random  # the libraries' results need not be the same


def shared(t, tensor):
    """A tensor of ember's as one of `t`, in the same memory."""
    return tensor if t is ember else t.from_dlpack(tensor)


def normal(t, *size, device="cuda:0"):
    """Normally distributed numbers: in one row the same for both libraries."""
    return shared(t, ember.randn(*size, device=device))


def integers(t, high, *size):
    return shared(t, ember.randint(0, high, size, device="cuda:0"))


class Data:
    """Tensors of one library, made once for all rows. Inputs are shared, outputs are not."""

    def __init__(self, t, scale):
        ember.manual_seed(0)
        self.n = (1 << 28) // scale
        self.side = 16384 // int(scale**0.5)
        self.x = normal(t, self.n)
        self.y = normal(t, self.n)
        self.z = t.empty(self.n, device="cuda")
        self.X = self.x.view(self.side, self.side)
        self.Z = self.z.view(self.side, self.side)
        self.a = normal(t, 1024)
        self.b = normal(t, 1024)
        self.c = t.empty(1024, device="cuda")
        self.m = normal(t, 32, 32)


# ---- Device throughput: (name, bytes in units of 4 x elements, goal, call)
def throughput(name, elements, goal, make, random=False):
    ROWS.append(Row(name, "GB/s", elements, make, goal, random=random))


throughput("copy", 2, "x1.0", lambda t, d: lambda: d.z.copy_(d.x))
throughput("fill", 1, "x1.0", lambda t, d: lambda: d.z.fill_(1.5))
throughput("add", 3, "x1.0", lambda t, d: lambda: t.add(d.x, d.y, out=d.z))
throughput("mul scalar", 2, "x1.0", lambda t, d: lambda: t.mul(d.x, 2.0, out=d.z))
throughput("exp", 2, "x1.0", lambda t, d: lambda: t.exp(d.x, out=d.z))


def cast(t, d):
    h = t.empty(d.n, device="cuda", dtype=t.bfloat16)
    return lambda: h.copy_(d.x)


throughput("cast f32 -> bf16", 1.5, "x1.0", cast)
throughput("transposed copy", 2, ">=3950", lambda t, d: lambda: d.Z.copy_(d.X.t()))


def broadcast_add(t, d):
    r, q = normal(t, d.side, 1), normal(t, 1, d.side)
    return lambda: t.add(r, q, out=d.Z)


throughput("broadcast add", 1, ">=4450", broadcast_add)
throughput("sum of all", 1, "x1.0", lambda t, d: lambda: d.x.sum())
throughput("sum dim 0", 1, "x1.0", lambda t, d: lambda: d.X.sum(0))
throughput("sum dim 1", 1, "x1.0", lambda t, d: lambda: d.X.sum(1))
throughput("max with indices, dim 1", 1, ">=4200", lambda t, d: lambda: d.X.max(1))
throughput("argmax of all", 1, ">=4200", lambda t, d: lambda: d.x.argmax())
throughput("var of all", 1, ">=4200", lambda t, d: lambda: d.x.var())
throughput("softmax, rows of 1024", 2, ">=4100",
           lambda t, d: lambda: t.softmax(d.x.view(-1, 1024), 1))
throughput("softmax, rows of 16384", 2, ">=4100", lambda t, d: lambda: t.softmax(d.X, 1))
throughput("cumsum of all", 2, ">=3550", lambda t, d: lambda: t.cumsum(d.x, 0, out=d.z))
throughput("cumsum, dim 1", 2, ">=3900", lambda t, d: lambda: t.cumsum(d.X, 1, out=d.Z))


def index_select(t, d):
    index = integers(t, d.side, d.side)
    return lambda: t.index_select(d.X, 0, index, out=d.Z)


def gather(t, d):
    index = integers(t, d.side, d.side, d.side)
    return lambda: t.gather(d.X, 1, index)


def masked_select(t, d):
    mask = d.x > 0
    return lambda: t.masked_select(d.x, mask)


def nonzero(t, d):
    mask = d.x > 0
    return lambda: t.nonzero(mask)


def cat(t, d):
    parts = list(d.x.chunk(64))
    return lambda: t.cat(parts, out=d.z)


throughput("index_select rows", 2, "x1.0", index_select)
throughput("gather, dim 1", 4, ">=4100", gather)
throughput("masked_select, half true", 1.75, ">=3050", masked_select)
throughput("nonzero, half true (bytes of the mask)", 0.25, ">=510", nonzero)
throughput("cat of 64", 2, "x1.0", cat)
throughput("uniform", 1, ">=4250", lambda t, d: lambda: d.z.uniform_(), random=True)
throughput("bernoulli", 1, ">=4300", lambda t, d: lambda: d.z.bernoulli_(0.5), random=True)
throughput("normal", 1, ">=2850", lambda t, d: lambda: d.z.normal_(), random=True)


# ---- Device time
def device_time(name, goal, make, random=False):
    ROWS.append(Row(name, "ms", 1, make, goal, random=random))


device_time("sort 2^26 f32", "<=2.85", lambda t, d: lambda: t.sort(d.x[: d.n // 4]))
device_time("topk 64 of 4096 x 65536", "<=0.52",
            lambda t, d: lambda: t.topk(d.x.view(-1, 65536), 64))
device_time("randperm 2^24", "<=0.16", lambda t, d: lambda: t.randperm(d.n // 16, device="cuda"),
            random=True)


def matmul(dtype):
    def make(t, d):
        side = d.side // 2
        a = normal(t, side, side).to(getattr(t, dtype))
        b = normal(t, side, side).to(getattr(t, dtype))

        def run():
            return t.matmul(a, b)

        run.expected = lambda: (a[0].to(t.float64) * b[:, 0].to(t.float64)).sum().item()
        return run

    return make


device_time("matmul 8192^3 f32", "x1.01", matmul("float32"))
device_time("matmul 8192^3 bf16", "x1.01", matmul("bfloat16"))
device_time("matmul 8192^3 f64", "x1.01", matmul("float64"))


def bmm(t, d):
    a = normal(t, 512, 512, 512).to(t.bfloat16)
    return lambda: t.bmm(a, a)


device_time("batched matmul 512 x 512^3 bf16", "x1.01", bmm)


# ---- Host time of calls from Python
def call(name, goal, make, random=False):
    ROWS.append(Row(name, "us", 1, make, goal, random=random))


call("add into an output, 1024", "x0.7", lambda t, d: lambda: t.add(d.a, d.b, out=d.c))
call("a + b, 1024", "x0.7", lambda t, d: lambda: d.a + d.b)
call("empty(1024)", "<=0.6", lambda t, d: lambda: t.empty(1024, device="cuda"),
     random=True)
call("transposed view", "<=0.3", lambda t, d: lambda: d.m.t())
call("sum of 1024", "x0.7", lambda t, d: lambda: d.a.sum())
call("32 x 32 matmul", "x0.7", lambda t, d: lambda: d.m @ d.m)


def stream_context(t, d):
    stream = t.cuda.Stream()

    def run():
        with t.cuda.stream(stream):
            pass

    return run


def device_context(t, d):
    def run():
        with t.cuda.device(0):
            pass

    return run


def event_record(t, d):
    stream, event = t.cuda.Stream(), t.cuda.Event()
    return lambda: event.record(stream)


call("make a stream current and restore it", "<=0.5", stream_context)
call("make a device current and restore it", "<=0.5", device_context)
call("event record", "<=0.5", event_record)
call("memory_allocated", "<=0.3", lambda t, d: lambda: t.cuda.memory_allocated(),
     random=True)
call("memory_stats", "<=12", lambda t, d: lambda: t.cuda.memory_stats(), random=True)


# ---- Between devices: wall time with all devices waited for
def between(name, unit, amount, goal, make):
    ROWS.append(Row(name, unit, amount, make, goal, devices=2))


def everywhere(t):
    return list(range(t.cuda.device_count()))


def peer_copy(t, d):
    y = t.empty(d.n, device="cuda:1")
    return lambda: y.copy_(d.x)


def reduce_add(t, d):
    xs = [normal(t, d.n, device=f"cuda:{i}") for i in everywhere(t)]
    return lambda: t.cuda.comm.reduce_add(xs, 0)


def scatter(t, d):
    return lambda: t.cuda.comm.scatter(d.x.view(len(everywhere(t)), -1), everywhere(t))


def scatter_pinned(t, d):
    h = t.zeros(len(everywhere(t)), d.n // len(everywhere(t))).pin_memory()
    return lambda: t.cuda.comm.scatter(h, everywhere(t))


def gather_all(t, d):
    n = len(everywhere(t))
    parts = [normal(t, 1, d.n // n, device=f"cuda:{i}") for i in range(n)]
    return lambda: t.cuda.comm.gather(parts, 0, 0)


def coalesced(t, d):
    small = [normal(t, 1000 + i) for i in range(500)]
    return lambda: t.cuda.comm.broadcast_coalesced(small, everywhere(t))


def small_broadcast(t, d):
    small = normal(t, 1000)
    return lambda: t.cuda.comm.broadcast(small, devices=everywhere(t))


between("peer copy", "GB/s wall", 1, "", peer_copy)
between("broadcast 1 GiB", "GB/s wall", 1, ">=0.97 peer copy",
        lambda t, d: lambda: t.cuda.comm.broadcast(d.x, devices=everywhere(t)))
between("reduce_add 1 GiB", "GB/s wall", 1, ">=0.97 peer copy", reduce_add)
between("scatter from GPU 0", "GB/s wall", 0.5, ">=0.97 peer copy", scatter)
between("gather to GPU 0", "GB/s wall", 0.5, ">=0.97 peer copy", gather_all)
between("scatter from pinned", "GB/s wall", 1, "x1.0", scatter_pinned)
between("broadcast_coalesced of 500", "ms wall", 1, "<=0.3", coalesced)
between("broadcast of one small tensor", "us wall", 1, "<=10", small_broadcast)


# ---- Measuring
def synchronize(t):
    for i in range(t.cuda.device_count()):
        t.cuda.synchronize(i)


def timer(t, unit, quick):
    """A function that times one round of calls, in seconds per call."""
    if unit.endswith("wall"):
        count = 100 if unit.startswith("us") else 5

        def wall(f):
            synchronize(t)
            start = time.perf_counter()
            for _ in range(count):
                f()
            synchronize(t)
            return (time.perf_counter() - start) / count

        return wall
    if unit == "us":

        def host(f):
            start = time.perf_counter()
            for _ in range(200):
                f()
            elapsed = (time.perf_counter() - start) / 200
            t.cuda.synchronize()
            return elapsed

        return host
    count = 1 if quick else 10 if unit == "GB/s" else 3

    def device(f):
        begin, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    return device


def first_tensor(t, result):
    while isinstance(result, (tuple, list)) and result:
        result = result[0]
    return result if isinstance(result, t.Tensor) else None


def look_at(t, entry, run, result):
    """A few elements of a result. Raises if they cannot be what was to be computed and timed."""
    result = first_tensor(t, result)
    if result is None:
        return []
    if entry.devices == 1 and result.device.index != 0:
        raise AssertionError(f"the result is on {result.device}, timed is cuda:0")
    flat = result.flatten()
    count = flat.numel()
    places = sorted({min(count - 1, k * max(1, count // 6)) for k in range(7)})
    seen = [float(flat[i].item()) for i in places]
    if hasattr(run, "expected") and not close(seen[0], run.expected(), max(map(abs, seen))):
        raise AssertionError(f"element 0 is {seen[0]:g}, expected {run.expected():g}")
    return seen


def close(got, expected, scale):
    return abs(got - expected) <= 0.02 * (abs(expected) + scale)


def prepare(t, entry, data):
    """The call to be timed, and what some elements of its result are."""
    ember.manual_seed(1)
    run = entry.make(t, data[t])
    for _ in range(3):
        result = run()
    seen = look_at(t, entry, run, result)
    synchronize(t)
    # Events and "cuda" mean the current device. One library must not change it for the other.
    if t.cuda.current_device() != 0:
        now = t.cuda.current_device()
        t.cuda.set_device(0)
        raise AssertionError(f"the current device became {now}")
    return run, seen


def text_of(error):
    return f"{type(error).__name__}: {error}".split("\n")[0][:120].replace("|", "/")


def measure(entry, libraries, data, quick):
    calls, problem, seen = {}, {}, {}
    for t in libraries:
        try:
            calls[t], seen[t] = prepare(t, entry, data)
        except Exception as error:  # a row that does not exist yet is a row without a figure
            problem[t] = text_of(error)
    if len(seen) == 2 and not entry.random:
        ours, theirs = (seen[t] for t in libraries)
        scale = max(map(abs, theirs), default=0)
        if len(ours) != len(theirs) or not all(close(x, y, scale) for x, y in zip(ours, theirs)):
            # Which of them is wrong is not known, so neither has a figure.
            for t in libraries:
                problem[t] = f"results differ: {ours} and {theirs}"
            calls.clear()
    times = {t: [] for t in calls}
    for _ in range(1 if quick else 31 if entry.unit == "us" else 7):
        for t, f in calls.items():
            times[t].append(timer(t, entry.unit, quick)(f))
    figures = {}
    for t, seconds in times.items():
        median = sorted(seconds)[len(seconds) // 2]
        if entry.unit.startswith("GB/s"):
            figures[t] = entry.amount * 4 * data[t].n / median / 1e9
        else:
            figures[t] = median * (1e3 if entry.unit.startswith("ms") else 1e6)
    return figures, problem


def met(entry, ours, theirs, reference):
    more = entry.unit.startswith("GB/s")
    goal = entry.goal
    if not goal:
        return ""
    if goal.endswith("peer copy"):
        if "peer copy" not in reference:
            return ""
        return "yes" if ours >= 0.97 * reference["peer copy"] * 0.995 else "no"
    if goal.startswith("x"):
        if theirs is None:
            return ""
        limit = float(goal[1:]) * theirs
        return "yes" if (ours >= limit * 0.995 if more else ours <= limit * 1.005) else "no"
    limit = float(goal[2:])
    return "yes" if (ours >= limit * 0.995 if more else ours <= limit * 1.005) else "no"


def driver_version():
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "none"
    return answer.stdout.split("\n")[0].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="rows whose name contains this; may be given several times")
    parser.add_argument("--no-torch", action="store_true", help="measure ember alone")
    parser.add_argument("--quick", action="store_true", help="small and few: does everything run?")
    arguments = parser.parse_args()
    if not ember.cuda.is_available():
        sys.exit("bench_ops needs a CUDA device; EMBER_DEVICES=sim:2 makes simulated ones")
    libraries = [ember]
    if torch is not None and not arguments.no_torch and torch.cuda.is_available():
        torch.set_grad_enabled(False)
        libraries.append(torch)
    data = {t: Data(t, 1024 if arguments.quick else 1) for t in libraries}
    properties = ember.cuda.get_device_properties(0)
    machine = f"{ember.cuda.device_count()} x {properties.name}"
    head = f"| {machine} | unit | ours | PyTorch | ours/PyTorch | goal | met |"
    lines = [head, "|---|---|--:|--:|--:|---|---|"]
    print("\n".join(lines), flush=True)
    results, reference, counted, reached = [], {}, 0, 0
    for entry in ROWS:
        if arguments.only and not any(text in entry.name for text in arguments.only):
            continue
        if ember.cuda.device_count() < entry.devices:
            continue
        figures, problem = measure(entry, libraries, data, arguments.quick)
        ours, theirs = figures.get(ember), figures.get(torch)
        if ours is not None:
            reference[entry.name] = ours
        verdict = met(entry, ours, theirs, reference) if ours is not None else "no"
        counted += verdict != ""
        reached += verdict == "yes"
        ratio = f"{ours / theirs:.2f} x" if ours and theirs else ""
        shown = f"{ours:.4g}" if ours is not None else problem.get(ember, "")
        peer = f"{theirs:.4g}" if theirs is not None else problem.get(torch, "")
        line = (f"| {entry.name} | {entry.unit} | {shown} | {peer} | {ratio} | {entry.goal} | {verdict} |")
        lines.append(line)
        print(line, flush=True)
        results.append({"name": entry.name, "unit": entry.unit, "ours": ours, "pytorch": theirs,
                        "goal": entry.goal, "met": verdict, "problem": problem.get(ember, ""),
                        "pytorch_problem": problem.get(torch, "")})
    summary = f"{reached} of {counted} goals met."
    print(summary)
    today = datetime.date.today().isoformat()
    driver = driver_version()
    version = torch.__version__ if torch is not None else "not found"
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"date": today, "machine": machine, "driver": driver, "pytorch": version,
                       "rows": results}, file, indent=1)
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(f"# Operations, {today}, {machine}\n\n- driver: {driver}\n- pytorch: {version}\n\n")
            file.write("\n".join(lines) + f"\n\n{summary}\n")


if __name__ == "__main__":
    main()
