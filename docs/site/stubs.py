"""Pages of the Python package, from its type stubs: one per module, overloads under one heading."""

import ast
import re

from markup import sentences

PRIVATE = ("_host_function", "_sleep",  # for the package's own tests
           "_refuse_name")


def load(package):
    """The stubs and the modules of a built package, by the names of modules."""
    trees = {}
    for path in sorted(package.rglob("*.py*")):
        if path.suffix in (".py", ".pyi"):
            name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            trees[name.removesuffix(".__init__")] = ast.parse(path.read_text())
    return trees


def public(trees, module):
    """What a module gives to others: definitions by name, in order, followed through its imports."""
    found = {}
    for node in trees[module].body:
        if isinstance(node, ast.ImportFrom) and node.module in trees:
            theirs = passed_on(trees, node.module) | definitions(trees[node.module])
            for alias in node.names:
                if alias.name == "*":
                    found.update({k: v for k, v in theirs.items() if not k.startswith("_")})
                elif alias.name in theirs and alias.name not in PRIVATE:
                    found[alias.asname or alias.name] = theirs[alias.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            if not isinstance(node.targets[0], ast.Name):
                continue  # an attribute of something that is defined elsewhere
            name = node.targets[0].id
            found[name] = [the_only_one(trees, module, name, node.value.id) or node]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            found[node.name] = [node]
    return found


def passed_on(trees, module):
    """What a module has from the extension as a whole."""
    found = {}
    for node in trees[module].body:
        if isinstance(node, ast.ImportFrom) and node.module in trees and node.names[0].name == "*":
            found.update(definitions(trees[node.module]))
    return found


def the_only_one(trees, module, name, private):
    """An object by whose attributes something is set, as a class of its name with all it inherits;
    None for other values. The object is imported by a private name and has a private class."""
    for node in trees[module].body:
        theirs = (definitions(trees[node.module])
                  if isinstance(node, ast.ImportFrom) and node.module in trees else {})
        value = theirs.get(private, [None])[0]
        if not isinstance(value, ast.AnnAssign):
            continue
        kind = ast.unparse(value.annotation)
        if not kind.startswith("_") or not isinstance(theirs.get(kind, [None])[0], ast.ClassDef):
            continue
        body = []
        while isinstance(theirs.get(kind, [None])[0], ast.ClassDef):
            made = theirs[kind][0]
            body += made.body
            kind = ast.unparse(made.bases[0]) if made.bases else ""
        return ast.ClassDef(name, [], [], body, [])
    return None


def definitions(tree):
    """The definitions of a module or a class: lists, since functions may have overloads."""
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign):
            found.setdefault(node.target.id, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            found.setdefault(node.targets[0].id, []).append(node)
    return found


# ---- Writing


def readable(text):
    """Types as users name them."""
    text = re.sub(r"\bember\._C\.", "ember.", text)
    text = re.sub(r"\b(builtins\.|_)(bool|int|float|bytes|dtype|device|cuda)\b", r"\2", text)
    return re.sub(r"\s*# type: ignore.*", "", text)


def signature(node, method):
    args = node.args
    if method and "staticmethod" not in decorators(node) and (args.posonlyargs or args.args):
        (args.posonlyargs or args.args).pop(0)
        if not args.posonlyargs and not args.args and not ast.unparse(args).strip("/, "):
            args = ast.arguments([], [], None, [], [], None, [])
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return readable(f"({ast.unparse(args)}){returns}")


def decorators(node):
    return [ast.unparse(decorator) for decorator in node.decorator_list]


def one_spelling(signatures):
    """Without those that only say axis for dim, or keepdims for keepdim; the page says it once."""
    def usual(text):
        return re.sub(r"\baxis\b", "dim", re.sub(r"\bkeepdims\b", "keepdim", text))
    return [x for x in dict.fromkeys(signatures) if usual(x) == x or usual(x) not in signatures]


def text_of(nodes):
    texts = [ast.get_docstring(node) for node in nodes
             if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return "\n\n".join(sentences(paragraph) for text in dict.fromkeys(filter(None, texts))
                       for paragraph in re.split(r"\n\s*\n", text))


def block(directive, signatures, body, options=()):
    pad = " " * len(f".. {directive}:: ")
    out = f".. {directive}:: " + f"\n{pad}".join(signatures) + "\n"
    out += "".join(f"   {option}\n" for option in options)
    for part in filter(None, body):
        out += "\n" + "\n".join("   " + line if line else "" for line in part.split("\n")) + "\n"
    return out


def described(name, nodes, prefix="", of=None):
    """A definition as a directive; `of` has the functions of the module, for methods without text."""
    node = nodes[0]
    if isinstance(node, ast.ClassDef):
        return described_class(prefix + name, node, of)
    if isinstance(node, ast.Assign):
        return block("py:attribute" if of is not None else "py:data", [prefix + name],
                     [f"Another name of :py:obj:`{node.value.id}`."])
    if isinstance(node, ast.AnnAssign):
        kind = "py:attribute" if of is not None else "py:data"
        return block(kind, [prefix + name], [],
                     [f":type: {readable(ast.unparse(node.annotation))}"])
    text = text_of(nodes)
    if not text and of and name.rstrip("_") in of:
        text = text_of(of[name.rstrip("_")])
    if "property" in decorators(node):
        return block("py:property", [name], [text],
                     [f":type: {readable(ast.unparse(node.returns))}"])
    given = one_spelling([signature(x, of is not None) for x in nodes])
    kind = "py:function" if of is None else "py:method"
    options = [":staticmethod:"] if "staticmethod" in decorators(node) else []
    return block(kind, [prefix + name + x for x in given], [text], options)


def described_class(full, node, functions):
    members = definitions(node)
    made = [x for x in members.pop("__init__", members.pop("__new__", []))]
    signatures = [full + signature(x, True).partition(" -> ")[0] for x in made] or [full]
    bases = [readable(ast.unparse(base)) for base in node.bases if "structseq" not in ast.unparse(base)]
    body = [text_of([node]), text_of(made)]
    if bases:
        body.append("Bases: " + ", ".join(f":py:class:`{base}`" if "[" not in base else f"``{base}``"
                                          for base in bases))
    special = [name for name in members if name.startswith("__") and not text_of(members[name])]
    body += [described(name, nodes, of=functions or {}) for name, nodes in members.items()
             if name not in special and not re.match(r"_[^_]", name)]
    if special:
        body.append("Also: " + ", ".join(f"``{name}``" for name in special))
    kind = "py:exception" if any("Error" in x or "Exception" in x for x in bases) else "py:class"
    return block(kind, signatures, body)


def page(trees, module, hidden):
    found = public(trees, module)
    functions = {name: nodes for name, nodes in found.items() if isinstance(nodes[0], ast.FunctionDef)}
    kinds = (("Classes", ast.ClassDef), ("Functions", ast.FunctionDef),
             ("Data", (ast.Assign, ast.AnnAssign)))
    out = f"{module}\n{'=' * len(module)}\n\n.. py:module:: {module}\n\n"
    out += (ast.get_docstring(trees[module]) or "") + "\n"
    for heading, kind in kinds:
        inside = {name: nodes for name, nodes in found.items() if isinstance(nodes[0], kind)}
        # Classes that are only met as results and arguments have names that begin with _.
        if kind is ast.ClassDef:
            source = definitions(trees[hidden]) if hidden in trees else {}
            inside.update({name: nodes for name, nodes in source.items()
                           if isinstance(nodes[0], ast.ClassDef) and name.startswith("_")})
        if inside:
            out += f"\n{heading}\n{'-' * len(heading)}\n\n" + "\n".join(
                described(name, nodes, of=functions if kind is ast.ClassDef else None)
                for name, nodes in inside.items())
    return with_full_names(trees, module, found, out)


def with_full_names(trees, module, found, out):
    """Classes of the module above, which the signatures of what a module shares with it name."""
    above = module.rpartition(".")[0]
    for name, nodes in definitions(trees.get(above.replace("ember", "ember._C", 1), ast.Module([], []))).items():
        if isinstance(nodes[0], ast.ClassDef) and name not in found:
            out = re.sub(r"(?m)^\.\. py:function:: .*",
                         lambda line: re.sub(rf"(?<=[:|>] ){name}\b", f"{above}.{name}", line[0]), out)
    return out


def aliases(tree, source):
    """What stands for a type in signatures, with the comments above it."""
    out = "\nNames in signatures\n-------------------\n\n"
    lines = source.split("\n")
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            notes = []
            for line in reversed(lines[:node.lineno - 1]):
                if not line.startswith("#"):
                    break
                notes.insert(0, line.lstrip("# "))
            stands = f"Stands for ``{readable(ast.unparse(node.value))}``."
            out += block("py:data", [node.target.id], [" ".join(notes), stands]) + "\n"
    return out


def is_hidden(trees, module):
    """Whether its package has something else of that name, which is what its page tells of."""
    package, _, name = module.rpartition(".")
    return package in trees and name in public(trees, package)


def write_pages(package, intro, out):
    """Writes OUT/python/, and gives back the full names it shows."""
    trees = load(package)
    modules = [name for name in trees if "._C" not in name and not is_hidden(trees, name)]
    modules.sort(key=lambda name: (name.count("."), name))
    folder = out / "python"
    folder.mkdir(parents=True, exist_ok=True)
    for module in modules:
        stub = module.replace("ember", "ember._C", 1)
        text = page(trees, module, stub)
        if module == "ember":
            text += aliases(trees[stub], (package / "_C/__init__.pyi").read_text())
        (folder / f"{module}.rst").write_text(text)
    (folder / "index.rst").write_text(intro + "\n.. toctree::\n\n" +
                                      "".join(f"   {module}\n" for module in modules))
    return [f"{module}.{name}" for module in modules for name in public(trees, module)]
