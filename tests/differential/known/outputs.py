"""Outputs: `out=`, and where a call leaves its result."""

import re

from known.registry import agrees, dtypes, known, plain_name, torch_says

REDUCTIONS = "sum prod mean var std norm amax amin any all".split()


@known("**Outputs**")
def output_of_another_shape(d):
    return (d.kind.startswith("ember raises") and "out=" in d.program.call
            and "output with shape" in str(d.ember))


@known("**Outputs**")
def output_overlaps_an_input(d):
    return (d.kind.startswith("ember raises") and "out=" in d.program.call
            and re.search("some elements of the input tensor and the written-to tensor|the input "
                          "tensors cannot refer to any of the output memory", str(d.ember)))


@known("`logsumexp` of complex numbers")
def real_output_of_complex_numbers(d):
    return (d.name == "logsumexp" and "out=" in d.program.call and "values" in d.kind
            and any(dtype.startswith("complex") for dtype in dtypes(d)) and "nan" in str(d.torch))


@known("**`out=`** of")
def out_of_more_functions(d):
    return (d.name in ("isfinite", "isinf", "isnan", "relu", "positive", "conj")
            and torch_says(d, "unexpected keyword argument 'out'", TypeError))


@known("**Outputs**")
def output_of_another_dtype(d):
    return "out=" in d.program.call and d.kind.startswith("torch raises") and torch_says(
        d, r"^Found dtype \w+ but expected \w+$|signbit does not support non-boolean outputs"
           r"|index_select\(\): self and result must have the same scalar type"
           r"|expected to have the same dtype, but got self.dtype"
           r"|Expected out tensor to have dtype|Expected out type to be"
           r"|std_var_all: Unsupported dtype|\"std_cpu\" not implemented for 'Complex")


@known("**Outputs**")
def output_that_is_an_empty_input(d):
    return (plain_name(d) in ("gather", "cat", "concat") and "out=" in d.program.call
            and torch_says(d, "single memory location")
            and all(one.numel() == 0 for one in d.inputs.values()))


@known("**Methods take `out=`**")
def output_of_a_method(d):
    """Only where the function of that name gives the same result."""
    method = re.match(r"r = (\w)\.(\w+)\((.*)\)$", d.program.call)
    return (method is not None and "out=" in d.program.call
            and isinstance(d.torch_error, TypeError)
            and agrees(d, "r = torch.{1}({0}, {2})".format(*method.groups()), method[2]))


@known("**Outputs**")
def output_of_shared_elements_is_resized(d):
    return (d.kind == "torch raises RuntimeError" and "out=" in d.program.call
            and plain_name(d) in ("take", "masked_select", "index_select", "nonzero")
            and "single memory location" in str(d.torch_error))


@known("**Outputs**")
def empty_output_of_normal(d):
    if d.name == "normal" and d.kind in ("shape", "input: shape"):
        return 0 in d.torch and "out=" in d.program.call
    return (d.name == "normal" and d.kind == "torch raises RuntimeError"
            and "must match the size of tensor b (0)" in str(d.torch_error))


@known("**An error in `gather`, `index_select` or `cat`**")
def output_resized_by_an_error(d):
    return (plain_name(d) in ("gather", "index_select", "cat", "concat")
            and d.kind == "input changed by an error" and "out=" in d.program.call)


@known("**A reduction into its own input**")
def reduction_into_its_input(d):
    """torch overwrites what it has not read yet; ember agrees with what it gives for a copy."""
    if plain_name(d) not in REDUCTIONS or not re.search(r"out=a[,)]", d.program.call):
        return False
    if d.kind in ("values", "input: values"):
        copied = re.sub(r"\((input=|x=|a=)?a\b", r"(\1a.clone()", d.program.call)
        return copied != d.program.call and agrees(d, copied)
    return re.search("shares memory with an input|single memory location",
                     str(d.ember_error)) is not None


@known("**A factor by position**")
def factor_by_position(d):
    return (plain_name(d) in ("add", "sub", "subtract") and isinstance(d.ember_error, TypeError)
            and "out=" in d.program.call)


@known("**An output that is none**")
def number_as_an_output(d):
    number = r"out=(np\.\w+\()?(-?[\d.]+j?|2\*\*70|nan|-?inf|True|False)\)+$"
    return (isinstance(d.ember_error, TypeError)
            and re.search(number, d.program.call) is not None)


@known("**`cat` into an input**")
def joined_into_an_input_without_elements(d):
    return (plain_name(d) in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "dstack", "column_stack")
            and "out=a" in d.program.call
            and re.search(r"[\[(]a\b", d.program.call) is not None  # with elements, ember refuses it as well
            and torch_says(d, "refer to a single memory location|cannot refer to any of the output"
                              "|same number of dimensions"))


@known("**Outputs**")
def triangles_of_expanded_tensors(d):
    return d.name in ("Tensor.tril_", "Tensor.triu_") and "single memory location" in str(d.ember_error)
