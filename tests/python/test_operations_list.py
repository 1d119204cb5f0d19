"""docs/operations.md lists every function on tensors, in C++ and in Python, with its forms."""

import pathlib
import re

import ember

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
LISTED, ELEMENTWISE = PAGE.split("\n## Element by element\n")
DECLARED = re.compile(r"(?:\[\[nodiscard\]\] )?(?!return |throw )[A-Za-z][\w:<>, ]*[&*]? (\w+)\(")
INTERNAL = {"make", "self", "state", "address", "is_only"}
# Functions as graphs: docs/graphs.md.
INTERNAL |= {"graphed", "make_graphed_callable", "make_graphed_callables"}
# Kernels from a text: docs/jiterator.md.
INTERNAL |= {"create_jit_fn", "create_multi_output_jit_fn"}
# Functions as one kernel: docs/fuse.md.
INTERNAL |= {"fuse"}
# What says that there are no gradients: docs/differences.md.
INTERNAL |= {"grad", "grad_fn", "retains_grad"}


def declared(lines, indent):
    for line in lines:
        found = DECLARED.match(line[indent:]) if line.startswith(" " * indent) else None
        if found and not line.endswith("\\"):
            yield found[1]


def cpp_names():
    """The functions of ember.h's headers outside internal namespaces, and the methods of Tensor."""
    functions = set()
    for header in re.findall(r'"(ember/\w+/\w+\.h)"', (ROOT / "ember/ember.h").read_text()):
        if "/comm/" in header or "/ipc/" in header or "/explore/" in header or header == "ember/tensor/tensor.h":
            continue
        text = (ROOT / header).read_text()
        text = re.sub(r"^namespace (?:ops|random|detail|cuda|backends)(?:::\w+)* \{$.*?^\}  // namespace", "", text,
                      flags=re.MULTILINE | re.DOTALL)
        functions |= set(declared(text.splitlines(), 0))
    tensor = (ROOT / "ember/tensor/tensor.h").read_text()
    tensor = tensor[tensor.index(" Tensor {"):]
    methods = set(declared(tensor[:tensor.index(" private:")].splitlines(), 2))
    return functions, methods


CPP_FUNCTIONS, CPP_METHODS = cpp_names()
CPP_FUNCTIONS |= {"can_cast", "promote_types"}  # of ember/tensor/dtype.h, with others on dtypes alone
FUNCTIONS = {n: f for module in (ember, ember.fft) for n, f in vars(module).items()
             if not n.startswith("_") and type(f).__name__ == "nb_func"}
PYTHON_FUNCTIONS = set(FUNCTIONS)
PYTHON_METHODS = {n for n in vars(ember.Tensor) if not n.startswith("_") and hasattr(ember.Tensor, n)}
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+).*?` \| (.*?) \| (.*?) \| .+ \|$", LISTED,
                                              re.MULTILINE)}
IN_TABLE = set(re.findall(r"^\| `(\w+)\(", ELEMENTWISE, re.MULTILINE))


def forms(name, functions, methods, outputs):
    """What stands in the columns. A name in place with a row of its own is not a form of another."""
    found = ["f"] if name in functions else []
    if name in methods:
        found += "p" if isinstance(getattr(ember.Tensor, name, None), property) else "m"
    found += ["_"] * (name + "_" in methods | functions and name + "_" not in ROWS)
    return " ".join(found + ["out"] * outputs)


def cpp_forms(name):
    return forms(name, CPP_FUNCTIONS, CPP_METHODS, name + "_out" in CPP_FUNCTIONS).replace("p", "m")


def python_forms(name):
    outputs = "out:" in (FUNCTIONS[name].__doc__ or "") if name in FUNCTIONS else False
    return forms(name, PYTHON_FUNCTIONS, PYTHON_METHODS, outputs)


def test_forms():
    assert ROWS == {name: (cpp_forms(name), python_forms(name)) for name in ROWS}


def test_every_name_is_listed():
    known = set(ROWS) | IN_TABLE
    known |= {n + "_" for n in known} | {n + "_out" for n in known} | INTERNAL
    assert (CPP_FUNCTIONS | CPP_METHODS | PYTHON_FUNCTIONS | PYTHON_METHODS) - known == set()
    assert {"add", "where"} <= IN_TABLE and not IN_TABLE & set(ROWS)
