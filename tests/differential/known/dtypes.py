"""Dtypes that only one of the two has a kernel for, and dtypes of results."""

import ast
import functools
import re

from known.registry import agrees, known, plain_name, torch_says, with_arguments

# What PyTorch says where it has no kernel, and ember has one.
NO_KERNEL = {
    "frac": r'"frac_cpu" not implemented for \'(Byte|Char|Short|Int|Long|Bool)\'',
    "hypot": r'"hypot_cpu" not implemented for \'(Byte|Char|Short|Int|Long|Bool)\'',
    "nextafter": r'"nextafter_cpu" not implemented for \'(Byte|Char|Short|Int|Long|Bool)\'',
    "lerp": r'expected dtype .* for `(end|weight)` but got dtype|"lerp_kernel_(scalar|tensor)" not '
            r"implemented for '(Byte|Char|Short|Int|Long|Bool)'",
    "addcdiv": "Integer division with addcdiv is no longer supported",
    "clamp": r'"clamp_\w*cpu" not implemented for \'Bool\'',
    "clamp_min": r'"clamp_\w*cpu" not implemented for \'Bool\'',
    "clamp_max": r'"clamp_\w*cpu" not implemented for \'Bool\'',
    "abs": r'"abs_cpu" not implemented for \'Bool\'',
    "absolute": r'"abs_cpu" not implemented for \'Bool\'',
    "clip": r'"clamp_\w*cpu" not implemented for \'Bool\'',
    "round": r'"round_vml_cpu" not implemented for \'(Byte|Char|Short|Int|Long)\'',
    "arange": r'"arange_cpu" not implemented for \'Complex(Float|Double)\'',
    "sign": "torch.sign is not intended to support complex numbers",
}

# Of these, integers and bools give what floats of the same values do.
OF_FLOATS = ["frac", "hypot", "nextafter", "lerp"]


@known("**More dtypes**")
def more_dtypes(d):
    if plain_name(d) == "lerp" and re.search("complex|1j", d.program.call):
        return (torch_says(d, NO_KERNEL["lerp"] + "|value cannot be converted to type")
                or d.kind == "dtype" and d.ember.startswith("complex"))
    if plain_name(d) not in NO_KERNEL or not torch_says(d, NO_KERNEL[plain_name(d)]):
        return False
    if d.kind.startswith("torch raises"):
        return (plain_name(d) not in OF_FLOATS or d.name.endswith("_") or "out=" in d.program.call
                or floats_agree(d))
    return re.search("can't be cast to|single memory location", str(d.ember_error))


def promoted(torch, tensors):
    """Those without dimensions count for less, as in an operation."""
    kinds = []
    for which in (lambda one: one.dim() > 0), (lambda one: one.dim() == 0):
        dtypes_of = [one.dtype for one in tensors if which(one)]
        if dtypes_of:
            kinds.append(functools.reduce(torch.promote_types, dtypes_of))
    if len(kinds) == 1:
        return kinds[0]
    return torch.result_type(torch.empty(1, dtype=kinds[0]), torch.empty((), dtype=kinds[1]))


def floats_agree(d):
    """Whether the same elements in the dtype that they are promoted to give the same result."""
    kind = promoted(d.modules[0], d.inputs.values())
    kind = kind if kind.is_floating_point or kind.is_complex else d.modules[0].float32

    def converted(_, tree):
        text = ast.unparse(tree)
        return ast.parse(f"{text}.to({kind})").body[0].value if (
            text in d.inputs or text.startswith("torch.tensor(")) else tree

    call = with_arguments(d.program.call, converted)
    return agrees(d, re.sub(r"^r = (\w)\.", rf"r = \1.to({kind}).", call))


@known("**Forms of arguments**")
def topk_of_bool(d):
    return plain_name(d) == "topk" and torch_says(d, "topk does not support bool dtypes on CPU")


@known("**`complex32`**")
def no_kernel_of_complex32(d):
    return (d.kind == "torch raises NotImplementedError" and "for 'ComplexHalf'" in str(d.torch)
            and ("a tensor: " in str(d.ember) or "complex32" in str(d.ember)))


@known("**Forms of arguments**")
def dtype_of_clamp(d):
    """A tensor without dimensions counts as a number in torch where the other one is a number."""
    return (plain_name(d) in ("clamp", "clip", "clamp_min", "clamp_max") and d.kind == "dtype"
            and any(one.dim() == 0 for one in d.inputs.values()))


@known("**Products of matrices of bools**")
def products_of_bools(d):
    return (plain_name(d) in ("mm", "bmm", "mv", "dot", "matmul", "addmm", "baddbmm")
            and d.kind == "ember raises NotImplementedError"
            and "not implemented for 'Bool'" in str(d.ember_error))
