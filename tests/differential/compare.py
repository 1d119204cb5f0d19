"""Runs one call with PyTorch and with ember, and says in what the two differ."""

import enum
import math
import operator
import re

import numpy as np

NAMES = {"np": np, "nan": math.nan, "inf": math.inf, "operator": operator}
HEADER = "import operator; import numpy as np; import ember as torch; from math import inf, nan"
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-11,
             "complex64": 4e-5, "complex128": 1e-11}
BUILTIN = (TypeError, IndexError, ValueError, NotImplementedError, RuntimeError, OverflowError,
           AttributeError, AssertionError, KeyError, ZeroDivisionError, BufferError, StopIteration,
           MemoryError)


class Difference:
    """What two outcomes of one call differ in: a kind, such as "dtype", and both sides of it."""

    def __init__(self, program, kind, torch, ember):
        self.program, self.kind, self.torch, self.ember = program, kind, torch, ember
        self.name = program.name
        self.torch_error = self.ember_error = None
        self.layouts = 0  # how many different layouts the inputs have
        self.inputs, self.results = {}, (None, None)
        self.elements = []  # all pairs of elements that are apart: PyTorch's and ember's
        self.shape = ()  # of the tensors whose strides differ
        self.modules = ()
        self.has_number = re.search(r"[(, =]-?\d", program.call) is not None

    def __str__(self):
        return f"{self.kind}: torch {short(self.torch)}, ember {short(self.ember)}"


class Outcome:
    """What a call gave, or the error that it raised; and the tensors that it had, afterwards."""

    def __init__(self, program, module):
        self.module, self.call = module, program.call
        self.result = self.error = self.setup_error = None
        self.inputs = {}
        self.names = {"torch": module, **NAMES}
        try:
            exec(program.setup, self.names)
        except Exception as error:
            self.setup_error = error
            return
        self.inputs = {name: self.names[name] for name in program.shapes}
        self.memory = {name: memory_of(value) for name, value in self.inputs.items()}
        try:
            exec(program.compiled, self.names)
            self.result = self.names["r"]
        except Exception as error:
            self.error = error

    def is_tensor(self, value):
        return isinstance(value, self.module.Tensor)


def short(value):
    if isinstance(value, BaseException):
        text = f"{type(value).__name__}: {value}"
    else:
        text = str(value)
    text = text.split("\n")[0] if isinstance(value, BaseException) else text.replace("\n", " ")
    return text if len(text) < 220 else text[:220] + " [...]"


def dtype_name(tensor):
    return str(tensor.dtype).replace("torch.", "")


def order_of(tensor):
    """Its shape and strides, but not those of dimensions of one."""
    return tuple((size, stride) for size, stride in zip(tensor.shape, tensor.stride()) if size != 1)


def memory_of(tensor):
    """Where the memory starts that a tensor sees a part of; None if it has no elements."""
    if tensor.numel() == 0:
        return None
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def builtin_class(error):
    """The class of Python's own that a program catches this error by."""
    for one in type(error).__mro__:
        if one in BUILTIN:
            return one
    return Exception


def compare(program, torch, ember, random):
    """All differences of one call, of which ember may have another form."""
    of_ember = program.of_ember or program
    for one in (program, of_ember):
        one.setup = compile("\n".join(one.lines), "<arguments>", "exec")
        one.compiled = compile(one.call, "<call>", "exec")
    expected, got = Outcome(program, torch), Outcome(of_ember, ember)
    found = []

    def differ(kind, of_torch, of_ember):
        one = Difference(program, kind, of_torch, of_ember)
        one.torch_error = expected.error or expected.setup_error
        one.ember_error = got.error or got.setup_error
        one.modules = torch, ember
        one.inputs = expected.inputs
        one.results = expected.result, got.result
        one.layouts = len({order_of(value) for value in one.inputs.values()})
        found.append(one)
        return one

    if expected.setup_error or got.setup_error:
        if bool(expected.setup_error) != bool(got.setup_error):
            differ("arguments", expected.setup_error, got.setup_error)
        return found
    if "Found no NVIDIA driver" in str(expected.error):
        return found  # the CPU's PyTorch does not say what it would have done
    if expected.error and got.error:
        wanted = builtin_class(expected.error)
        if not isinstance(got.error, wanted):
            differ(f"class of error ({wanted.__name__} / {builtin_class(got.error).__name__})",
                   expected.error, got.error)
    elif got.error:
        differ(f"ember raises {builtin_class(got.error).__name__}", describe(expected), got.error)
    elif expected.error:
        differ(f"torch raises {builtin_class(expected.error).__name__}", expected.error,
               describe(got))
    else:
        compare_values(expected.result, got.result, expected, got, random, differ, "")
    if got.error:
        compare_unchanged(program, got, differ)
    elif not expected.error and not random:
        for name in expected.inputs:
            compare_values(expected.inputs[name], got.inputs[name], expected, got, False, differ,
                           "input: ")
    return found


def compare_unchanged(program, got, differ):
    """ember's arguments after an error are as they were before, whatever PyTorch's are."""
    names = {"torch": got.module, **NAMES}
    exec(program.setup, names)
    for name, value in got.inputs.items():
        before = names[name]
        if before.shape != value.shape or before.stride() != value.stride() or (
                repr(flat(before)) != repr(flat(value))):
            differ("input changed by an error", short(before), short(value))


def describe(outcome):
    result = outcome.result
    if outcome.is_tensor(result):
        return f"a tensor: {dtype_name(result)} {tuple(result.shape)}"
    return f"{type(result).__name__} {result!r}"


def compare_values(want, have, expected, got, random, differ, where):
    if expected.is_tensor(want) and got.is_tensor(have):
        compare_tensors(want, have, expected, got, random, differ, where)
    elif isinstance(want, (tuple, list)) and isinstance(have, (tuple, list)):
        if isinstance(want, list) != isinstance(have, list):
            differ(where + "kind of result", type(want).__name__, type(have).__name__)
        if isinstance(want, expected.module.Size) != isinstance(have, got.module.Size):
            differ(where + "kind of result", type(want).__name__, type(have).__name__)
        if len(want) != len(have):
            differ(where + "number of results", len(want), len(have))
            return
        fields = [n for n in ("values", "indices") if hasattr(want, n) and not hasattr(have, n)]
        if fields:
            differ(where + "kind of result", f"fields {fields}", type(have).__name__)
        for one, other in zip(want, have):
            part = "indices: " if one is getattr(want, "indices", None) else where
            compare_values(one, other, expected, got, random, differ, part)
    elif isinstance(want, np.ndarray) and isinstance(have, np.ndarray):
        compare_arrays(want, have, expected, got, differ, where)
    elif isinstance(want, enum.IntEnum) and type(have) is int:
        if int(want) != have:  # PyTorch's enums of numbers that a protocol gives
            differ(where + "values", int(want), have)
    elif type(want).__name__ != type(have).__name__:
        differ(where + "kind of result", f"{type(want).__name__} {want!r}",
               f"{type(have).__name__} {have!r}")
    elif isinstance(want, (bool, int, float, complex, np.generic)):
        tolerance = TOLERANCE["float32"] if isinstance(want, (float, complex)) else 0
        if not random and not close(want, have, tolerance):
            differ(where + "values", want, have).elements = [(want, have)]
    elif type(want).__name__ in ("dtype", "device", "str") and str(want) != str(have):
        differ(where + "values", str(want), str(have))


def compare_arrays(want, have, expected, got, differ, where):
    if want.dtype != have.dtype:
        differ(where + "dtype", want.dtype, have.dtype)
    elif want.shape != have.shape:
        differ(where + "shape", want.shape, have.shape)
    elif want.strides != have.strides:
        differ(where + "strides", want.strides, have.strides)
    elif not np.array_equal(want, have, equal_nan=want.dtype.kind in "fc"):
        differ(where + "values", want, have)


def compare_tensors(want, have, expected, got, random, differ, where):
    dtype = dtype_name(want)
    if dtype != dtype_name(have):
        differ(where + "dtype", dtype, dtype_name(have))
        return
    if tuple(want.shape) != tuple(have.shape):
        differ(where + "shape", tuple(want.shape), tuple(have.shape))
        return
    if want.stride() != have.stride():
        apart = any(s > 1 and x != y for s, x, y in zip(want.shape, want.stride(), have.stride()))
        if want.numel() == 0:
            differ(where + "strides without elements", want.stride(), have.stride())
        elif not apart:
            differ(where + "strides of dimensions of one", want.stride(), have.stride())
        else:
            differ(where + "strides", want.stride(), have.stride()).shape = tuple(want.shape)
    if not where.startswith("input"):
        compare_memory(want, have, expected, got, differ)
    if random:
        return
    first, second = flat(want), flat(have)
    if first == second and not dtype.startswith(("f", "b", "c")):
        return
    tolerance = TOLERANCE.get(dtype, 0)
    # An output, or what NumPy widens, may hold more digits than were computed.
    if tolerance and ("out=" in expected.call or "np.array" in expected.call):
        computed = [TOLERANCE.get(dtype_name(one), 0) for one in expected.inputs.values()]
        tolerance = max([tolerance, TOLERANCE["float32"], *computed])
    compare_elements(first, second, tolerance, differ, where)


def flat(tensor):
    return tensor.reshape(-1).tolist()


def compare_elements(first, second, tolerance, differ, where):
    apart = [i for i, (x, y) in enumerate(zip(first, second)) if not close(x, y, tolerance)]
    if apart:
        i = apart[0]
        one = differ(where + "values", f"[{i}] = {first[i]!r} of {short(first)}",
                     f"{second[i]!r} of {short(second)}")
        one.elements = [(first[i], second[i]) for i in apart]
        return
    for i, (x, y) in enumerate(zip(first, second)):
        if x == 0 and y == 0 and sign_of_zero(x) != sign_of_zero(y):
            differ(where + "sign of zero", f"[{i}] = {x!r}", repr(y))
            return


def sign_of_zero(x):
    return math.copysign(1, x) if isinstance(x, float) and x == 0 else 0


def close(x, y, tolerance):
    if x == y:
        return True
    if isinstance(x, complex) or isinstance(y, complex):
        x, y = complex(x), complex(y)
        if math.isfinite(abs_of(x)) and math.isfinite(abs_of(y)):
            return abs(x - y) <= tolerance * max(1, abs_of(x), abs_of(y))
        return close(x.real, y.real, tolerance) and close(x.imag, y.imag, tolerance)
    if not tolerance:
        return x != x and y != y
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or math.isinf(y):
        return math.isnan(x) and math.isnan(y)
    return abs(x - y) <= tolerance * max(1, abs(x), abs(y))


def abs_of(x):
    return math.hypot(x.real, x.imag)


def compare_memory(want, have, expected, got, differ):
    """Whether the result is one of the inputs, and whether it sees the memory of one."""
    same = [[name for name, value in outcome.inputs.items() if value is result]
            for outcome, result in ((expected, want), (got, have))]
    if same[0] != same[1]:
        differ("identity", f"is {same[0] or 'new'}", f"is {same[1] or 'new'}")
    if want.numel() == 0 or have.numel() == 0:
        return
    seen = [[name for name, at in outcome.memory.items() if at == memory_of(result)]
            for outcome, result in ((expected, want), (got, have))]
    if seen[0] != seen[1]:
        differ("memory", f"shared with {seen[0] or 'none'}", f"shared with {seen[1] or 'none'}")
