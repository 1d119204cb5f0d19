#!/usr/bin/env python3
"""Graphs beside PyTorch's, in one process and one run: both take turns, round by round.

    python3 bench_graphs.py [--json FILE] [--no-torch] [--quick]

Times of calls are the host's, in microseconds; those "to the end" include the device's work. Each
figure is the median over the rounds. Without PyTorch with CUDA, or with --no-torch, only ember is
measured.
"""

import argparse
import json
import statistics
import time

import ember

try:
    import torch
    if not torch.cuda.is_available():
        torch = None
except ImportError:
    torch = None

OPERATIONS = 200
ELEMENTS = 1024


def captured(t, work):
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        work()
    return graph


class Library:
    """The same work in one of the two libraries."""

    def __init__(self, t):
        self.t = t
        x = t.zeros(ELEMENTS, device="cuda")
        self.x = x

        def add():
            for _ in range(OPERATIONS):
                x.add_(1)

        add()
        self.add = add
        self.stream = t.cuda.Stream()
        self.graph = captured(t, add)
        shapes = [t.zeros(100 + i, device="cuda") for i in range(64)]

        def differing():
            for tensor in shapes:
                for _ in range(4):
                    tensor.add_(1)

        self.differing = differing
        inputs = t.full((32, 256), 0.5, device="cuda")
        weights = [t.full((256, 256), 0.004, device="cuda") for _ in range(20)]
        shifts = [t.full((256,), 0.01, device="cuda") for _ in range(20)]

        def step():
            out = inputs
            for weight, shift in zip(weights, shifts):
                out = (t.matmul(out, weight) + shift).relu() * 1.01
            return out

        side = t.cuda.Stream()
        side.wait_stream(t.cuda.current_stream())
        with t.cuda.stream(side):
            for _ in range(3):
                step()
        t.cuda.current_stream().wait_stream(side)
        self.step = step
        self.step_graph = captured(t, step)

    def capture(self):
        graph = self.t.cuda.CUDAGraph()
        with self.t.cuda.stream(self.stream):
            graph.capture_begin()
            self.add()
            graph.capture_end()

    def wait(self):
        self.t.cuda.synchronize()

    def rows(self):
        """(name, calls in a round, call, whether the device's work counts, divided by)"""
        return [
            ("captured and made ready, 200 times x.add_(1)", 3, self.capture, False, 1),
            ("replayed, 200 times x.add_(1)", 5, self.graph.replay, False, 1),
            ("called one by one, 200 times x.add_(1)", 1, self.add, False, 1),
            ("shapes that differ each 4 operations, per operation", 1, self.differing, False, 256),
            ("a step of inference, called, to the end", 5, self.step, True, 1),
            ("a step of inference, replayed, to the end", 5, self.step_graph.replay, True, 1),
        ]


class Ember(Library):
    """What only ember has, too."""

    def __init__(self):
        super().__init__(ember)
        x = self.x
        self.bound = captured(ember, lambda: [x + 1 for _ in range(OPERATIONS)])
        self.others = [ember.ones(ELEMENTS, device="cuda") for _ in range(2)]
        self.turn = 0

    def bind(self):
        self.turn ^= 1
        self.bound.replay(bind={self.x: self.others[self.turn]})

    def bind_alike(self):
        self.bound.replay(bind={self.x: self.others[0]})

    def rows(self):
        return super().rows() + [
            ("replayed, 200 times x + 1", 5, self.bound.replay, False, 1),
            ("replayed with another tensor each time, 200 times x + 1", 5, self.bind, False, 1),
            ("replayed with the same other tensor, 200 times x + 1", 5, self.bind_alike, False, 1),
        ]


def measure(library, row):
    _, calls, call, to_the_end, parts = row
    library.wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    if to_the_end:
        library.wait()
    end = time.perf_counter()
    library.wait()
    return (end - start) / calls / parts * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    libraries = {"ember": Ember()}
    if torch is not None and not options.no_torch:
        libraries["torch"] = Library(torch)
    rounds = 3 if options.quick else 51
    rows = {name: library.rows() for name, library in libraries.items()}
    results = []
    for which, row in enumerate(rows["ember"]):
        times = {name: [] for name in libraries if which < len(rows[name])}
        for _ in range(rounds + 1):
            for name, all_times in times.items():
                all_times.append(measure(libraries[name], rows[name][which]))
        result = {"name": row[0], "unit": "us"}
        result.update({name: statistics.median(all_times[1:]) for name, all_times in times.items()})
        results.append(result)
        print(f"{row[0]:60}" + "".join(
            f"  {name} {result[name]:10.3f}" for name in times), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": ember.cuda.get_device_name(0), "rows": results}, file, indent=1)


if __name__ == "__main__":
    main()
