"""What the command ``ember explore`` does: run a program as it is, in every order of its streams that
can matter, or see from one run that none does."""

import argparse as _argparse
import os as _os
import shlex as _shlex
import time as _time
import typing as _typing

from ember import race as _race

_STATUSES = """exit status:
  0    proved: every order does the same
  1    a race; all orders that were run did the same
  2    wrong arguments
  3    two orders differ
  4    the program failed
  5    nothing was watched: the program did no work on devices of ember's
  7    not proved, for the reasons that are shown
  125  the command itself failed: there is no place for its own files
  127  the program cannot be started
"""


def _add_commands(commands: _typing.Any) -> None:
    explore = commands.add_parser(
        "explore", help="run a program in every order that can matter", epilog=_STATUSES,
        usage="ember explore [--runs N] [--seconds S] [--devices sim:N] [--] PROGRAM [ARGUMENT...]",
        formatter_class=_argparse.RawDescriptionHelpFormatter,
        description="Runs a program once and says whether that proves that every order of what its "
                    "streams do gives the same result; if not, runs it in the other orders, and "
                    "compares what it prints on stdout, its exit status, and what it copies to the "
                    "host. Nothing is to be read on stdin.")
    explore.add_argument("--runs", type=_race._number("--runs", 2), default=100, metavar="N",
                         help="at most so many (default: 100)")
    explore.add_argument("--seconds", type=_race._number("--seconds", 1), default=300, metavar="S",
                         help="begin no run later than that (default: 300)")
    explore.add_argument("--timeout", type=_race._number("--timeout", 1), default=300,
                         metavar="SECONDS", help="how long one run may take (default: 300)")
    explore.add_argument("--devices", metavar="sim:N",
                         help="the simulated devices (default: EMBER_DEVICES, else sim:2)")
    explore.set_defaults(run=_explore, parser=explore)


def _say(text: str) -> None:
    print(f"ember explore: {text}", flush=True)


class _Run(_typing.NamedTuple):
    """What came of one run; `file` is what the library wrote, by the first word of its lines."""

    ended: "_race._Ended"
    error: bytes
    file: "dict[str, list[str]]"

    def number(self, name: str) -> int:
        return int(self.file.get(name, ["0"])[0])


def _read(path: str) -> "dict[str, list[str]]":
    """Nothing of a file that is not complete."""
    found: "dict[str, list[str]]" = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return {}
    for line in lines:
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found if "end" in found else {}


class _Search:
    """The runs of one program."""

    def __init__(self, chosen: _argparse.Namespace, program: "list[str]", devices: str,
                 folder: str) -> None:
        self.chosen, self.program, self.devices, self.folder = chosen, program, devices, folder
        self.runs = 0
        self.until = _time.monotonic() + chosen.seconds

    def spent(self) -> bool:
        return bool(self.runs >= self.chosen.runs or _time.monotonic() >= self.until)

    def run(self, steps: "list[str]") -> _Run:
        self.runs += 1
        path = _os.path.join(self.folder, f"run{self.runs}")
        order = _os.path.join(self.folder, "steps")
        with open(order, "w", encoding="utf-8") as file:
            file.write("\n".join(steps))
        environment = _race._environment(
            self.devices, EMBER_SIM_SCHEDULE=f"steps:@{order}" if steps else "steps:",
            EMBER_SIM_EXPLORE=path)
        ended, error = _race._run(self.program, environment, self.chosen.timeout, True)
        return _Run(ended, error, _read(path))

    def shortest(self, base: _Run, steps: "list[str]") -> "list[str]":
        """Steps without any one of which the program does as in `base`, if there is time."""
        part = len(steps)
        while part and not self.spent():
            some, at = False, 0
            while at < len(steps) and not self.spent():
                rest = steps[:at] + steps[at + part:]
                if rest and _difference(base, self.run(rest)):
                    steps, some = rest, True
                else:
                    at += part
            if part == 1 and not some:
                break
            part = (part + 1) // 2 if part > 1 else 1
        return steps


def _difference(base: _Run, other: _Run) -> str:
    """What differs; empty if nothing does."""
    if base.ended.how != other.ended.how:
        return f"{base.ended.how} and {other.ended.how}"
    if base.ended.output != other.ended.output:
        number, left, right = _race._first_difference(base.ended.output, other.ended.output)
        return f"line {number} of what is printed: '{left}' and '{right}'"
    left_copies, right_copies = base.file.get("copy", []), other.file.get("copy", [])
    for one, two in zip(left_copies, right_copies):
        if one != two:
            return f"the copy to the host {one.split()[0]}, of {one.split()[1]} bytes"
    if len(left_copies) != len(right_copies):
        return f"how many copies reached the host: {len(left_copies)} and {len(right_copies)}"
    return ""


def _line(name: str, steps: "list[str]") -> str:
    return f"{name} EMBER_SIM_SCHEDULE=steps:{','.join(steps)}"


def _show_races(base: _Run, path: str) -> None:
    if not base.file.get("race"):
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("| "):
                _say("  " + line[2:].rstrip("\n"))


def _conclude(search: _Search) -> int:
    base = search.run([])
    if base.ended.how != _race._SUCCESS:
        _say(f"the program failed: {base.ended.how}")
        for line in _race._last_lines(base.error):
            _say(f"  | {line}")
        return _race.FAILED
    if not base.file or base.number("operations") == 0:
        _say("nothing was watched: the program did no work on devices of ember's, or ended without "
             "its exit handlers")
        return _race.NOT_WATCHED
    reasons = list(base.file.get("reason", []))
    several = len(base.file.get("process", [])) > 1
    if several:
        reasons.append("(a) several processes take part, whose orders no schedule decides")
    pairs = base.number("pairs")
    _say(", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in (
        (base.number("operations"), "operation"), (base.number("tasks"), "task"),
        (pairs, "unordered pair"))))
    _show_races(base, _os.path.join(search.folder, "run1"))
    whole, overlapping = ([(text.partition(":")[2].split(","), name)
                           for text in base.file.get(name, []) if not several]
                          for name in ("schedule", "overlap"))
    schedules = whole[:pairs] + overlapping + whole[pairs:]
    done = others = overlapped = 0
    for steps, kind in schedules:
        if search.spent():
            break
        other = search.run(steps)
        difference = _difference(base, other)
        if difference:
            shown = search.shortest(base, steps)
            _say(f"two orders differ, in {search.runs} runs: {difference}")
            devices = f"EMBER_DEVICES={search.devices}"
            if "CUDA_VISIBLE_DEVICES" in _os.environ:
                devices = f"env -u CUDA_VISIBLE_DEVICES {devices}"
            program = " ".join(map(_shlex.quote, search.program))
            for order in ([], shown):
                _say(f"  {_line(devices, order)} {program}")
            return _race.DIFFERS
        if other.number("unfollowed") or other.file.get("does") != base.file.get("does"):
            others += 1
        elif kind == "overlap":
            overlapped += 1
        else:
            done += 1
    for reason in reasons:
        _say(f"- {reason}")
    if others:
        _say(f"- {others} orders could not be run, or the program does something else in them")
    if base.number("fixed"):
        _say(f"- {base.number('fixed')} of the pairs never come the other way on simulated devices")
    if done + overlapped + others < len(schedules) or (schedules and not base.number("every")):
        _say("- there was no time, or no run left, for other orders")
    if pairs or base.file.get("race"):
        _say(f"a race; {done + 1} class{'es' if done else ''} of orders did the same"
             + (f", and {overlapped} in which two overlap" if overlapped else ""))
        return _race.RACE
    if reasons:
        _say("not proved")
        return _race.NOT_PROVED
    _say("proved: every order does the same")
    return _race.CLEAN


def _explore(chosen: _argparse.Namespace) -> int:
    program, devices = _race._program(chosen), _race._devices(chosen)
    return _race._with_folder(
        "ember-explore-", program,
        lambda folder: _conclude(_Search(chosen, program, devices, folder)))
