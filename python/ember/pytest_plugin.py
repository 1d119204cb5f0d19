"""The pytest plugin. It is there wherever ember is installed; otherwise ``-p ember.pytest_plugin``.

``@pytest.mark.ember(devices=3, seeds=50, sanitizer=True)`` runs a test on three simulated devices,
once for each of the seeds 0 to 49, which decide the order of what streams do, and fails it if two
streams race. ``schedule="swarm"`` has the seeds decide in another way, as do ``"pct:4"`` and a
device model, ``"model"``. ``--ember-seeds N`` and ``--ember-schedule KIND`` take others,
``--ember-replay SEED`` one.
docs/first-stream-bug.md begins with a bug.
"""

import contextlib
import dataclasses
import os
import re
import shlex
import typing

import pytest

import ember
from ember._C.cuda import _devices_chosen
from ember.cuda import _sanitizer

_MARKER = ("ember(devices=1, seeds=0, schedule=None, sanitizer=True): needs so many devices, "
           "simulated ones if none are chosen; runs once for each of so many seeds, which decide "
           "the order of streams, in the way that the schedule says; fails if they race")
_KINDS = "random, pct, pct:DEPTH, swarm, model, model:NAME or model:FILE"
# A line of a stack in pytest itself, with its source.
_RUNNER_FRAME = re.compile(r'^  File "[^"\n]*/(?:_pytest|pluggy)/[^"\n]*", line .*\n(?:    .*\n)?',
                           re.MULTILINE)
_STATE = pytest.StashKey["_State"]()
_NEEDS = pytest.StashKey["_Needs"]()


class UncheckedLaunches(UserWarning):
    """A test cannot be called clean: work in it does not say what it accesses."""


@dataclasses.dataclass(frozen=True)
class _Needs:
    """What the marker of a test asks for."""

    devices: int = 1
    seeds: int = 0
    schedule: "str | None" = None
    sanitizer: bool = True


@dataclasses.dataclass
class _State:
    """Of a test that runs."""

    schedule: "int | str | None"
    watch: "_sanitizer.Watch | None"
    told: int = 0


def _needs(node: typing.Any) -> "_Needs | None":
    """None without the marker. UsageError, naming the argument, for one that is wrong."""
    marker = node.get_closest_marker("ember")
    if marker is None:
        return None

    def wrong(text: str) -> pytest.UsageError:
        return pytest.UsageError(f"{node.nodeid}: @pytest.mark.ember: {text}")

    if marker.args:
        raise wrong(f"got {marker.args[0]!r}, expected arguments with names: devices=, seeds=, "
                    "schedule=, sanitizer=")
    for name, value in marker.kwargs.items():
        if name not in ("devices", "seeds", "schedule", "sanitizer"):
            raise wrong(f"{name} is not an argument, expected devices=, seeds=, schedule= or "
                        "sanitizer=")
        if name == "schedule":
            if value is not None and not (isinstance(value, str) and _is_kind(value)):
                raise wrong(f"schedule is {value!r}, expected {_KINDS}")
            continue
        if name == "sanitizer":
            if not isinstance(value, bool):
                raise wrong(f"sanitizer is {value!r}, expected True or False")
            continue
        least = 1 if name == "devices" else 0
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise wrong(f"{name} is {value!r}, expected a number from {least}")
    needs = _Needs(**marker.kwargs)
    if needs.devices > 64:
        raise wrong(f"devices is {needs.devices}, expected at most 64")
    return needs


def _is_kind(text: str) -> bool:
    """Whether a seed can be put into it (_with_seed)."""
    kind, colon, rest = text.partition(":")
    if kind == "model":
        return not colon or bool(rest) and ",seed=" not in rest
    if kind == "pct" and colon:
        return rest.isascii() and rest.isdigit() and 1 <= int(rest) <= 64
    return text in ("random", "pct", "swarm")


def _with_seed(kind: str, seed: int) -> str:
    """The schedule of this kind with a seed; pct has the depth 3 where none is named."""
    name, _, rest = kind.partition(":")
    if name == "model":
        return f"model:{rest or 'h200'},seed={seed}"
    return f"pct:{seed}:{rest or 3}" if name == "pct" else f"{name}:{seed}"


def _id_of(schedule: "int | str") -> str:
    """In the name of a test: seed3, swarm3, pct3, model3, replay."""
    if isinstance(schedule, int):
        return f"seed{schedule}"
    seed = re.match(r"(?:random|pct|swarm):([0-9]+)", schedule) or re.search(r",seed=([0-9]+)$", schedule)
    return schedule.partition(":")[0] + (seed[1] if seed else "")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise pytest.UsageError(f"--ember-seeds is '{text}', expected a positive number")
    return int(text)


def _replayed(text: str) -> "int | str":
    """What --ember-replay asks for: a seed, or a schedule in full."""
    if text.isascii() and text.isdigit() and int(text) < 2 ** 64:
        return int(text)
    if os.path.isfile(text):
        return "replay:" + os.path.abspath(text)
    if text.startswith(("random:", "pct:", "swarm:", "steps:", "model:")) or text == "model":
        return text
    raise pytest.UsageError(f"--ember-replay is '{text}', expected a seed, the file of a log, or a "
                            "schedule: random:SEED, pct:SEED:DEPTH, swarm:SEED, model, model:NAME, "
                            "model:FILE or steps:LIST")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ember", "simulated devices, and the order of their streams")
    group.addoption("--ember-seeds", metavar="N",
                    help="run each test that is marked ember with the seeds 0 to N - 1")
    group.addoption("--ember-schedule", metavar="KIND",
                    help="what the seeds decide by, in each test that is marked ember: " + _KINDS)
    group.addoption("--ember-replay", metavar="SEED_OR_FILE",
                    help="run each test that is marked ember in the order of this seed or "
                         "schedule, or one test as in the log of a run")


def _schedules(config: pytest.Config, needs: _Needs) -> "typing.Sequence[int | str]":
    """Those that a test runs with; none if no seed is to decide."""
    replay, seeds = config.getoption("--ember-replay"), config.getoption("--ember-seeds")
    kind = config.getoption("--ember-schedule")
    if kind is not None and not _is_kind(kind):
        raise pytest.UsageError(f"--ember-schedule is '{kind}', expected {_KINDS}")
    if replay is not None:
        return [_replayed(replay)]
    kind = kind or needs.schedule
    numbers = range(needs.seeds if seeds is None else _count(seeds))
    if not kind:
        return list(numbers)
    return [_with_seed(kind, seed) for seed in numbers]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    _schedules(config, _Needs())  # what is malformed is an error at once


@pytest.fixture
def ember_seed(request: pytest.FixtureRequest) -> "int | str | None":
    """The seed (or the schedule in full) that decides the order in this test; None if none does."""
    return getattr(request, "param", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    try:
        needs = _needs(metafunc.definition)
    except pytest.UsageError:
        return  # said of the test, in pytest_collection_modifyitems
    schedules = _schedules(metafunc.config, needs) if needs else []
    if not schedules:
        return
    if "ember_seed" not in metafunc.fixturenames:
        metafunc.fixturenames.append("ember_seed")
    metafunc.parametrize("ember_seed", schedules, indirect=True, ids=map(_id_of, schedules))


def _schedule_of(item: pytest.Item) -> "int | str | None":
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("ember_seed") if callspec else None


def pytest_collection_modifyitems(config: pytest.Config, items: "list[pytest.Item]") -> None:
    for item in items:
        needs = _needs(item)
        if needs is None:
            continue
        item.stash[_NEEDS] = needs
        if _schedules(config, needs) and _schedule_of(item) is None:
            raise pytest.UsageError(f"{item.nodeid}: seeds: only functions, and methods of classes "
                                    "that are no unittest.TestCase, can run once for each seed")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Chooses the devices that the tests ask for, if nobody has chosen any."""
    marked = [item for item in session.items if _NEEDS in item.stash]
    seeded = [item for item in marked if _schedule_of(item) is not None]
    if len(seeded) > 1 and str(_schedule_of(seeded[0])).startswith("replay:"):
        raise pytest.UsageError(f"--ember-replay: a log is that of one test, and {len(seeded)} are "
                                "selected; name the one")
    if not marked or session.config.getoption("collectonly") or ember.cuda.is_initialized():
        return
    try:
        if not _devices_chosen():
            ember.cuda.simulate(max(item.stash[_NEEDS].devices for item in marked))
        if seeded and not os.environ.get("EMBER_SIM_SCHEDULE"):
            ember.sim.schedule("random:0")
    except RuntimeError:
        pass  # in use already: what is missing is said of each test that misses it


def _prepare(item: pytest.Item, needs: _Needs) -> None:
    """Begins the run that a test asks for, or skips it."""
    count = ember.cuda.device_count()
    chosen = os.environ.get("EMBER_DEVICES")
    why = f"EMBER_DEVICES is '{chosen}'" if chosen else "they were chosen before the tests began"
    if count < needs.devices:
        pytest.skip(f"needs {needs.devices} devices, and there are {count}: {why}")
    schedule = _schedule_of(item)
    if schedule is not None:
        ember.cuda.init()
        if not ember.sim.seeded():
            if not ember.cuda.get_device_properties(0).simulated:
                pytest.skip(f"needs simulated devices, whose order a seed can decide: {why}")
            pytest.fail("no seed decides the order of the devices, which were in use before the "
                        "tests began, or EMBER_SIM_SCHEDULE is 'threads'. Set "
                        "EMBER_SIM_SCHEDULE=random:0, or use no device while tests are collected",
                        pytrace=False)
        ember.sim.begin_run(schedule)
    item.stash[_STATE] = _State(schedule, _sanitizer.Watch() if needs.sanitizer else None)


def _new_reports(item: pytest.Item) -> str:
    state = item.stash.get(_STATE, None)
    if state is None or state.watch is None:
        return ""
    reports = state.watch.reports()[state.told:]
    state.told += len(reports)
    if not reports:
        return ""
    found = f"{len(reports)} race{'s' if len(reports) > 1 else ''} between streams"
    return found + "\n" + _RUNNER_FRAME.sub("", "\n".join(reports))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    needs = item.stash.get(_NEEDS, None)
    if needs is not None:
        _prepare(item, needs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> "typing.Generator[None, object, object]":
    # A replay that leaves its recording ends the process, with words that are to be seen.
    state = item.stash.get(_STATE, None)
    replays = state is not None and str(state.schedule).startswith("replay:")
    capture = item.config.pluginmanager.get_plugin("capturemanager") if replays else None
    try:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            result = yield
    except BaseException:
        reports = _new_reports(item)
        if reports:
            item.add_report_section("call", "ember sanitizer", reports)
        raise
    reports = _new_reports(item)
    if reports:
        pytest.fail(reports, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> "typing.Generator[None, object, object]":
    try:
        result = yield
    finally:
        state = item.stash.get(_STATE, None)
        if state is not None and state.watch is not None:
            state.watch.stop()
    reports = _new_reports(item)
    if reports:
        pytest.fail(reports, pytrace=False)
    if state is not None and state.watch is not None and state.watch.unchecked():
        item.warn(UncheckedLaunches("not all of the test was checked for races; these launches do "
                                    "not say what they access: "
                                    + ", ".join(state.watch.unchecked())))
    return result


def _replay_line(item: pytest.Item, schedule: "int | str") -> str:
    words = ["python", "-m", "pytest"]
    if "ember.pytest_plugin" in (item.config.option.plugins or []):
        words += ["-p", "ember.pytest_plugin"]
    replayed = str(schedule)
    if replayed.startswith("replay:"):
        replayed = replayed[len("replay:"):]
    name = os.path.relpath(item.path) + "::" + item.nodeid.partition("::")[2]
    words += [name, "--ember-replay", replayed]
    devices = os.environ.get("EMBER_DEVICES")
    setting = f"EMBER_DEVICES={shlex.quote(devices)} " if devices else ""
    return setting + " ".join(map(shlex.quote, words))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
        item: pytest.Item) -> "typing.Generator[None, pytest.TestReport, pytest.TestReport]":
    report = yield
    state = item.stash.get(_STATE, None)
    if report.failed and state is not None and state.schedule is not None:
        seed = f"seed {state.schedule}" if isinstance(state.schedule, int) else state.schedule
        line = _replay_line(item, state.schedule)
        report.sections.append((f"ember: {seed}", f"To see it again: {line}"))
    return report
