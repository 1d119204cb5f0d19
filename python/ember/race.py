"""What the commands ``ember race`` and ``ember replay`` do: run a program that uses ember, in C++ or
in Python, on simulated devices, and find what its streams do in the wrong order. The program is not
changed; its environment is."""

import argparse as _argparse
import collections as _collections
import json as _json
import os as _os
import shlex as _shlex
import shutil as _shutil
import signal as _signal
import subprocess as _subprocess
import sys as _sys
import tempfile as _tempfile
import threading as _threading
import time as _time
import typing as _typing

CLEAN = 0  #: Nothing was found, and everything was checked.
RACE = 1  #: The sanitizer found work on the same memory that nothing orders.
DIFFERS = 3  #: What the program prints, or its exit status, depends on the seed.
FAILED = 4  #: The program failed, whatever the seed.
NOT_WATCHED = 5  #: No work on a device of ember's was seen.
NOT_CHECKED = 6  #: Nothing was found, but some work does not say what it accesses.
NOT_PROVED = 7  #: Of `ember explore`: no race, but one run does not prove every order.
NO_FOLDER = 125  #: The command itself failed: there is no place for its own files.
NOT_STARTED = 127  #: There is no such program, or it cannot be run.

_STATUSES = """exit status:
  0    clean: no race, everything was checked, and the same result with every seed
  1    a race
  2    wrong arguments
  3    no race, but what the program prints or its exit status depends on the seed
  4    the program failed, whatever the seed
  5    nothing was watched: the program did no work on devices of ember's
  6    no race, but not everything was checked
  125  the command itself failed: there is no place for its own files
  127  the program cannot be started
"""


def _add_commands(commands: _typing.Any) -> None:
    race = commands.add_parser(
        "race", help="find the races of a program", epilog=_STATUSES,
        usage="ember race [--seeds K] [--devices sim:N] [--] PROGRAM [ARGUMENT...]",
        formatter_class=_argparse.RawDescriptionHelpFormatter,
        description="Runs a program once under the stream sanitizer, and once for each of K seeds, "
                    "which decide the order of what its streams do; compares what it prints on "
                    "stdout, and its exit status, between the seeds. Nothing is to be read on "
                    "stdin.")
    race.add_argument("--seeds", type=_number("--seeds", 0), default=10, metavar="K",
                      help="how many: 0 to K - 1 (default: 10)")
    race.add_argument("--status-only", action="store_true",
                      help="compare exit statuses alone, for programs that print times")
    race.add_argument("--timeout", type=_number("--timeout", 1), default=300, metavar="SECONDS",
                      help="how long one run may take (default: 300)")
    race.set_defaults(run=_race, parser=race)
    replay = commands.add_parser(
        "replay", help="run a program in the order of a seed, or of a log",
        usage="ember replay [--devices sim:N] SEED_OR_FILE [--] PROGRAM [ARGUMENT...]",
        description="Runs a program whose streams do everything in the order of a seed, of a "
                    "schedule such as pct:SEED:DEPTH, or of the log of an earlier run "
                    "(EMBER_SIM_LOG). Ends as the program does.")
    replay.add_argument("order", metavar="SEED_OR_FILE")
    replay.set_defaults(run=_replay, parser=replay)
    for command in (race, replay):
        command.add_argument("--devices", metavar="sim:N",
                             help="the simulated devices (default: EMBER_DEVICES, else sim:2)")


_MOST = 10 ** 9  # of seeds, runs and seconds: more than anybody waits for


def _natural(text: str) -> "int | None":
    """The number that a text is, if it is one of at most 20 digits."""
    digits = text.lstrip("0") or text[:1]
    return int(digits) if text.isascii() and text.isdigit() and len(digits) <= 20 else None


def _number(name: str, least: int) -> "_typing.Callable[[str], int]":
    def parse(text: str) -> int:
        number = _natural(text)
        if number is None or not least <= number <= _MOST:
            raise _argparse.ArgumentTypeError(f"{name} is '{_shown(text)}', expected a number from "
                                              f"{least} to {_MOST}")
        return number
    return parse


def _shown(text: "bytes | str", start: int = 0) -> str:
    """A piece of a text, of bounded length and without anything that a terminal would obey."""
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    piece = text[start:start + _WIDTH]
    plain = "".join(each if each.isprintable() or each == "\t"
                    else each.encode("unicode_escape").decode() for each in piece)
    return ("..." if start else "") + plain + ("..." if start + _WIDTH < len(text) else "")


_WIDTH = 200


def _program(chosen: _argparse.Namespace) -> "list[str]":
    """What is to be run; a program in Python that is not executable by the Python that this is."""
    program = list(chosen.program)
    if not program or not program[0]:
        chosen.parser.error("expected a program to run")
    name = program[0]
    if name.endswith(".py") and _os.path.isfile(name) and not _os.access(name, _os.X_OK):
        program.insert(0, _sys.executable)
    return program


def _devices(chosen: _argparse.Namespace) -> str:
    devices = chosen.devices or _os.environ.get("EMBER_DEVICES") or "sim:2"
    if not devices.startswith("sim:"):
        name = "--devices" if chosen.devices else "EMBER_DEVICES"
        chosen.parser.error(f"{name} is '{devices}', expected simulated devices, such as sim:2: "
                            "seeds decide nothing on others")
    return str(devices)


def _environment(devices: str, **settings: str) -> "dict[str, str]":
    """The present one with these settings, and no others of the kind. CUDA_VISIBLE_DEVICES speaks of
    the machine's GPUs."""
    kept = {name: value for name, value in _os.environ.items()
            if name not in ("CUDA_VISIBLE_DEVICES",
                            "EMBER_SANITIZER", "TORCH_CUDA_SANITIZER", "EMBER_SANITIZER_EXITCODE",
                            "EMBER_SANITIZER_SUMMARY", "EMBER_SIM_LOG", "EMBER_SIM_EXPLORE")}
    return {**kept, "EMBER_DEVICES": devices, **settings}


def _refuse(program: "list[str]", error: OSError) -> int:
    print(f"ember: '{program[0]}' cannot be started: {error.strerror}", file=_sys.stderr)
    return NOT_STARTED


class _NotStarted(Exception):
    """Carries the OSError of a program that cannot be started."""


def _with_folder(prefix: str, program: "list[str]",
                 run: "_typing.Callable[[str], int]") -> int:
    """Calls it with a folder for files of the command's own, and says what cannot be done."""
    folder = ""
    try:
        folder = _tempfile.mkdtemp(prefix=prefix)
        return run(folder)
    except _NotStarted as failed:
        return _refuse(program, _typing.cast(OSError, failed.args[0]))
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"ember: {error}", file=_sys.stderr)
        return NO_FOLDER
    finally:
        _shutil.rmtree(folder, ignore_errors=True)  # programs may write there to the last


def _say(text: str) -> None:
    print(f"ember race: {text}", flush=True)


class _Ended(_typing.NamedTuple):
    """How one run ended, in words; and what it printed on stdout."""

    how: str
    output: bytes


def _ended(status: int, output: bytes = b"") -> _Ended:
    if status >= 0:
        return _Ended(f"exit status {status}", output)
    try:
        return _Ended(f"ended by {_signal.Signals(-status).name}", output)
    except ValueError:
        return _Ended(f"ended by signal {-status}", output)


_SUCCESS = "exit status 0"


_MOST_OUTPUT = 256 << 20  # bytes that a run may print on either stream


class _Reader:
    """Takes what comes through a pipe, for as long as a program runs: what it started itself may
    hold the other end for much longer."""

    def __init__(self, pipe: "_typing.IO[bytes]") -> None:
        self.text = bytearray()
        self.too_much = False
        self._pipe = pipe
        self._thread = _threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while True:
                piece = _os.read(self._pipe.fileno(), 1 << 16)
                if not piece:
                    return
                if len(self.text) + len(piece) > _MOST_OUTPUT:
                    self.too_much = True
                    return
                self.text += piece

    def taken(self) -> bytes:
        """What has come, a moment after the program's end."""
        self._thread.join(_AFTER_END)
        return bytes(self.text)


_AFTER_END = 0.5


def _end(process: "_subprocess.Popen[bytes]") -> None:
    """Ends a program, and what it has started: its session is its own."""
    try:
        _os.killpg(process.pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _wait(process: "_subprocess.Popen[bytes]", readers: "list[_Reader]", timeout: int) -> str:
    """Waits for it; why it was ended, or nothing."""
    until = _time.monotonic() + timeout
    while _time.monotonic() < until:
        if any(reader.too_much for reader in readers):
            return f"printed more than {_MOST_OUTPUT >> 20} MiB"
        try:
            process.wait(min(1.0, max(until - _time.monotonic(), 0.0)))
            return ""
        except _subprocess.TimeoutExpired:
            pass
    return f"not done after {timeout} s"


def _run(program: "list[str]", environment: "dict[str, str]", timeout: int,
         capture: bool) -> "tuple[_Ended, bytes]":
    """Runs it once; the second part is what it wrote on stderr, if that was captured."""
    pipe = _subprocess.PIPE if capture else None
    try:
        process = _subprocess.Popen(program, env=environment, stdin=_subprocess.DEVNULL, stdout=pipe,
                                    stderr=pipe, start_new_session=True)
    except OSError as failed:
        raise _NotStarted(failed) from None
    try:
        readers = [_Reader(each) for each in (process.stdout, process.stderr) if each is not None]
        ended = _wait(process, readers, timeout)
        if ended:
            _end(process)
    except BaseException:
        _end(process)
        raise
    output, error = (reader.taken() for reader in readers) if readers else (b"", b"")
    if any(reader.too_much for reader in readers):
        ended = f"printed more than {_MOST_OUTPUT >> 20} MiB"
    return _Ended(ended, output) if ended else _ended(process.returncode, output), error


def _watched(path: str) -> "_collections.Counter[str]":
    """The summaries of all processes that wrote one, added up; and their names. A line may be
    none, such as that of a process that was ended while it wrote."""
    total: "_collections.Counter[str]" = _collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                summary = _json.loads(line)
                names = summary.pop("unchecked_names")
                total.update({name: int(value) for name, value in summary.items()
                              if name != "process"})
                total.update({f"name {name}": 1 for name in names})
            except (ValueError, TypeError, KeyError, AttributeError):
                total["unreadable"] += 1
    return total


def _under_sanitizer(chosen: _argparse.Namespace, program: "list[str]", devices: str,
                     folder: str) -> "tuple[int, _Ended]":
    """What the sanitizer says of the program: a status, and how the program ended."""
    path = _os.path.join(folder, "summary")
    open(path, "w", encoding="utf-8").close()
    ended, _ = _run(program, _environment(devices, EMBER_SANITIZER="continue",
                                          EMBER_SANITIZER_SUMMARY=path), chosen.timeout, False)
    total = _watched(path)
    if total["checked"] + total["unchecked"] + total["unreadable"] == 0:
        if ended.how == _SUCCESS:
            _say("nothing was watched: the program did no work on devices of ember's, or ended "
                 "without its exit handlers")
            return NOT_WATCHED, ended
        _say(f"under the sanitizer: {ended.how}; nothing was watched")
        return FAILED, ended
    found = total["races"] + total["by_query"] + total["possible"] + total["unwritten"]
    text = f"{found} race{'' if found == 1 else 's'} in {total['checked']} operations"
    if total["unchecked"]:
        names = [name[5:] for name in total if name.startswith("name ")]
        text += f"; {total['unchecked']} unchecked launches: {', '.join(map(_shown, names))}"
    if total["exposed"]:
        text += f"; {total['exposed']} pointers whose use nobody sees"
    if total["unreadable"]:
        text += f"; {total['unreadable']} summaries of processes that cannot be read"
    _say(f"under the sanitizer: {text}")
    if found:
        return RACE, ended
    partly = total["unchecked"] or total["exposed"] or total["unreadable"]
    return NOT_CHECKED if partly else CLEAN, ended


def _first_difference(one: bytes, other: bytes) -> "tuple[int, str, str]":
    """The number of the first line that differs, and what it is in both."""
    left, right = one.split(b"\n"), other.split(b"\n")
    at = next((i for i, (a, b) in enumerate(zip(left, right)) if a != b),
              min(len(left), len(right)))
    texts = [lines[at].decode(errors="backslashreplace") if at < len(lines) else "(nothing)"
             for lines in (left, right)]
    same = len(_os.path.commonprefix(texts)) if max(map(len, texts)) > _WIDTH else 0
    start = max(same - _WIDTH // 2, 0)
    return at + 1, _shown(texts[0], start), _shown(texts[1], start)


def _last_lines(error: bytes) -> "list[str]":
    """The last of what was written on stderr."""
    return [_shown(line) for line in error.splitlines()[-5:]]


def _seeds_text(seeds: "list[int]") -> str:
    shown = ", ".join(map(str, seeds[:8])) + (", ..." if len(seeds) > 8 else "")
    return f"seed{'s' if len(seeds) > 1 else ''} {shown} ({len(seeds)})"


def _by_seeds(chosen: _argparse.Namespace, program: "list[str]",
              devices: str) -> "dict[_Ended, list[int]]":
    """Which result came with which seeds; says it."""
    results: "dict[_Ended, list[int]]" = {}
    errors: "dict[_Ended, bytes]" = {}
    for seed in range(chosen.seeds):
        ended, error = _run(program, _environment(devices, EMBER_SIM_SCHEDULE=f"random:{seed}"),
                            chosen.timeout, True)
        if chosen.status_only:
            ended = _Ended(ended.how, b"")
        results.setdefault(ended, []).append(seed)
        errors.setdefault(ended, error)
    if len(results) == 1:
        ended, = results
        _say(f"{_seeds_text(results[ended])}: the same result, {ended.how}")
        return results
    _say(f"{len(results)} different results with {chosen.seeds} seeds")
    first = next(iter(results))
    for ended, seeds in results.items():
        _say(f"  {_seeds_text(seeds)}: {ended.how}")
        if ended.output != first.output:
            number, expected, found = _first_difference(first.output, ended.output)
            _say(f"    line {number} is '{found}', with seed {results[first][0]} '{expected}'")
        words = ["ember", "replay", "--devices", devices, str(seeds[0]), "--", *program]
        _say("    see it again: " + " ".join(map(_shlex.quote, words)))
        if ended.how != _SUCCESS:
            for line in _last_lines(errors[ended]):
                _say(f"    | {line}")
    return results


def _race(chosen: _argparse.Namespace) -> int:
    program, devices = _program(chosen), _devices(chosen)
    return _with_folder("ember-race-", program,
                        lambda folder: _conclude(chosen, program, devices, folder))


def _conclude(chosen: _argparse.Namespace, program: "list[str]", devices: str, folder: str) -> int:
    status, ended = _under_sanitizer(chosen, program, devices, folder)
    if status == NOT_WATCHED:
        return status
    results = _by_seeds(chosen, program, devices) if chosen.seeds else {}
    hows = {ended.how, *(each.how for each in results)}
    if status == RACE:
        _say("a race")
        return RACE
    if len(results) > 1 or len(hows) > 1:
        _say("no race was found, but the result differs")
        return DIFFERS
    if hows != {_SUCCESS}:
        _say(f"the program failed: {ended.how}")
        return FAILED
    _say("clean" if status == CLEAN else "no race was found, but not everything was checked")
    return status


def _replay(chosen: _argparse.Namespace) -> int:
    program, devices, order = _program(chosen), _devices(chosen), chosen.order
    seed = _natural(order)
    if seed is not None and seed < 2 ** 64:
        schedule = f"random:{seed}"
    elif order.startswith(("random:", "pct:", "swarm:", "steps:")):
        schedule = order
    elif _os.path.isfile(order):
        schedule = "replay:" + _os.path.abspath(order)
    else:
        schedule = ""
        chosen.parser.error(f"SEED_OR_FILE is '{_shown(order)}', expected a seed, random:SEED, "
                            "pct:SEED:DEPTH, swarm:SEED, steps:LIST, or the file of a log")
    environment = {**_os.environ, "EMBER_DEVICES": devices, "EMBER_SIM_SCHEDULE": schedule}
    environment.pop("CUDA_VISIBLE_DEVICES", None)  # which speaks of the machine's GPUs
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # which Python ignores
        _signal.signal(number, _signal.SIG_DFL)
    try:
        _os.execvpe(program[0], program, environment)
    except OSError as error:
        return _refuse(program, error)
