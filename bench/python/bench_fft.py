#!/usr/bin/env python3
"""Fourier transforms beside PyTorch on a GPU and beside SciPy on the CPU, in one process and one run.

    python3 bench_fft.py [--json FILE] [--only TEXT] [--quick] [--cpu | --cuda] [--large]

Both libraries take turns, round by round, on the same numbers; the figure of each is the least of
all rounds. On a GPU: the time between two events around several calls, and the host's time of one
call whose plan is there. On the CPU: one call, by one thread and by all. A ratio above one means
that ember is faster. --large adds signals of 2^24 points. Without PyTorch, SciPy or a GPU those
rows are left out.
"""

import argparse
import json
import sys
import time

import numpy as np

import ember

try:
    import torch
except ImportError:
    torch = None
try:
    import scipy.fft
except ImportError:
    scipy = None

ROWS = []


def report(name, unit, ours, theirs, other):
    ROWS.append({"row": name, "unit": unit, "ember": ours, other: theirs})
    ratio = f"{theirs / ours:5.2f} x" if theirs else ""
    beside = f"{other} {theirs:10.3f}" if theirs else " " * 16
    print(f"{name:44} ember {ours:10.3f}  {beside} {unit}  {ratio}", flush=True)


def turns(calls, seconds, time_of):
    """The least time of each call, of rounds in which all take turns."""
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        for i, call in enumerate(calls):
            best[i] = min(best[i], time_of(call))
        rounds += 1
    return best


# ---- On a GPU

GPU_SIGNALS = [
    ("c2c, 2^26", "fft", (1 << 26,), "complex64"),
    ("c2c, 16384 x 4096", "fft", (16384, 4096), "complex64"),
    ("rfft2, 8192 x 8192", "rfft2", (8192, 8192), "float32"),
    ("rfft, 2^26", "rfft", (1 << 26,), "float32"),
    ("fft of reals, 16384 x 4096", "fft", (16384, 4096), "float32"),
    ("c2c along the first of 4096 x 4096", "fft", (4096, 4096), "complex64"),
    ("half c2c, 16384 x 4096", "fft", (16384, 4096), "complex32"),
    ("half rfft2, 8192 x 8192", "rfft2", (8192, 8192), "float16"),
]


def shared(t, tensor):
    """A tensor of ember's as one of `t`, in the same memory."""
    return tensor if t is ember else t.from_dlpack(tensor)


def signal(shape, dtype):
    return ember.randn(*shape, dtype=getattr(ember, dtype), device="cuda")


def on_gpu(options):
    both = [ember] + ([torch] if torch is not None and torch.cuda.is_available() else [])
    print(f"device: {ember.cuda.get_device_name()}; PyTorch "
          f"{torch.__version__ if len(both) > 1 else 'is not there'}")
    for name, function, shape, dtype in GPU_SIGNALS:
        if options.only not in name:
            continue
        shape = tuple(size // (4 if options.quick else 1) for size in shape)
        keywords = {"dim": 0} if "first" in name else {}

        numbers = signal(shape, dtype)

        def prepared(t):
            x = shared(t, numbers)
            call = getattr(t.fft, function)
            return t, lambda: call(x, **keywords)

        def device_time(one):
            t, call = one
            begin, end = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(5):
                call()
            end.record()
            t.cuda.synchronize()
            return begin.elapsed_time(end) / 5

        calls = [prepared(t) for t in both]
        for one in calls:
            device_time(one)
        times = turns(calls, options.seconds, device_time)
        report(name, "ms", times[0], times[1] if len(times) > 1 else None, "torch")
        del calls, numbers
        for t in both:
            t.cuda.empty_cache()

    for name, shape, function in (("host, c2c of 1024", (1024,), "fft"),
                                  ("host, c2c of 64 x 256", (64, 256), "fft"),
                                  ("host, rfft2 of 64 x 64", (64, 64), "rfft2")):
        if options.only not in name:
            continue

        numbers = signal(shape, "complex64" if function == "fft" else "float32")

        def small(t):
            x = shared(t, numbers)
            call = getattr(t.fft, function)
            return t, lambda: call(x)

        def host_time(one, calls=50):
            t, call = one
            t.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            return (time.perf_counter() - begin) / calls * 1e6

        calls = [small(t) for t in both]
        for one in calls:
            host_time(one)
        times = turns(calls, options.seconds, host_time)
        report(name, "us", times[0], times[1] if len(times) > 1 else None, "torch")


# ---- On the CPU

def cpu_signals(large):
    for dtype in ("complex64", "complex128"):
        for shape in ((1000,), (1024,), (1021,), (1 << 20,), (1000003,), (16384, 256),
                      (1000, 1000), (11, 10007), (16, 16384), (16, 65536), (16, 131072),
                      (16, 262144), (16, 100003)):
            yield "fft", dtype, shape, {}
        yield "fft2", dtype, (1024, 1024), {}
        yield "fftn", dtype, (128, 128, 128), {}
        yield "fft", dtype, (1024, 2048), {"dim": 0}
        if large:
            yield "fft", dtype, (1 << 24,), {}
    for dtype in ("float32", "float64"):
        for shape in ((1024,), (1 << 20,), (16384, 256)):
            yield "rfft", dtype, shape, {}
            yield "fft", dtype, shape, {}
        yield "rfft2", dtype, (2048, 2048), {}


def on_cpu(options):
    random = np.random.default_rng(0)
    every = ember.get_num_threads()
    for threads in sorted({1, every}):
        ember.set_num_threads(threads)
        for function, dtype, shape, keywords in cpu_signals(options.large):
            along = f" along {keywords['dim']}" if keywords else ""
            name = f"{function} {dtype} {' x '.join(map(str, shape))}{along}, threads: {threads}"
            if options.only not in name:
                continue
            x = random.standard_normal(shape)
            if dtype.startswith("complex"):
                x = x + 1j * random.standard_normal(shape)
            x = x.astype(dtype)
            tensor = ember.from_numpy(x)
            ours = getattr(ember.fft, function)
            calls = [lambda: ours(tensor, **keywords)]
            if scipy is not None:
                theirs = getattr(scipy.fft, function)
                axis = {"axis": keywords["dim"]} if keywords else {}
                calls.append(lambda: theirs(x, workers=threads, **axis))

            def once(call):
                begin = time.perf_counter()
                call()
                return (time.perf_counter() - begin) * 1e3

            for call in calls:
                call()
            times = turns(calls, options.seconds, once)
            report(name, "ms", times[0], times[1] if len(times) > 1 else None, "scipy")
    ember.set_num_threads(every)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    options.seconds = 0.1 if options.quick else 1.0
    if not options.cpu and ember.cuda.is_available():
        on_gpu(options)
    elif options.cuda:
        sys.exit("bench_fft.py: there is no device")
    if not options.cuda:
        on_cpu(options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(ROWS, file, indent=1)


if __name__ == "__main__":
    main()
