#!/usr/bin/env python3
"""knn: handwritten digits, recognised by their nearest neighbours on all GPUs.

knn.cpp is the same program in C++. Read the class Neighbours first: it has the streams, events and
tensors.
"""

import argparse
import contextlib
import os
import sys
import time

import ember as torch
from digits_csv import LABELS, PIXELS, DataError, UsageError, read_csv
from digits_report import (
    ProgressBar,
    print_accuracy,
    print_data,
    print_devices,
    print_memory,
    print_overlap,
    print_work,
    print_wrong,
    unite,
)

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "digits.csv")
IN_FLIGHT = 3  # batches: one is voted on and filled again, one is copied, one is computed


def on_streams(streams):
    """Makes each stream current on its own device."""
    stack = contextlib.ExitStack()
    for stream in streams:
        stack.enter_context(torch.cuda.stream(stream))
    return stack


def squared_lengths(rows, keepdim):
    return (rows * rows).sum(1, keepdim=keepdim)


class Batch:
    """Some queries on their way through the devices."""

    def __init__(self, rows, devices):
        def events():
            return [torch.cuda.Event(enable_timing=True) for _ in range(devices)]

        self.staging = torch.empty(rows, PIXELS, dtype=torch.uint8, pin_memory=True)
        self.copy_begin, self.copied = events(), events()
        self.compute_begin, self.computed = events(), events()
        self.nearest = []  # of each device


class Neighbours:
    """Finds the training images nearest to queries.

    The training images lie on every device; each batch of queries is scattered over the devices,
    which copy on one stream and compute on another, so that the next batch is copied while the
    present one is computed. Events order the two streams. At most IN_FLIGHT batches are under way.
    """

    def __init__(self, train, devices, k, batch_rows):
        self.k = k
        self.devices = list(range(devices))
        self.copy_streams = [torch.cuda.Stream(device) for device in self.devices]
        self.compute_streams = [torch.cuda.Stream(device) for device in self.devices]
        self.start = [torch.cuda.Event(enable_timing=True) for _ in self.devices]
        self.free = [Batch(batch_rows, devices) for _ in range(IN_FLIGHT)]
        self.under_way = []
        with on_streams(self.compute_streams):
            copies = torch.cuda.comm.broadcast(train.pin_memory(), self.devices)
            self.train = [copy.to(torch.float32) for copy in copies]
            self.squares = [squared_lengths(rows, keepdim=False) for rows in self.train]
            for event, stream in zip(self.start, self.compute_streams):
                event.record(stream)
        self.start_log(0)
        # A few empty batches, so that all memory and code is where it will be needed.
        nothing = torch.zeros(1, PIXELS, dtype=torch.uint8)
        while self.free:
            self.submit(nothing, 0, batch_rows)
        while self.under_way:
            self.collect()
        self.start_log(train.numel())

    def start_log(self, count):
        """Of each device: bytes copied, and when it copied queries and computed, in milliseconds."""
        self.bytes = [count for _ in self.devices]
        self.copies = [[] for _ in self.devices]
        self.computations = [[] for _ in self.devices]

    def submit(self, queries, first, rows):
        """Enqueues queries `first`, first + 1, ..., `rows` of them; from the last one it goes on with
        the first. Only while less than IN_FLIGHT batches are under way."""
        batch = self.free.pop(0)
        images = batch.staging[:rows]
        at = 0
        while at < rows:
            query = (first + at) % len(queries)
            count = min(rows - at, len(queries) - query)
            images[at : at + count].copy_(queries[query : query + count])
            at += count

        n = len(self.devices)
        shares = [rows * (i + 1) // n - rows * i // n for i in range(n)]
        for event, stream in zip(batch.copy_begin, self.copy_streams):
            event.record(stream)
        parts = torch.cuda.comm.scatter(images, self.devices, shares, 0, self.copy_streams)
        for event, stream in zip(batch.copied, self.copy_streams):
            event.record(stream)

        for device, part in zip(self.devices, parts):
            stream = self.compute_streams[device]
            with torch.cuda.stream(stream):
                stream.wait_event(batch.copied[device])
                # Made on the one stream, used on the other: not to be used again before both are
                # done.
                part.record_stream(stream)
                batch.compute_begin[device].record()
                batch.nearest.append(self.nearest(part, device))
                batch.computed[device].record()
            self.bytes[device] += part.numel()
        self.under_way.append(batch)

    def nearest(self, images, device):
        """|q - t|^2 = |q|^2 - 2 q.t + |t|^2, for all pairs in one product of matrices. All of it are
        whole numbers that float32 holds exactly, and topk takes the lower of two equal ones first.
        """
        queries = images.to(torch.float32)
        distances = torch.matmul(queries, self.train[device].t())
        distances.mul_(-2).add_(squared_lengths(queries, keepdim=True)).add_(self.squares[device])
        return distances.topk(self.k, dim=1, largest=False)[1]

    def collect(self):
        """For each query of the oldest batch the rows of the training images nearest to it, nearest
        first, as a tensor on the CPU. Blocks until they are there."""
        batch = self.under_way.pop(0)
        for device, stream in enumerate(self.copy_streams):
            stream.wait_event(batch.computed[device])
        # On the copy streams, where no later batch is in the way.
        with on_streams(self.copy_streams):
            found = torch.cuda.comm.gather(batch.nearest, 0, "cpu")

        for device, start in enumerate(self.start):
            batch.computed[device].synchronize()  # gather did not wait for it if the part is empty
            self.bytes[device] += batch.nearest[device].numel() * 8
            for log, begin, end in (
                (self.copies, batch.copy_begin, batch.copied),
                (self.computations, batch.compute_begin, batch.computed),
            ):
                times = (start.elapsed_time(begin[device]), start.elapsed_time(end[device]))
                log[device].append(times)
        batch.nearest = []
        self.free.append(batch)
        return found

    def work(self):
        times = zip(self.bytes, self.copies, self.computations)
        return [(count, unite(copies), unite(computed)) for count, copies, computed in times]


def vote(found, labels):
    """For each row of `found` the label that most of these training images have; of equally frequent
    ones the smallest, as argmax takes the first."""
    votes = (labels[found].unsqueeze(2) == torch.arange(LABELS)).sum(1)
    return votes.argmax(1).tolist()


def check(answers, first, copy):
    """Queries `first`, first + 1, ... have been answered again."""
    for query, label in enumerate(copy, first):
        if answers[query] != label:
            raise RuntimeError(f"query {query} is {answers[query]} at first and {label} in a copy")


def run(neighbours, queries, total, batch_rows, labels):
    """The answers to all queries, with as many batches under way as there may be."""
    answers = []
    taken = done = 0
    with ProgressBar(total) as progress:
        while done < total:
            if taken < total and neighbours.free:
                rows = min(batch_rows, total - taken)
                neighbours.submit(queries, taken, rows)
                taken += rows
                continue
            new = vote(neighbours.collect(), labels)
            while new:
                query = done % len(queries)
                count = min(len(new), len(queries) - query)
                if done == query:
                    answers += new[:count]
                else:
                    check(answers, query, new[:count])
                done += count
                new = new[count:]
            progress.draw(done)
    return answers


def choose_devices(wanted):
    """How many devices to use. Simulated ones are used only when asked for by name: by
    EMBER_DEVICES, or here, where it is said."""
    if not os.environ.get("EMBER_DEVICES") and not torch.cuda.is_available():
        count = wanted or 2
        print(f"No GPU that this build can use: running on {count} simulated.")
        torch.cuda.simulate(count)
    torch.cuda.init()  # says what is wrong, if anything is
    there_are = torch.cuda.device_count()
    if (wanted or 1) > there_are:
        raise UsageError(
            f"--devices '{wanted}': expected at most {there_are}, as many as there are"
        )
    return wanted or there_are


def training_rows(options, rows):
    usual = 1000
    train = options.train or (usual if rows > usual else rows // 2)
    if train >= rows:
        raise UsageError(
            f"--train '{train}': expected at most {rows - 1}, as there are {rows} rows"
        )
    if options.k > train:
        raise UsageError(
            f"--k '{options.k}': expected at most {train}, the number of training rows"
        )
    return train


def parse_options():
    def count(most):
        def parse(text):
            if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= most:
                raise argparse.ArgumentTypeError(
                    f"'{text}': expected a whole number from 1 to {most}"
                )
            return int(text)

        return parse

    parser = argparse.ArgumentParser(prog="knn", allow_abbrev=False)
    parser.add_argument("--devices", type=count(64), metavar="N", help="how many devices (all)")
    parser.add_argument(
        "--k", type=count(10**9), metavar="K", default=5, help="how many neighbours vote (5)"
    )
    parser.add_argument(
        "--repeat",
        type=count(10**9),
        metavar="N",
        default=100,
        help="N copies of the queries, for load (100)",
    )
    parser.add_argument(
        "--batch",
        type=count(10**9),
        metavar="N",
        help="a device has N queries at a time (a fourth of its share, at most 8192, or 1024 on a "
        "simulated device)",
    )
    parser.add_argument("--csv", metavar="FILE", help="own images: see README.md")
    parser.add_argument(
        "--train",
        type=count(10**9),
        metavar="N",
        help="the first N rows are for training (1000; half of a file of at most 1000 rows)",
    )
    parser.add_argument(
        "--predictions", metavar="FILE", help="write the label found for each query there"
    )
    parser.add_argument(
        "--timeline", metavar="FILE", help="write what ran when there: a page (.html), or trace "
        "events (.json)"
    )
    return parser.parse_args()


@contextlib.contextmanager
def recorded(file):
    """Records a timeline for a file, whose name and place the library knows the rules for."""
    try:
        with torch.cuda.Timeline(file):
            yield
    except (ValueError, RuntimeError) as error:
        if not str(error).startswith("Timeline: "):
            raise
        raise UsageError(f"--timeline '{file}': {error}") from None
    except OSError as error:
        if error.filename != file:
            raise
        raise UsageError(
            f"--timeline '{file}': Timeline: '{file}' cannot be written: {error.strerror}"
        ) from None


def main(options):
    pixels, labels = read_csv(DATA if options.csv is None else options.csv)
    train = training_rows(options, len(labels))
    queries = len(labels) - train
    total = queries * options.repeat
    devices = choose_devices(options.devices)
    most = 1024 if torch.cuda.get_device_properties(0).simulated else 8192
    batch_rows = devices * (options.batch or min(max(total // (4 * devices), 1), most))

    print("digits: handwriting recognised by its nearest neighbours\n")
    print_data(options.csv or "UCI optical digits", train, queries, total, batch_rows, options.k)
    print_devices(torch.cuda, devices)
    sys.stdout.flush()

    with recorded(options.timeline) if options.timeline else contextlib.nullcontext():
        images = torch.tensor(list(pixels), dtype=torch.uint8).view(-1, PIXELS)
        neighbours = Neighbours(images[:train], devices, options.k, batch_rows)
        start = time.monotonic()
        answers = run(neighbours, images[train:], total, batch_rows, torch.tensor(labels))
        seconds = time.monotonic() - start

    print_wrong(pixels[train * PIXELS :], labels[train:], answers)
    work = neighbours.work()
    print_work(work)
    print(f"\n  speed    {total} queries in {seconds:.3f} s: {total / seconds:.0f} per second")
    print_overlap(work)
    print_memory(torch.cuda, devices)
    print_accuracy(labels[train:], answers)
    if options.predictions:
        try:
            with open(options.predictions, "w") as file:
                file.writelines(f"{answer}\n" for answer in answers)
        except OSError:
            raise UsageError(
                f"--predictions '{options.predictions}': cannot be written; expected a file to write"
            ) from None


if __name__ == "__main__":
    try:
        main(parse_options())
    except DataError as error:
        print(f"knn: {error}", file=sys.stderr)
        sys.exit(2)
    except UsageError as error:
        print(f"knn: {error}\n(--help shows the arguments)", file=sys.stderr)
        sys.exit(2)
    except RuntimeError as error:
        print(f"knn: {error}", file=sys.stderr)
        sys.exit(1)
