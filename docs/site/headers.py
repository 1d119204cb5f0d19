"""Pages of the public headers: what Doxygen found in them, as directives of Sphinx's C++ domain.

One page per header, in the header's own order, since that is how the headers are written: the text at
the top of a file explains what is common, `// ---- Title` begins a section, and a comment may be for
several declarations in a row (`together` says which).
"""

import pathlib
import re
import subprocess
import xml.etree.ElementTree as xml

from markup import References, blocks, escaped, indented, literal, prose

HERE = pathlib.Path(__file__).parent

DIRECTIVES = {"function": "cpp:function", "friend": "cpp:function", "variable": "cpp:member",
              "typedef": "cpp:type", "concept": "cpp:concept", "class": "cpp:class",
              "struct": "cpp:struct", "define": "c:macro"}


def public_headers(root):
    """The list of headers that are installed, which stands in ember/CMakeLists.txt alone."""
    text = (root / "ember/CMakeLists.txt").read_text()
    files = re.search(r"FILE_SET HEADERS\b.*?\bFILES\s+([^)]*)\)", text, re.S)[1].split()
    return [f"ember/{name}" for name in files]


# ---- What Doxygen gets to read


def prepared(text, root):
    """A header for Doxygen: the same lines, less what it cannot know or would show wrongly."""
    # The version of the ABI is of no interest to readers.
    text = text.replace("::inline v0", "")
    # Doxygen does not put lists such as elementwise.inc where they are included, and cannot take
    # the comment of a function from an argument of a macro.
    text = re.sub(r'#include "(ember/[^"]*\.inc)"',
                  lambda include: expanded((root / include[1]).read_text()), text)
    # A plain comment above declarations is for them all.
    lines = text.split("\n")
    for i in range(len(leading(lines)), len(lines)):
        if re.match(r"// (?!----|clang-format|NOLINT)", lines[i]) and not heading_above(lines, i):
            after = next((x for x in lines[i:] if not x.startswith("//")), "")
            if after and not after.startswith("#"):
                lines[i] = "/" + lines[i]
        if "///" in lines[i]:
            # `Error    what it says`, below others of its kind, is an item of a list.
            lines[i] = re.sub(r"///   (\w+)  +(?=\S)", r"/// - \1: ", lines[i])
            # In Doxygen's Markdown a single quote ends what a single backtick began.
            lines[i] = lines[i].replace("`", "``")
    return "\n".join(lines)


def expanded(listing):
    """The lines of a list, each with its text as a comment, on one line: line numbers stay."""
    return " ".join(f"/** {text} */ {macro}({name})" for macro, name, text in
                    re.findall(r'^(EMBER_\w+)\((\w+), .*?"((?:[^"\\]|\\.)*)"', listing, re.M))


def leading(lines):
    """The comment at the top of a file."""
    end = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    return lines[:end]


def heading_above(lines, i):
    """Whether a line of a comment belongs to a `// ---- Title` above it."""
    while i > 0 and lines[i - 1].startswith("//"):
        i -= 1
        if lines[i].startswith("// ----"):
            return True
    return False


def run_doxygen(root, work):
    """Doxygen's XML of all public headers, as trees."""
    copies = work / "headers"
    names = [name for name in public_headers(root) if name.endswith(".h")]
    for name in names:
        (copies / name).parent.mkdir(parents=True, exist_ok=True)
        (copies / name).write_text(prepared((root / name).read_text(), root))
    settings = (HERE / "Doxyfile").read_text() + f"""
INPUT = {" ".join(names)}
INCLUDE_PATH = .
STRIP_FROM_PATH = .
OUTPUT_DIRECTORY = {work}
"""
    done = subprocess.run(["doxygen", "-"], cwd=copies, input=settings, text=True,
                          stderr=subprocess.PIPE, check=True)
    trouble = [line.removeprefix(f"{copies}/") for line in done.stderr.splitlines()
               if line and "scope for class std::hash" not in line]  # excluded all the same
    if trouble:
        raise SystemExit("doxygen:\n" + "\n".join(trouble))
    return [xml.parse(path).getroot().find("compounddef")
            for path in sorted((work / "xml").glob("*.xml"))
            if path.name not in ("index.xml", "Doxyfile.xml")]


# ---- Declarations


class Item:
    """A declaration: where it stands, how it is written, and what its comment says."""

    def __init__(self, node, scope, known):
        self.kind = node.get("kind")
        self.id = node.get("id")
        self.name = node.findtext("compoundname") or node.findtext("name")
        place = node.find("location")
        self.file = place.get("declfile") or place.get("file")
        self.body = range(int(place.get("bodystart") or 0), int(place.get("bodyend") or 0))
        self.line = int(place.get("declline") or place.get("line"))
        if self.line == 1:  # Doxygen knows no better place for some operators
            self.line = self.body.start
        self.type = "".join(node.find("type").itertext()) if node.find("type") is not None else ""
        self.args = node.findtext("argsstring") or ""
        self.text = blocks(node.find("briefdescription"), known)
        self.text += blocks(node.find("detaileddescription"), known)
        self.signature = self.written(node, scope)
        self.members = []
        if self.kind == "enum":
            self.members = [self.enumerator(value, known) for value in node.findall("enumvalue")
                            if not value.findtext("name").startswith("EMBER_")]  # macros

    def written(self, node, scope):
        name = f"{scope}::{self.name}" if scope else self.name
        head = template(node.find("templateparamlist"), node.findtext("requiresclause"))
        value = written_value(node)
        if self.kind in ("class", "struct"):
            bases = ", ".join(f"{base.get('prot')} {base.text}" for base in
                              node.findall("basecompoundref") if base.get("prot") == "public")
            return f"{head}{name}" + (f" : {bases}" if bases else "")
        if self.kind == "concept":
            return f"{head}{name}"
        if self.kind == "define":
            names = [p.findtext("defname") or "" for p in node.findall("param")]
            return f"{self.name}({', '.join(names)})" if names else self.name
        if self.kind == "enum":
            return name + (f" : {self.type}" if self.type else "")
        if self.kind == "typedef":
            return f"{head}{name} = {self.type}"
        words = "static " if node.get("static") == "yes" and not self.type.startswith("static") else ""
        if node.get("explicit") == "yes":
            words += "explicit "
        if node.get("virt") in ("virtual", "pure-virtual"):
            words += "virtual "
        if self.kind == "variable":
            value = "" if "\n" in value or len(value) > 40 else value
            return f"{head}{words}{self.type} {name}{self.args}{value}"
        kind = self.type.replace("friend ", "").replace("inline ", "")
        args = re.sub(r"=(default|0)$", r" = \1", self.args)
        return f"{head}{words}{kind} {name}{args}".strip()

    def enumerator(self, node, known):
        text = blocks(node.find("briefdescription"), known)
        text += blocks(node.find("detaileddescription"), known)
        return f"{node.findtext('name')}{written_value(node)}", text

    def hidden(self):
        """What says nothing to a reader: what a class does not have, or has as every class does."""
        if self.text and re.search(r"(^|\. )Internal\b", self.text[0]):
            return True
        if self.kind == "define":
            return not self.text
        if self.kind == "friend":
            return "(" not in self.args
        if "=delete" in self.args.replace(" ", ""):
            return True
        if self.name.startswith("~") and not self.text:
            return True
        usual = re.match(r"\((const )?[\w:]+ ?&&?( ?other)?\)", self.args)
        return bool(usual and not self.text and self.kind == "function"
                    and (self.name == "operator=" or not self.type))


def written_value(node):
    value = node.find("initializer")
    return "" if value is None else " " + "".join(value.itertext()).strip()


def template(params, requires):
    if params is None:
        return ""
    names = []
    for param in params.findall("param"):
        name = "".join(param.find("type").itertext())
        if param.findtext("declname"):
            name += f" {param.findtext('declname')}"
        if param.find("defval") is not None:
            name += f" = {''.join(param.find('defval').itertext())}"
        names.append(name)
    condition = f"requires {' '.join(requires.split())} " if requires else ""
    return f"template<{', '.join(names)}> {condition}"


def together(group, item, lines):
    """Whether a declaration shares the comment of those above it, with nothing between them.

    In the headers a comment is for all that follows it directly, as far as it makes sense: overloads,
    variants (`name_out`, `name_`), and what has a similar name or the same types.
    """
    first = group[0]
    if item.text or item.kind != first.kind or item.kind != "function":
        return False
    between = lines[group[-1].line:item.line - 1]
    if any(not line.strip() or line.lstrip().startswith("//") for line in between):
        return False
    if not item.type and first.text:  # constructors differ
        return False
    if any(stem(item.name) == stem(other.name) for other in group):
        return True
    words, types = item.name.split("_"), (item.type, item.args)
    similar = any(not set(words).isdisjoint(other.name.split("_")) for other in group)
    if item.in_class:  # where short names speak for themselves
        return similar and types == (first.type, first.args) and (
            len(words) == len(first.name.split("_")))
    return bool(first.text) and (similar or types == (first.type, first.args))


def stem(name):
    return re.sub(r"(_out|_)$", "", name)


# ---- Pages


def collect(compounds, known):
    """Every public declaration, by file; members are in their class."""
    files, classes = {}, {}
    for compound in compounds:
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if "detail" in name.split("::"):
            continue
        if kind in ("class", "struct", "concept") and compound.get("prot") != "private":
            if "<" in name:
                continue
            item = Item(compound, "", known)
            if item.hidden():
                continue
            classes[name] = item
            files.setdefault(item.file, []).append(item)
        if kind in ("namespace", "file") or name in classes:
            scope = name if kind == "namespace" else ""
            for node in compound.iter("memberdef"):
                # Outside of namespaces: macros, and functions with C's names.
                if node.get("prot") != "public" or (
                        kind == "file" and node.get("kind") not in ("define", "function")):
                    continue
                item = Item(node, scope, known)
                if item.hidden():
                    continue
                if kind in ("class", "struct"):
                    classes[name].members.append(item)
                else:
                    files.setdefault(item.file, []).append(item)
    for name, item in sorted(classes.items()):  # classes in classes
        outer = name.rpartition("::")[0]
        if outer in classes:
            files[item.file].remove(item)
            item.signature = item.signature.replace(name, name.rpartition("::")[2], 1)
            classes[outer].members.append(item)
    return files


def sections(lines):
    """Where `// ---- Title: text` stands, by line."""
    found = {}
    for i, line in enumerate(lines):
        start = re.match(r" *// ---- (.*)", line)
        if start:
            rest = []
            for following in lines[i + 1:]:
                if not re.match(r" *//(?!/| -{4})", following):
                    break
                rest.append(re.sub(r"^ *// ?", "", following))
            text = " ".join([start[1].rstrip("- ")] + [x for x in rest if not x.startswith("----")])
            title, mark, after = re.match(r"(.*?)(?:([:,.]) (.*)|$)", text).groups()
            if mark == "," or not after:
                title, after = title.rstrip(".,:"), text if after else ""
            found[i + 1] = (title.rstrip("."), after[:1].upper() + after[1:] if after else "")
    return found


def listed(items, lines, marks, known, in_class=False):
    """Declarations in the order of the file, with the headings between them."""
    out, group = [], None
    inside = [item.body for item in items if item.members and item.kind != "enum"]
    pending = [x for x in sorted(marks.items()) if not any(x[0] in body for body in inside)]

    def close():
        if group:
            out.append(shown(group, lines, marks, known))

    for item in sorted(items, key=lambda item: item.line):
        item.in_class = in_class
        here = [mark for line, mark in pending if line < item.line]
        if here:
            close()
            group = None
            pending = [(line, mark) for line, mark in pending if line >= item.line]
            title, after = here[-1]
            out.append(f".. rubric:: {escaped(title)}" +
                       (f"\n\n{prose([after])[0]}" if after else ""))
        if group and together(group, item, lines):
            group.append(item)
        else:
            close()
            group = [item]
    close()
    return out


def shown(group, lines, marks, known):
    first = group[0]
    directive = DIRECTIVES.get(first.kind) or "cpp:enum-class"
    indent = " " * len(f".. {directive}:: ")
    signatures = list(dict.fromkeys(item.signature for item in group))
    out = "".join(f".. _{item.id}:\n\n" for item in group if item.id in known.wanted)
    out += f".. {directive}:: " + f"\n{indent}".join(signatures) + "\n"
    body = list(first.text)
    if first.kind == "enum":
        body += [f".. cpp:enumerator:: {name}\n\n{indented(chr(10).join(text), 3)}"
                 for name, text in first.members]
    elif first.members:
        own = {line: mark for line, mark in marks.items() if line in first.body}
        body += listed(first.members, lines, own, known, in_class=True)
    return out + "".join("\n" + indented(block, 3) + "\n" for block in body)


def page(name, items, root, known):
    lines = (root / name).read_text().split("\n")
    text = prose(leading(lines))
    marks = sections(lines)
    short = name.removeprefix("ember/")
    out = [f"{short}\n{'=' * len(short)}"]
    if name.count("/") == 1:
        includes = re.findall(r'#include "(ember/[^"]*)"', "\n".join(lines))
        text += ["It includes:"] * bool(includes) + [
            f"- :doc:`{i.removeprefix('ember/')} </cpp/{i.removeprefix('ember/')}>`" for i in includes]
    out += [f".. code-block:: cpp\n\n   #include <{name}>"] + text
    return "\n\n".join(out + listed(items, lines, marks, known)) + "\n"


def first_sentence(name, root):
    text = " ".join(re.sub(r"^// ?", "", x) for x in leading((root / name).read_text().split("\n")))
    sentence = re.match(r".*?[.:](?= |$)|.*", text)[0].rstrip(":.")
    return " ".join(prose([sentence]))


def write_pages(root, work, out):
    """Writes OUT/cpp/, and gives back how many declarations it shows."""
    compounds = run_doxygen(root, work)
    known = References(compounds)
    files = collect(compounds, known)
    names = [name for name in public_headers(root) if name.endswith(".h")]
    for name in names:
        target = out / "cpp" / f"{name.removeprefix('ember/')}.rst"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(name, files.get(name, []), root, known))
    folders = {}
    for name in names:
        folders.setdefault(name.removeprefix("ember/").rpartition("/")[0], []).append(name)
    text = (HERE / "cpp.rst").read_text()
    for folder, inside in folders.items():
        title = f"{folder}/" if folder else "Everything at once"
        text += f"\n{title}\n{'-' * len(title)}\n\n"
        text += ".. list-table::\n   :widths: 30 70\n   :width: 100%\n\n"
        for name in inside:
            short = name.removeprefix("ember/")
            says = first_sentence(name, root) or ", ".join(
                literal(item.name) for item in files.get(name, [])).replace("\0", "")
            text += f"   * - :doc:`{short} <{short}>`\n     - {says}\n"
        text += "\n.. toctree::\n   :hidden:\n\n" + "".join(
            f"   {name.removeprefix('ember/')}\n" for name in inside)
    (out / "cpp/index.rst").write_text(text)
    return sum(map(len, files.values()))
