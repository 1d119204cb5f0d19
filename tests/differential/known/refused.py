"""Calls that ember refuses, and PyTorch takes."""

import re

from known.registry import agrees, known, plain_name

# Of these, PyTorch does not look at the dtype where there are no elements.
NOT_CHECKED = """softmax log_softmax bernoulli normal random uniform exponential randn rand
randn_like rand_like amax amin mv matmul cumsum cumprod""".split()


@known("**`multinomial`** without replacement")
def too_few_weights(d):
    return (plain_name(d) == "multinomial" and d.kind == "ember raises RuntimeError"
            and "not enough non-negative category to sample" in str(d.ember))


@known("**Tensors whose elements share memory**")
def written_where_elements_share_memory(d):
    return (d.name in ("Tensor.__setitem__", "Tensor.masked_fill_", "Tensor.index_fill_",
                       "Tensor.index_put_", "index_put_", "Tensor.baddbmm_")
            and d.kind == "ember raises RuntimeError"
            and "more than one element of the written-to tensor" in str(d.ember))


@known("**Dtypes and indices are checked**")
def dtype_of_no_elements(d):
    if d.kind != "ember raises NotImplementedError" or plain_name(d) not in NOT_CHECKED:
        return False
    result = d.results[0]
    return (result.numel() == 0 or plain_name(d).startswith("cum") and result.dim() == 0
            or plain_name(d) in ("mv", "matmul")
            and any(one.numel() == 0 for one in d.inputs.values()))


@known("**Dtypes and indices are checked**")
def number_of_no_elements(d):
    words = {"exponential": "continuous probability distribution", "addcmul": "without overflow",
             "index_add": "without overflow", "addmm": "without overflow",
             "baddbmm": "without overflow", "addr": "without overflow", "uniform": "is out of bounds for"}
    return (d.kind == "ember raises RuntimeError" and plain_name(d) in words
            and words[plain_name(d)] in str(d.ember)
            and any(one.numel() == 0 for one in d.inputs.values()))


@known("**Dtypes and indices are checked**")
def dtypes_of_a_product_of_no_elements(d):
    return (d.kind == "ember raises RuntimeError"
            and plain_name(d) in "mm bmm mv matmul rmatmul addmm baddbmm".split()
            and any(one.numel() == 0 for one in d.inputs.values())
            and re.search("expected scalar type|same dtype", str(d.ember)))


@known("**Dtypes and indices are checked**")
def shapes_of_no_elements(d):
    words = {"gather": "same number of dimensions", "concat": "Dimension out of range",
             "cat": "Dimension out of range", "repeat": "negative dimension"}
    return (d.kind.startswith("ember raises") and plain_name(d) in words
            and words[plain_name(d)] in str(d.ember) and d.results[0].numel() == 0)


@known("**Dtypes and indices are checked**")
def index_of_no_elements(d):
    return (d.kind == "ember raises IndexError" and "Expected dtype int" in str(d.ember)
            and any(one.numel() == 0 for one in list(d.inputs.values())[1:]))


@known("**Other indices**")
def list_of_floats(d):
    return (d.name in ("Tensor.__getitem__", "Tensor.__setitem__") and "[[0.5]]" in d.program.call
            and isinstance(d.ember_error, IndexError))


@known("**`alpha` and `beta`**")
def float_beside_integers(d):
    return (plain_name(d) in ("addmm", "baddbmm", "addr", "index_add")
            and d.kind == "ember raises RuntimeError"
            and re.search("argument (alpha|beta) must not be a (floating|complex)", str(d.ember)))


@known("**`alpha` and `beta`**")
def alpha_by_position(d):
    """torch still has these forms, and says that it will not always."""
    names = ("add", "sub", "subtract", "addcmul", "addcdiv")
    return (plain_name(d) in names and d.kind == "ember raises TypeError"
            and "incompatible function arguments" in str(d.ember)
            and not re.search("=", d.program.call.removeprefix("r = ")))


@known("**NumPy's other names of parameters**")
def numpy_name(d):
    """Only where the usual names give the same result."""
    if not isinstance(d.ember_error, TypeError):
        return False
    usual = re.sub(r"(?<=[(, ])(x|a|x1)=", "input=", d.program.call)
    usual = re.sub(r"(?<=[(, ])x2=", "other=", usual)
    return usual != d.program.call and any(agrees(d, one, both=True) for one in (
        usual, usual.replace("input=", "self="), usual.replace("other=", "end=")))


@known("**Numbers that a dtype does not hold**")
def numbers_that_do_not_fit(d):
    words = "cannot be converted to type|can't be cast to the desired output type Bool"
    return (plain_name(d) in ("full", "new_full", "scalar_tensor", "copy", "pow", "rpow")
            and d.kind == "ember raises RuntimeError"
            and re.search(words, str(d.ember_error)) is not None)


@known("**Tensors whose elements share memory**")
def result_into_shared_memory(d):
    return (d.kind == "ember raises RuntimeError" and "single memory location" in str(d.ember_error)
            and "out=" in d.program.call
            and any(0 in one.stride() for one in d.inputs.values()))


@known("**Sizes that are not there**")
def without_a_dimension(d):
    return (plain_name(d) in ("size", "stride") and "None" in d.program.call
            and isinstance(d.ember_error, TypeError))


@known("**Names of dimensions**")
def no_name_of_a_dimension(d):
    return (plain_name(d) == "flatten" and d.kind == "ember raises TypeError"
            and "None" in d.program.call)


@known("**Sizes that are not there**")
def none_for_a_flag(d):
    return plain_name(d) == "sort" and "stable=None" in d.program.call


@known("**Assignment of another dtype**")
def assignment_of_another_dtype(d):
    return (plain_name(d) == "setitem" and d.kind == "ember raises RuntimeError"
            and "Index put requires the source and destination dtypes match" in str(d.ember_error))


@known("**Dtypes and indices are checked**")
def dimensions_of_nothing(d):
    words = "Dimension out of range|range, but found|must match the existing|Size does not match"
    return (plain_name(d) in ("roll", "uniform", "bernoulli", "gather")
            and d.kind.startswith("ember raises")
            and re.search(words, str(d.ember_error)) is not None
            and any(value.numel() == 0 for value in d.inputs.values()))


@known("**A tensor of floats for an int**")
def tensor_of_floats_for_an_int(d):
    return (plain_name(d) == "split" and isinstance(d.ember_error, TypeError)
            and "expected an int or a sequence of ints, got Tensor" in str(d.ember)
            and any(one.numel() == 1 and one.is_floating_point() for one in d.inputs.values()))


@known("**`to`**")
def value_as_a_dtype(d):
    """torch takes the type of the value."""
    value = r"\.to\((True|False|-?[\d.]+(e-?\d+)?j?|nan|-?inf|np\.\w+\([^()]*\))(?=[,)])"
    return (plain_name(d) == "to" and d.kind == "ember raises TypeError"
            and re.search(value, d.program.call) is not None)


@known("**`norm`**")
def forms_of_norm(d):
    return (plain_name(d) == "norm" and d.kind.startswith("ember raises")
            and ("p='nuc'" in str(d.ember_error) or isinstance(d.ember_error, TypeError)))


@known("**Numbers beside elements**")
def numbers_beside_elements(d):
    words = "value cannot be converted to type|can't be cast to the desired output type"
    return (plain_name(d) in ("lerp", "clip", "clamp") and d.kind == "ember raises RuntimeError"
            and d.has_number and re.search(words, str(d.ember_error)) is not None)


@known("**Numbers beside elements**")
def complex_bounds(d):
    return (plain_name(d) in ("clip", "clamp", "clamp_min", "clamp_max") and d.kind == "ember raises NotImplementedError"
            and not d.inputs["a"].is_complex() and "complex" in d.program.text
            and "not implemented for 'Complex" in str(d.ember_error))
