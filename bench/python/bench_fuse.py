#!/usr/bin/env python3
"""Fused functions beside PyTorch's: operation by operation, and through torch.compile.

    python3 bench_fuse.py [--only TEXT] [--json FILE] [--no-torch] [--no-compile] [--quick]

Each function is written once and given to both libraries, in one process; all ways take turns, call
by call. A figure is the median over the calls of the bytes that have to be read and written at
least, per second of the device's time between two events. "beside a copy" is the rate of ember's
fused function divided by that of ember's copy of the same size.
"""

import argparse
import functools
import json
import math
import statistics

import ember

try:
    import torch
    if not torch.cuda.is_available():
        torch = None
except ImportError:
    torch = None

SLEEP = 400_000  # cycles
ROOT_OF_HALF = 0.70710678118654752


def gelu(t, x):
    return 0.5 * x[0] * (1.0 + t.erf(x[0] * ROOT_OF_HALF))


def adam(t, x):
    weights, gradient, mean, square = x
    mean.mul_(0.9).add_(gradient, alpha=0.1)
    square.mul_(0.999).add_(gradient * gradient, alpha=0.001)
    size = t.sqrt(square / (1 - 0.999**10)) + 1e-8
    weights.sub_(mean / (1 - 0.9**10) / size * 1e-3)
    return weights


def black_scholes(t, x):
    spot, strike, years = x[:3]
    rate, volatility = 0.02, 0.3

    def cdf(z):
        return 0.5 * (1.0 + t.erf(z * ROOT_OF_HALF))

    spread = volatility * t.sqrt(years)
    up = (t.log(spot / strike) + (rate + volatility * volatility / 2) * years) / spread
    return spot * cdf(up) - strike * t.exp(-rate * years) * cdf(up - spread)


def layer_norm(t, x):
    apart = x[0] - x[0].mean(-1, keepdim=True)
    variance = (apart * apart).mean(-1, keepdim=True)
    return apart / t.sqrt(variance + 1e-5) * x[1] + x[2]


def masked_softmax(t, x):
    scores, mask = x
    return t.softmax((scores / 0.7).masked_fill(mask, -math.inf), -1)


def mean_squared_difference(t, x):
    return (x[0] - x[1]).square().mean()


def elements(t, count, dtype):
    """Four rows of numbers."""
    return [t.full((count,), 0.5 + i, dtype=dtype, device="cuda") for i in range(4)]


def rows(t, count, length, dtype):
    row = t.sin(t.arange(length, device="cuda") * 0.37)
    return (row.expand(count // length, length) + 0.0).to(dtype)


def examples(count):
    """(name, function, bytes per element, inputs in a library)"""
    yield "gelu", gelu, 8, lambda t: elements(t, count, t.float32)
    yield "a step of Adam", adam, 28, lambda t: elements(t, count, t.float32)
    yield "Black-Scholes", black_scholes, 16, lambda t: elements(t, count, t.float32)
    for length in (1024, 16384):
        for name, size in (("float32", 4), ("bfloat16", 2)):
            def normed(t, length=length, name=name):
                x = rows(t, count, length, getattr(t, name))
                return [x, x[0] + 1, x[0] + 1]

            def masked(t, length=length, name=name):
                x = rows(t, count, length, getattr(t, name))
                return [x, x > 0.9]

            def two(t, length=length, name=name):
                x = rows(t, count, length, getattr(t, name))
                return [x, x * 0.9]

            of = f", {name}, rows of {length}"
            yield "layer normalisation" + of, layer_norm, 2 * size, normed
            yield "softmax with temperature and mask" + of, masked_softmax, 2 * size + 1, masked
            yield "mean squared difference" + of, mean_squared_difference, 2 * size, two


class Way:
    """A function as one library does it, and how long its calls took, in milliseconds."""

    def __init__(self, t, call):
        self.t, self.call, self.times = t, call, []
        for _ in range(3):
            call()
        t.cuda.synchronize()

    def measure(self):
        start, end = (self.t.cuda.Event(enable_timing=True) for _ in range(2))
        self.t.cuda._sleep(SLEEP)  # the host is ahead of the device by then
        start.record()
        self.call()
        end.record()
        end.synchronize()
        self.times.append(start.elapsed_time(end))


def ways(function, inputs, compiles):
    x = inputs(ember)
    copied = ember.empty_like(x[0])
    yield "copy", Way(ember, lambda: copied.copy_(x[0]))
    fused = ember.fuse(functools.partial(function, ember))
    yield "fused", Way(ember, lambda: fused(x))
    yield "one by one", Way(ember, lambda: function(ember, x))
    if torch is None:
        return
    y = inputs(torch)
    yield "PyTorch", Way(torch, lambda: function(torch, y))
    if compiles:
        torch._dynamo.reset()
        compiled = torch.compile(functools.partial(function, torch), dynamic=False)
        yield "torch.compile", Way(torch, lambda: compiled(y))


def measured(name, function, size, inputs, options):
    each = dict(ways(function, inputs, not options.no_compile))
    for _ in range(3 if options.quick else 31):
        for way in each.values():
            way.measure()
    count = inputs(ember)[0].numel()
    copy_size = 2 * inputs(ember)[0].element_size()
    row = {"name": name}
    for way, made in each.items():
        of = copy_size if way == "copy" else size
        row[way] = of * count / statistics.median(made.times) / 1e6
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="functions whose name contains this")
    parser.add_argument("--json", help="where the figures go")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--quick", action="store_true", help="hardly any repetitions, small tensors")
    options = parser.parse_args()
    global torch
    if options.no_torch:
        torch = None
    columns = ["copy", "fused", "one by one", "PyTorch", "torch.compile"]
    print(ember.cuda.get_device_name(0))
    print(f"{'GB/s':56}" + "".join(f"{column:>15}" for column in [*columns, "beside a copy"]))
    kept = []
    for name, function, size, inputs in examples(2**17 if options.quick else 100 * 2**20):
        if options.only not in name:
            continue
        row = measured(name, function, size, inputs, options)
        text = "".join(f"{row[c]:15.0f}" if c in row else f"{'':15}" for c in columns)
        print(f"{name:56}{text}{row['fused'] / row['copy']:15.2f}", flush=True)
        kept.append(row)
        ember.cuda.empty_cache()
        if torch is not None:
            torch.cuda.empty_cache()
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"device": ember.cuda.get_device_name(0), "rows": kept}, file, indent=1)


if __name__ == "__main__":
    main()
