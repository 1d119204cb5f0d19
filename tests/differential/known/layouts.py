"""Strides, and whose memory a result has."""

import re

from known.registry import known, plain_name


@known("- `memory_format`")
def layout_of_several_inputs(d):
    """Only where inputs of more than one layout come together."""
    return d.kind.startswith("strides") and d.layouts > 1


@known("**`conj` of complex tensors**")
def conj_is_no_view(d):
    return (plain_name(d) in ("conj", "adjoint", "H", "mH") and d.inputs["a"].is_complex()
            and d.kind.startswith(("memory", "identity", "strides")))


@known("**Strides of dimensions of size one**")
def strides_without_meaning(d):
    return re.sub("^(input|indices): ", "", d.kind) in ("strides of dimensions of one",
                                                        "strides without elements")


@known("**Strides of new tensors**")
def strides_of_positions(d):
    if d.kind in ("strides", "indices: strides") and plain_name(d) in ("sort", "argsort"):
        return True
    return d.kind == "strides" and (plain_name(d) == "nonzero" or plain_name(d) == "where"
                                    and isinstance(d.results[0], tuple))


@known("**Strides of new tensors**")
def strides_of_some_results(d):
    if d.kind in ("strides", "input: strides"):
        if "out=" in d.program.call:
            return d.name in ("index_add", "index_copy", "scatter", "scatter_add", "sort", "take",
                              "nonzero")
        return plain_name(d) in ("angle", "roll", "tensor", "new_tensor", "getitem", "cat",
                                 "concat")
    return False


@known("**The same tensor where it is**")
def expanded_on_its_device(d):
    return (plain_name(d) in ("to", "as_tensor") and "device" in d.program.call
            and d.kind in ("strides", "identity", "memory"))
