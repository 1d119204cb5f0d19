"""Schemas of operations beside PyTorch's: the same overloads have the same arguments, and write to the
same ones."""

import re

import pytest
import torch

import ember

# What torch's schemas have and ember's functions do not, or have in another form (docs/differences.md).
IGNORED = [(r"\bSymInt\b", "int"), (r"int\[1\]", "int[]"), (r"Tensor\((a|b\|a)( -> \*)?\)", "Tensor"),
           (r", (Layout\? layout|MemoryFormat\?? memory_format|bool implicit|bool sparse_grad)=\w+", ""),
           (r", \*(?=\))", ""), (r"(Tensor\([ab]!\)) (max|max_values|min|min_indices)\b", r"\1"),
           (r"(Tensor\([ab]!\)) (values|indices)\b(?=[,)])", r"\1")]

# Operations whose arguments differ: ember takes more, or takes them otherwise.
OTHERWISE = set("""add.Scalar add.Scalar_out add_.Scalar sub.Scalar sub.Scalar_out sub_.Scalar subtract.Scalar
subtract_.Scalar amax amax.out amin amin.out argsort sort sort.values roll norm.out to.device cuda index_put_
count_nonzero.dim_IntList cumprod cumprod.out cumsum cumsum.out mean.dim mean.out sum.dim_IntList
sum.IntList_out std std.dim std.out std.correction std.correction_out var var.dim var.out var.correction
var.correction_out max.dim_max min.dim_min""".split())
# What comes of them is a tensor or several, as the flags say; torch's schema has all.
SOME_OF_THE_RESULTS = {"unique_consecutive"}
MAKES = re.compile(r"(arange|empty|eye|linspace|full|new_|normal\.float|ones|rand|scalar_tensor|zeros)")


def plain(schema):
    text = str(schema).removeprefix("aten::")
    for pattern, replacement in IGNORED:
        text = re.sub(pattern, replacement, text)
    return text


def both():
    for name in sorted(set(dir(ember._C)) | set(dir(ember.Tensor))):
        mine = None if name.startswith("_") else getattr(ember.ops.aten, name, None)
        theirs = getattr(torch.ops.aten, name, None) if mine is not None else None
        for overload in mine.overloads() if theirs is not None else ():
            if overload in theirs.overloads():
                yield getattr(mine, overload)._schema, getattr(theirs, overload)._schema


PAIRS = list(both())


def test_most_operations_are_compared():
    assert len(PAIRS) > 600


@pytest.mark.parametrize("mine,theirs", PAIRS, ids=lambda schema: str(schema).split("(")[0])
def test_schema(mine, theirs):
    assert (mine.name, mine.overload_name) == (theirs.name, theirs.overload_name)
    assert mine.is_mutable == theirs.is_mutable
    if mine.name.removeprefix("aten::") in SOME_OF_THE_RESULTS:
        return
    assert len(mine.returns) == len(theirs.returns)
    written = [[a.name for a in s.arguments if a.alias_info and a.alias_info.is_write and not a.is_out]
               for s in (mine, theirs)]
    assert written[0] == written[1]
    shared = [[bool(a.alias_info) for a in s.arguments[:1]] for s in (mine, theirs)]
    assert shared[0] == shared[1], (str(mine), str(theirs))
    key = str(mine).removeprefix("aten::").split("(")[0]
    if key not in OTHERWISE and not MAKES.match(key):
        assert plain(mine) == plain(theirs)
