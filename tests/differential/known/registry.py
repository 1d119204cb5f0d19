"""What counts as documented, and what the rules of it have in common."""

import copy
import re

import calls
import compare

KNOWN = []
# What PyTorch's messages call the kind of a number.
NUMBER = r"(?:int|float|bool|complex|numpy\.(?:u?int|float|bool|complex)\d*)\b"


def known(words):
    def add(function):
        KNOWN.append((words, function))
        return function
    return add


def documented(difference):
    """The words of docs/differences.md that a difference falls under, or None."""
    for words, function in KNOWN:
        if function(difference):
            return words
    return None


def plain_name(difference):
    return difference.name.removeprefix("Tensor.").strip("_")


def dtypes(difference):
    return set(difference.program.dtypes.values())


def torch_says(difference, words, *classes):
    """Whether PyTorch refuses the call with an error of these words."""
    error = difference.torch_error
    return (error is not None and not difference.kind.startswith(("arguments", "input"))
            and isinstance(error, classes or Exception)
            and re.search(words, str(error).split("\n")[0]) is not None)


def agrees(difference, call):
    """Whether another form of the same call, which PyTorch takes, shows only documented ones."""
    program = copy.copy(difference.program)
    program.call = call
    random = plain_name(difference) in calls.RANDOM
    found = compare.compare(program, *difference.modules, random)
    taken = not isinstance(compare.Outcome(program, difference.modules[0]).error, TypeError)
    return taken and all(documented(one) for one in found)
