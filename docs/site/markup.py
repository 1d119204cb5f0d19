"""Text as reStructuredText: descriptions in Doxygen's XML, and comments that Doxygen does not see."""

import re
import xml.etree.ElementTree as xml


def escaped(text):
    return re.sub(r"([\\*`|_<>])", r"\\\1", text)


def marked(text, mark, end=None):
    """Text between marks, which reStructuredText finds only between spaces; see `spaced`."""
    return f"\0{mark}{text}{end or mark}\0"


def literal(text):
    text = " ".join(text.split())
    return marked(text, "``") if text and "`" not in text else escaped(text)


def spaced(text):
    """On one line, with spaces that do not show around marks, where there are no others."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"^\0|(?<= )\0|\0(?= )|\0$", "", text).replace("\0", "\\ ")


def inline(node, known):
    """Text with marks and references, on one line."""
    parts = [escaped(node.text or "")]
    for child in node:
        text = "".join(child.itertext())
        if child.tag == "computeroutput":
            parts.append(literal(text))
        elif child.tag == "ref" and known.role(child):
            parts.append(marked(f"{escaped(text)} <{known.target(child)}>", known.role(child), "`"))
        elif child.tag in ("emphasis", "bold"):
            parts.append(marked(escaped(text), "*" if child.tag == "emphasis" else "**"))
        else:
            parts.append(inline(child, known))
        parts.append(escaped(child.tail or ""))
    return "".join(parts)


def blocks(node, known):
    """A description as paragraphs, lists and programs."""
    out = []
    for para in node.findall("para") if node is not None else ():
        run = xml.Element("para")
        run.text = para.text

        def flush(run=run):
            text = spaced(inline(run, known))
            if text:
                out.append(text)
            run.clear()

        for child in para:
            if child.tag in ("verbatim", "programlisting", "preformatted"):
                flush()
                out.append(code(child))
            elif child.tag in ("itemizedlist", "orderedlist"):
                flush()
                mark = "-" if child.tag == "itemizedlist" else "#."
                out += [indented("\n\n".join(blocks(item, known)), len(mark) + 1, mark + " ")
                        for item in child.findall("listitem")]
            else:
                run.append(child)
                continue
            run.text = child.tail
        flush()
    return out


def code(node):
    for space in node.iter("sp"):
        space.text = " "
    lines = "".join(node.itertext()).rstrip().split("\n")
    # Doxygen takes the indentation from the first line and one column less from the others.
    lines[1:] = [line[1:] if line.startswith(" ") else line for line in lines[1:]]
    return ".. code-block:: cpp\n\n" + indented("\n".join(lines), 3)


def indented(text, columns, first=None):
    pad = " " * columns
    lines = [pad + line if line else "" for line in text.split("\n")]
    return (first + lines[0].lstrip() if first else lines[0]) + "".join("\n" + x for x in lines[1:])


def sentences(text):
    """A paragraph with `names` or ``names`` in it."""
    pieces = re.split(r"``?([^`]*)``?", text)
    return spaced("".join(literal(x) if i % 2 else escaped(x) for i, x in enumerate(pieces)))


def prose(lines):
    """Comments that Doxygen does not see, as paragraphs, lists and programs."""
    out = []
    for part in re.split(r"\n\s*\n", "\n".join(re.sub(r"^ *//+ ?", "", x) for x in lines)):
        part = part.strip("\n")
        if part.startswith("  ") and not re.match(r" *- ", part):
            out.append(".. code-block:: text\n\n" + indented(part, 3))
        else:
            for item in re.split(r"\n(?= *- )", part):
                text = re.sub(r"\s+", " ", item).strip()
                out.append(sentences(text))
                if text.startswith("- "):
                    out[-1] = "- " + out[-1][2:]
    return [x for x in out if x]


class References:
    """What descriptions may refer to, and what of it they do: only that gets a label."""

    def __init__(self, compounds):
        self.files = {x.get("id"): x.find("location").get("file").removeprefix("ember/")
                      for x in compounds if x.get("kind") == "file"}
        self.known = {node.get("id") for compound in compounds
                      for node in [compound, *compound.iter("memberdef")]
                      if compound.get("kind") not in ("file", "dir", "namespace")
                      or node.tag == "memberdef"}
        self.wanted = set()

    def role(self, ref):
        if ref.get("refid") in self.files:
            return ":doc:`"
        return ":ref:`" if ref.get("refid") in self.known else None

    def target(self, ref):
        if ref.get("refid") in self.files:
            return f"/cpp/{self.files[ref.get('refid')]}"
        self.wanted.add(ref.get("refid"))
        return ref.get("refid")
