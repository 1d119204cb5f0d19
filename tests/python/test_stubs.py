"""The stubs say what the module has."""

import ast
import pathlib
import runpy

import pytest

import ember
from ember import _C

pytestmark = pytest.mark.once

STUBS = pathlib.Path(ember.__file__).parent / "_C"


def declared(tree):
    """Name -> the names of its members (of a class) or of its parameters (of each overload)."""
    names = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            parameters = [a.arg for a in
                          arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
            names.setdefault(node.name, []).append(parameters)
        elif isinstance(node, ast.ClassDef):
            names[node.name] = {child.name for child in node.body
                                if isinstance(child, ast.FunctionDef)}
        elif isinstance(node, ast.AnnAssign):
            names[node.target.id] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name, None) for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update((target.id, None) for target in node.targets)
    return names


def stub(name):
    return declared(ast.parse((STUBS / name).read_text()))


@pytest.mark.parametrize("name, module", [("__init__.pyi", _C), ("cuda/__init__.pyi", _C.cuda),
                                          ("cuda/comm.pyi", _C.cuda.comm),
                                          ("cuda/nvtx.pyi", _C.cuda.nvtx), ("random.pyi", _C.random),
                                          ("sim.pyi", _C.sim)])
def test_every_name_is_declared(name, module):
    names = stub(name)
    public = {n for n in dir(module) if not n.startswith("_")}
    assert public - set(names) == set()
    for public_name in public:
        value = getattr(module, public_name)
        if isinstance(value, type) and isinstance(names[public_name], set):
            members = {n for n in vars(value) if not n.startswith("_")
                       and (callable(getattr(value, n, None)) or isinstance(vars(value)[n], property))}
            assert members - names[public_name] == set(), public_name


def test_operations_are_declared_from_their_list():
    names = stub("__init__.pyi")
    for row in _C._elementwise_ops():
        for parameters in names[row["name"]]:
            if parameters == ["condition"]:  # where, the other one
                continue
            own = [p for p in parameters if p not in ("alpha", "rounding_mode", "value", "decimals")]
            assert len(own) == row["operands"] + 1 and own[-1] == "out"
        assert row["name"] in names["Tensor"]


def test_everyday_code_runs():
    pytest.importorskip("numpy")
    runpy.run_path(str(pathlib.Path(__file__).parent / "typing/everyday.py"), run_name="__main__")


def test_the_package_is_typed():
    assert (pathlib.Path(ember.__file__).parent / "py.typed").exists()
