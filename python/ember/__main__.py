"""The command ``ember``, or ``python -m ember``: `top`, `race`, `replay`, `explore` and `memory`."""

import argparse
import sys

from ember import _explore, _memory, race, top


def main(arguments: "list[str] | None" = None) -> None:
    """Runs one command, and ends the process with its status. What stands behind ``--`` is the
    program that `race`, `replay` and `explore` run."""
    given = sys.argv[1:] if arguments is None else arguments
    own, program = given, None
    if "--" in given:
        at = given.index("--")
        own, program = given[:at], given[at + 1:]
    parser = argparse.ArgumentParser(prog="ember", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    top._add_commands(commands)
    race._add_commands(commands)
    _explore._add_commands(commands)
    _memory._add_commands(commands)
    chosen = parser.parse_args(own)
    chosen.program = program
    sys.exit(chosen.run(chosen))


if __name__ == "__main__":
    main()
