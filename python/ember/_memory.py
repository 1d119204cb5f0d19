"""The commands ``ember memory ...``."""

import argparse as _argparse
import sys as _sys
import typing as _typing

from ember._C.cuda import _snapshot_json


def _add_commands(commands: _typing.Any) -> None:
    """Adds them to those of ``ember``."""
    memory = commands.add_parser("memory", help="snapshots of memory")
    of_memory = memory.add_subparsers(dest="memory_command", required=True)
    json = of_memory.add_parser("json", help="a snapshot as JSON")
    json.add_argument("snapshot", help="a file of _dump_snapshot, also of PyTorch's")
    json.set_defaults(run=_print_json)


def _print_json(chosen: _argparse.Namespace) -> int:
    try:
        with open(chosen.snapshot, "rb") as file:
            text = _snapshot_json(file.read())
    except (OSError, ValueError) as error:
        _sys.exit(f"ember memory json: {chosen.snapshot}: {error}")
    _sys.stdout.write(text + "\n")
    return 0
