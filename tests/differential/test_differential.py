"""Random calls give with ember what they give with PyTorch on the CPU.

EMBER_TEST_CALLS=N makes N calls, EMBER_TEST_SEED=S another set of them, and EMBER_TEST_NAME=add,Tensor.sum only calls
of these names. Failures are grouped by name and kind of difference; each group shows its shortest call.
"""

import collections
import os
import pathlib
import warnings

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

import ember  # noqa: E402  (pytest goes on without torch)

import calls  # noqa: E402
import compare  # noqa: E402
import known  # noqa: E402
import programs  # noqa: E402

SEED = os.environ.get("EMBER_TEST_SEED", "1")
COUNT = int(os.environ.get("EMBER_TEST_CALLS", 50_000))
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "differences.md"
NAMES = sorted(programs.shared_names(ember, torch) - set(calls.LEFT_OUT))
if "EMBER_TEST_NAME" in os.environ:
    NAMES = os.environ["EMBER_TEST_NAME"].split(",")


@pytest.fixture(autouse=True)
def quiet():
    """One thread, so that it is the same everywhere; and no warnings of old forms, which are called on purpose."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_shared_name_is_called_or_left_out():
    missing = [name for name in NAMES if not programs.is_covered(name)]
    assert missing == [], "add a line to calls.py"


def test_what_is_left_out_is_shared():
    gone = set(calls.LEFT_OUT) - programs.shared_names(ember, torch)
    assert gone == set(), "no longer in both: remove it from LEFT_OUT"


def test_known_differences_are_documented():
    text = DOCUMENT.read_text()
    assert [words for words, _ in known.KNOWN if words not in text] == []


def is_random(name):
    return name.removeprefix("Tensor.") in calls.RANDOM


def differences(name, seed):
    program = programs.Program(name, seed)
    return compare.compare(program, torch, ember, is_random(name))


def test_calls():
    groups = collections.defaultdict(list)
    for i in range(COUNT):
        name = NAMES[i % len(NAMES)]
        for one in differences(name, f"{SEED}:{name}:{i // len(NAMES)}"):
            if known.documented(one) is None:
                groups[name, one.kind].append(one)
    if groups:
        print(report(groups))
        total = sum(len(group) for group in groups.values())
        pytest.fail(f"{total} differences in {len(groups)} groups, {COUNT} calls", pytrace=False)


def report(groups):
    lines = [f"To repeat: EMBER_TEST_SEED={SEED} EMBER_TEST_CALLS={COUNT}. The examples need this line:",
             compare.HEADER, ""]
    for (name, kind), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        shortest = min(group, key=lambda one: len(one.program.text))
        lines += [f"{len(group)} x {name}: {kind}",
                  f"    {shortest.program.text}",
                  f"    torch: {compare.short(shortest.torch)}",
                  f"    ember: {compare.short(shortest.ember)}"]
    return "\n".join(lines)
