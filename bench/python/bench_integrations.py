#!/usr/bin/env python3
"""PyTorch and CuPy on ember's allocator: the same programs with their own allocator and on ember's, in
processes of their own, by turns.

    python3 bench_integrations.py [--quick] [--markdown FILE]

Every program prints its results as exact numbers, which have to be the same, the time of a step, the
least of several runs in several processes, and the most memory that it held. Exits with 1 where
results differ.

    streams   training with batches prefetched from pinned memory on a side stream (record_stream)
    graph     a training step captured into a CUDA graph and replayed, between eager steps
    memory    runs out of memory, frees, and goes on
    cupy      sums and products over CuPy's arrays of changing sizes, two streams, a pool of its own
"""

import argparse
import json
import subprocess
import sys
import time


def network(torch, width):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    net = torch.nn.Sequential(torch.nn.Linear(256, width), torch.nn.GELU(),
                              torch.nn.Linear(width, width), torch.nn.LayerNorm(width),
                              torch.nn.ReLU(), torch.nn.Linear(width, 10)).cuda()
    return net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)


def streams(torch, steps):
    net, optimizer = network(torch, 1024)
    side = torch.cuda.Stream()
    generator = torch.Generator().manual_seed(2)
    batches = [(torch.randn(512 + 64 * (i % 5), 256, generator=generator).pin_memory(),
                torch.randint(0, 10, (512 + 64 * (i % 5),), generator=generator).pin_memory())
               for i in range(8)]

    def fetch(i):
        with torch.cuda.stream(side):
            return [t.to("cuda", non_blocking=True) for t in batches[i % len(batches)]]

    losses, following = [], fetch(0)
    for i in range(steps):
        torch.cuda.current_stream().wait_stream(side)
        x, y = following
        x.record_stream(torch.cuda.current_stream())
        y.record_stream(torch.cuda.current_stream())
        following = fetch(i + 1)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item().hex() for loss in losses]


def graph(torch, steps):
    net, optimizer = network(torch, 512)
    x, y = torch.randn(256, 256, device="cuda"), torch.randint(0, 10, (256,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = step()
    losses = []
    for i in range(steps):
        x.copy_(torch.randn(256, 256, generator=torch.Generator().manual_seed(i)))
        between = torch.ones(1 + i * 1000, device="cuda") * 2  # eager memory beside the graph's
        captured.replay()
        losses += [loss.item().hex(), between.sum().item()]
    del captured
    return losses


def memory(torch, steps):
    torch.cuda.set_per_process_memory_fraction(0.05)
    total = int(torch.cuda.get_device_properties(0).total_memory * 0.05)
    results = []
    for i in range(max(2, steps // 50)):
        held = []
        try:
            while True:
                held.append(torch.full((total // 8,), i + 1, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            results.append("out of memory" in str(error))
        results.append(int(held[-1][-1].item()))
        held.clear()
        results.append(torch.ones(1000, device="cuda").sum().item())
    return results


def cupy(cp, steps):
    other = cp.cuda.Stream()
    results = []
    for i in range(steps):
        x = cp.arange(1000 + 977 * (i % 50), dtype=cp.float64)
        y = (x * 2 + i)[::2]
        with other:
            z = cp.ones(500 + i, dtype=cp.float32) * 3
            results.append(float(z.sum()).hex())
        results.append(float(y.sum()).hex())
    return results


PROGRAMS = {"streams": streams, "graph": graph, "memory": memory, "cupy": cupy}


def child(name, allocator, steps, runs):
    if name == "cupy":
        import cupy as library
        synchronize = library.cuda.runtime.deviceSynchronize
    else:
        import torch as library
        synchronize = library.cuda.synchronize
    if allocator == "ember":
        import ember
        if name == "cupy":
            import ember.integrations.cupy
            ember.integrations.cupy.install(ember.cuda.MemPool())
        else:
            import ember.integrations.torch
            ember.integrations.torch.install()
    run = PROGRAMS[name]
    run(library, 3)
    synchronize()
    seconds, results = float("inf"), None
    for _ in range(runs):
        began = time.perf_counter()
        got = run(library, steps)
        synchronize()
        seconds = min(seconds, time.perf_counter() - began)
        assert results in (None, got), "a program's own results differ from run to run"
        results = got
    if allocator == "ember":
        peak = ember.cuda.max_memory_reserved()
    elif name == "cupy":
        peak = library.get_default_memory_pool().total_bytes()
    else:
        peak = library.cuda.max_memory_reserved()
    print(json.dumps({"results": results, "step": seconds / steps, "peak": peak}))


def ask(name, allocator, steps, runs):
    done = subprocess.run([sys.executable, __file__, "--child", name, allocator, str(steps),
                           str(runs)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return None, f"exit status {done.returncode}"
    return json.loads(done.stdout.splitlines()[-1]), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few steps: does everything run?")
    parser.add_argument("--only", action="append")
    parser.add_argument("--markdown")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child[0], options.child[1], int(options.child[2]),
                     int(options.child[3]))
    rounds, steps, runs = (1, 20, 1) if options.quick else (8, 150, 4)
    lines = ["| program | own, us per step | on ember, us | ratio | own, MiB held | on ember, MiB "
             "| results |", "|---|--:|--:|--:|--:|--:|---|"]
    failed = False
    for name in options.only or PROGRAMS:
        best, wrong = {}, None
        for _ in range(rounds):
            for allocator in ("own", "ember"):
                got, error = ask(name, allocator, steps, runs)
                if error is not None:
                    wrong = f"{allocator}: {error}"
                    break
                if allocator not in best or got["step"] < best[allocator]["step"]:
                    best[allocator] = got
        if wrong is None and best["own"]["results"] != best["ember"]["results"]:
            wrong = "differ"
        failed |= wrong is not None
        own, ours = best.get("own"), best.get("ember")
        if own and ours:
            lines.append(f"| {name} | {own['step'] * 1e6:.1f} | {ours['step'] * 1e6:.1f} "
                         f"| {ours['step'] / own['step']:.3f} | {own['peak'] / 2**20:.1f} "
                         f"| {ours['peak'] / 2**20:.1f} | {wrong or 'equal'} |")
        else:
            lines.append(f"| {name} | | | | | | {wrong} |")
    print("\n".join(lines))
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
