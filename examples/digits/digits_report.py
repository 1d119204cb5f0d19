"""What is printed: the same as report.cpp and examples/support/ print."""

import sys
import time

from digits_csv import PIXELS, SIDE

PICTURES_PER_LINE = 8
MOST_PICTURES = 40


def format_bytes(count):
    if count <= 1 << 10:
        return f"{count} bytes"
    for bits, unit in ((10, "KiB"), (20, "MiB"), (30, "GiB")):
        if count <= 1 << (bits + 10) or unit == "GiB":
            return f"{count / (1 << bits):.2f} {unit}"


def percent(part, whole):
    return 100 * part / whole if whole > 0 else 0.0


class ProgressBar:
    """One line that is drawn again and again, on a terminal; nothing elsewhere."""

    WIDTH = 40

    def __init__(self, total):
        self.total = total
        self.visible = total > 0 and sys.stdout.isatty()
        self.start = time.monotonic()
        self.drawn_at = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.drawn_at is not None:
            print("\r\033[K", end="", flush=True)

    def draw(self, done):
        now = time.monotonic()
        if not self.visible or (self.drawn_at is not None and now - self.drawn_at < 0.04):
            return
        filled = done * self.WIDTH // self.total
        bar = "#" * filled + "." * (self.WIDTH - filled)
        rate = done / max(now - self.start, 1e-9)
        print(
            f"\r  [{bar}] {100 * done // self.total:3} %  {rate:.0f} per second\033[K",
            end="",
            flush=True,
        )
        self.drawn_at = now


# ---- Stretches of time: (begin, end)


def unite(intervals):
    """In order, and without two that overlap or touch."""
    united = []
    for begin, end in sorted(i for i in intervals if i[0] < i[1]):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((begin, end))
    return united


def length(timeline):
    return sum(end - begin for begin, end in timeline)


def intersect(a, b):
    """What lies in both."""
    both = []
    i = j = 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            both.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return both


# ---- Data and answers


def counted(count, one, many):
    return f"{count} {one if count == 1 else many}"


def print_data(name, train, queries, total, batch, k):
    images = counted(train, "training image", "training images")
    print(f"  data     {name}: {images} and {counted(queries, 'query', 'queries')} of 8 x 8 pixels")
    copies = f" ({total // queries} times the same)" if total != queries else ""
    load = counted(total, "query", "queries") + copies
    print(f"  load     {load}, in batches of {batch}; the nearest {k} vote")


def print_devices(cuda, used):
    for device in range(used):
        properties = cuda.get_device_properties(device)
        print(f"  cuda:{device}   {properties.name}, {format_bytes(properties.total_memory)}")
    if cuda.device_count() == 1:
        print("           (the only device here; a second one would share the work)")


def shades(pixels):
    return "".join(" .:-=+*#@"[pixel // 2] for pixel in pixels)


def print_wrong(pixels, labels, answers):
    """Pictures of the queries that were not recognised; pixels and labels are the queries'."""
    wrong = [query for query, answer in enumerate(answers) if answer != labels[query]]
    if not wrong:
        return
    print("\n  wrong answers, each with its label and what it was taken for\n")
    shown = wrong[:MOST_PICTURES]
    for at in range(0, len(shown), PICTURES_PER_LINE):
        queries = shown[at : at + PICTURES_PER_LINE]
        print("".join(f"  {labels[query]} as {answers[query]}  " for query in queries).rstrip())
        for y in range(SIDE):
            starts = [query * PIXELS + y * SIDE for query in queries]
            print("".join("  " + shades(pixels[i : i + SIDE]) for i in starts).rstrip())
        print()
    if len(shown) < len(wrong):
        print(f"  ... and {len(wrong) - len(shown)} more\n")


def print_accuracy(labels, answers):
    right = sum(answer == label for answer, label in zip(answers, labels))
    print(f"\naccuracy   {right} of {len(answers)} right: {percent(right, len(answers)):.2f} %")


# ---- Work: for each device bytes copied, when it copied, when it computed


def print_work(work):
    head = "\n           {:>10}  {:>11}  {:>11}  {:>11}  copies hidden"
    print(head.format("bytes", "copying", "computing", "at once"))
    for device, (count, copying, computing) in enumerate(work):
        both = length(intersect(copying, computing))
        print(
            f"  cuda:{device}   {format_bytes(count):>10}  {length(copying):8.1f} ms  "
            f"{length(computing):8.1f} ms  {both:8.1f} ms  "
            f"{percent(both, length(copying)):11.1f} %"
        )


def print_overlap(work):
    copying = sum(length(copies) for _, copies, _ in work)
    hidden = sum(length(intersect(copies, computing)) for _, copies, computing in work)
    most = sum(min(length(copies), length(computing)) for _, copies, computing in work)
    limit = f", of at most {percent(most, copying):.1f} %: computing is shorter"
    print(
        f"  overlap  {percent(hidden, copying):.1f} % of the copies hidden behind compute"
        + (limit if most < copying else "")
    )


def print_memory(cuda, used):
    print("\n  memory   {:>10} {:>11} {:>11}".format("allocated", "peak", "reserved"))
    for device in range(used):
        columns = (cuda.memory_allocated, cuda.max_memory_allocated, cuda.memory_reserved)
        now, peak, held = (format_bytes(column(device)) for column in columns)
        print(f"  cuda:{device}   {now:>10} {peak:>11} {held:>11}")
