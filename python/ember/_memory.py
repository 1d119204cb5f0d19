"""The commands ``ember memory ...``."""

import argparse as _argparse
import sys as _sys
import typing as _typing

from ember._C.cuda import _compare_snapshots, _snapshot_json


def _add_commands(commands: _typing.Any) -> None:
    """Adds them to those of ``ember``."""
    memory = commands.add_parser("memory", help="snapshots of memory")
    of_memory = memory.add_subparsers(dest="memory_command", required=True)
    json = of_memory.add_parser("json", help="a snapshot as JSON")
    json.add_argument("snapshot", help="a file of _dump_snapshot, also of PyTorch's")
    json.set_defaults(run=_print_json)
    compare = of_memory.add_parser("compare", help="what grew between two snapshots")
    compare.add_argument("before", help="a file of _dump_snapshot, also of PyTorch's")
    compare.add_argument("after", help="a later one")
    compare.add_argument("--most", type=int, default=10, metavar="N",
                         help="how many places are shown that grew, and that shrank (10)")
    compare.set_defaults(run=_print_comparison)


def _print_json(chosen: _argparse.Namespace) -> int:
    try:
        with open(chosen.snapshot, "rb") as file:
            text = _snapshot_json(file.read())
    except (OSError, ValueError) as error:
        _sys.exit(f"ember memory json: {chosen.snapshot}: {error}")
    _sys.stdout.write(text + "\n")
    return 0


def _print_comparison(chosen: _argparse.Namespace) -> int:
    try:
        with open(chosen.before, "rb") as before, open(chosen.after, "rb") as after:
            text = _compare_snapshots(before.read(), after.read(), max(chosen.most, 0))
    except (OSError, ValueError) as error:
        _sys.exit(f"ember memory compare: {error}")
    _sys.stdout.write(text)
    return 0
