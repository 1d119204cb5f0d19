#!/usr/bin/env python3
"""What the stream sanitizer adds to a call from Python, beside PyTorch's own on the same program.

    python3 bench_sanitizer.py [--no-torch] [--quick]

Each figure is the median of bursts of 200 calls, below twenty frames of Python, after a million calls,
with the sanitizer and without it, each in a process of its own. Memory is what the process holds more
after that million. PyTorch is measured where it finds a GPU.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time

CALLS = 200
GOAL = 2.0  # microseconds that it may add


def at_depth(depth, work):
    """Calls it below so many frames."""
    return at_depth(depth - 1, work) if depth else work()


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def child(name, quick):
    """Prints a line for each row: its name, microseconds, MiB."""
    t = importlib.import_module(name)
    a, b, c = (t.ones(64, device="cuda") for _ in range(3))
    works = {"add into an output": lambda: t.add(a, b, out=c), "a + b": lambda: a + b}

    def burst(work):
        start = time.perf_counter()
        for _ in range(CALLS):
            work()
        took = time.perf_counter() - start
        t.cuda.synchronize()
        return took / CALLS * 1e6

    for row, work in works.items():
        before = resident()
        for _ in range(2 if quick else 5000):
            at_depth(20, lambda work=work: burst(work))
        grown = resident() - before
        times = [at_depth(20, lambda work=work: burst(work)) for _ in range(3 if quick else 101)]
        print(f"{row}\t{statistics.median(times)}\t{grown}")


def measure(name, watched, quick):
    environment = {key: value for key, value in os.environ.items() if "SANITIZER" not in key}
    if watched:
        environment["TORCH_CUDA_SANITIZER"] = "1"
    done = subprocess.run([sys.executable, __file__, "--child", name] + ["--quick"] * quick,
                          env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr}")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return {row: (float(us), float(mib)) for row, us, mib in lines}


def has_gpu(name):
    return subprocess.run(
        [sys.executable, "-c", f"import {name} as t; assert t.cuda.is_available()"],
        capture_output=True, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-torch", action="store_true", help="ember alone")
    parser.add_argument("--quick", action="store_true", help="whether everything runs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.child, chosen.quick)
    print(f"{'':36}{'without':>10}{'with':>10}{'adds':>10}{'memory':>12}  goal")
    missed = 0
    for name in ["ember"] + ["torch"] * (not chosen.no_torch and has_gpu("torch")):
        without, watched = (measure(name, on, chosen.quick) for on in (False, True))
        for row, (us, grown) in watched.items():
            added = us - without[row][0]
            goal = "" if name != "ember" else f"<= {GOAL:g}  {'yes' if added <= GOAL else 'no'}"
            missed += name == "ember" and added > GOAL
            print(f"{name + ': ' + row:36}{without[row][0]:8.2f}us{us:8.2f}us{added:8.2f}us"
                  f"{grown:9.1f}MiB  {goal}")
    return int(missed and not chosen.quick)


if __name__ == "__main__":
    sys.exit(main())
