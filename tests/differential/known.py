"""The differences that docs/differences.md documents: what is on this list does not fail.

Each one has the heading or the first words of its paragraph there, which a test looks up, and a
function that says whether a difference is of that kind. They are as narrow as they can be, as
whatever they let pass is not tested.
"""

KNOWN = []
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
POSITIONS = ["sort", "topk", "max", "min"]


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


@known("Python ints beyond 64 bits")
def large_int(d):
    return "2**70" in d.program.call and type(d.ember_error).__name__ == "OverflowError"


@known("NumPy arrays with negative strides")
def negative_strides(d):
    return (d.kind.startswith("torch raises") and "negative" in str(d.torch)
            and plain_name(d) in ("tensor", "new_tensor", "as_tensor"))


@known("- `complex32`")
def no_complex32(d):
    return (d.kind in ("dtype", "values") and "complex32" in str(d.torch)
            and "complex64" in str(d.ember))


@known("- `memory_format`")
def layout_of_several_inputs(d):
    """Only where inputs of more than one layout come together."""
    return d.kind.startswith("strides") and d.layouts > 1
