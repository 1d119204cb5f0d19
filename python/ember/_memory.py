"""The commands ``ember memory ...``."""

import argparse as _argparse
import os as _os
import sys as _sys
import typing as _typing

from ember import race as _race
from ember._C.cuda import _compare_snapshots, _replay_memory, _snapshot_json, _snapshot_page


def _add_commands(commands: _typing.Any) -> None:
    """Adds them to those of ``ember``."""
    memory = commands.add_parser("memory", help="snapshots of memory")
    of_memory = memory.add_subparsers(dest="memory_command", required=True)
    json = of_memory.add_parser("json", help="a snapshot as JSON")
    json.add_argument("snapshot", help="a file of _dump_snapshot, also of PyTorch's")
    json.set_defaults(run=_print_json)
    view = of_memory.add_parser("view", help="a snapshot as a page for a browser")
    view.add_argument("snapshot", help="a file of _dump_snapshot, also of PyTorch's")
    view.add_argument("--before", metavar="SNAPSHOT", help="an earlier one: what grew since")
    view.add_argument("--out", metavar="FILE", help="the page (the snapshot's name with .html)")
    view.set_defaults(run=_write_page)
    compare = of_memory.add_parser("compare", help="what grew between two snapshots")
    compare.add_argument("before", help="a file of _dump_snapshot, also of PyTorch's")
    compare.add_argument("after", help="a later one")
    compare.add_argument("--most", type=_race._number("--most", 0), default=10, metavar="N",
                         help="how many places are shown that grew, and that shrank (10)")
    compare.set_defaults(run=_print_comparison)
    replay = of_memory.add_parser(
        "replay", help="what allocators and settings would make of a recorded trace",
        description="Gives the history of a snapshot to allocators, without a device: what they would "
        "have held of it, what part of that would not have been in use, and how often they would have "
        "called it.")
    replay.add_argument("trace", help="a file of _dump_snapshot with a history, also of PyTorch's; or a "
                        "text as docs/traces.md describes it; -: standard input")
    replay.add_argument("--policy", action="append", default=[], metavar="POLICY",
                        help="torch, torch-expandable, ember, or settings of ember's as in EMBER_ALLOC_CONF "
                        "(max_split_size_mb:64,roundup_power2_divisions:4); several times (the first three "
                        "and expandable_segments:True)")
    replay.add_argument("--device", type=_race._number("--device", 0), default=0, metavar="N",
                        help="whose history of a snapshot (0)")
    replay.add_argument("--memory", default="0", metavar="BYTES",
                        help="what the device has, such as 80GiB (any number)")
    replay.add_argument("--points", type=_race._number("--points", 0), default=10, metavar="N",
                        help="how many moments of the trace are shown (10)")
    replay.set_defaults(run=_print_replay)


def _print_json(chosen: _argparse.Namespace) -> int:
    try:
        with open(chosen.snapshot, "rb") as file:
            text = _snapshot_json(file.read())
    except (OSError, ValueError) as error:
        _sys.exit(f"ember memory json: {chosen.snapshot}: {error}")
    _sys.stdout.write(text + "\n")
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        _sys.exit(f"ember memory view: {path}: {error}")


def _title(path: str) -> str:
    """A file's name as text, whatever its bytes are."""
    return _os.fsencode(_os.path.basename(path)).decode(errors="replace")


def _write_page(chosen: _argparse.Namespace) -> int:
    snapshot = _read(chosen.snapshot)
    before = _read(chosen.before) if chosen.before is not None else b""
    out = chosen.out if chosen.out is not None else _os.path.splitext(chosen.snapshot)[0] + ".html"
    for read in (chosen.snapshot, chosen.before):
        if read is not None and _os.path.exists(out) and _os.path.samefile(out, read):
            _sys.exit(f"ember memory view: the page would take the place of the snapshot '{read}'; "
                      "give it another name by --out")
    try:
        page = _snapshot_page(snapshot, _title(chosen.snapshot), before, _title(chosen.before or ""))
        with open(out, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        _sys.exit(f"ember memory view: {error}")
    except ValueError as error:
        named = chosen.snapshot if chosen.before is None else f"{chosen.snapshot}, {chosen.before}"
        _sys.exit(f"ember memory view: {named}: {error}")
    print(out)
    return 0


def _print_comparison(chosen: _argparse.Namespace) -> int:
    try:
        with open(chosen.before, "rb") as before, open(chosen.after, "rb") as after:
            text = _compare_snapshots(before.read(), after.read(), chosen.most)
    except (OSError, ValueError) as error:
        _sys.exit(f"ember memory compare: {error}")
    _sys.stdout.write(text)
    return 0


def _print_replay(chosen: _argparse.Namespace) -> int:
    try:
        if chosen.trace == "-":
            trace = _sys.stdin.buffer.read()
        else:
            with open(chosen.trace, "rb") as file:
                trace = file.read()
        text = _replay_memory(trace, chosen.policy, chosen.device, chosen.memory, chosen.points)
    except (OSError, ValueError) as error:
        _sys.exit(f"ember memory replay: {chosen.trace}: {error}")
    _sys.stdout.write(text)
    return 0
