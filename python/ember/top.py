"""What the command ``ember top`` (or ``python -m ember top``) shows: devices, and who holds how much
of them. Processes are in it if EMBER_TOP=1 is in their environment, or if they have called
``allow()``."""

import argparse as _argparse
import sys as _sys
import time as _time
import typing as _typing

from ember._C.cuda import _allow_top as allow, _top_table as table

_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_MOST_SECONDS = 86400


def _add_commands(commands: _typing.Any) -> None:
    top = commands.add_parser("top", help="devices, and who holds how much of them",
                              description=__doc__)
    top.add_argument("--once", action="store_true", help="print the table once")
    top.add_argument("--every", type=float, default=1.0, metavar="SECONDS",
                     help="how often it is printed anew (default: 1)")
    top.set_defaults(run=_run, parser=top)


def _run(chosen: _argparse.Namespace) -> int:
    """Prints the table until Ctrl-C, or once."""
    if not 0 < chosen.every <= _MOST_SECONDS:
        chosen.parser.error(f"--every expects a positive number, {_MOST_SECONDS} at most")
    try:
        while True:
            text = table()
            _sys.stdout.write(text if chosen.once else _HOME_AND_CLEAR + text)
            _sys.stdout.flush()
            if chosen.once:
                return 0
            _time.sleep(chosen.every)
    except KeyboardInterrupt:
        return 0
