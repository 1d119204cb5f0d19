"""Arguments of random calls, as Python text.

Everything is text: the same line runs with PyTorch and with ember, and a failure prints it as it
ran.
"""

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128"]
INTEGERS = DTYPES[1:6]
FLOATS = DTYPES[6:10]
LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-2**15, 2**15 - 1),
          "int32": (-2**31, 2**31 - 1), "int64": (-2**63, 2**63 - 1)}
SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7]
MOST_ELEMENTS = 64

# What no parameter, or only some, can take.
WRONG = ["None", "'x'", "1.5", "True", "-9", "99", "2**70", "[]", "[1, 'x']", "(0, 0)", "{}", "1j",
         "object()", "torch.float32", "nan", "np.float32(1.5)", "np.int64(1)", "np.bool_(True)",
         "np.array([1, 2])", "[True]", "(None,)", "'cpu'", "b'x'", "torch.Size([1])", "[1.5]",
         "slice(1)"]


class Text:
    """The lines that make the tensors of one call, and the name and shape of each."""

    def __init__(self, random, smallest=True):
        self.random = random
        self.smallest = smallest  # whether the smallest integer of a dtype may be an element
        self.lines = []
        self.shapes = {}
        self.dtypes = {}
        self.first = None  # the name of the first tensor, on which later parameters depend
        # What parameters note for those after them.
        self.dim, self.start, self.rows, self.index_shape, self.strided = 0, 0, 1, (), ()

    # Numbers

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, choices):
        return self.random.choice(choices)

    def element(self, dtype):
        """One element of a tensor; now and then one from the edge of what the dtype holds."""
        draw = self.random
        edge = draw.random() < 0.06
        if dtype == "bool":
            return str(draw.random() < 0.5)
        if dtype in LIMITS:
            low, high = LIMITS[dtype]
            low += low < 0 and not self.smallest
            return str(draw.choice([low, high]) if edge else draw.randint(max(low, -4), 9))
        if dtype in FLOATS:
            if edge:
                return draw.choice(["nan", "inf", "-inf", "-0.0", "1e-3", "300.0"])
            return str(draw.randint(-12, 20) / 4)
        return f"complex({self.element('float32')}, {self.element('float32')})"

    def number(self, dtype=None):
        """A Python number or one of NumPy's, of the same kind as a dtype or of any."""
        if dtype is None or self.chance(0.3):
            dtype = self.pick(DTYPES)
        value = self.element(dtype)
        if dtype != "bfloat16" and self.chance(0.15):
            return f"np.{dtype.replace('bool', 'bool_')}({value})"
        return value

    def whole(self, low=-3, high=4):
        value = str(self.random.randint(low, high))
        return f"np.int64({value})" if self.chance(0.03) else value

    # Shapes

    def shape(self, dims=None):
        if self.chance(0.02):
            return (self.random.randint(30, 130),)
        dims = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]) if dims is None else dims
        sizes = SIZES if self.chance(0.4) else SIZES[1:]
        shape = [self.random.choice(sizes) for _ in range(dims)]
        while count(shape) > MOST_ELEMENTS:
            shape[self.random.randrange(dims)] = 2 if count(shape) > 4 * MOST_ELEMENTS else 1
        return tuple(shape)

    def beside(self, shape):
        """A shape that broadcasts with another one; sometimes one that does not."""
        if self.chance(0.05):
            return self.shape()
        if self.chance(0.55):
            return shape
        made = [1 if self.chance(0.3) else size for size in shape]
        made = made[self.random.randint(0, len(made)):] if self.chance(0.4) else made
        if self.chance(0.1) and len(made) < 4 and count(made) < MOST_ELEMENTS / 2:
            made = [self.pick([1, 2])] + made
        return tuple(made)

    def shape_text(self, shape=None):
        shape = self.shape() if shape is None else shape
        kind = self.random.randrange(12)
        if kind == 0:
            return str(list(shape))
        if kind == 1:
            return f"torch.Size({list(shape)})"
        if kind == 2 and len(shape) == 1:
            return str(shape[0])
        return str(tuple(shape))

    # Tensors

    def name(self):
        return "abcdefghij"[len(self.shapes)]

    def tensor(self, shape=None, dtype=None, element=None, plain=False):
        """A new tensor with any layout; the name of it."""
        shape = self.shape() if shape is None else tuple(shape)
        dtype = dtype or self.pick(DTYPES)
        element = element or (lambda: self.element(dtype))
        base, chain = self.layout(shape) if not plain and self.chance(0.5) else (shape, "")
        elements = ", ".join(element() for _ in range(count(base)))
        made = f"torch.tensor([{elements}], dtype=torch.{dtype})"
        if len(base) != 1:
            made += f".reshape({base})"
        return self.assign(made + chain, shape, dtype)

    def assign(self, text, shape, dtype):
        name = self.name()
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = shape
        self.dtypes[name] = dtype
        if self.first is None:
            self.first = name
        return name

    def layout(self, shape):
        """The shape of a contiguous tensor, and the views of it that have the given shape."""
        draw = self.random
        kind = draw.randrange(7)
        if kind == 0:
            skipped = draw.randint(1, 3)
            return (count(shape) + skipped,), f"[{skipped}:].reshape({shape})"
        if kind == 1 and len(shape) < 4:
            dim = draw.randint(0, len(shape))
            size = draw.randint(1, 2)
            index = ":, " * dim + str(draw.randrange(size))
            return shape[:dim] + (size,) + shape[dim:], f"[{index}]"
        if not shape:
            return shape, ""
        dim = draw.randrange(len(shape))
        if kind in (2, 3):
            step = draw.randint(2, 3)
            base = shape[:dim] + (shape[dim] * step,) + shape[dim + 1:]
            return base, "[" + ":, " * dim + f"::{step}]"
        if kind == 4:
            start = draw.randint(0, 2)
            base = shape[:dim] + (shape[dim] + start + 1,) + shape[dim + 1:]
            return base, f".narrow({dim}, {start}, {shape[dim]})"
        if kind == 5:
            base = tuple(1 if draw.random() < 0.5 else size for size in shape)
            return base, f".expand({shape})"
        order = draw.sample(range(len(shape)), len(shape))
        base = [0] * len(shape)
        for to, source in enumerate(order):
            base[source] = shape[to]
        return tuple(base), f".permute({order})"

    @property
    def dims(self):
        return len(self.shapes[self.first]) if self.first else 2

    @property
    def first_shape(self):
        return self.shapes[self.first] if self.first else (2, 3)

    @property
    def first_dtype(self):
        return self.dtypes[self.first] if self.first else "float32"


def count(shape):
    total = 1
    for size in shape:
        total *= size
    return total
