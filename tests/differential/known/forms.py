"""Forms of arguments that PyTorch refuses, and ember takes."""

import ast
import re

import calls
from known.registry import (NUMBER, agrees, dtypes, known, plain_name, torch_says,
                            with_arguments)

# Of these, PyTorch takes a number as the second operand only, or for neither.
OPERANDS = calls.BINARY + """add sub subtract div divide pow addcmul addcdiv lerp clamp clamp_min clamp_max
clip""".split()
# Where these stand that may be numbers, and how numbers are written.
PLACES = [0, 1, 2, "input", "other", "end", "weight", "tensor1", "tensor2", "min", "max"]
NUMBER_TEXT = r"-?(\d+(\.\d*)?(e-?\d+)?|inf|nan)|True|False|\d+j|complex\(.*\)"


@known("**A number for a tensor**")
def number_as_other(d):
    return plain_name(d) in calls.OF_TENSORS and torch_says(
        d, rf"argument '(other|input)' (\(position [12]\) )?must be Tensor, not {NUMBER}"
    ) and tensors_agree(d)


def tensors_agree(d):
    """Whether tensors without dimensions in place of the numbers give the same result.

    Beside others without dimensions they may give another dtype.
    """
    floats = [one for one in d.inputs.values() if one.is_floating_point() or one.is_complex()]
    if all(one.dim() == 0 for one in floats or d.inputs.values()):
        return True
    wide = dtypes(d) & {"float64", "complex128"}

    def as_tensor(place, tree):
        text = re.sub(r"^np\.\w+\((.*)\)$", r"\1", ast.unparse(tree))
        if place not in PLACES or not re.fullmatch(NUMBER_TEXT, text):
            return tree
        whole = re.fullmatch(r"-?\d+|True|False", text)
        dtype = f", dtype=torch.{'complex128' if re.search('[cj]', text) else 'float64'}"
        dtype = "" if whole or not wide else dtype
        return ast.parse(f"torch.tensor({text}{dtype})").body[0].value

    return agrees(d, with_arguments(d.program.call, as_tensor))


@known("**A number for a tensor**")
def number_as_a_further_operand(d):
    name = plain_name(d)
    if name == "lerp":
        return torch_says(
            d, rf"arguments - got \(((Tensor|input=\w+), )?(.*end=)?{NUMBER}") and tensors_agree(d)
    return name in ("addcmul", "addcdiv", "where") and torch_says(
        d, rf"argument '(tensor[12]|input|other)' (\(position \d\) )?must be Tensor, not {NUMBER}",
        TypeError) and tensors_agree(d)


@known("**A number for a tensor**")
def number_as_first_operand(d):
    """torch has one for `pow`, by another name."""
    return d.name in OPERANDS and torch_says(
        d, rf"invalid combination of arguments - got \((.*input=)?{NUMBER}"
           rf"|argument 'input' (\(position 1\) )?must be Tensor, not {NUMBER}",
        TypeError) and (tensors_agree(d) or d.name == "pow" and agrees(
            d, d.program.call.replace("input=", "self=")))


@known("**`keepdim` without `dim`**")
def keepdim_alone(d):
    if plain_name(d) not in ("sum", "mean", "prod"):
        return False
    if torch_says(d, r"got \([^)]*out=\w+[^)]*\)", TypeError):
        found = not torch_says(d, r"got \([^)]*\b(dim=|axis=|int|list|tuple|(?<!out=)NoneType|Size)")
    else:
        found = torch_says(
            d, r"invalid combination of arguments - got \((input=)?(Tensor, )?"
               r"(dtype=[\w.]+, |out=\w+, )*(input=Tensor, )?keepdims?=\w+, ?"
               r"(dtype=[\w.]+|out=\w+|input=Tensor|, )*\)|keepdims?=bool(, )?\)", TypeError)
    if not found or plain_name(d) == "prod" or re.search(r"\b(dim|axis)=", d.program.call):
        # The dim of prod is never None in torch, and where there is one it is something else.
        return found
    return agrees(d, re.sub(r"\)$", ", dim=None)", d.program.call))


@known("**Values that are assigned**")
def assigned_value(d):
    """Only where a tensor of it gives the same result."""
    if d.name != "Tensor.__setitem__" or not torch_says(d, r"^can't assign an? \S+ to a "):
        return False
    at, value = re.match(r"(a\[.*\]) = (.*); r = None$", d.program.call).groups()
    scalar = re.match(r"np\.(?!array)\w+\((.*)\)$", value)
    array = f"({value}).copy()" if value.startswith("np.array") else value
    value = scalar[1] if scalar else f"torch.tensor({array})"
    if "complex" in value and not d.inputs["a"].is_complex():
        return True  # what is no part of an array is left out, as in `tensor`
    return agrees(d, f"{at} = {value}; r = None")


@known("**Values that are assigned**")
def assigned_large_int(d):
    return (d.name == "Tensor.__setitem__" and d.kind == "torch raises ValueError"
            and " = 2**70; r" in d.program.call
            and (d.inputs["a"].is_floating_point() or d.inputs["a"].is_complex()
                 or d.program.dtypes["a"] == "bool"))


@known("**Forms of arguments**")
def dims_of_flip(d):
    def as_tuple(place, tree):
        one = place == "dims" or type(place) is int and re.fullmatch(
            r"-?\d+|np\.int64\(-?\d+\)", ast.unparse(tree))
        return ast.Tuple([tree], ast.Load()) if one else tree

    return plain_name(d) in ("flip", "permute", "tile") and torch_says(
        d, r"'dims' (\(position \d\) )?must be tuple of ints, not (int|numpy\.int64)$",
        TypeError) and agrees(d, with_arguments(d.program.call, as_tuple))


@known("**Forms of arguments**")
def sort_by_position(d):
    """torch has dim by position without stable, or all by keyword."""
    if plain_name(d) not in ("sort", "argsort") or not torch_says(
            d, r"invalid combination of arguments - got \((Tensor, )?(int|numpy\.int64|bool), "
               r"|argsort\(\) takes from \d to \d positional", TypeError):
        return False
    tree = ast.parse(d.program.call)
    call = tree.body[0].value
    first = 0 if d.name.startswith("Tensor.") else 1
    call.keywords += [ast.keyword(name, value) for name, value in
                      zip(["dim", "descending", "stable"], call.args[first:])]
    del call.args[first:]
    return agrees(d, ast.unparse(tree))


@known("**Forms of arguments**")
def clamp_between_tensor_and_number(d):
    return plain_name(d) in ("clamp", "clip", "clamp_min", "clamp_max") and torch_says(
        d, rf"arguments - got \((Tensor, )?(Tensor, (out=Tensor, )?(max=)?{NUMBER}|{NUMBER}, (max=)?"
           rf"Tensor)|max=({NUMBER}, min=Tensor|Tensor, min={NUMBER})"
           rf"|min=({NUMBER}, max=Tensor|Tensor, max={NUMBER})", TypeError) and tensors_agree(d)


@known("**Forms of arguments**")
def clamp_between_number_and_point(d):
    """torch takes a bound without dimensions as a number, which wraps around in the dtype of others."""
    return (plain_name(d) in ("clamp", "clip", "clamp_min", "clamp_max")
            and (d.kind in ("values", "input: values", "dtype")
                 or torch_says(d, "cannot be converted to type .* without overflow"))
            and any(x.dim() == 0 for name, x in d.inputs.items() if name != "a")
            and re.search(rf"(\(|=|, )({NUMBER_TEXT})[,)]", d.program.call) is not None)


@known("**Forms of arguments**")
def by_keyword_or_by_position(d):
    words = {"from_numpy": "takes no keyword arguments", "is_tensor": "some positional-only",
             "as_tensor": r"takes 1 positional argument but [23] were given"}
    return d.name in words and torch_says(d, words[d.name], TypeError)


@known("**Forms of arguments**")
def squeeze_none(d):
    return plain_name(d) in ("squeeze", "squeeze_", "prod") and torch_says(
        d, r"by name, got: name = None|You passed a dimname \(string\)")


@known("**Forms of arguments**")
def size_that_is_a_number(d):
    if d.name == "Tensor.view" and torch_says(d, r"got \(size=(int|numpy\.int64), \)", TypeError):
        return True
    if d.name == "normal" and torch_says(d, "combination of arguments"):
        return torch_says(d, r"arguments - got \(\w+, ((std=)?\w+, (generator=[\w.]+, )?(size=)?int"
                             r"|.*size=int, std)"
                             r"|size=int, std=")
    return torch_says(d, r"argument '(sizes?|shape|split_sizes|stride)' (\(position \d\) )?must be "
                         r"tuple of ints, not (int|numpy\.int64)$", TypeError)


@known("**Forms of arguments**")
def size_beside_other_arguments(d):
    """PyTorch finds no form with one int in these, and says nothing of the size."""
    return d.name in ("full", "randint", "empty", "zeros", "ones", "rand", "randn") and torch_says(
        d, r"combination of arguments - got \((\w+, )*((int|numpy\.int64)(, |\))|.*size=int\b)",
        TypeError)


@known("**Forms of arguments**")
def no_size(d):
    if plain_name(d) in "new_empty new_zeros new_ones empty zeros ones rand randn".split():
        return torch_says(d, r'"size"|got \((\)|dtype=|device=|generator=|out=)', TypeError)
    return re.search(r"\.(view|permute|reshape|expand|tile)\(\)$", d.program.call) is not None


@known("**Forms of arguments**")
def bool_or_tensor_as_a_number(d):
    """Only where a number in its place gives the same result."""
    if d.name == "result_type" or d.name.startswith("Tensor.") and "out=" in d.program.call:
        return False
    if not torch_says(d, "combination of arguments|must be (int|tuple of ints), not (bool|Tensor)"
                         "|must be float, not Tensor"
                         "|must be tuple of ints, but found", TypeError):
        return False
    call = d.program.call
    found = list(re.finditer(r"(?<=[(\[ =])(True|False)", call))
    numbers = [call[:one.start()] + str(int(one[0] == "True")) + call[one.end():] for one in found]
    numbers.append(re.sub(r"(?<=[(\[ =])(True|False)", lambda m: str(int(m[0] == "True")), call))
    tensors = [re.sub(rf"([(\[]|, |=){name}(?=[,)])", rf"\1{plain.format(name)}", d.program.call)
               for name, value in d.inputs.items() if value.numel() == 1
               for plain in ("int({})", "[int({})]", "float({})")]
    return any(one != d.program.call and agrees(d, one) for one in [*numbers, *tensors])


@known("**Forms of arguments**")
def tensor_as_a_start(d):
    if plain_name(d) != "narrow" or not torch_says(d, "start must be an 0-dim integral Tensor"):
        return False
    return any(agrees(d, re.sub(rf"(, |=){name}(?=[,)])", rf"\1int({name})", d.program.call))
               for name in d.inputs)


@known("**Forms of arguments**")
def array_as_sizes_of_pieces(d):
    """Only where a list of its elements gives the same result."""
    def as_list(_, tree):
        text = ast.unparse(tree)
        return ast.parse(f"[int(x) for x in {text}]").body[0].value if (
            text.startswith("np.array(") or text in list(d.inputs)[1:]) else tree

    return plain_name(d) == "split" and torch_says(
        d, r"argument 'split_sizes?' .*must be (int|tuple of ints), not (numpy.ndarray|Tensor)$",
        TypeError) and agrees(d, with_arguments(d.program.call, as_list))


@known("**Forms of arguments**")
def list_for_the_dimension_of_prod(d):
    """Only where the one dimension of the list gives the same result, or none for an empty one."""
    if plain_name(d) != "prod" or not torch_says(
            d, r"combination of arguments - got \(.*(list|tuple|Size)\b", TypeError):
        return False
    one = re.sub(r"(torch\.Size\()?[\[(](-?\d),?[\])]\)?(?=[,)])", r"\2", d.program.call)
    none = re.sub(r"(, )?(dim=|axis=)?(\[\]|(?<=[ =])\(\))", "", d.program.call)
    kept = re.sub(r", (keepdims?=)?(True|1)\b", "", none)  # torch has no keepdim without a dim
    return (agrees(d, one) or agrees(d, none)
            or agrees(d, f"{kept}.reshape([1] * a.dim())"))


@known("**Forms of arguments**")
def complex_view_of_nothing(d):
    return (d.name == "view_as_complex" and d.inputs["a"].numel() == 0
            and torch_says(d, "must have a stride divisible by 2"))


@known("**Forms of arguments**")
def isclose_of_a_smaller_tensor(d):
    return plain_name(d) in ("isclose", "allclose") and torch_says(
        d, "doesn't match the broadcast shape", RuntimeError)


@known("**Forms of arguments**")
def tensor_as_a_list(d):
    return d.name in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "dstack", "column_stack") and torch_says(
        d, r"must be tuple of Tensors, not Tensor|arguments - got \((dim=\w+, )?(tensors=)?Tensor\b", TypeError)


@known("**Forms of arguments**")
def other_names(d):
    return (d.name == "Tensor.copy_" and torch_says(d, 'copy_.. missing 1 required .* "other"')
            or plain_name(d) == "norm" and torch_says(
                d, "unexpected keyword argument '(axis|keepdims)'|dim must be a 2-tuple"
                   "|'numpy.int64' has no len|argument 'out' must be Tensor, not torch"
                   r"|len\(\) of a 0-d tensor"))


@known("**Forms of arguments**")
def number_where_torch_has_none_by_name(d):
    number = rf"combination of arguments - got \(.*(src|input)={NUMBER}"
    return plain_name(d) in ("scatter", "where") and torch_says(d, number, TypeError)


@known("**Forms of arguments**")
def number_of_numpy_beside_an_output(d):
    return plain_name(d) in ("cumsum", "cumprod") and torch_says(
        d, r"combination of arguments - got \(out=Tensor, dim=numpy\.int64", TypeError)


@known("**Forms of arguments**")
def dtype_by_position(d):
    return plain_name(d) in ("cumsum", "cumprod", "sum", "prod", "mean") and torch_says(
        d, r"combination of arguments - got \((\w+=)?.*(int|int64|bool), torch\.dtype", TypeError)


@known("**Other indices**")
def mask_without_dimensions(d):
    return plain_name(d) == "index_put" and any(
        one.dim() == 0 and one.dtype in (d.modules[0].uint8, d.modules[0].bool)
        for name, one in d.inputs.items() if name != "a")


@known("**Other indices**")
def values_of_more_dimensions(d):
    """Only where those without the further dimensions of one give the same result."""
    if plain_name(d) != "index_put" or not torch_says(
            d, r"shape mismatch: value tensor of shape \[1\b.* cannot be broadcast"):
        return False
    return any(agrees(d, re.sub(rf"((?:, |values=){name})(?=[,)])", r"\1" + "[0]" * dims, d.program.call))
               for name, one in d.inputs.items() for dims in range(1, one.dim() + 1))


@known("**Other indices**")
def uint8_mask_in_an_assignment(d):
    return (d.name in ("Tensor.__setitem__", "Tensor.index_put_", "index_put_")
            and torch_says(d, "only supports boolean masks, but got mask with dtype unsigned char|"
                              "Index put requires the source and destination dtypes match"))


@known("**Forms of arguments**")
def bool_as_a_size(d):
    return (plain_name(d).removeprefix("new_") in (
                "ones", "zeros", "empty", "full", "rand", "randn", "randint", "narrow")
            and "scalar.isIntegral" in str(d.torch_error))


@known("**Norms of nothing**")
def norm_of_nothing(d):
    words = "an empty tensor because|dimension is empty"
    return plain_name(d) == "norm" and re.search(words, str(d.torch_error)) is not None


@known("**Forms of arguments**")
def array_for_dimensions(d):
    return plain_name(d) in ("movedim", "moveaxis") and torch_says(
        d, r"invalid combination of arguments - got \(.*(Tensor|numpy.ndarray)", TypeError)


@known("**`logsumexp` over no dimensions**")
def logsumexp_over_no_dimensions(d):
    return plain_name(d) == "logsumexp" and torch_says(d, "doesn't match the broadcast shape")


@known("**Forms of arguments**")
def views_of_rows_that_have_gaps(d):
    return plain_name(d) == "take_along_dim" and torch_says(d, "view size is not compatible", RuntimeError)
