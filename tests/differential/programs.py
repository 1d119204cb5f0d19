"""Random calls: which names there are, and how a call of one is written."""

import random

import calls
import parameters
from values import WRONG, Text

FUNCTIONS, OWN_METHODS = calls.signatures()
# PyTorch's other names for parameters, which come from NumPy.
OTHER_NAMES = {"dim": ["axis"], "keepdim": ["keepdims"], "input": ["x", "a"], "other": ["x2"]}
SPECIAL = {"__getitem__", "__setitem__", "__contains__", "__format__"}


def shared_names(ember, torch):
    """Every public function, class, method and property that both have."""
    names = {n for n in dir(ember) if not n.startswith("_") and callable(getattr(ember, n))
             and callable(getattr(torch, n, None))}
    plain = vars(object)
    return names | {f"Tensor.{n}" for n, value in vars(ember.Tensor).items()
                    if hasattr(torch.Tensor, n) and (callable(value) or isinstance(value, property))
                    and n not in ("__new__", "__init__", "__array_priority__")
                    and (n not in plain or n in OPERATED)}


def method_signatures(name):
    """Those of its own, of the function of that name, or of what it does in place."""
    if name in OWN_METHODS:
        return OWN_METHODS[name]
    found = FUNCTIONS.get(name) or FUNCTIONS.get(name[:-1] if name.endswith("_") else None)
    if found and name not in FUNCTIONS:
        found = [[p for p in signature if p[0] != "out"] for signature in found]
    return found


def plain_operator(name):
    """The operator's own name for reflected ones and those in place."""
    for start in ("__r", "__i"):
        if name.startswith(start) and "__" + name[3:] in calls.OPERATORS:
            return "__" + name[3:]
    return name


OPERATED = SPECIAL | set(calls.OPERATORS) | set(calls.ON_ONE)


def is_covered(name):
    if not name.startswith("Tensor."):
        return name in FUNCTIONS
    name = name[len("Tensor."):]
    return (name in calls.PROPERTIES or name in OPERATED or plain_operator(name) in calls.OPERATORS
            or method_signatures(name) is not None)


class Program:
    """The lines that make the arguments, and the line that is compared, which sets r."""

    def __init__(self, name, seed):
        plain = plain_operator(name.removeprefix("Tensor.")).rstrip("_")
        g = Text(random.Random(seed), smallest=plain not in calls.DIVISIONS)
        self.name, self.seed = name, seed
        # What ember runs in place of this one, and how many forms of a call led to it.
        self.of_ember, self.depth = None, 0
        if not name.startswith("Tensor."):
            self.call = self.function(g, name)
        else:
            self.call = self.method(g, name[len("Tensor."):])
        self.lines, self.shapes, self.dtypes = g.lines, g.shapes, g.dtypes
        if not self.call.endswith(("; r = None", "; r = a")):
            self.call = "r = " + self.call

    @property
    def text(self):
        return "; ".join(self.lines + [self.call])

    def function(self, g, name):
        return f"torch.{name}({self.arguments(g, g.pick(FUNCTIONS[name]))})"

    def method(self, g, name):
        if name in calls.PROPERTIES:
            return f"{parameters.flat(g) if name in ('T', 'mT') else g.tensor()}.{name}"
        if name in calls.ON_ONE:
            made = parameters.single(g) if name in calls.WITH_ONE_ELEMENT else g.tensor()
            return calls.ON_ONE[name].format(made)
        if plain_operator(name) in calls.OPERATORS:
            return self.operator(g, name)
        if name == "__getitem__":
            g.tensor()
            return f"a[{index(g)}]"
        if name == "__setitem__":
            return self.set_item(g)
        if name == "__contains__":
            g.tensor()
            return f"{g.pick(WRONG) if g.chance(0.1) else parameters.other(g)} in a"
        if name == "__format__":
            return f"format({parameters.single(g)}, {parameters.spec(g)})"
        signature = g.pick(method_signatures(name))
        own = getattr(parameters, signature[0][1])(g)
        # The parameter may have made more than a tensor, as other() does.
        own = own if own in g.shapes else g.tensor()
        g.first = own
        return f"{own}.{name}({self.arguments(g, signature[1:])})"

    def operator(self, g, name):
        plain = plain_operator(name)
        sign = calls.OPERATORS[plain]
        whole = sign in ("&", "|", "^", "<<", ">>")
        kind = "any_left" if sign == "@" else "ints" if whole else "tensor"
        own = getattr(parameters, kind)(g)
        if g.chance(0.08):
            beside = g.pick(WRONG)
        elif g.chance(0.06):
            beside = parameters.array(g)
        elif sign == "@":
            beside = parameters.any_right(g)
        else:
            beside = parameters.other(g)
        if plain == name:
            return f"{own} {sign} {beside}"
        # In parentheses, as -2 ** a is -(2 ** a).
        return f"({beside}) {sign} {own}" if name[2] == "r" else f"{own} {sign}= {beside}; r = a"

    def set_item(self, g):
        a = g.tensor()
        at = index(g)
        kind = g.random.randrange(10)
        if kind < 5:
            value = g.number(g.first_dtype)
        elif kind < 8:
            value = g.tensor(g.beside(g.first_shape), parameters.near(g))
        elif kind == 8:
            value = g.tensor(g.pick([(), (1,)]))
        else:
            value = g.pick(WRONG + ["[1, 2]", parameters.array(g)])
        return f"{a}[{at}] = {value}; r = None"

    def arguments(self, g, signature):
        """Some by position, some by keyword; now and then one too many, too few or a wrong one."""
        draw = g.random
        texts = []
        wrong = draw.randrange(len(signature)) if signature and draw.random() < 0.08 else None
        absent = draw.randrange(len(signature)) if signature and draw.random() < 0.01 else None
        by_keyword = draw.random() < 0.08
        for i, (name, kind, optional, keyword) in enumerate(signature):
            likely = 0.12 if name == "out" else 0.5
            if i == absent or (optional and draw.random() > likely):
                by_keyword = True
                continue
            text = draw.choice(WRONG) if i == wrong and draw.random() < 0.8 else None
            if i == wrong and text is None:
                text = g.tensor()
            # What makes an argument also notes what later ones depend on.
            text = text or getattr(parameters, kind)(g)
            by_keyword = by_keyword or (keyword and (draw.random() < 0.98)) or draw.random() < 0.1
            if by_keyword:
                if name in OTHER_NAMES and draw.random() < 0.05:
                    name = draw.choice(OTHER_NAMES[name])
                plain = name.rstrip("_")
                texts.append(f"**{{'from': {text}}}" if plain == "from" else f"{plain}={text}")
            else:
                texts.append(text)
        if draw.random() < 0.006:
            texts.append(draw.choice(["nothing=1", "dim_=0", "dtype_=None"]))
        elif draw.random() < 0.006 and not by_keyword:
            texts.append(draw.choice(WRONG))
        return ", ".join(texts)


# Indices

UNUSUAL = ["'x'", "1.5", "None", "...", "True", "False", "[]", "()", "torch.float32", "{}", "2**70",
           "(None, ...)", "..., ...", "np.int64(0)", "np.array([0, 0])", "[0, 0]", "[[0], [0]]",
           "slice(1)", "[True, False]", "(0, [0, 0])", "::-1", "::0", "np.bool_(True)", "'x', 0",
           "0.0", "range(1)", "np.array(1)", "[0.5]", "1:'x'", "torch.tensor(0):", "[slice(1)]",
           "[None]", "((0,),)"]


def index(g):
    shape = g.first_shape
    if g.chance(0.05):
        return g.pick(UNUSUAL)
    if g.chance(0.07):
        return g.tensor(shape, "bool")
    parts = []
    dim = 0
    dots = g.chance(0.15)
    together = g.pick([(), (1,), (2,), (3,), (2, 2), (1, 2)])
    while dim < len(shape) and not g.chance(0.2):
        kind = g.random.randrange(12)
        size = shape[dim]
        if dots and g.chance(0.3):
            parts.append("...")
            dots = False
            continue
        if kind < 3:
            low, high = -size, size - 1
            if size == 0 or g.chance(0.05):
                low, high = -size - 1, size
            value = str(g.random.randint(low, high))
            parts.append(g.pick([f"np.int64({value})", f"torch.tensor({value})"])
                         if g.chance(0.1) else value)
        elif kind < 7:
            parts.append(slice_text(g, size))
        elif kind == 7:
            parts.append("None")
            dim -= 1
        elif kind == 8 and dim + 1 < len(shape) and g.chance(0.5):
            mask = g.pick(["bool", "bool", "uint8"])
            parts.append(g.tensor(shape[dim:dim + 2], mask, lambda: g.pick(["True", "False"])))
            dim += 1
        elif kind == 8:
            known = g.tensor((size if g.chance(0.93) else size + 1,), "bool")
            parts.append(known)
        elif kind == 9:
            listed = [str(g.random.randrange(max(size, 1))) for _ in range(g.pick([1, 2, 3]))]
            text = f"[{', '.join(listed)}]"
            parts.append(text if g.chance(0.7) else f"np.array({text})")
        elif kind == 10 and g.chance(0.2):
            parts.append(g.pick(["True", "False", "torch.tensor(True)"]))
            dim -= 1
        else:
            several = g.pick([together, together, (1,), ()])
            parts.append(parameters.positions(g, several, size, negative=True))
        dim += 1
    if len(parts) < 6 and g.chance(0.04):
        parts.append("0")
    if not parts:
        return g.pick(["...", "()", ":" if shape else "..."])
    return ", ".join(parts)


def slice_text(g, size):
    def bound():
        return str(g.random.randint(-size - 2, size + 2)) if g.chance(0.6) else ""
    text = f"{bound()}:{bound()}"
    if g.chance(0.3):
        text += ":" + str(g.pick([1, 2, 2, 3, -1 if g.chance(0.05) else 1]))
    return text
