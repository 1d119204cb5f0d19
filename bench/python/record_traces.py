#!/usr/bin/env python3
"""Records what PyTorch programs ask of its caching allocator, for replays of it.

    python3 record_traces.py [--out FOLDER] [--only TEXT] [--timeout SECONDS]

Needs PyTorch with CUDA and a GPU, and nothing of ember; takes less than a minute and some 40 GiB of the
GPU, since all run at once. Each program runs in two processes: one records its history, from before the first
allocation, and the other has expandable segments, and only its peaks are kept. Writes
FOLDER/NAME.trace, the text that docs/traces.md describes, and the same as NAME.trace.gz. Exit
status 77 without a GPU, 1 if a program fails: the others' traces are written all the same.
"""

import argparse
import bisect
import gzip
import json
import os
import random
import subprocess
import sys
import time

LETTERS = {"alloc": "a", "free_requested": "r", "free_completed": "c", "segment_alloc": "+", "segment_free": "-"}
MOST_ENTRIES = 200_000


# ---- The text


class Told(Exception):
    """What is wrong with a history, for people."""


def pools_of(segments):
    """The pools of the segments of a snapshot, by address; nothing if all are everybody's."""
    found = {segment["address"]: tuple(segment.get("segment_pool_id", (0, 0))) for segment in segments}
    return found if any(pool != (0, 0) for pool in found.values()) else {}


def text_of(entries, program, native=None, expandable=None, segments=()):
    """The text of one device's history, as `_snapshot()["device_traces"]` has it. PyTorch 2.11's
    entries name no pool: the segments of the same snapshot do."""
    streams, pools, known, lines = {}, {(0, 0): 0}, {}, []
    pool_of, starts = pools_of(segments), sorted(segment["address"] for segment in segments)
    for entry in entries:
        action = entry["action"]
        if action in ("segment_map", "segment_unmap"):
            raise Told("the segments grow; expected a run without expandable segments")
        letter = LETTERS.get(action)
        if letter is None:  # snapshot, oom, and what there may be in future
            continue
        address, size = entry["addr"], entry["size"]
        if letter == "a" and size == 0:
            continue
        if address % 512:
            raise Told(f"{action} at {address:#x}, expected a multiple of 512")
        line = f"{letter} {address // 512:x}"
        if letter in "a+":
            stream = streams.setdefault(entry["stream"], len(streams))
            pool = entry.get("pool_id", entry.get("segment_pool_id", (0, 0)))
            if pool_of:
                here = bisect.bisect_right(starts, address)
                pool = pool_of[starts[here - 1]] if here else pool
            line += f" {size} {stream} {pools.setdefault(tuple(pool), len(pools))}"
            known[letter == "+", address] = size
        elif (letter == "-", address) not in known:
            raise Told(f"{action} of what was there before the history")
        elif letter == "-" and pool_of:
            raise Told("a segment went back; expected none in a program with pools")
        lines.append(line)
    head = ["ember-trace 1", "program " + " ".join(program.split())]
    for name, peaks in (("native", native), ("expandable", expandable)):
        if peaks:
            head.append(f"peak {name} {peaks[0]} {peaks[1]}")
    return "\n".join([*head, *lines, f"end {len(lines)}", ""])


# ---- Programs. They ask for the same memory each time.


def training(torch, device):
    """A perceptron and AdamW: the same sizes in each step."""
    layers = []
    for _ in range(6):
        layers += [torch.nn.Linear(1024, 3072), torch.nn.GELU(), torch.nn.Linear(3072, 1024), torch.nn.LayerNorm(1024)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(120):
        x = torch.randn(512, 1024, device=device)
        y = torch.randint(0, 10, (512,), device=device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


class Block:
    """A block of a transformer, without anything that brings libraries of its own."""

    def __init__(self, torch, width, heads, device):
        def weight(*shape):
            return (torch.randn(*shape, device=device) / shape[0] ** 0.5).requires_grad_()

        self.torch, self.heads = torch, heads
        self.qkv, self.out = weight(width, 3 * width), weight(width, width)
        self.up, self.down = weight(width, 4 * width), weight(4 * width, width)

    def parameters(self):
        return [self.qkv, self.out, self.up, self.down]

    def __call__(self, x, cache=None):
        torch = self.torch
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        normal = torch.nn.functional.layer_norm(x, (width,))
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in (normal @ self.qkv).chunk(3, dim=-1))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            cache[:] = [k.contiguous(), v.contiguous()]
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        x = x + (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(x.shape) @ self.out
        normal = torch.nn.functional.layer_norm(x, (width,))
        return x + torch.nn.functional.gelu(normal @ self.up) @ self.down


def lengths(torch, device):
    """A transformer whose batches have another length in each step: fragments memory."""
    choose = random.Random(1)
    blocks = [Block(torch, 512, 8, device) for _ in range(4)]
    embedding = (torch.randn(8192, 512, device=device) / 23).requires_grad_()
    optimizer = torch.optim.Adam([p for b in blocks for p in b.parameters()] + [embedding], lr=1e-4)
    for _ in range(90):
        batch, length = choose.choice([2, 4, 8]), choose.randrange(33, 769)
        tokens = torch.randint(0, 8192, (batch, length), device=device)
        x = torch.nn.functional.embedding(tokens, embedding)
        for block in blocks:
            x = block(x)
        loss = torch.nn.functional.cross_entropy((x @ embedding.t()).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def streams(torch, device):
    """Batches copied on a side stream, work on two others, and record_stream for all of it."""
    choose = random.Random(2)
    main = torch.cuda.current_stream(device)
    copies, left, right = (torch.cuda.Stream(device) for _ in range(3))
    weight = torch.randn(1024, 1024, device=device)
    main.synchronize()
    pinned = [torch.randn(n, 1024).pin_memory() for n in (64, 200, 777, 1500)]

    def fetch():
        with torch.cuda.stream(copies):
            return choose.choice(pinned).to(device, non_blocking=True)

    ahead = fetch()
    kept = []
    for step in range(1200):
        x, ahead = ahead, fetch()
        main.wait_stream(copies)
        x.record_stream(main)
        halves = []
        for side in (left, right):
            side.wait_stream(main)
            with torch.cuda.stream(side):
                x.record_stream(side)
                half = x @ weight
                half = torch.relu(half[:, : choose.randrange(100, 1024)]).contiguous()
            main.wait_stream(side)
            half.record_stream(main)
            halves.append(half)
        kept.append(sum(half.sum() for half in halves) + torch.cat(halves, dim=1).mean())
        if len(kept) > 20:
            del kept[choose.randrange(len(kept))]
        if step % 50 == 49:
            main.synchronize()


def inference(torch, device):
    """Requests of many lengths that come and go, with caches that grow by one at a time."""
    choose = random.Random(3)
    with torch.no_grad():
        blocks = [Block(torch, 512, 8, device) for _ in range(3)]
        requests = []
        for _ in range(120):
            if len(requests) < 6 and choose.random() < 0.5:
                batch, length = choose.choice([1, 1, 2, 4]), choose.randrange(8, 512)
                requests.append([torch.randn(batch, length, 512, device=device), [[] for _ in blocks], choose.randrange(4, 40)])
            for request in requests:
                x = request[0]
                for block, cache in zip(blocks, request[1]):
                    x = block(x, cache)
                request[0] = x[:, -1:].clone()
                request[2] -= 1
            requests = [request for request in requests if request[2] > 0]


def images(torch, device):
    """A convolutional network, trained on pictures of another size in each step and tried every ten."""
    choose = random.Random(4)
    widths, layers = [3, 32, 64, 96, 128], []
    for taken, given in zip(widths, widths[1:]):
        for first in (taken, given):
            layers += [torch.nn.Conv2d(first, given, 3, padding=1), torch.nn.BatchNorm2d(given), torch.nn.ReLU()]
        layers.append(torch.nn.MaxPool2d(2))
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(widths[-1], 100)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(180):
        side = 8 * choose.randrange(8, 33)
        x = torch.randn(choose.choice([4, 8, 16]), 3, side, side, device=device)
        y = torch.randint(0, 100, (len(x),), device=device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                model.eval()
                model(torch.randn(32, 3, 224, 224, device=device)).argmax(dim=1)
                model.train()


def recurrent(torch, device):
    """A recurrent network written step by step: many small tensors, all held until the pass back."""
    choose = random.Random(5)
    width = 256
    weights = [(torch.randn(*shape, device=device) / 16).requires_grad_()
               for shape in ((width, 4 * width), (width, 4 * width), (width, 1000))]
    embedding = (torch.randn(1000, width, device=device) / 16).requires_grad_()
    optimizer = torch.optim.RMSprop([*weights, embedding], lr=1e-4)
    for _ in range(16):
        batch, length = choose.randrange(8, 129), choose.randrange(20, 100)
        tokens = torch.randint(0, 1000, (length, batch), device=device)
        hidden = cell = torch.zeros(batch, width, device=device)
        total = torch.zeros((), device=device)
        for here, following in zip(tokens, tokens[1:]):
            x = torch.nn.functional.embedding(here, embedding)
            forget, take, give, new = (x @ weights[0] + hidden @ weights[1]).chunk(4, dim=1)
            cell = forget.sigmoid() * cell + take.sigmoid() * new.tanh()
            hidden = give.sigmoid() * cell.tanh()
            total = total + torch.nn.functional.cross_entropy(hidden @ weights[2], following)
        optimizer.zero_grad(set_to_none=True)
        (total / length).backward()
        optimizer.step()


def neighbours(torch, device):
    """A network over samples of a graph, whose numbers of nodes and edges are never the same twice."""
    choose = random.Random(6)
    layers = [(torch.randn(256, 256, device=device) / 16).requires_grad_() for _ in range(3)]
    table = torch.randn(200_000, 256, device=device)
    optimizer = torch.optim.Adam(layers, lr=1e-4)
    for _ in range(300):
        nodes = choose.randrange(2_000, 60_000)
        x = table[torch.randint(0, len(table), (nodes,), device=device)]
        for layer in layers:
            edges = choose.randrange(nodes, 4 * nodes)
            source = torch.randint(0, nodes, (edges,), device=device)
            wanted = max(500, nodes // choose.randrange(2, 5))
            target = torch.randint(0, wanted, (edges,), device=device)
            gathered = x.index_select(0, source)
            degree = torch.bincount(target, minlength=wanted).clamp_(min=1).unsqueeze(1)
            summed = torch.zeros(wanted, 256, device=device).index_add(0, target, gathered)
            x, nodes = torch.relu((summed / degree) @ layer), wanted
        loss = x.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def graphs(torch, device):
    """Steps captured into graphs when their batch size comes first, in two pools, with eager work around."""
    choose = random.Random(7)
    with torch.no_grad():
        blocks = [Block(torch, 512, 8, device) for _ in range(6)]
        embedding = torch.randn(8192, 512, device=device) / 23
        pools = [torch.cuda.graph_pool_handle() for _ in range(2)]
        side, captured = torch.cuda.Stream(device), {}

        def step(tokens):
            x = torch.nn.functional.embedding(tokens, embedding)
            for block in blocks:
                x = block(x)
            return x[:, -1] @ embedding.t()

        def graph_of(batch, length):
            if (batch, length) not in captured:
                tokens = torch.zeros(batch, length, dtype=torch.int64, device=device)
                graph = torch.cuda.CUDAGraph()
                side.wait_stream(torch.cuda.current_stream(device))
                with torch.cuda.stream(side):
                    step(tokens)
                    # torch.cuda.graph would give segments back first, after which nobody could tell
                    # whose they had been.
                    graph.capture_begin(pool=pools[len(captured) % 2])
                    logits = step(tokens)
                    graph.capture_end()
                torch.cuda.current_stream(device).wait_stream(side)
                captured[batch, length] = graph, tokens, logits
            return captured[batch, length]

        for _ in range(1200):
            graph, tokens, logits = graph_of(choose.choice([1, 2, 4, 8, 16]), choose.choice([64, 128, 256]))
            tokens.copy_(torch.randint(0, 8192, tokens.shape, device=device))
            graph.replay()
            best, which = (logits / 0.8).topk(choose.randrange(10, 200), dim=-1)
            likely = best.softmax(dim=-1).cumsum(dim=-1)
            drawn = (likely < torch.rand(len(tokens), 1, device=device)).sum(dim=-1, keepdim=True)
            which.gather(1, drawn.clamp_(max=which.shape[1] - 1))
        torch.cuda.synchronize(device)


PROGRAMS = {program.__name__: program
            for program in (training, lengths, streams, inference, images, recurrent, neighbours, graphs)}


# ---- One program, in a process of its own


def run_program(name, text_file):
    """Prints a line of JSON: the peaks. With a file: also writes its trace there."""
    import torch

    device = torch.device("cuda", 0)
    torch.cuda.init()
    torch.manual_seed(0)
    memory = torch.cuda.memory
    if text_file:
        memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=MOST_ENTRIES)
    PROGRAMS[name](torch, device)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats(device)
    peaks = [stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]]
    if text_file:
        snapshot = memory._snapshot()
        entries = snapshot["device_traces"][0]
        if len(entries) >= MOST_ENTRIES:
            raise Told(f"there are {MOST_ENTRIES} entries or more")
        about = f"{name}, PyTorch {torch.__version__}, {torch.cuda.get_device_name(device)}"
        text = text_of(entries, about, native=peaks, segments=snapshot["segments"])
        with open(text_file, "w", encoding="utf-8") as file:
            file.write(text)
    print(json.dumps(peaks))


def start(name, expandable, text_file):
    environment = dict(os.environ)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        environment.pop(variable, None)
    if expandable:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    # A library that asks for memory on its own account does so in the same way each time.
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    command = [sys.executable, os.path.abspath(__file__), "--program", name]
    if text_file:
        command += ["--text", text_file]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def peaks_from(process, until):
    """What the process printed; an error that says why there is nothing."""
    try:
        out, err = process.communicate(timeout=max(1.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Told("it took too long") from None
    if process.returncode != 0:
        raise Told((err.strip().splitlines() or [f"exit status {process.returncode}"])[-1])
    return json.loads(out.strip().splitlines()[-1])


def record(names, folder, timeout):
    os.makedirs(folder, exist_ok=True)
    until = time.monotonic() + timeout
    running = {}
    for name in names:
        text_file = os.path.join(folder, name + ".trace")
        running[name] = (text_file, start(name, False, text_file), start(name, True, None))
    failed = False
    for name, (text_file, native, expandable) in running.items():
        other = None
        try:
            other = peaks_from(expandable, until)
        except Told as why:
            print(f"{name}: without the peaks of expandable segments: {why}", file=sys.stderr)
        try:
            peaks = peaks_from(native, until)
        except Told as why:
            print(f"{name}: {why}", file=sys.stderr)
            failed = True
            continue
        with open(text_file, encoding="utf-8") as file:
            text = file.read()
        if other:
            text = text.replace("\npeak native ", f"\npeak expandable {other[0]} {other[1]}\npeak native ", 1)
        with open(text_file, "w", encoding="utf-8") as file:
            file.write(text)
        packed = gzip.compress(text.encode(), 9, mtime=0)
        with open(text_file + ".gz", "wb") as file:
            file.write(packed)
        mib = [f"{bytes / 2**20:.1f}" for bytes in (*peaks, *(other or ()))]
        print(f"{text_file}: {text.count(chr(10))} lines, {len(packed)} bytes compressed; "
              f"MiB allocated, reserved: {', '.join(mib[:2])}; with expandable segments: {', '.join(mib[2:])}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="traces")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for all of them")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--text", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.program:
        try:
            run_program(chosen.program, chosen.text)
        except Told as why:
            sys.exit(str(why))
        return 0
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        return 77
    names = [name for name in PROGRAMS if chosen.only in name]
    if not names:
        parser.error(f"--only: no program has '{chosen.only}' in its name: {', '.join(PROGRAMS)}")
    return record(names, chosen.out, chosen.timeout)


if __name__ == "__main__":
    sys.exit(main())
