"""What counts as documented, and what the rules of it have in common."""

import ast
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


def agrees(difference, call, name=None, both=False):
    """Whether PyTorch gives for another form of the call what ember gives for the one as it is.

    That is, for both in the other form where PyTorch takes the one as it is, and ember does not.
    What is documented of the other form is let pass, such as a further form that PyTorch refuses.
    """
    program = copy.copy(difference.program)
    program.depth += 1
    if call == program.call or program.depth > 4:
        return False
    program.call = call
    program.name = name or program.name
    program.of_ember = None if both else difference.program.of_ember or difference.program
    random = program.name.removeprefix("Tensor.") in calls.RANDOM
    found = compare.compare(program, *difference.modules, random)
    return all(documented(one) for one in found)


def with_arguments(call, change):
    """The call with change(name of the keyword or place, tree of the argument) for each one."""
    tree = ast.parse(call)
    made = tree.body[-1].value
    if not isinstance(made, ast.Call):
        return call
    made.args = [change(i, one) for i, one in enumerate(made.args)]
    for one in made.keywords:
        one.value = change(one.arg, one.value)
    return ast.unparse(tree)
