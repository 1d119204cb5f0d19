"""Random calls give with ember what they give with PyTorch on the CPU.

EMBER_TEST_CALLS=N makes N calls, EMBER_TEST_SEED=S another set of them, and
EMBER_TEST_NAME=add,Tensor.sum only calls of these names. Failures are grouped by name and kind of
difference; each group shows its shortest call. EMBER_TEST_LAST=FILE keeps the call that is being
made in a file, for one that ends the process.
"""

import collections
import os
import pathlib
import re
import warnings

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

import ember  # noqa: E402  (pytest goes on without torch)

import calls  # noqa: E402
import compare  # noqa: E402
import known  # noqa: E402
import programs  # noqa: E402
from values import DTYPES  # noqa: E402

SEED = os.environ.get("EMBER_TEST_SEED", "1")
COUNT = int(os.environ.get("EMBER_TEST_CALLS", 50_000))
LAST = os.environ.get("EMBER_TEST_LAST")
# Indices have more forms than the arguments of any function.
OFTEN = {"Tensor.__getitem__": 10, "Tensor.__setitem__": 10}
# Calls that end the process in PyTorch 2.11: a name for what no dimension is made into.
ENDS_TORCH = r"\bflatten\(.*'"
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "differences.md"
NAMES = sorted(programs.shared_names(ember, torch) - set(calls.LEFT_OUT))
if "EMBER_TEST_NAME" in os.environ:
    NAMES = os.environ["EMBER_TEST_NAME"].split(",")


@pytest.fixture(autouse=True)
def quiet():
    """One thread, as the calls are small; no warnings of old forms, which are called on purpose."""
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
    if re.search(ENDS_TORCH, program.call):
        return []
    if LAST:
        pathlib.Path(LAST).write_text(f"{compare.HEADER}\n{program.text}\n")
    return compare.compare(program, torch, ember, is_random(name))


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_have_the_same_attributes(name):
    of_torch, of_ember = getattr(torch, name), getattr(ember, name)
    for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
        assert getattr(of_ember, attribute) == getattr(of_torch, attribute), attribute
    assert str(of_ember) == repr(of_ember) == str(of_torch)
    assert str(of_ember.to_real()) == str(of_torch.to_real())
    try:
        wanted = str(of_torch.to_complex())
    except RuntimeError:
        with pytest.raises(RuntimeError):
            of_ember.to_complex()
    else:
        assert str(of_ember.to_complex()) == wanted


def test_calls():
    groups = collections.defaultdict(list)
    names = [name for name in NAMES for _ in range(OFTEN.get(name, 1))]
    for i in range(COUNT):
        name = names[i % len(names)]
        for one in differences(name, f"{SEED}:{name}:{i}"):
            if known.documented(one) is None:
                groups[name, one.kind].append(one)
    if groups:
        print(report(groups))
        total = sum(len(group) for group in groups.values())
        pytest.fail(f"{total} differences in {len(groups)} groups, {COUNT} calls", pytrace=False)


def report(groups):
    lines = [f"To repeat: EMBER_TEST_SEED={SEED} EMBER_TEST_CALLS={COUNT}",
             "The examples need this line:", compare.HEADER, "", "Kinds of difference:"]
    kinds = collections.defaultdict(list)
    for (name, kind), group in groups.items():
        kinds[kind].append((len(group), name))
    for kind, names in sorted(kinds.items(), key=lambda item: -sum(n for n, _ in item[1])):
        most = ", ".join(name for _, name in sorted(names, reverse=True)[:4])
        lines.append(f"{sum(n for n, _ in names)} x {kind}, of {len(names)} names: {most} ...")
    lines += ["", "By name:"]
    for (name, kind), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        shortest = min(group, key=lambda one: len(one.program.text))
        lines += [f"{len(group)} x {name}: {kind}",
                  f"    {shortest.program.text}",
                  f"    torch: {compare.short(shortest.torch)}",
                  f"    ember: {compare.short(shortest.ember)}"]
    return "\n".join(lines)
