"""The command ``ember``, or ``python -m ember``: `top`, `race`, `replay`, `explore` and `memory`."""

import argparse
import io
import os
import signal
import sys
import types
import typing

from ember import _explore, _memory, race, top

_WITH_PROGRAM = {"race": 0, "replay": 1, "explore": 0}  #: and how many words come before the program
_FLAGS = ("-h", "--help", "--status-only")  #: the options of these without a value


def _split(given: "list[str]") -> "tuple[list[str], list[str]]":
    """The command with its own arguments, and the program with its. The program begins behind
    ``--``, or with the first word that is no option of the command's."""
    words = _WITH_PROGRAM[given[0]]
    at = 1
    while at < len(given):
        word = given[at]
        if word == "--":
            return given[:at], given[at + 1:]
        if word.startswith("-"):
            alone = "=" in word or any(flag.startswith(word) for flag in _FLAGS)
            at += 1 if alone else 2
        elif words == 0:
            break
        else:
            words -= 1
            at += 1
    return given[:at], given[at:]


class _Signalled(BaseException):
    """A signal has come that ends the process, once what it began is put away."""


def _raise(number: int, frame: "types.FrameType | None") -> typing.NoReturn:
    raise _Signalled(number)


def _end_by(number: int) -> None:
    """Ends the process by a signal, so that who started it sees which."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main(arguments: "list[str] | None" = None) -> None:
    """Runs one command, and ends the process with its status."""
    own, program = sys.argv[1:] if arguments is None else arguments, list[str]()
    if own and own[0] in _WITH_PROGRAM:
        own, program = _split(own)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # arguments and output may be of any encoding
            stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(prog="ember", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    top._add_commands(commands)
    race._add_commands(commands)
    _explore._add_commands(commands)
    _memory._add_commands(commands)
    chosen = parser.parse_args(own)
    chosen.program = program
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _raise)
    status = 0
    try:
        status = chosen.run(chosen)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _end_by(signal.SIGINT)
    except _Signalled as came:
        _end_by(came.args[0])
    except BrokenPipeError:
        _end_by(signal.SIGPIPE)
    sys.exit(status)


if __name__ == "__main__":
    main()
