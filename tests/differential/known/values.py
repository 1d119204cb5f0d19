"""Other values: of equal elements, beyond what a dtype holds, in another order of operations."""

import cmath
import math
import re

import compare
from known.registry import agrees, dtypes, known, plain_name

NUMBERS = r"(?<![\w.'])\d+(?:\.\d*)?(?:e-?\d+)?(?![\w.'])"
POSITIONS = ["sort", "topk", "max", "min", "median"]
# What sums up, and what only moves elements.
SUMS = """add sub subtract sum mean cumsum radd rsub iadd isub""".split()
MOVED = """cat concat stack getitem setitem gather scatter take put index_select index_copy
index_fill masked_fill masked_select where copy to clone roll flip tril triu diag sort topk repeat
full fill tensor as_tensor new_tensor""".split()
# Where the sign of a zero depends on the order of operations, or of equal elements.
SIGN_LEFT_OPEN = """maximum minimum max min fmax fmin clamp clip clamp_min clamp_max unique median
sort cumsum mm bmm matmul addmm
rmatmul aminmax baddbmm addr lerp pow topk""".split()


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
    """Only where a number that is rounded already gives the same result."""
    if d.kind not in ("values", "input: values"):
        return False
    rounded = (re.sub(NUMBERS, lambda m: in_16_bits(d, m[0], dtype), d.program.call)
               for dtype in sorted(dtypes(d) & {"float16", "bfloat16"}))
    return any(call != d.program.call and agrees(d, call, both=True) for call in rounded)


def in_16_bits(d, number, dtype):
    torch = d.modules[0]
    value = torch.tensor(float(number)).to(getattr(torch, dtype)).item()
    return number if value == float(number) else repr(value)


@known("**16-bit floats and a Python number**")
def operand_rounded_first(d):
    """torch keeps a second operand without dimensions in these; ember rounds it."""
    names = ("mul", "multiply", "div", "divide", "true_divide", "imul", "itruediv", "truediv")
    return (plain_name(d) in names and d.kind in ("values", "input: values")
            and any(agrees(d, call) for call in calls_with_rounded_operands(d)))


@known("**16-bit floats and a Python number**")
def operand_not_rounded(d):
    """The other way round."""
    return (plain_name(d) in ("addcmul", "addcdiv") and d.kind in ("values", "input: values")
            and any(agrees(d, call, both=True) for call in calls_with_rounded_operands(d)))


def calls_with_rounded_operands(d):
    for dtype in sorted(dtypes(d) & {"float16", "bfloat16"}):
        names = "|".join(name for name, value in d.inputs.items()
                         if value.numel() == 1 and not value.is_complex())
        if names:
            yield re.sub(rf"(?<![\w.])({names})(?=[,)]|$)", rf"\1.to(torch.{dtype})",
                         d.program.call)


@known("**Powers of minus infinity**")
def square_root_of_minus_infinity(d):
    return (plain_name(d) in ("pow", "rpow", "ipow") and d.kind in ("values", "input: values")
            and "float16" in dtypes(d) and "0.5" in d.program.text
            and re.search(r"-inf|-0\.0", d.program.text) is not None
            and all(x in (0, math.inf) and (y != y or y == -math.inf) for x, y in d.elements))


@known("**Products of float16**")
def product_that_overflows_in_between(d):
    """Only where torch's product of the same numbers in float32 is ember's."""
    return (plain_name(d) == "prod" and "float16" in dtypes(d) and d.kind in ("values", "input: values")
            and not all(cmath.isfinite(x) for x, _ in d.elements)
            and agrees(d, re.sub(r"(?<![\w.])a\b", "a.float()", d.program.call) + ".half()"))


@known("**Powers of complex numbers**")
def large_exponent_of_complex_numbers(d):
    """The error of the logarithm counts as often as the exponent is large, of 300 at most."""
    if plain_name(d) not in ("pow", "rpow", "ipow") or d.kind not in ("values", "input: values"):
        return False
    tolerance = 300 * compare.TOLERANCE[compare.dtype_name(d.results[0])]
    return "300" in d.program.text and all(
        isinstance(x, complex) and compare.close(x, y, tolerance) for x, y in d.elements)


@known("**Quotients of a complex number**")
def quotient_of_a_complex_number(d):
    """Only where the operand of 16 bits gives the same result in 32."""
    if plain_name(d) not in ("div", "divide", "true_divide", "truediv", "rtruediv"):
        return False
    if compare.dtype_name(d.results[0]) == "complex32":  # and so the result has 16 bits, too
        return d.kind == "values" and all(compare.close(x, y, 2 ** -9) for x, y in d.elements)
    names = "|".join(name for name in d.inputs if d.program.dtypes[name] == "bfloat16")
    return (d.kind == "values" and names != ""
            and agrees(d, re.sub(rf"(?<![\w.])({names})\b", r"\1.float()", d.program.call)))


@known("**Complex numbers with infinite or NaN parts**")
def parts_that_are_not_finite(d):
    """A sum of torch's may have NaN for a finite part; elsewhere the whole is not finite.

    All elements that differ have to, and where only ember's is not finite, neither is an input.
    """
    if d.kind not in ("values", "input: values") or plain_name(d) in MOVED:
        return False
    if not all(isinstance(one, complex) for pair in d.elements for one in pair):
        return False
    if plain_name(d) in SUMS and "alpha" not in d.program.call:
        return all(part_is_nan(x.real, y.real) and part_is_nan(x.imag, y.imag)
                   for x, y in d.elements)
    of_inputs = re.search("inf|nan", d.program.text) is not None
    return all(not cmath.isfinite(x) or not cmath.isfinite(y) and of_inputs
               for x, y in d.elements)


def part_is_nan(of_torch, of_ember):
    return math.isnan(of_torch) or compare.close(of_torch, of_ember, 1e-5)


@known("`topk(sorted=False)`")
def topk_in_order(d):
    """The same elements in another order."""
    if plain_name(d) != "topk" or d.kind not in ("values", "indices: values", "input: values"):
        return False
    if not re.search(r"(sorted=|(True|False|[01]), )(False|0)", d.program.call):
        return False
    first, second = (sorted(map(str, one[0].reshape(-1).tolist())) for one in d.results)
    return first == second


@known("**The sign of zero**")
def sign_of_zero(d):
    return d.kind in ("sign of zero", "input: sign of zero") and (
        plain_name(d) in SIGN_LEFT_OPEN
        or plain_name(d) in ("add", "sub", "subtract") and "alpha=" in d.program.call)


@known("**Numbers that no integer holds**")
def negative_of_the_smallest(d):
    if plain_name(d) not in ("sub", "subtract") or "alpha=" not in d.program.call:
        return False
    smallest = r"-(128|32768|2147483648|9223372036854775808)\b"
    by_name = re.search(r"alpha=([a-z])\b", d.program.call)  # of a tensor without dimensions
    if by_name:
        return re.search(rf"\b{by_name[1]} = torch.tensor\(\[{smallest}\]", d.program.text) is not None
    return re.search(r"alpha=(np\.\w+\()?" + smallest, d.program.call) is not None


@known("**Sums and products have a fixed order**")
def sum_of_integers_that_cancel(d):
    """The largest integers of a dtype are summed as floats, which hold them in part only."""
    return (plain_name(d) in ("sum", "mean", "cumsum") and d.kind in ("values", "input: values")
            and (d.results[0].is_floating_point() or d.results[0].is_complex())
            and re.search("2147483648|9223372036854775808", d.program.text))


@known("**Sums and products have a fixed order**")
def product_that_overflows_beside_a_zero(d):
    """What is infinite when the zero comes becomes NaN."""
    if plain_name(d) not in ("prod", "cumprod") or d.kind not in ("values", "input: values"):
        return False
    return all(x == y or {x, y} & {0.0} and (x != x or y != y) for x, y in d.elements)


@known("**Sums and products have a fixed order**")
def sum_of_16_bits_that_cancels(d):
    """Off by what rounding its largest part is off by, several times over."""
    if plain_name(d) != "index_add" or d.kind not in ("values", "input: values"):
        return False
    last = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(compare.dtype_name(d.results[0]))
    if last is None:
        return False
    alpha = re.search(r"alpha=(-?[\d.]+)", d.program.call)
    source = [abs(x) for x in compare.flat(d.inputs["c"]) if math.isfinite(x)]
    largest = abs(float(alpha[1]) if alpha else 1) * max(source, default=0)
    return all(abs(x - y) <= 4 * last * max(largest, abs(x)) for x, y in d.elements)


@known("**Sums and products have a fixed order**")
def put_twice(d):
    """The places are the same, and each holds one of the elements that were put there."""
    if d.name != "Tensor.put_" or d.kind not in ("values", "input: values"):
        return False
    places = (d.inputs["b"] % d.inputs["a"].numel()).reshape(-1).tolist()
    return len(set(places)) < len(places) and "accumulate=True" not in d.program.call


@known("**Sums and products have a fixed order**")
def index_put_twice(d):
    """Of elements that are put to one place, each call of torch's may leave another."""
    if plain_name(d) != "index_put" or d.kind not in ("values", "input: values"):
        return False
    indices = [one.reshape(-1).tolist() for name, one in d.inputs.items()
               if name != "a" and one.dtype == d.modules[0].int64]
    return any(len(set(one)) < len(one) or min(one, default=0) < 0 for one in indices)


@known("- **Bits of NaN**")
def bits_of_nan(d):
    return (d.name == "Tensor.view" and d.kind == "values" and "nan" in d.program.text
            and dtypes(d) & {"float16", "bfloat16"})


@known("- **gcd** with the smallest integer")
def gcd_is_positive(d):
    """torch's is the negative of it, also as an element of the output uint8, or a complex one."""
    return (plain_name(d) == "gcd" and d.kind in ("values", "input: values")
            and all(complex(x) in (-complex(y), 256 - complex(y)) for x, y in d.elements))


@known("**Complex numbers with infinite or NaN parts**")
def all_of_numbers(d):
    """torch makes uint8 of the elements before it looks at them; 0.25 becomes zero."""
    return (d.name in ("all", "any") and d.kind in ("values", "input: values")
            and d.program.dtypes["a"] not in ("bool", "uint8")
            and "uint8" in dtypes(d) and "out=" in d.program.call
            and all(y in (0, 1) for _, y in d.elements)
            and agrees(d, re.sub(r", out=\w+", "", d.program.call), both=True))


@known("**A factor of zero, or an infinite one**")
def factor_of_zero(d):
    factors = re.findall(r"(?:alpha|beta)=([^=]*)(?=, \w+=|\)$)", d.program.call)
    return (plain_name(d) in ("addmm", "baddbmm", "addr") and d.kind in ("values", "input: values")
            and any(is_zero(d, one) or "inf" in one for one in factors)
            and all(has_nan(x) for x, _ in d.elements))


def is_zero(d, text):
    if text in d.inputs:
        return d.inputs[text].item() == 0
    return re.fullmatch(r"(np\.\w+\()?(complex\()?(-?0(\.0)?|False)(, -?0\.0)?\)*",
                        text) is not None


def has_nan(value):
    return cmath.isnan(value)


@known("**Means of infinite numbers**")
def mean_beside_a_variance(d):
    """torch finds both at once, and what is infinite makes its mean NaN."""
    return (plain_name(d) in ("var_mean", "std_mean") and d.kind == "values"
            and "inf" in d.program.text and all(x != x for x, _ in d.elements))
