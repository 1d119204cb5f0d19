#!/usr/bin/env python3
"""What a device model says of programs, beside what a real device does: operation by operation, and to
the end.

    python3 bench_model.py [--json FILE] [--model NAME] [--real DEVICES]

Each program runs in a process of its own, once on the devices of --real (EMBER_DEVICES, default cuda) and
once on a simulated one under EMBER_SIM_SCHEDULE=model:NAME. Its operations are those of a timeline. To the
end is between two events of runs without one, since a timeline adds some microseconds to each kernel of a
real device; of digits, a program by itself, it is what the timeline says. The model's constants are from
microbenchmarks (ember/driver/sim/device_model.cpp), none of these programs among them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KNN = os.path.join(ROOT, "build", "release", "bin", "knn")
SLICES = ("kernel", "copy", "fill")


def pipeline(torch):
    """Pieces come from pinned memory, are computed with, and go back, on two streams."""
    pieces, elements = 8, 1 << 22
    source = torch.ones(pieces, elements, pin_memory=True)
    result = torch.empty(pieces, elements, pin_memory=True)
    copies, computes = torch.cuda.Stream(), torch.cuda.Stream()
    piece = [torch.empty(elements, device="cuda") for _ in range(2)]
    free = [torch.cuda.Event() for _ in range(2)]

    def run():
        for i in range(pieces):
            there, mine = torch.cuda.Event(), piece[i % 2]
            with torch.cuda.stream(copies):
                if i >= 2:
                    copies.wait_event(free[i % 2])
                mine.copy_(source[i], non_blocking=True)
                there.record()
            with torch.cuda.stream(computes):
                computes.wait_event(there)
                mine.mul_(2).add_(1)
                result[i].copy_(mine, non_blocking=True)
                free[i % 2].record()

    return run, copies, computes


def layers(torch):
    """Products of matrices with an activation behind each, as in the step of a network."""
    x = torch.full((1024, 2048), 0.5, device="cuda")
    weights = [torch.full((2048, 2048), 0.001, device="cuda") for _ in range(6)]
    shift = torch.full((2048,), 0.01, device="cuda")

    def run():
        out = x
        for weight in weights:
            out = (torch.matmul(out, weight) + shift).relu()
        return out.softmax(1).sum()

    return (run,)


def adam(torch):
    """A step of Adam, written out, over 2^24 parameters."""
    p, g, m, v = (torch.full((1 << 24,), value, device="cuda") for value in (1.0, 0.1, 0.0, 0.0))

    def run():
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-0.001)
        return p.norm()

    return (run,)


PROGRAMS = {"pipeline": pipeline, "layers": layers, "adam": adam}


def to_the_end(torch, run, streams):
    """Microseconds from where the program's streams begin until all of them are through."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for stream in streams:
        stream.wait_event(begin)
    kept = run()
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    end.record()
    end.synchronize()
    del kept
    return begin.elapsed_time(end) * 1000


def record(name, path):
    """In a process of its own: runs of the program when code and memory are there."""
    import ember as torch

    run, *streams = PROGRAMS[name](torch)
    run()
    torch.cuda.synchronize()
    with open(path + ".end", "w") as file:
        print(statistics.median(to_the_end(torch, run, streams) for _ in range(5)), file=file)
    with torch.cuda.Timeline(path):
        kept = run()
        torch.cuda.synchronize()
    del kept


def model_of(devices):
    asked = "import ember; print(ember.cuda.get_device_name(0))"
    name = subprocess.run([sys.executable, "-c", asked], env=dict(os.environ, EMBER_DEVICES=devices), check=True,
                          capture_output=True, text=True).stdout
    return "h100" if "H100" in name else "h200"


def timeline_of(name, devices, schedule):
    """What the program's timeline has, and how long it took to the end if that was measured beside it."""
    environment = dict(os.environ, EMBER_DEVICES=devices)
    environment.pop("EMBER_SIM_SCHEDULE", None)
    if schedule:
        environment["EMBER_SIM_SCHEDULE"] = schedule
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.json")
        if name == "digits":
            command = [KNN, "--devices", "1", "--repeat", "20", "--batch", "1024", "--timeline", path]
        else:
            command = [sys.executable, __file__, "--record", name, path]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        with open(path) as file:
            timeline = json.load(file)
        if not os.path.exists(path + ".end"):
            return timeline, None
        with open(path + ".end") as file:
            return timeline, float(file.read())


def operations(timeline):
    """The operations of each stream in their order, as (name, begin, microseconds); streams in the order
    of their first operation."""
    events = timeline["traceEvents"] if isinstance(timeline, dict) else timeline
    streams = {}
    for event in events:
        if event.get("cat") in SLICES and event["ph"] == "X":
            stream = streams.setdefault((event["pid"], event["tid"]), [])
            stream.append((event["name"], event["ts"], event["dur"]))
    for stream in streams.values():
        stream.sort(key=lambda operation: operation[1])
    return sorted(streams.values(), key=lambda stream: stream[0][1])


def second_half(streams):
    """digits brings its device up within its timeline: what it does at first is no matter of the model's."""
    return [stream[len(stream) // 2:] for stream in streams]


def whole(streams):
    begin = min(stream[0][1] for stream in streams)
    return max(ts + dur for stream in streams for _, ts, dur in stream) - begin


def compare(name, real, modelled, ends):
    named = [[[operation[0] for operation in stream] for stream in streams] for streams in (real, modelled)]
    if sorted(named[0]) != sorted(named[1]):
        print(f"{name}: the operations differ, so only their sums are compared")
    by_name = {}
    for which, streams in enumerate((real, modelled)):
        for stream in streams:
            for operation, _, dur in stream:
                by_name.setdefault(operation, ([], []))[which].append(dur)
    rows = []
    for operation, (there, here) in sorted(by_name.items(), key=lambda item: -sum(item[1][0])):
        if there and here:
            rows.append({"operation": operation, "count": len(there),
                         "real_us": statistics.median(there), "model_us": statistics.median(here),
                         "share": sum(there)})
    total = sum(row["share"] for row in rows)
    for row in rows:
        row["share"] = row["share"] / total if total else 0
    ends = {"real_us": ends[0] or whole(real), "model_us": ends[1] or whole(modelled)}
    print(f"\n{name}: to the end {ends['real_us']:.1f} us, by the model {ends['model_us']:.1f} us "
          f"({ends['model_us'] / ends['real_us']:.2f} x)")
    print(f"  {'operation':32} {'count':>5} {'share':>6} {'real us':>9} {'model us':>9} {'ratio':>6}")
    for row in rows:
        print(f"  {row['operation'][:32]:32} {row['count']:5} {row['share']:6.1%} {row['real_us']:9.2f} "
              f"{row['model_us']:9.2f} {row['model_us'] / max(row['real_us'], 1e-3):6.2f}")
    return {"program": name, **ends, "operations": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--model", help="default: that of the first real device, or else h200")
    parser.add_argument("--real", default=os.environ.get("EMBER_DEVICES", "cuda"))
    parser.add_argument("--record", nargs=2, metavar=("PROGRAM", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record:
        return record(*arguments.record)
    model = arguments.model or model_of(arguments.real)
    print(f"model: {model}")
    results = []
    for name in ["digits", *PROGRAMS]:
        real, real_end = timeline_of(name, arguments.real, None)
        modelled, model_end = timeline_of(name, "sim:1@8GiB", "model:" + model)
        real, modelled = operations(real), operations(modelled)
        if name == "digits":
            real, modelled = second_half(real), second_half(modelled)
        results.append(compare(name, real, modelled, (real_end, model_end)))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
