"""Strides, and whose memory a result has."""

import re

import compare
from known.registry import known, plain_name

# Whose results have the layout of the input, and whose are contiguous.
OF_THE_INPUT = "angle roll index_add index_copy scatter scatter_add".split()
CONTIGUOUS = """sort argsort nonzero argwhere tensor new_tensor getitem cat concat take""".split()


@known("**Strides of new tensors**")
def layout_of_the_input(d):
    """torch's are contiguous in some of these, and ember's in none."""
    return (d.kind in ("strides", "input: strides") and plain_name(d) in OF_THE_INPUT
            and tuple(d.shape) == tuple(d.inputs["a"].shape)
            and d.ember == d.modules[0].empty_like(d.inputs["a"]).stride())


JOINED = ["roll", "cat", "concat", "concatenate", "hstack", "vstack", "row_stack", "dstack", "column_stack"]


@known("**Strides of new tensors**")
def channels_last(d):
    """torch keeps it in a cat, which its roll is made of."""
    return (d.kind == "strides" and plain_name(d) in JOINED and d.ember == contiguous(d.shape)
            and d.results[0].is_contiguous(memory_format=d.modules[0].channels_last))


@known("**`conj` of complex tensors**")
def conj_is_no_view(d):
    return (plain_name(d) in ("conj", "adjoint", "H", "mH") and d.inputs["a"].is_complex()
            and d.kind.startswith(("memory", "identity", "strides")))


@known("**Strides of dimensions of size one**")
def strides_without_meaning(d):
    return re.sub("^(input|indices): ", "", d.kind) in ("strides of dimensions of one",
                                                        "strides without elements")


@known("**Strides of new tensors**")
def contiguous_results(d):
    """torch keeps the layout of the input, or gives columns."""
    if d.kind not in ("strides", "indices: strides", "input: strides"):
        return False
    if plain_name(d) == "where" and isinstance(d.results[0], tuple) or (
            plain_name(d) == "nonzero" and "as_tuple" in d.program.call):
        return True
    return plain_name(d) in CONTIGUOUS and d.ember == contiguous(d.shape)


@known("**An expanded operand of another dtype**")
def expanded_operand_of_another_dtype(d):
    """Only where torch has these strides for operands of one dtype."""
    if d.kind not in ("strides", "input: strides") or not any(
            stride == 0 and size > 1 for one in d.inputs.values()
            for size, stride in zip(one.shape, one.stride())):
        return False
    kinds = {d.results[0].dtype, *(one.dtype for one in d.inputs.values())}
    return len(kinds) > 1 and d.ember in [strides_in(d, kind) for kind in kinds]


def strides_in(d, dtype):
    """torch's for operands of one dtype, which are laid out as the ones of the call."""
    torch = d.modules[0]
    names = {"torch": torch, **compare.NAMES}
    for name, value in d.inputs.items():
        if re.search(rf"out={name}\b", d.program.call):  # it was resized, or its strides would hold
            names[name] = torch.empty(0, dtype=dtype)
            continue
        memory = torch.ones(value.untyped_storage().nbytes() + 1, dtype=dtype)
        names[name] = memory.as_strided(value.shape, value.stride())
    try:
        exec(d.program.call, names)
        return names["r"].stride()
    except (RuntimeError, TypeError):
        return None


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@known("**The same tensor where it is**")
def expanded_on_its_device(d):
    return (plain_name(d) in ("to", "as_tensor") and re.search("device|'cpu:0'", d.program.call)
            and d.kind in ("strides", "identity", "memory"))
