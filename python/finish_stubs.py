"""Finishes the stubs that nanobind has made of the module: finish_stubs.py FROM TO.

In the body of a class a name means the member first: where Tensor has a method `int`, `dim: int`
is that method and no type. The types get other names there, such as `_int`. Beside that, `*size`
without a type is a row of ints, no union has None twice, and submodules are not among the names
that `import *` brings: the package ember has its own.
"""

import ast
import builtins
import itertools
import pathlib
import re
import sys


def members(body):
    """The names that the body of a class or module binds."""
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def annotations(node):
    """The types that a function or a variable says."""
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if not isinstance(node, ast.FunctionDef):
        return []
    arguments = node.args
    every = arguments.posonlyargs + arguments.args + [arguments.vararg] + arguments.kwonlyargs
    found = [argument.annotation for argument in every if argument and argument.annotation]
    return found + ([node.returns] if node.returns else [])


def shadowed(tree):
    """The names of types in the bodies of classes that mean a member there."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        own = members(node.body)
        for annotation in itertools.chain.from_iterable(map(annotations, node.body)):
            yield from (name for name in ast.walk(annotation)
                        if isinstance(name, ast.Name) and name.id in own)


def with_other_names(text):
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    renamed = set()
    for name in sorted(shadowed(tree), key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line = lines[name.lineno - 1].encode()  # the syntax tree counts bytes
        line = line[:name.col_offset] + b"_" + line[name.col_offset:]
        lines[name.lineno - 1] = line.decode()
        renamed.add(name.id)
    own = members(tree.body)
    if renamed:
        lines.append("\n# The types again, where a member of a class has the name.\n")
    for name in sorted(renamed):
        if name not in own and not hasattr(builtins, name):
            raise SystemExit(f"finish_stubs: {name} means a member of a class and no type")
        lines.append(f"_{name} = {name if name in own else 'builtins.' + name}\n")
    if any(name not in own for name in renamed):
        first = tree.body[1] if ast.get_docstring(tree) else tree.body[0]
        lines.insert(first.lineno - 1, "import builtins\n")
    return "".join(lines)


def finished(text):
    def in_lines(beginning, pattern, replacement):
        return re.sub(rf"(?m)^ *{beginning} .*",
                      lambda line: re.sub(pattern, replacement, line[0]), text)

    text = in_lines("def", r"(?<=[( ])\*(\w+)(?=[,)])", r"*\1: int")
    text = in_lines("def", r"\bNone(?: \| None\b)+", "None")
    text = re.sub(r"(?m)^from \S+ import (?:\([^)]*\)|.*)",
                  lambda names: re.sub(r"\b(\w+) as \1\b", r"\1", names[0]), text)
    return with_other_names(text)


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    for stub in source.rglob("*.pyi"):
        place = target / stub.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(finished(stub.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
