"""NumPy's arrays and scalars."""

import re

from known.registry import agrees, known, plain_name, torch_says

COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@known("**All comparisons with NumPy arrays**")
def comparison_with_an_array(d):
    """Only where a tensor of the array gives the same result."""
    return (d.name.startswith("Tensor.__") and plain_name(d) in COMPARISONS
            and "np.array(" in d.program.call and agrees(d, with_tensor(d.program.call)))


def with_tensor(call):
    """An operator's call with a tensor in place of the array that is its second operand."""
    return re.sub(r"(?<=[=<>] )(np\.array\(.*)$", r"torch.tensor((\1).copy())", call)


@known("**All comparisons with NumPy arrays**")
def comparison_of_other_shapes(d):
    """torch's own operator fails, and Python compares the objects."""
    return (d.name == "Tensor.__ne__" and "np.array(" in d.program.call and d.torch == "bool True"
            and "must match the size" in str(d.ember_error))


@known("**All comparisons with NumPy arrays**")
def arithmetic_of_bools_with_an_array(d):
    return (d.name.startswith("Tensor.__") and "dtype='bool'" in d.program.call
            and (d.kind, d.torch, d.ember) == ("dtype", "uint8", "bool"))


@known("**Several ints**")
def array_for_several_ints(d):
    """torch refuses it before it looks at the ints."""
    return (d.kind.startswith("class of error") and "np.array(" in d.program.call
            and torch_says(d, r"received an invalid combination of arguments - got .*numpy\.ndarray",
                           TypeError))


@known("NumPy arrays with negative strides")
def negative_strides(d):
    return (torch_says(d, "stride in the given numpy array is negative", ValueError)
            and plain_name(d) in ["tensor", "new_tensor", "as_tensor", "from_numpy"] + COMPARISONS)


@known("**NumPy scalars**")
def numpy_scalar(d):
    """Only where a Python number in its place gives the same result."""
    scalar = r"(?<!bool\()(?<!complex\()np\.(bool|complex)(_|64)\((complex\([^()]*\)|[^()]*)\)"
    return agrees(d, re.sub(scalar, r"\1(\g<0>)", d.program.call))


@known("**NumPy scalars**")
def numpy_float_for_integers(d):
    return (plain_name(d) in ("tensor", "as_tensor", "new_tensor", "scalar_tensor")
            and torch_says(d, r"'numpy.(float|complex)\d+' object cannot be interpreted as an int"))


@known("**NumPy scalars**")
def numpy_complex_for_real_numbers(d):
    return (plain_name(d) in ("tensor", "as_tensor", "new_tensor")
            and "np.complex" in d.program.call and d.kind == "ember raises TypeError"
            and "must be real number" in str(d.ember))


@known("**NumPy scalars**")
def size_of_numpy_scalars(d):
    return d.name == "Size" and d.kind == "kind of result" and "int64 np.int64" in str(d.torch)
