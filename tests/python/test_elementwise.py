"""Every element-wise operation against NumPy: the rows, their dtypes and their tolerances come from
the list of operations itself; here is only what NumPy calls them, and what it is asked."""

import math
import warnings

import pytest

np = pytest.importorskip("numpy")

import ember
from ember import _C

ROWS = {row["name"]: row for row in _C._elementwise_ops()}


def each(function):
    return np.vectorize(function, otypes=[np.float64])


def lgamma(x):
    if math.isinf(x):
        return math.inf
    if x <= 0 and x == math.floor(x):
        return math.inf
    return math.lgamma(x)


def sign(x):
    if np.iscomplexobj(x):
        size = np.abs(x)
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    return x if x.dtype == bool else np.where(np.isnan(x), 0, np.sign(x))


def angle(x):
    if np.iscomplexobj(x):
        return np.angle(x)
    return np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0))


def lerp(x, y, z):
    """From the nearer end, as torch does."""
    return np.where(np.abs(z) < 0.5, x + z * (y - x), y - (y - x) * (1 - z))


def relu(x):
    return np.where(np.isnan(x), x, np.maximum(x, 0)) if x.dtype.kind == "f" else np.maximum(x, 0)


def div_trunc(x, y):
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    down = np.floor_divide(x, y)
    return down + ((down < 0) & (down * y != x) & (y != 0)).astype(x.dtype)


REFERENCE = {
    "abs": np.abs, "neg": np.negative, "positive": np.positive, "sign": sign, "square": np.square,
    "reciprocal": lambda x: 1 / x, "conj": np.conj, "angle": angle,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floor_divide": np.floor_divide, "div_trunc": div_trunc, "remainder": np.remainder,
    "fmod": np.fmod, "pow": np.power,
    "addcmul": lambda x, y, z: x + y * z, "addcdiv": lambda x, y, z: x + y / z,
    "lerp": lerp,
    "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "round": np.rint,
    "frac": lambda x: x - np.trunc(x),
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2, "hypot": np.hypot,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
    "erf": each(math.erf), "erfc": each(math.erfc), "lgamma": each(lgamma),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": relu,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "copysign": np.copysign, "nextafter": np.nextafter,
    "clamp": lambda x, y, z: np.minimum(np.maximum(x, y), z),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "signbit": lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    "logical_not": np.logical_not, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "bitwise_not": np.invert, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift, "gcd": np.gcd,
    "where": np.where,
}

WIDE = {ember.float16: ember.float32, ember.bfloat16: ember.float32,
        ember.complex32: ember.complex64}
# Half a place of the 16-bit types, and what a sum of places is worth in the others.
EPSILON = {ember.float16: 2.0 ** -10, ember.bfloat16: 2.0 ** -7, ember.float32: 2.0 ** -23,
           ember.float64: 2.0 ** -52, ember.complex32: 2.0 ** -10, ember.complex64: 2.0 ** -23, ember.complex128: 2.0 ** -52}


def test_other_names():
    x = ember.tensor([3 + 4j, 0j])
    assert ember.sgn(x).tolist() == x.sgn().tolist() == [ember.sign(x)[0].item(), 0j]
    assert x.sgn()[0].item() == pytest.approx(0.6 + 0.8j)
    assert ember.absolute(x).tolist() == [5.0, 0.0]


def test_every_row_has_a_reference():
    """No operation of the list goes without a NumPy reference here."""
    assert set(REFERENCE) == set(ROWS)


def numbers(dtype, seed, name):
    """A grid of 12 x 10 elements, special ones among them."""
    random = np.random.default_rng(seed)
    size = (12, 10)
    if dtype == ember.bool:
        return random.random(size) < 0.5
    if dtype.is_complex:
        return random.normal(size=size) + 1j * random.normal(size=size)
    if dtype.is_floating_point:
        values = random.normal(size=size) * 3
        values.flat[:8] = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5]
        return random.permuted(values.reshape(-1)).reshape(size)
    if name in ("pow", "bitwise_left_shift", "bitwise_right_shift"):
        return random.integers(0, 7, size)
    low = 0 if str(dtype).startswith("torch.uint") else -9
    return random.integers(low, 10, size)


LAYOUTS = [lambda x: x, lambda x: x.T, lambda x: x[1:11:3], lambda x: x[:, 2:9:2],
           lambda x: x[3:3], lambda x: x[5, 7:8], lambda x: x[4, 4]]


def as_numpy(tensor):
    return tensor.cpu().to(WIDE.get(tensor.dtype, tensor.dtype)).numpy()


def expected_of(name, inputs, dtype):
    """NumPy's answer, in the wide type of 16-bit elements."""
    if name == "nextafter" and dtype == ember.float16:  # NumPy has no bfloat16: tests/ops has it
        inputs = [x.astype(np.float16) for x in inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(REFERENCE[name](*inputs))


# Beside their zeros these are as accurate as their arguments: the sum of places counts there as
# if the result were 1. Elsewhere results far below 1 are held to a thousandth of it.
BESIDE_ZEROS = {"lgamma": 1, "lerp": 1}


def compare(name, result, expected):
    """Within the tolerance of the row, wherever the expected values come from."""
    ulp, zeros = ROWS[name]["ulp"], BESIDE_ZEROS.get(name, 1e-3)
    got = as_numpy(result)
    assert got.shape == expected.shape
    if result.dtype not in EPSILON:
        np.testing.assert_array_equal(got, expected)
        return
    tolerance = EPSILON[result.dtype] * (ulp + 4 if result.dtype not in WIDE else 1)
    expected = expected.astype(got.dtype)
    least = np.finfo(got.dtype).tiny if result.dtype != ember.float16 else 6e-8
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=max(least, tolerance * zeros))


CASES = [(name, dtype) for name, row in ROWS.items() for dtype in row["dtypes"]]


def operands(name, dtype, place):
    count = ROWS[name]["operands"]
    inputs = []
    for k in range(count):
        own = ember.bool if name == "where" and k == 0 else dtype
        # crc of the name, so that the numbers are the same every time
        values = numbers(own, sum(map(ord, name)) + k, name)
        inputs.append(ember.tensor(values.tolist(), dtype=own, device=place))
    return inputs


@pytest.mark.parametrize("name, dtype", CASES, ids=lambda x: str(x).replace("torch.", ""))
def test_against_numpy(name, dtype):
    """Each operation, dtype, layout and device."""
    function, row = getattr(ember, name), ROWS[name]
    whole = operands(name, dtype, "cpu")
    for layout in LAYOUTS:
        inputs = [layout(x) for x in whole]
        expected = expected_of(name, [as_numpy(x) for x in inputs], dtype)
        result = function(*inputs)
        kind = {"boolean": ember.bool, "real": dtype.to_real(), "same": dtype}[row["result"]]
        assert result.dtype == kind
        compare(name, result, expected)


@pytest.mark.parametrize("name, dtype", CASES, ids=lambda x: str(x).replace("torch.", ""))
def test_device_equals_cpu(name, dtype):
    """Bit for bit on simulated devices; within the row's tolerance on real ones."""
    function, row = getattr(ember, name), ROWS[name]
    here, there = operands(name, dtype, "cpu"), operands(name, dtype, "cuda:0")
    for layout in LAYOUTS:
        result = function(*map(layout, there))
        expected = function(*map(layout, here))
        assert result.device == ember.device("cuda:0")
        assert result.shape == expected.shape and result.stride() == expected.stride()
        if row["ulp"] == 0 or ember.cuda.is_simulated():
            np.testing.assert_array_equal(as_numpy(result), as_numpy(expected))
        else:
            compare(name, result, as_numpy(expected))


@pytest.mark.parametrize("name", ROWS)
def test_methods_in_place_and_out(name, device):
    """x.f(), x.f_() and out= give what the function gives."""
    row = ROWS[name]
    dtype = ember.float32 if ember.float32 in row["dtypes"] else ember.int64
    inputs = operands(name, dtype, device)
    expected = getattr(ember, name)(*inputs)
    if name == "where":
        result = inputs[1].where(inputs[0], inputs[2])
        changed = None
    else:
        result = getattr(inputs[0], name)(*inputs[1:])
        changed = inputs[0].clone()
    np.testing.assert_array_equal(as_numpy(result), as_numpy(expected))

    out = ember.empty_like(expected)
    assert getattr(ember, name)(*inputs, out=out) is out
    np.testing.assert_array_equal(as_numpy(out), as_numpy(expected))

    if changed is not None and expected.dtype == dtype:
        assert getattr(changed, name + "_")(*inputs[1:]) is changed
        np.testing.assert_array_equal(as_numpy(changed), as_numpy(expected))


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row["operands"] == 2])
def test_broadcast_and_numbers(name, device):
    """Rows against columns, and numbers on either side."""
    row = ROWS[name]
    dtype = ember.float32 if ember.float32 in row["dtypes"] else ember.int64
    x, y = operands(name, dtype, device)
    row_of, column = x[2:3], y[:, 1:2]
    result = getattr(ember, name)(row_of, column)
    expected = expected_of(name, [as_numpy(row_of), as_numpy(column)], dtype)
    assert result.shape == (12, 10)
    compare(name, result, expected)
    result = getattr(ember, name)(x, 2)
    expected = expected_of(name, [as_numpy(x), as_numpy(x).dtype.type(2)], dtype)
    compare(name, result, expected)


OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "**": lambda a, b: a ** b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators(symbol, device):
    """Each operator with tensors and numbers on both sides, against NumPy."""
    use = OPERATORS[symbol]
    values = np.array([1, 2, 3, 5])
    x = ember.tensor(values, device=device)
    others = np.array([4, 3, 2, 1])
    y = ember.tensor(others, device=device)
    assert use(x, y).tolist() == pytest.approx(use(values, others).tolist())
    assert use(x, 3).tolist() == pytest.approx(use(values, 3).tolist())
    assert use(3, x).tolist() == pytest.approx(use(3, values).tolist())


def test_operators_in_place(device):
    x = ember.ones(3, device=device)
    same = x
    x += 2
    x *= ember.tensor([1., 2., 3.], device=device)
    x -= 1
    x /= 2
    assert x is same
    assert x.tolist() == [1.0, 2.5, 4.0]
    assert (-x).tolist() == [-1.0, -2.5, -4.0]
    assert abs(-x).tolist() == x.tolist()
    assert (~(x > 2)).tolist() == [True, False, False]


def test_unknown_operands_are_left_to_python(device):
    x = ember.ones(2, device=device)
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"
    assert (x == None) is False  # noqa: E711
    assert x is not None


def test_signatures_and_docstrings():
    for name, row in ROWS.items():
        assert row["doc"] in getattr(ember, name).__doc__
    assert ember.exp.__doc__.startswith("exp(input: Tensor, *, out: Tensor | None = None) -> Tensor")
    x = ember.ones(2)
    assert ember.exp(input=x, out=None).tolist() == ember.exp(x).tolist()
    assert ember.pow(input=x, exponent=2).tolist() == [1.0, 1.0]


def test_clamp_with_one_bound(device):
    x = ember.tensor([-2.0, math.nan, 3.0], device=device)
    assert str(x.clamp(min=0).tolist()) == "[0.0, nan, 3.0]"
    assert str(ember.clamp(x, max=1).tolist()) == "[-2.0, nan, 1.0]"
    assert x.clamp_(0, 1) is x
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        ember.clamp(x)
    x = ember.tensor([-2.0, math.nan, 3.0], device=device)
    assert str(x.clamp_min(0).tolist()) == str(ember.clamp_min(x, 0).tolist()) == "[0.0, nan, 3.0]"
    assert str(ember.clamp_max(x, max=ember.zeros(3, device=device)).tolist()) == "[-2.0, nan, 0.0]"
    out = ember.empty(0, device=device)
    assert ember.clamp_min(x, 0, out=out) is out and out.numel() == 3
    assert x.clamp_min_(0.5) is x and x.clamp_max_(max=0.5) is x
    assert str(x.tolist()) == "[0.5, nan, 0.5]"


def test_abs_of_bool(device):
    x = ember.tensor([True, False], device=device)
    assert x.abs().tolist() == [True, False] and abs(x).dtype == ember.bool


def test_alpha(device):
    """add and sub with a factor, and the factors that are refused."""
    values, others = np.array([1.0, -2.5, 3.0]), np.array([4.0, 0.5, -1.0])
    x, y = ember.tensor(values, device=device), ember.tensor(others, device=device)
    assert ember.add(x, y, alpha=2).tolist() == (values + 2 * others).tolist()
    assert x.sub(y, alpha=0.5).tolist() == (values - 0.5 * others).tolist()
    assert ember.subtract(x, 3, alpha=2).tolist() == (values - 6).tolist()
    assert x.add_(y, alpha=-1) is x
    assert x.tolist() == (values - others).tolist()
    out = ember.empty(0, dtype=ember.float64, device=device)
    assert ember.sub(y, other=y, alpha=2, out=out) is out
    assert out.tolist() == (-others).tolist()
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        ember.add(ember.tensor([1], device=device), 2, alpha=1.5)


@pytest.mark.parametrize("mode, reference", [
    (None, np.true_divide), ("floor", np.floor_divide), ("trunc", lambda x, y: np.trunc(x / y))])
def test_rounding_mode(mode, reference, device):
    """Quotients rounded towards zero and down, against NumPy."""
    values, others = np.array([7, -7, 7, -7, 1, 0]), np.array([2, 2, -2, -2, 3, 5])
    for dtype in (ember.int64, ember.float64):
        x, y = (ember.tensor(v, device=device).to(dtype) for v in (values, others))
        expected = reference(values, others).tolist()
        result = ember.div(x, y, rounding_mode=mode)
        assert result.dtype == (ember.float32 if mode is None and dtype == ember.int64 else dtype)
        assert result.tolist() == pytest.approx(expected)
        assert x.divide(y, rounding_mode=mode).tolist() == pytest.approx(expected)
        if result.dtype == dtype:
            assert x.div_(y, rounding_mode=mode) is x
            assert x.tolist() == pytest.approx(expected)
    with pytest.raises(RuntimeError, match="expected rounding_mode to be one of None, 'trunc', or "
                                           "'floor' but found 'up'"):
        ember.div(x, y, rounding_mode="up")


def test_promotion():
    """Dtypes of mixed operands, by torch's rules."""
    i, f = ember.tensor([1, 2]), ember.tensor([1.5, 2.5])
    assert (i + f).dtype == ember.float32
    assert (i + 2).dtype == ember.int64
    assert (i + 2.0).dtype == ember.float32
    assert (i / 2).dtype == ember.float32
    assert (f + 1j).dtype == ember.complex64
    assert (i == f).dtype == ember.bool
    assert ember.result_type(i, 1.0) == ember.float32
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output "
                                           "type Long"):
        i += 0.5


def test_errors(device):
    x = ember.ones(3, device=device)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of "
                                           r"tensor b \(2\) at non-singleton dimension 0"):
        x + ember.ones(2, device=device)
    with pytest.raises(TypeError):
        ember.exp(3)
    with pytest.raises(RuntimeError, match="not implemented for 'Float'"):
        x & x
    with pytest.raises(RuntimeError, match="on a bool tensor is not supported"):
        -ember.tensor([True], device=device)
    assert x.tolist() == [1.0] * 3


def test_clamp_by_nan(device):
    # As torch 2.11: one number that is NaN bounds nothing, one of two numbers and a tensor's NaN do.
    nan = math.nan
    for dtype in ember.float16, ember.bfloat16, ember.float32, ember.float64, ember.int64, ember.int8:
        data = [1, -2, 5] if not dtype.is_floating_point else [1.0, -2.0, nan, 5.0]
        x = ember.tensor(data, dtype=dtype, device=device)
        floating = dtype if dtype.is_floating_point else ember.float32
        for one in (x.clamp(min=nan), x.clamp(max=nan), ember.clip(x, nan), ember.clamp(x, max=nan)):
            assert one.dtype == floating
            assert str(one.tolist()) == str(ember.tensor(data, dtype=floating).tolist())
        tensor = ember.tensor(nan, device=device)
        each = ember.full((len(data),), nan, device=device)
        for all_nan in (x.clamp(nan, 3), x.clamp(0, nan), x.clamp(nan, nan), x.clamp(tensor), x.clamp(max=tensor),
                        x.clamp(each), x.clamp(max=each), x.clamp(tensor, tensor), x.clamp(each, each)):
            assert all(math.isnan(number) for number in all_nan.tolist())
        if dtype.is_floating_point:
            assert str(x.clone().clamp_(min=nan).tolist()) == str(x.tolist())
        else:
            with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
                x.clamp_(min=nan)
        assert x.clamp(max=math.inf).dtype == floating
