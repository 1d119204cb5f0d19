"""Calls that both refuse, or that end in another error."""

import re

from known.registry import agrees, known, plain_name, torch_says


@known("**Integers divided by zero**")
def divided_by_zero(d):
    return d.kind.startswith("torch raises") and "ZeroDivisionError" in str(d.torch)


@known("Python ints beyond 64 bits")
def large_int(d):
    return "2**70" in d.program.call and type(d.ember_error).__name__ == "OverflowError"


@known("**Dtypes and indices are checked**")
def index_beyond_an_empty_result(d):
    if d.name not in ("Tensor.__getitem__", "Tensor.__setitem__", "Tensor.index_put_",
                      "index_put_") and (
            plain_name(d) != "index_add" or d.inputs["a"].numel() > 0):
        return False
    return d.kind == "ember raises IndexError" and "is out of bounds" in str(d.ember)


@known("**Other indices**")
def string_as_an_index(d):
    return (d.name in ("Tensor.__getitem__", "Tensor.__setitem__")
            and d.kind == "class of error (TypeError / IndexError)" and "'x'" in d.program.call)


# What PyTorch says of an argument of a wrong kind where it is no TypeError.
WRONG_KIND = (r"Overflow when unpacking|by name, got|dimname \(string\)|^Name '|has no attribute"
              r"|scalar.isIntegral|start must be an 0-dim|device type at start|Invalid device string"
              r"|rounding_mode to be one of|cannot be converted to type double")


@known("**Failed assertions of torch**")
def failed_assertion(d):
    return "INTERNAL ASSERT FAILED" in str(d.torch_error)


@known("**Of several mistakes**")
def kinds_of_arguments_first(d):
    """PyTorch speaks of the same argument, or would have another form of the call."""
    return (d.kind.endswith("/ TypeError)") and d.kind.startswith("class of error")
            and re.search("incompatible function arguments|expected ints or one sequence of ints",
                          str(d.ember_error))
            and (re.search(WRONG_KIND, str(d.torch_error)) is not None
                 or plain_name(d) in ("var", "std") and "correction=" in d.program.call
                 or plain_name(d) == "scatter" and "reduce=b'" in d.program.call
                 or plain_name(d) in ("add", "sub", "subtract", "addcmul", "addcdiv", "norm",
                                      "deepcopy")))


@known("**Of several mistakes**")
def text_as_the_power_of_a_norm(d):
    """PyTorch's error is that of the function that it calls then, and of that one's other arguments."""
    return (plain_name(d) == "norm" and d.kind.startswith("class of error")
            and "expected a number or 'fro'" in str(d.ember_error))


@known("**Of several mistakes**")
def dtype_and_another_mistake(d):
    """One of the two says that there is no kernel, the other one that something does not fit."""
    no_kernel = "not implemented for|is not supported for|is not intended to support"
    if d.kind == "class of error (IndexError / NotImplementedError)":
        return (re.search("Dimension out of range|Expected reduction dim", str(d.torch))
                and re.search(no_kernel, str(d.ember)))
    if d.kind == "class of error (NotImplementedError / RuntimeError)":
        return re.search(no_kernel, str(d.torch)) and re.search(
            "must match the size|step sign|step must be|argument (alpha|beta) must|single memory"
            "|same dtype|expected scalar type", str(d.ember))
    return False


@known("**Of several mistakes**")
def dtype_of_one_index_and_kind_of_another(d):
    return (plain_name(d) == "index_put" and "tensors used as indices must be" in str(d.ember_error)
            and "expected Tensor as element" in str(d.torch_error))


@known("**Of several mistakes**")
def step_of_a_tensor_without_dimensions(d):
    return (d.name in ("Tensor.__getitem__", "Tensor.__setitem__")
            and d.kind == "class of error (ValueError / IndexError)"
            and re.search("step (must be greater than|cannot be) zero", str(d.torch)) is not None
            and "too many indices for tensor of dimension 0" in str(d.ember))


@known("**Of several mistakes**")
def dtype_and_another_mistake_of_an_index(d):
    """One of the two speaks of the dtype of the index, or of the source, and the other does not."""
    if d.kind not in ("class of error (RuntimeError / IndexError)",
                      "class of error (IndexError / RuntimeError)"):
        return False
    if "Dimension out of range" in str(d.torch):
        return "must have the same number of dimensions as src tensor" in str(d.ember)
    topics = [re.search("for index|same scalar type|dtypes? (that )?match|same dtype", str(one))
              for one in (d.torch_error, d.ember_error)]
    return (any(topics) and (not all(topics) or topics[0][0] != topics[1][0])
            and (plain_name(d) in ("setitem", "gather", "take", "put")
                 or plain_name(d).startswith(("index_", "scatter"))))
# What messages speak of, one line for each kind of mistake.
TOPICS = {
    "dimension": "Dimension out of range|Dimension specified as|Indexing dim|too many indices"
                 "|Expected reduction dim|at least a 1-dimensional"
                 "|Index is supposed to be a vector|Index should have dimension",
    "shared memory": "single memory location",
    "sizes": "Number of indices|same number of dimensions|slice shapes|dimensionality|shape must match|must match except"
             "|equal size|invalid shape|shape of the mask|shape mismatch|can't be resized"
             "|setStorage|non-empty list|must match the size of tensor",
    "conversion": "cannot be converted|Converting complex|[oO]verflow|outside the range of int64",
    "a factor": "argument (alpha|beta) must",
    "repetition": "appears multiple times",
    "dtype": "not implemented for|scalar type|[dD]type|can't be cast to the desired output",
    "bounds": r"index out of range|index \S+ is out of bounds|out of DATA bounds",
    "a number": "non-negative|must be greater|unsupported range|step|expects \\w+ >",
    "an argument": "invalid type|valid indices|tensors used as indices|split_size: expected"
                   "|expected ints or one sequence of ints|slice indices must be"
                   "|must be tuple of Tensors|must be torch.dtype|must be float, not Tensor|must be Tensor, not"
                   "|invalid combination of arguments|incompatible function arguments",
    "a reduction": "reduce argument must be",
    "a device": "device string|^Expected one of cpu",
    "a value": r"^can't assign an? \S+ to a ",
}


@known("**Of several mistakes**")
def different_mistakes(d):
    """Both refuse the call, and speak of different things."""
    if not d.kind.startswith("class of error"):
        return False
    topics = [{name for name, words in TOPICS.items() if re.search(words, str(one).split("\n")[0])}
              for one in (d.torch_error, d.ember_error)]
    return all(topics) and not topics[0] & topics[1]


@known("**An index out of bounds**")
def index_of_nothing(d):
    return (plain_name(d) == "index_select"
            and "self indexing axis dim should be positive" in str(d.torch_error))


@known("**An index out of bounds**")
def index_out_of_bounds(d):
    words = r"DATA bounds|index \S+ is out of bounds"
    return (plain_name(d) in ("index_select", "index_add") and isinstance(d.ember_error, IndexError)
            and re.search(words, str(d.torch_error)) is not None)


@known("**Python ints beyond 64 bits**")
def ints_beyond_64_bits(d):
    return (d.kind == "class of error (ValueError / TypeError)"
            and "Overflow when unpacking long long" in str(d.torch_error)
            and "outside the range of int64" in str(d.ember_error))


@known("**Python ints beyond 64 bits**")
def large_int_for_a_float(d):
    """Only where a float in its place gives the same result."""
    return (plain_name(d) in ("full", "full_like", "new_full", "scalar_tensor", "var", "std")
            and torch_says(d, "int too big to convert", OverflowError)
            and agrees(d, d.program.call.replace("2**70", "float(2**70)")))


@known("**Python ints beyond 64 bits**")
def large_int_as_the_power_of_a_norm_or_a_dtype(d):
    return (plain_name(d) in ("norm", "to") and d.kind == "class of error (OverflowError / TypeError)"
            and "int too big to convert" in str(d.torch_error))


@known("**Of several mistakes**")
def index_and_number_that_are_too_large(d):
    return (d.name == "Tensor.__setitem__" and "Overflow when unpacking" in str(d.torch_error)
            and d.kind == "class of error (ValueError / IndexError)")
