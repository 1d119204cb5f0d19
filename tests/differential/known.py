"""The differences that docs/differences.md documents: what is on this list does not fail.

Each one has the heading or the first words of its paragraph there, which a test looks up, and a
function that says whether a difference is of that kind. They are as narrow as they can be, as
whatever they let pass is not tested.
"""

import copy
import re

import calls
import compare

KNOWN = []
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
POSITIONS = ["sort", "topk", "max", "min"]
# What PyTorch's messages call the kind of a number.
NUMBER = r"(?:int|float|bool|complex|numpy\.(?:u?int|float|bool|complex)\d*)\b"
# Of these, PyTorch takes a number as the second operand only, or for neither.
OPERANDS = calls.BINARY + """add sub subtract div divide pow addcmul addcdiv lerp clamp
clip""".split()
# Of these, PyTorch does not look at the dtype where there are no elements.
NOT_CHECKED = """softmax log_softmax bernoulli normal random uniform exponential randn rand
randn_like rand_like amax amin mv matmul cumsum cumprod""".split()
# Where the sign of a zero depends on the order of operations, or of equal elements.
SIGN_LEFT_OPEN = """maximum minimum max min fmax fmin clamp clip sort cumsum mm bmm matmul addmm
baddbmm lerp pow""".split()
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


def known(words):
    def add(function):
        KNOWN.append((words, function))
        return function
    return add


def documented(difference):
    """The words of docs/differences.md that a difference falls under, or None."""
    for words, function in KNOWN:
        if function(difference):
            return words
    return None


def plain_name(difference):
    return difference.name.removeprefix("Tensor.").strip("_")


def dtypes(difference):
    return set(difference.program.dtypes.values())


def torch_says(difference, words, *classes):
    """Whether PyTorch refuses the call with an error of these words."""
    error = difference.torch_error
    return (error is not None and not difference.kind.startswith(("arguments", "input"))
            and isinstance(error, classes or Exception)
            and re.search(words, str(error).split("\n")[0]) is not None)


def agrees(difference, call):
    """Whether another form of the same call, which PyTorch takes, shows only documented ones."""
    program = copy.copy(difference.program)
    program.call = call
    random = plain_name(difference) in calls.RANDOM
    found = compare.compare(program, *difference.modules, random)
    taken = not isinstance(compare.Outcome(program, difference.modules[0]).error, TypeError)
    return taken and all(documented(one) for one in found)


@known("**Integers divided by zero**")
def divided_by_zero(d):
    return d.kind.startswith("torch raises") and "ZeroDivisionError" in str(d.torch)


@known("**Sorting is always stable**")
def another_of_equal_elements(d):
    """Other positions, at which there are the same elements."""
    if d.kind == "indices: values" or d.kind == "input: values" and "out=" in d.program.call:
        return plain_name(d) in POSITIONS and same_elements(d, d.results[0][1], d.results[1][1])
    return (d.kind == "values" and plain_name(d) in ("argsort", "argmin", "argmax")
            and same_elements(d, *d.results))


def same_elements(d, of_torch, of_ember):
    """Whether both index tensors name equal elements of the input, along one of its dimensions."""
    values = d.inputs.get("a")
    if values is None:
        return False
    of_ember = of_torch.new_tensor(of_ember.tolist()).reshape(of_torch.shape)
    if of_torch.numel() == 1 and equal(values.take(of_torch), values.take(of_ember)):
        return True
    for dim in range(values.dim()):
        both = [of_torch, of_ember]
        if of_torch.dim() < values.dim():
            both = [index.unsqueeze(dim) for index in both]
        try:
            first, second = (values.gather(dim, index) for index in both)
        except (RuntimeError, IndexError):
            continue
        if equal(first, second):
            return True
    return False


def equal(first, second):
    """As an order has it: 0.0 is -0.0, and NaN is NaN."""
    pairs = zip(first.reshape(-1).tolist(), second.reshape(-1).tolist())
    return all(x == y or (x != x and y != y) for x, y in pairs)


@known("**Random numbers**")
def size_of_a_state(d):
    return d.name == "get_rng_state" and d.kind == "shape"


@known("**16-bit floats and a Python number**")
def number_rounded_first(d):
    return (d.kind in ("values", "input: values") and d.has_number
            and bool(dtypes(d) & {"float16", "bfloat16"}))


@known("**Outputs**")
def output_of_another_shape(d):
    return (d.kind.startswith("ember raises") and "out=" in d.program.call
            and "output with shape" in str(d.ember))


@known("**Outputs**")
def output_overlaps_an_input(d):
    return (d.kind.startswith("ember raises") and "out=" in d.program.call
            and "some elements of the input tensor and the written-to tensor" in str(d.ember))


@known("**Sizes and values that make no sense**")
def value_error(d):
    return d.kind == "class of error (RuntimeError / ValueError)"


@known("**All comparisons with NumPy arrays**")
def comparison_with_an_array(d):
    return (d.name.startswith("Tensor.__") and plain_name(d) in COMPARISONS
            and "np.array(" in d.program.call
            and (isinstance(d.torch_error, TypeError) or d.kind in ("kind of result", "dtype")))


@known("**All comparisons with NumPy arrays**")
def comparison_of_other_shapes(d):
    """torch's own operator fails, and Python compares the objects."""
    return (d.name == "Tensor.__ne__" and "np.array(" in d.program.call and d.torch == "bool True"
            and "must match the size" in str(d.ember_error))


@known("**All comparisons with NumPy arrays**")
def arithmetic_of_bools_with_an_array(d):
    return (d.name.startswith("Tensor.__") and "dtype='bool'" in d.program.call
            and (d.kind, d.torch, d.ember) == ("dtype", "uint8", "bool"))


@known("Python ints beyond 64 bits")
def large_int(d):
    return "2**70" in d.program.call and type(d.ember_error).__name__ == "OverflowError"


@known("NumPy arrays with negative strides")
def negative_strides(d):
    return (torch_says(d, "stride in the given numpy array is negative", ValueError)
            and plain_name(d) in ["tensor", "new_tensor", "as_tensor", "from_numpy"] + COMPARISONS)


@known("- `complex32`")
def no_complex32(d):
    return (d.kind in ("dtype", "values") and "complex32" in str(d.torch)
            and "complex64" in str(d.ember))


@known("- `memory_format`")
def layout_of_several_inputs(d):
    """Only where inputs of more than one layout come together."""
    return d.kind.startswith("strides") and d.layouts > 1


@known("**`conj` of complex tensors**")
def conj_is_no_view(d):
    return (plain_name(d) in ("conj", "adjoint", "H", "mH") and d.inputs["a"].is_complex()
            and d.kind.startswith(("memory", "identity", "strides")))


@known("**More dtypes**")
def more_dtypes(d):
    if plain_name(d) == "lerp" and re.search("complex|1j", d.program.call):
        return (torch_says(d, NO_KERNEL["lerp"] + "|value cannot be converted to type")
                or d.kind == "dtype" and d.ember.startswith("complex"))
    if plain_name(d) not in NO_KERNEL or not torch_says(d, NO_KERNEL[plain_name(d)]):
        return False
    return d.kind.startswith("torch raises") or re.search(
        "can't be cast to|single memory location", str(d.ember_error))


@known("**A number for a tensor**")
def number_as_other(d):
    return plain_name(d) in calls.OF_TENSORS and torch_says(
        d, rf"argument '(other|input)' (\(position [12]\) )?must be Tensor, not {NUMBER}")


@known("**A number for a tensor**")
def number_as_a_further_operand(d):
    name = plain_name(d)
    if name == "lerp":
        return torch_says(d, rf"arguments - got \(((Tensor|input=\w+), )?(.*end=)?{NUMBER}")
    return name in ("addcmul", "addcdiv", "where") and torch_says(
        d, rf"argument '(tensor[12]|input|other)' (\(position \d\) )?must be Tensor, not {NUMBER}",
        TypeError)


@known("**A number for a tensor**")
def number_as_first_operand(d):
    return d.name in OPERANDS and torch_says(
        d, rf"invalid combination of arguments - got \((.*input=)?{NUMBER}"
           rf"|argument 'input' (\(position 1\) )?must be Tensor, not {NUMBER}", TypeError)


@known("**`keepdim` without `dim`**")
def keepdim_alone(d):
    if plain_name(d) in ("sum", "mean", "prod") and torch_says(
            d, r"got \([^)]*out=\w+[^)]*\)", TypeError):
        return not torch_says(d, r"got \([^)]*\b(dim=|axis=|int|list|tuple|NoneType|Size)")
    return plain_name(d) in ("sum", "mean", "prod") and torch_says(
        d, r"invalid combination of arguments - got \((input=)?(Tensor, )?"
           r"(dtype=[\w.]+, |out=\w+, )*(input=Tensor, )?keepdims?=\w+, ?"
           r"(dtype=[\w.]+|out=\w+|input=Tensor|, )*\)|keepdims?=bool(, )?\)", TypeError)


@known("**`out=`** of")
def out_of_more_functions(d):
    return (d.name in ("isfinite", "isinf", "isnan", "relu", "positive", "conj")
            and torch_says(d, "unexpected keyword argument 'out'", TypeError))


@known("**Values that are assigned**")
def assigned_value(d):
    return d.name == "Tensor.__setitem__" and torch_says(d, r"^can't assign an? \S+ to a ")


@known("**Values that are assigned**")
def assigned_large_int(d):
    return (d.name == "Tensor.__setitem__" and d.kind == "torch raises ValueError"
            and " = 2**70; r" in d.program.call
            and (d.inputs["a"].is_floating_point() or d.inputs["a"].is_complex()
                 or d.program.dtypes["a"] == "bool"))


@known("**NumPy scalars**")
def numpy_scalar(d):
    """Only where a Python number in its place gives the same result."""
    plain = re.sub(r"np\.(bool_|complex64)\(((complex\([^()]*\))|[^()]*)\)", r"\2", d.program.call)
    return plain != d.program.call and agrees(d, plain)


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


@known("**Complex numbers with infinite or NaN parts**")
def parts_that_are_not_finite(d):
    """PyTorch's element is not finite, or ember's, where something of the input is not either."""
    if d.kind not in ("values", "input: values"):
        return False
    elements = [re.sub(r"^\[\d+\] = | of \[.*", "", str(one)) for one in (d.torch, d.ember)]
    not_finite = [re.search("inf|nan", one) for one in [*elements, d.program.text]]
    return (all("j" in one for one in elements)
            and bool(not_finite[0] or not_finite[1] and not_finite[2]))


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


@known("**Forms of arguments**")
def dims_of_flip(d):
    return plain_name(d) in ("flip", "permute") and torch_says(
        d, r"'dims' (\(position \d\) )?must be tuple of ints, not (int|numpy\.int64)$", TypeError)


@known("**Forms of arguments**")
def sort_by_position(d):
    """torch has dim by position without stable, or all by keyword."""
    return plain_name(d) in ("sort", "argsort") and torch_says(
        d, r"invalid combination of arguments - got \((Tensor, )?(int|numpy\.int64|bool), "
           r"|argsort\(\) takes from \d to \d positional", TypeError)


@known("**Forms of arguments**")
def clamp_between_tensor_and_number(d):
    return plain_name(d) in ("clamp", "clip") and torch_says(
        d, rf"arguments - got \((Tensor, )?(Tensor, (max=)?{NUMBER}|{NUMBER}, (max=)?"
           rf"Tensor)|max=({NUMBER}, min=Tensor|Tensor, min={NUMBER})"
           rf"|min=({NUMBER}, max=Tensor|Tensor, max={NUMBER})", TypeError)


@known("**Forms of arguments**")
def by_keyword_or_by_position(d):
    words = {"from_numpy": "takes no keyword arguments", "is_tensor": "some positional-only",
             "as_tensor": r"takes 1 positional argument but [23] were given"}
    return d.name in words and torch_says(d, words[d.name], TypeError)


@known("**Forms of arguments**")
def squeeze_none(d):
    return plain_name(d) in ("squeeze", "prod") and torch_says(d, "by name, got: name = None")


@known("**Forms of arguments**")
def topk_of_bool(d):
    return plain_name(d) == "topk" and torch_says(d, "topk does not support bool dtypes on CPU")


@known("`topk(sorted=False)`")
def topk_in_order(d):
    """The same elements in another order."""
    if plain_name(d) == "topk" and d.kind == "input: values" and "out=" in d.program.call:
        return re.search("False|0", d.program.call) is not None
    if plain_name(d) != "topk" or d.kind not in ("values", "indices: values"):
        return False
    first, second = (sorted(map(str, one[0].reshape(-1).tolist())) for one in d.results)
    return first == second and re.search(r"(sorted=|(True|False|[01]), )(False|0)", d.program.call)


@known("- `complex32`")
def view_of_halves(d):
    return d.name == "view_as_complex" and "only supported for float and" in str(d.ember_error)


@known("- `complex32`")
def no_kernel_of_complex32(d):
    return (d.kind == "torch raises NotImplementedError" and "for 'ComplexHalf'" in str(d.torch)
            and "a tensor: " in str(d.ember))


@known("**The sign of zero**")
def sign_of_zero(d):
    return d.kind in ("sign of zero", "input: sign of zero") and plain_name(d) in SIGN_LEFT_OPEN


@known("**`multinomial`** without replacement")
def too_few_weights(d):
    return (plain_name(d) == "multinomial" and d.kind == "ember raises RuntimeError"
            and "not enough non-negative category to sample" in str(d.ember))


@known("**Numbers that no integer holds**")
def not_a_number_as_an_integer(d):
    return (plain_name(d) in ("cumsum", "cumprod") and d.kind == "values"
            and re.search("dtype=torch.u?int", d.program.call) is not None
            and re.search("nan|inf", d.program.text) is not None)


@known("**Numbers that no integer holds**")
def negative_of_the_smallest(d):
    if plain_name(d) not in ("sub", "subtract") or "alpha=" not in d.program.call:
        return False
    smallest = r"alpha=(np\.\w+\()?-(128|32768|2147483648|9223372036854775808)\b"
    return re.search(smallest, d.program.call) is not None


@known("**Sums have a fixed order**")
def sum_of_integers_that_cancel(d):
    """The largest integers of a dtype are summed as floats, which hold them in part only."""
    return (plain_name(d) in ("sum", "mean", "cumsum") and d.kind == "values"
            and re.search("dtype=torch.float", d.program.call)
            and re.search("2147483648|9223372036854775808", d.program.text))


@known("**Sums have a fixed order**")
def put_twice(d):
    """The places are the same, and each holds one of the elements that were put there."""
    if d.name != "Tensor.put_" or d.kind not in ("values", "input: values"):
        return False
    places = (d.inputs["b"] % d.inputs["a"].numel()).reshape(-1).tolist()
    return len(set(places)) < len(places) and "accumulate=True" not in d.program.call


@known("- **Bits of NaN**")
def bits_of_nan(d):
    return (d.name == "Tensor.view" and d.kind == "values" and "nan" in d.program.text
            and "bfloat16" in dtypes(d))


@known("- **gcd** with the smallest integer")
def gcd_is_positive(d):
    """torch's is the negative of it, also as an element of the output uint8."""
    if plain_name(d) != "gcd" or d.kind not in ("values", "input: values"):
        return False
    of_torch, of_ember = (complex(re.match(r"(?:\[\d+\] = )?(\S+) of", str(one))[1])
                          for one in (d.torch, d.ember))  # into a complex output, too
    return of_torch in (-of_ember, 256 - of_ember)


@known("**Outputs**")
def output_of_another_dtype(d):
    return "out=" in d.program.call and d.kind.startswith("torch raises") and torch_says(
        d, r"^Found dtype \w+ but expected \w+$|signbit does not support non-boolean outputs"
           r"|index_select\(\): self and result must have the same scalar type"
           r"|expected to have the same dtype, but got self.dtype"
           r"|Expected out tensor to have dtype|Expected out type to be"
           r"|std_var_all: Unsupported dtype")


@known("**Forms of arguments**")
def size_that_is_a_number(d):
    if d.name == "Tensor.view" and torch_says(d, r"got \(size=(int|numpy\.int64), \)", TypeError):
        return True
    if d.name == "normal" and torch_says(d, "combination of arguments"):
        return torch_says(d, r"arguments - got \(\w+, ((std=)?\w+, (size=)?int|.*size=int, std)"
                             r"|size=int, std=")
    return torch_says(d, r"argument '(size|shape|split_sizes|stride)' (\(position \d\) )?must be "
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
        return torch_says(d, r'"size"|got \((\)|dtype=|device=|generator=)', TypeError)
    return re.search(r"\.(view|permute|reshape|expand)\(\)$", d.program.call) is not None


@known("**Forms of arguments**")
def bool_or_tensor_as_an_int(d):
    """Only where an int in its place gives the same result."""
    if d.name == "result_type" or d.name.startswith("Tensor.") and "out=" in d.program.call:
        return False
    if not torch_says(d, "combination of arguments|must be (int|tuple of ints), not (bool|Tensor)"
                         "|must be tuple of ints, but found", TypeError):
        return False
    number = re.sub(r"([(\[]|, |=)(True|False)", lambda m: m[1] + str(int(m[2] == "True")),
                    d.program.call)
    tensors = [re.sub(rf"([(\[]|, |=){name}(?=[,)])", rf"\1{plain.format(name)}", d.program.call)
               for name, value in d.inputs.items() if value.numel() == 1
               for plain in ("int({})", "[int({})]")]
    return any(one != d.program.call and agrees(d, one) for one in [number, *tensors])


@known("**Forms of arguments**")
def dtype_of_clamp(d):
    """A tensor without dimensions counts as a number in torch where the other one is a number."""
    return (plain_name(d) in ("clamp", "clip") and d.kind == "dtype"
            and any(one.dim() == 0 for one in d.inputs.values()))


@known("**Forms of arguments**")
def tensor_as_a_list(d):
    return d.name in ("cat", "concat", "stack") and torch_says(
        d, r"must be tuple of Tensors, not Tensor|arguments - got \((tensors=)?Tensor\b", TypeError)


@known("**Forms of arguments**")
def other_names(d):
    return (d.name == "Tensor.copy_" and torch_says(d, 'copy_.. missing 1 required .* "other"')
            or plain_name(d) == "norm" and torch_says(
                d, "unexpected keyword argument '(axis|keepdims)'|dim must be a 2-tuple"
                   "|'numpy.int64' has no len|argument 'out' must be Tensor, not torch"))


@known("**Forms of arguments**")
def number_where_torch_has_none_by_name(d):
    number = rf"combination of arguments - got \(.*(src|input)={NUMBER}"
    return plain_name(d) in ("scatter", "where") and torch_says(d, number, TypeError)


@known("**Forms of arguments**")
def dtype_by_position(d):
    return plain_name(d) in ("cumsum", "cumprod", "sum", "prod", "mean") and torch_says(
        d, r"combination of arguments - got \((\w+=)?.*(int|int64|bool), torch\.dtype", TypeError)


@known("**Tensors whose elements share memory**")
def written_where_elements_share_memory(d):
    return (d.name in ("Tensor.__setitem__", "Tensor.masked_fill_", "Tensor.index_fill_",
                       "Tensor.baddbmm_")
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
             "index_add": "without overflow"}
    return (d.kind == "ember raises RuntimeError" and plain_name(d) in words
            and words[plain_name(d)] in str(d.ember)
            and any(one.numel() == 0 for one in d.inputs.values()))


@known("**Dtypes and indices are checked**")
def dtypes_of_a_product_of_no_elements(d):
    return (d.kind == "ember raises RuntimeError"
            and plain_name(d) in "mm bmm mv matmul addmm baddbmm".split()
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


@known("**Dtypes and indices are checked**")
def index_beyond_an_empty_result(d):
    if d.name not in ("Tensor.__getitem__", "Tensor.__setitem__") and (
            plain_name(d) != "index_add" or d.inputs["a"].numel() > 0):
        return False
    return d.kind == "ember raises IndexError" and "is out of bounds" in str(d.ember)


@known("**Other indices**")
def uint8_mask_in_an_assignment(d):
    return d.name == "Tensor.__setitem__" and d.kind == "torch raises RuntimeError" and (
        "only supports boolean masks, but got mask with dtype unsigned char" in str(d.torch)
        or "Index put requires the source and destination dtypes match" in str(d.torch))


@known("**Other indices**")
def list_of_floats(d):
    return (d.name in ("Tensor.__getitem__", "Tensor.__setitem__") and "[[0.5]]" in d.program.call
            and isinstance(d.ember_error, IndexError))


@known("**Other indices**")
def string_as_an_index(d):
    return (d.name in ("Tensor.__getitem__", "Tensor.__setitem__")
            and d.kind == "class of error (TypeError / IndexError)" and "'x'" in d.program.call)


@known("**`alpha` and `beta`**")
def float_beside_integers(d):
    return (plain_name(d) in ("addmm", "baddbmm", "index_add")
            and d.kind == "ember raises RuntimeError"
            and re.search("argument (alpha|beta) must not be a (floating|complex)", str(d.ember)))


@known("**`alpha` and `beta`**")
def alpha_by_position(d):
    """torch still has these forms, and says that it will not always."""
    names = ("add", "sub", "subtract", "addcmul", "addcdiv")
    return (plain_name(d) in names and d.kind == "ember raises TypeError"
            and "incompatible function arguments" in str(d.ember)
            and not re.search("=", d.program.call.removeprefix("r = ")))


@known("**Complex numbers with infinite or NaN parts**")
def all_of_complex(d):
    """torch makes uint8 of the elements before it looks at them."""
    return (d.name in ("all", "any") and d.kind in ("values", "input: values")
            and d.inputs["a"].is_complex() and "uint8" in dtypes(d) and "out=" in d.program.call)


@known("**Of several mistakes**")
def kinds_of_arguments_first(d):
    return (d.kind.endswith("/ TypeError)") and d.kind.startswith("class of error")
            and "incompatible function arguments" in str(d.ember))


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


@known("**Methods take `out=`**")
def output_of_a_method(d):
    return (d.name.startswith("Tensor.") and "out=" in d.program.call
            and isinstance(d.torch_error, TypeError)
            and d.kind.startswith(("torch raises", "class of error")))


@known("**NumPy's other names of parameters**")
def numpy_name(d):
    return (re.search(r"[(, ](x|a|x1|x2)=", d.program.call) is not None
            and isinstance(d.ember_error, TypeError))


# What messages speak of, one line for each kind of mistake.
TOPICS = {
    "dimension": "Dimension out of range|Dimension specified as|Indexing dim|too many indices"
                 "|Expected reduction dim|at least a 1-dimensional|Index is supposed to be a vector",
    "shared memory": "single memory location",
    "sizes": "Number of indices|slice shapes|dimensionality|shape must match|must match except"
             "|equal size|invalid shape|shape of the mask|shape mismatch|can't be resized|setStorage",
    "conversion": "cannot be converted|Converting complex|[oO]verflow",
    "a factor": "argument (alpha|beta) must",
    "repetition": "appears multiple times",
    "dtype": "not implemented for|scalar type|[dD]type|can't be cast to the desired output",
    "bounds": r"index out of range|index \S+ is out of bounds|index out of range|out of DATA bounds",
    "a number": "non-negative|must be greater|unsupported range|step",
    "an argument": "combination of arguments|must be tuple of ints|invalid type|valid indices|tensors used as"
                   " indices|split_size: expected|must be torch.dtype",
    "a device": "device string",
}


@known("**Of several mistakes**")
def different_mistakes(d):
    """Both refuse the call, and speak of different things."""
    if not d.kind.startswith("class of error"):
        return False
    topics = [{name for name, words in TOPICS.items() if re.search(words, str(one))}
              for one in (d.torch_error, d.ember_error)]
    return all(topics) and not topics[0] & topics[1]


@known("**Products of matrices of bools**")
def products_of_bools(d):
    return (plain_name(d) in ("mm", "bmm", "mv", "dot", "matmul", "addmm", "baddbmm")
            and d.kind == "ember raises NotImplementedError"
            and "not implemented for 'Bool'" in str(d.ember_error))


@known("**Numbers that a dtype does not hold**")
def numbers_that_do_not_fit(d):
    return (plain_name(d) in ("full", "new_full", "scalar_tensor", "copy", "pow", "rpow")
            and d.kind == "ember raises RuntimeError"
            and re.search("cannot be converted to type|can't be cast to the desired output type Bool",
                          str(d.ember_error)) is not None)


@known("**Outputs**")
def output_of_a_lesser_kind(d):
    return (plain_name(d) in ("sum", "prod") and d.kind == "ember raises RuntimeError"
            and "can't be cast to the desired output type" in str(d.ember_error))


@known("**Outputs**")
def output_of_shared_elements_is_resized(d):
    return (d.kind == "torch raises RuntimeError" and "out=" in d.program.call
            and plain_name(d) in ("take", "masked_select")
            and "single memory location" in str(d.torch_error))


@known("**An index out of bounds**")
def index_of_nothing(d):
    return (plain_name(d) == "index_select"
            and "self indexing axis dim should be positive" in str(d.torch_error))


@known("**Outputs**")
def empty_output_of_normal(d):
    return (d.name == "normal" and d.kind == "torch raises RuntimeError"
            and "must match the size of tensor b (0)" in str(d.torch_error))


@known("**An error in `gather`, `index_select` or `cat`**")
def output_resized_by_an_error(d):
    return (plain_name(d) in ("gather", "index_select", "cat", "concat")
            and d.kind == "input changed by an error" and "out=" in d.program.call)


@known("**A reduction into its own input**")
def reduction_into_its_input(d):
    return (plain_name(d) in ("sum", "prod", "amax", "amin") and "out=a)" in d.program.call
            and (d.kind in ("values", "input: values")
                 or "shares memory with an input" in str(d.ember_error)
                 or "single memory location" in str(d.ember_error)))


@known("**An index out of bounds**")
def index_out_of_bounds(d):
    return (plain_name(d) in ("index_select", "index_add") and isinstance(d.ember_error, IndexError)
            and re.search(r"DATA bounds|index \S+ is out of bounds", str(d.torch_error)) is not None)


@known("**Python ints beyond 64 bits**")
def ints_beyond_64_bits(d):
    return (d.kind == "class of error (ValueError / TypeError)"
            and "Overflow when unpacking long long" in str(d.torch_error)
            and "outside the range of int64" in str(d.ember_error))


@known("**Strides of new tensors**")
def strides_of_some_results(d):
    if d.kind in ("strides", "input: strides"):
        if "out=" in d.program.call:
            return d.name in ("index_add", "index_copy", "scatter", "scatter_add", "sort", "take", "nonzero")
        return plain_name(d) in ("angle", "roll", "tensor", "new_tensor", "getitem", "cat", "concat")
    return False


@known("**Tensors whose elements share memory**")
def triangle_into_shared_memory(d):
    return (plain_name(d) in ("tril", "triu") and d.kind == "ember raises RuntimeError"
            and "single memory location" in str(d.ember_error))


@known("**`uint16`, `uint32` and `uint64`**")
def unsigned_arrays(d):
    return isinstance(d.ember_error, TypeError) and re.search(
        "np.ndarray of type numpy.uint(16|32|64)", str(d.ember_error)) is not None


@known("**Forms of arguments**")
def bool_as_a_size(d):
    return (plain_name(d) in ("ones", "zeros", "empty", "full")
            and "scalar.isIntegral" in str(d.torch_error))


@known("**A factor of zero**")
def factor_of_zero(d):
    return (plain_name(d) in ("addmm", "baddbmm") and d.kind in ("values", "input: values")
            and re.search("(alpha|beta)=", d.program.call) is not None and "nan" in str(d.torch))


@known("**Sizes that are not there**")
def without_a_dimension(d):
    return (plain_name(d) in ("size", "stride") and "None" in d.program.call
            and isinstance(d.ember_error, TypeError))


@known("**Sizes that are not there**")
def none_for_a_flag(d):
    return plain_name(d) == "sort" and "stable=None" in d.program.call


@known("**A factor by position**")
def factor_by_position(d):
    return (plain_name(d) in ("add", "sub", "subtract") and isinstance(d.ember_error, TypeError)
            and "out=" in d.program.call)


@known("**An output that is none**")
def number_as_an_output(d):
    return (isinstance(d.ember_error, TypeError)
            and re.search(r"out=(-?[\d.]+|nan|-?inf|True|False)\)", d.program.call) is not None)


@known("**Assignment of another dtype**")
def assignment_of_another_dtype(d):
    return (plain_name(d) == "setitem" and d.kind == "ember raises RuntimeError"
            and "Index put requires the source and destination dtypes match" in str(d.ember_error))


@known("**Dtypes and indices are checked**")
def dimensions_of_nothing(d):
    return (plain_name(d) in ("roll", "uniform", "bernoulli", "gather") and d.kind.startswith("ember raises")
            and re.search("Dimension out of range|range, but found|must match the existing"
                          "|Size does not match",
                          str(d.ember_error)) is not None
            and any(value.numel() == 0 for value in d.inputs.values()))


@known("**The same tensor where it is**")
def expanded_on_its_device(d):
    return (plain_name(d) in ("to", "as_tensor") and "device" in d.program.call
            and d.kind in ("strides", "identity", "memory"))


@known("**Norms of nothing**")
def norm_of_nothing(d):
    return plain_name(d) == "norm" and (
        "an empty tensor because" in str(d.torch_error) or "dimension is empty" in str(d.torch_error))


@known("**`norm`**")
def forms_of_norm(d):
    return (plain_name(d) == "norm" and d.kind.startswith("ember raises")
            and ("p='nuc'" in str(d.ember_error) or isinstance(d.ember_error, TypeError)))


@known("**Numbers beside elements**")
def numbers_beside_elements(d):
    words = "value cannot be converted to type|can't be cast to the desired output type"
    return (plain_name(d) in "lerp add pow addcdiv addcmul addmm baddbmm clip clamp".split()
            and d.kind in ("torch raises RuntimeError", "ember raises RuntimeError",
                           "ember raises NotImplementedError")
            and (re.search(words, str(d.torch_error)) or re.search(words, str(d.ember_error))
                 or "not implemented for 'Complex" in str(d.ember_error)) is not None)
