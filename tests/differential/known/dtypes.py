"""Dtypes that only one of the two has a kernel for, and dtypes of results."""

import re

from known.registry import known, plain_name, torch_says

# What PyTorch says where it has no kernel, and ember has one.
NO_KERNEL = {
    "frac": r'"frac_cpu" not implemented for \'(Byte|Char|Short|Int|Long|Bool)\'',
    "hypot": r'"hypot_cpu" not implemented for \'(Byte|Char|Short|Int|Long|Bool)\'',
    "nextafter": r'"nextafter_cpu" not implemented for \'(Byte|Char|Short|Int|Long|Bool)\'',
    "lerp": r'expected dtype .* for `(end|weight)` but got dtype|"lerp_kernel_(scalar|tensor)" not '
            r"implemented for '(Byte|Char|Short|Int|Long|Bool)'",
    "addcdiv": "Integer division with addcdiv is no longer supported",
    "clamp": r'"clamp_\w*cpu" not implemented for \'Bool\'',
    "clip": r'"clamp_\w*cpu" not implemented for \'Bool\'',
    "round": r'"round_vml_cpu" not implemented for \'(Byte|Char|Short|Int|Long)\'',
    "arange": r'"arange_cpu" not implemented for \'Complex(Float|Double)\'',
    "sign": "torch.sign is not intended to support complex numbers",
}


@known("- `complex32`")
def no_complex32(d):
    return (d.kind in ("dtype", "values") and "complex32" in str(d.torch)
            and "complex64" in str(d.ember))


@known("**More dtypes**")
def more_dtypes(d):
    if plain_name(d) == "lerp" and re.search("complex|1j", d.program.call):
        return (torch_says(d, NO_KERNEL["lerp"] + "|value cannot be converted to type")
                or d.kind == "dtype" and d.ember.startswith("complex"))
    if plain_name(d) not in NO_KERNEL or not torch_says(d, NO_KERNEL[plain_name(d)]):
        return False
    return d.kind.startswith("torch raises") or re.search(
        "can't be cast to|single memory location", str(d.ember_error))


@known("**Forms of arguments**")
def topk_of_bool(d):
    return plain_name(d) == "topk" and torch_says(d, "topk does not support bool dtypes on CPU")


@known("- `complex32`")
def view_of_halves(d):
    return d.name == "view_as_complex" and "only supported for float and" in str(d.ember_error)


@known("- `complex32`")
def no_kernel_of_complex32(d):
    return (d.kind == "torch raises NotImplementedError" and "for 'ComplexHalf'" in str(d.torch)
            and "a tensor: " in str(d.ember))


@known("**Forms of arguments**")
def dtype_of_clamp(d):
    """A tensor without dimensions counts as a number in torch where the other one is a number."""
    return (plain_name(d) in ("clamp", "clip") and d.kind == "dtype"
            and any(one.dim() == 0 for one in d.inputs.values()))


@known("**Products of matrices of bools**")
def products_of_bools(d):
    return (plain_name(d) in ("mm", "bmm", "mv", "dot", "matmul", "addmm", "baddbmm")
            and d.kind == "ember raises NotImplementedError"
            and "not implemented for 'Bool'" in str(d.ember_error))
