"""What the command ``ember top`` (or ``python -m ember top``) shows: devices, and who holds how much
of them. Processes are in it if EMBER_TOP=1 is in their environment, or if they have called
``allow()``."""

import argparse as _argparse
import sys as _sys
import time as _time

from ember._C.cuda import _allow_top as allow, _top_table as table
from ember._memory import add_commands as _add_memory_commands

_HOME_AND_CLEAR = "\x1b[H\x1b[J"


def main(arguments: "list[str] | None" = None) -> None:
    """The command: prints the table until Ctrl-C, or once."""
    parser = _argparse.ArgumentParser(prog="ember", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    top = commands.add_parser("top", help="devices, and who holds how much of them")
    top.add_argument("--once", action="store_true", help="print the table once")
    top.add_argument("--every", type=float, default=1.0, metavar="SECONDS",
                     help="how often it is printed anew (default: 1)")
    _add_memory_commands(commands)
    chosen = parser.parse_args(arguments)
    if chosen.command == "memory":
        chosen.run(chosen)
        return
    if chosen.every <= 0:
        top.error("--every expects a positive number")
    try:
        while True:
            text = table()
            _sys.stdout.write(text if chosen.once else _HOME_AND_CLEAR + text)
            _sys.stdout.flush()
            if chosen.once:
                return
            _time.sleep(chosen.every)
    except KeyboardInterrupt:
        pass
