"""The kinds of parameters that calls.py names: each function makes one argument as text."""

from values import DTYPES, FLOATS, INTEGERS, count


def some(g, likely):
    """Mostly one of the likely dtypes."""
    return g.pick(DTYPES) if g.chance(0.15) else g.pick(likely)


def near(g):
    """Mostly the dtype of the first tensor."""
    return g.pick(DTYPES) if g.chance(0.35) else g.first_dtype


def matching(g):
    """The dtype of the first tensor where another one is an error."""
    return g.pick(DTYPES) if g.chance(0.06) else g.first_dtype


def tensor(g):
    return g.tensor()


def ints(g):
    return g.tensor(dtype=some(g, INTEGERS + ["bool"]))


def counted(g):
    """Mostly small numbers: the result has as many elements as the largest says."""
    dtype = some(g, INTEGERS + ["bool"])
    return g.tensor(dtype=dtype, element=lambda: str(g.random.randint(0 if g.chance(0.95) else -2, 40)))


def floats(g):
    return g.tensor(dtype=some(g, FLOATS))


def more_floats(g):
    """As many floating-point numbers as others, which are only right where nothing is in place."""
    return floats(g) if g.chance(0.5) else tensor(g)


def complexes(g):
    return g.tensor(dtype=some(g, ["complex64", "complex128"]))


def pairs(g):
    """Real numbers that can be seen as complex ones."""
    return g.tensor(g.shape(g.random.randint(0, 3)) + (2,), some(g, FLOATS))


def flat(g):
    return g.tensor(g.shape(g.pick([1, 1, 2, 2, 2, 0, 3])))


def single(g):
    """Mostly one element."""
    return g.tensor(g.shape() if g.chance(0.15) else (1,) * g.random.randint(0, 2))


def like(g):
    return g.tensor(g.beside(g.first_shape), near(g))


def same(g):
    shape = g.shape() if g.chance(0.08) else g.first_shape
    return g.tensor(shape, matching(g))


def other(g):
    """A tensor beside the first one, or a number."""
    if g.first is None:
        return tensor(g) if g.chance(0.93) else number(g)
    if g.chance(0.05):
        return g.first
    return like(g) if g.chance(0.6) else number(g)


def beside(g):
    """Mostly a tensor, as the function takes no number there."""
    return like(g) if g.chance(0.9) else other(g)


def number(g):
    if g.chance(0.07):
        return g.tensor(())
    return g.number(g.first_dtype if g.first else None)


def whole(g):
    return g.whole()


def size(g):
    return g.whole(0, 5) if g.chance(0.9) else g.whole(-2, 70)


def real(g):
    return g.pick(["0", "1", "0.5", "2.0", "-1.5", "3", "0.0", "inf", "nan", "True"])


def flag(g):
    return g.pick(["True", "False"] if g.chance(0.93) else ["1", "0"])


def dim(g):
    dims = g.dims
    if g.chance(0.07):
        return str(g.pick([dims, -dims - 1, 10]))
    value = g.random.randint(-dims, dims - 1) if dims else g.pick([0, -1])
    g.dim = value
    return f"np.int64({value})" if g.chance(0.03) else str(value)


def new_dim(g):
    """A place for a new dimension."""
    return str(g.random.randint(-g.dims - 2, g.dims + 1))


def dims(g):
    kind = g.random.randrange(10)
    if kind == 0:
        return "None"
    if kind < 5:
        return dim(g)
    some_dims = g.random.sample(range(g.dims), g.random.randint(0, g.dims))
    some_dims = [d - g.dims if g.chance(0.3) else d for d in some_dims]
    if g.chance(0.06):
        some_dims.append(g.random.randint(-g.dims - 1, g.dims))
    return str(some_dims) if kind < 7 else str(tuple(some_dims))


def order(g):
    """All dimensions in some order."""
    every = g.random.sample(range(g.dims), g.dims)
    every = [d - g.dims if g.chance(0.2) else d for d in every]
    if g.chance(0.08):
        every.append(g.whole())
    return str(every) if g.chance(0.3) else str(tuple(every)).replace("'", "")


def dtype(g):
    return "torch." + g.pick(DTYPES + ["float", "int", "bool", "long", "double", "half"])


def floating(g):
    """For steps below one: PyTorch ends the process where an integer step becomes zero."""
    return "torch." + g.pick(FLOATS)


def accumulating(g):
    """A dtype that sums and products are likely to take."""
    return "torch." + some(g, ["float32", "float64", "int64", "complex128"])


def shape(g):
    return g.shape_text()


def new_shape(g):
    """Sizes for as many elements as the first tensor has."""
    total = count(g.first_shape)
    if g.chance(0.1):
        return g.shape_text()
    sizes = []
    rest = total
    while rest > 1 and len(sizes) < 3:
        divisor = g.pick([d for d in range(1, rest + 1) if rest % d == 0])
        sizes.append(divisor)
        rest //= divisor
    sizes.append(rest)
    if g.chance(0.3):
        sizes[g.random.randrange(len(sizes))] = -1
    return g.shape_text(tuple(sizes))


def wider_shape(g):
    """Sizes that the first tensor can be expanded to."""
    sizes = [g.pick([1, 2, 3]) if s == 1 else g.pick([s, s, s, -1]) for s in g.first_shape]
    if g.chance(0.3):
        sizes.insert(0, g.pick([1, 2, -1] if g.chance(0.2) else [1, 2, 0]))
    return g.shape_text() if g.chance(0.07) else g.shape_text(tuple(sizes))


def repeats(g):
    return g.shape_text(tuple(g.pick([0, 1, 1, 2, -1 if g.chance(0.05) else 1])
                              for _ in range(max(0, g.dims + g.pick([0, 0, 1, -1])))))


def strided(g):
    """Sizes whose strides, which come next, may leave the tensor."""
    g.strided = g.shape(g.random.randint(0, 3))
    return str(g.strided)


def strides(g):
    many = len(g.strided) if g.chance(0.95) else g.random.randint(0, 3)
    return str(tuple(g.pick([0, 1, 1, 2, 3, -1 if g.chance(0.03) else 1]) for _ in range(many)))


def dense_strides(g):
    return str(tuple(g.random.sample([1, 2, 3, 4, 6], len(g.strided))))


def start(g):
    g.start = g.random.randint(0, at_dim(g))
    return str(g.start) if g.chance(0.85) else g.whole()


def length(g):
    return str(g.random.randint(0, at_dim(g) - g.start)) if g.chance(0.9) else g.whole()


def pieces(g):
    """A size of pieces, or the sizes of all of them."""
    if g.chance(0.6):
        return g.whole(1, 4) if g.chance(0.93) else g.whole(-1, 0)
    total = g.first_shape[0] if g.first_shape else 1
    sizes = []
    while total > 0:
        sizes.append(g.random.randint(0, total))
        total -= sizes[-1]
        if sizes[-1] == 0 and g.chance(0.5):
            sizes.append(total)
            total = 0
    if g.chance(0.06):
        sizes.append(1)
    return str(sizes) if g.chance(0.7) else str(tuple(sizes))


def some_indices(g):
    """Where pieces end: in any order, negative and beyond the end, too."""
    indices = [g.random.randint(-3, 6) for _ in range(g.random.randrange(4))]
    return str(indices) if g.chance(0.7) else str(tuple(indices))


def split_tensor(g):
    """The same, or a number of pieces, as a tensor."""
    given = g.whole(-1, 5) if g.chance(0.3) else some_indices(g)
    dtype = "int64" if g.chance(0.9) else g.pick(["int32", "float32"])
    return f"torch.tensor({given}, dtype=torch.{dtype})"


# Indices

def positions(g, shape, size, negative=False):
    """Indices for a dimension of a size; sometimes with one beyond it, or of a wrong dtype."""
    beyond = g.chance(0.03)

    def element():
        if beyond and g.chance(0.5):
            return str(size + g.random.randint(0, 2))
        if negative and g.chance(0.3):
            return str(-g.random.randint(1, max(1, size)))
        return str(g.random.randrange(max(1, size)))
    kinds = ["int64"] * 12 + ["int32", "int32", "int16", "uint8", "float32"]
    dtype = g.pick(kinds)
    if size == 0 and not g.chance(0.1):
        shape = tuple(0 for _ in shape) if shape else (0,)
    return g.tensor(shape, dtype, element if dtype != "bool" else None)


def at_dim(g):
    at = g.dim
    return g.first_shape[at] if g.first_shape and -g.dims <= at < g.dims else 1


def row_index(g):
    """One index for each slice along the dimension before."""
    g.rows = g.pick([0, 1, 2, 3])
    shape = () if g.chance(0.06) else (g.rows, 1) if g.chance(0.03) else (g.rows,)
    return positions(g, shape, at_dim(g))


def rows(g):
    """What row_index has places for."""
    shape = list(g.first_shape)
    if shape and -g.dims <= g.dim < g.dims:
        shape[g.dim] = g.rows
    return g.tensor(shape if g.chance(0.94) else g.shape(), matching(g))


def element_index(g):
    """For gather and scatter: as many dimensions as the first tensor, no dimension larger."""
    at = g.dim if -g.dims <= g.dim < g.dims else 0
    shape = [g.random.randint(0 if g.chance(0.2) else min(1, s), s) for s in g.first_shape]
    if shape:
        shape[at] = g.pick([1, 2, 3])
    g.index_shape = tuple(shape) if g.chance(0.95) else g.shape()
    return positions(g, g.index_shape, at_dim(g))


def elements(g):
    """What element_index has places for."""
    shape = tuple(s + g.pick([0, 0, 0, 1]) for s in g.index_shape)
    return g.tensor(shape if g.chance(0.95) else g.shape(), matching(g))


def elements_or_number(g):
    return elements(g) if g.chance(0.6) else number(g)


def flat_index(g):
    """Indices into a tensor that is taken as one row."""
    g.index_shape = g.shape()
    return positions(g, g.index_shape, count(g.first_shape), negative=True)


def flat_elements(g):
    return g.tensor(g.index_shape if g.chance(0.9) else g.shape(), matching(g))


def index_tensors(g):
    """For the first dimensions."""
    g.index_shape = g.pick([(), (1,), (2,), (3,), (2, 2)])
    shape = g.first_shape
    many = len(shape) + 1 if g.chance(0.04) else g.random.randint(min(1, len(shape)), len(shape))
    parts = []
    for size in (shape + (1,))[:many]:
        if g.chance(0.02):
            parts.append(g.pick(["None", "0", "slice(None)"]))
        elif g.chance(0.1):
            parts.append(g.tensor((size,), "bool"))
        else:
            parts.append(positions(g, g.index_shape if g.chance(0.9) else (1,), size, negative=True))
    text = ", ".join(parts)
    return f"[{text}]" if g.chance(0.2) else f"({text},)" if parts else "()"


def indexed_elements(g):
    shape = () if g.chance(0.4) else g.index_shape if g.chance(0.8) else g.beside(g.first_shape)
    return g.tensor(shape, matching(g))


def mask(g):
    return g.tensor(g.beside(g.first_shape), some(g, ["bool"]))


def condition(g):
    return g.tensor(dtype=some(g, ["bool"]))


# Products: batches of n x k and k x m.

def product(g):
    if not hasattr(g, "product"):
        g.product = tuple(0 if g.chance(0.04) else g.pick([1, 2, 3, 4]) for _ in range(4))
        g.kind = g.pick(DTYPES)
    return g.product


def part(g, *shape):
    """A tensor of a product; sometimes with a size or a dtype that does not fit."""
    shape = list(shape)
    if g.chance(0.04):
        shape[g.random.randrange(len(shape))] += 1
    if g.chance(0.02):
        shape = g.shape()
    return g.tensor(shape, g.pick(DTYPES) if g.chance(0.04) else g.kind)


def left2(g):
    b, n, k, m = product(g)
    return part(g, n, k)


def right2(g):
    b, n, k, m = product(g)
    return part(g, k, m)


def added2(g):
    b, n, k, m = product(g)
    return part(g, *g.pick([(n, m), (n, m), (m,), (1, m), (n, 1), (1, 1)]))


def column_vector(g):
    b, n, k, m = product(g)
    return part(g, n)


def other_vector(g):
    b, n, k, m = product(g)
    return part(g, m)


def left3(g):
    b, n, k, m = product(g)
    return part(g, b, n, k)


def right3(g):
    b, n, k, m = product(g)
    return part(g, b, k, m)


def added3(g):
    b, n, k, m = product(g)
    return part(g, *g.pick([(b, n, m), (b, n, m), (n, m), (1, n, m), (b, 1, m)]))


def row_vector(g):
    b, n, k, m = product(g)
    return part(g, k)


def any_left(g):
    b, n, k, m = product(g)
    return part(g, *g.pick([(k,), (n, k), (n, k), (b, n, k), (1, n, k), (2, b, n, k)]))


def any_right(g):
    b, n, k, m = product(g)
    return part(g, *g.pick([(k,), (k, m), (k, m), (b, k, m), (1, k, m), (2, b, k, m)]))


# Several tensors

def alike(g):
    """Tensors that stand beside each other; sometimes one that does not fit."""
    shape = g.shape()
    names = []
    for _ in range(g.random.randint(1, 3)):
        names.append(g.tensor(g.shape() if g.chance(0.04) else shape, near(g)))
    listed = ", ".join(names)
    return f"[{listed}]" if g.chance(0.6) else f"({listed},)"


def joined(g):
    """Tensors of one shape but for one dimension."""
    shape = g.shape()
    at = g.random.randrange(len(shape)) if shape else 0
    g.dim = at
    names = []
    for _ in range(g.random.randint(1, 3)):
        one = list(shape)
        if one and g.chance(0.6):
            one[at] = g.pick([0, 1, 2, 3])
        if g.chance(0.05):
            one = [0] if g.chance(0.6) else g.shape()
        names.append(g.tensor(one, near(g)))
    listed = ", ".join(names)
    return f"[{listed}]" if g.chance(0.6) else f"({listed},)"


# Outputs

def out(g):
    """Mostly empty, as a shape that fits is seldom guessed; now and then an input itself.

    Never an input of a product: PyTorch reads its memory after resizing it, and may crash.
    """
    kind = g.random.randrange(9 if hasattr(g, "product") else 10)
    if kind < 5:
        return g.tensor((0,), near(g), plain=True)
    if kind < 9:
        return g.tensor(g.first_shape, near(g))
    return g.first or "None"


def plain_out(g):
    """Empty or contiguous: PyTorch's tril and triu write outside of the memory of others."""
    return g.tensor(g.pick([(0,), g.first_shape]), near(g), plain=True)


def outs(g):
    return f"({g.tensor((0,), near(g), plain=True)}, {g.tensor((0,), 'int64', plain=True)})"


def generator(g):
    return g.pick(["None", "torch.Generator()", "torch.Generator('cpu')"])


def device(g):
    return g.pick(["'cpu'", "torch.device('cpu')", "None", "'cpu:0'" if g.chance(0.1) else "'cpu'",
                   "'nowhere'" if g.chance(0.3) else "'cpu'"])


# What tensor() and its like take

def data(g):
    kind = g.random.randrange(10)
    if kind == 0:
        return tensor(g)
    if kind == 1:
        return number(g)
    if kind == 2:
        return array(g)
    if kind == 3:
        return g.pick(["[]", "[[]]", "[[1, 2], [3]]", "[1, [2]]", "'abc'", "['a']", "[None]",
                       "[[], []]", "{1: 2}", "range(3)", "[True, 2, 3.5]", "[1, 2j]", "[2**63]",
                       "[-2**63]", "2**64", "[1.5, True]"])
    dtype = g.pick(["bool", "int64", "float32", "complex64"])
    shape = g.shape(g.pick([0, 1, 1, 2, 3]))
    mixed = g.chance(0.15)
    return nested(shape, lambda: g.number() if mixed else g.element(dtype), g)


def nested(shape, element, g):
    if not shape:
        return element()
    inner = ", ".join(nested(shape[1:], element, g) for _ in range(shape[0]))
    return f"({inner},)" if shape[0] and g.chance(0.2) else f"[{inner}]"


def array(g, backwards=True):
    """An array of NumPy's, with gaps or in another order at times."""
    dtype = g.pick([d for d in DTYPES if d != "bfloat16"] + ["uint16", "U1"] if g.chance(0.1) else
                   [d for d in DTYPES if d != "bfloat16"])
    shape = g.shape(g.pick([0, 1, 1, 2, 3]))
    known = dtype if dtype in DTYPES else "uint8"
    elements = ", ".join(g.element(known) for _ in range(count(shape)))
    made = f"np.array([{elements}], dtype='{dtype}').reshape({shape})"
    step = g.pick(["[::2]", "[::2]", "[::-1]" if backwards else "[::3]"]) if shape else ""
    tail = g.pick(["", "", "", ".T", step])
    return made + tail


def forward_array(g):
    """For from_dlpack: PyTorch ends the process over an array with negative strides."""
    return array(g, backwards=False)


def anything(g):
    return g.pick([data, number, dtype, device, shape])(g)


def dtype_name(g):
    return g.pick(["'torch.FloatTensor'", "'torch.DoubleTensor'", "'torch.LongTensor'",
                   "'torch.BoolTensor'", "'torch.nothing'", dtype(g), "None"])


def rounding(g):
    return g.pick(["'floor'", "'trunc'", "None", "'up'" if g.chance(0.3) else "'floor'"])


def reduction(g):
    return g.pick(["'add'", "'multiply'", "'mean'" if g.chance(0.1) else "'add'"])


def power(g):
    return g.pick(["'fro'", "2", "1", "inf", "-inf", "0", "3", "2.5", "1.5", "-1",
                   "'nuc'" if g.chance(0.2) else "2"])


def to_target(g):
    return g.pick([dtype, dtype, like, device])(g)


def spec(g):
    return g.pick(["''", "'.2f'", "'>8'", "'d'", "'e'"])


def probabilities(g):
    return g.tensor(dtype=some(g, FLOATS), element=lambda: g.pick(["0", "1", "0.5", "0.25"]))


def weights(g):
    shape = g.pick([(4,), (2, 3), (0,), (1,)]) if g.chance(0.9) else g.shape()
    return g.tensor(shape, some(g, FLOATS), element=lambda: str(g.random.randint(0, 5)))


def empty_memo(g):
    return "{}"
