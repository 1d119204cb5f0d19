"""Looks at a built site as a reader without a network would: see check_site."""

import html
import html.parser
import json
import pathlib
import re
import sys
import urllib.parse

import headers

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src",
         "audio": "src", "embed": "src", "object": "data", "link": "href"}
NAVIGATION = ("canonical", "next", "prev", "index", "search", "author", "help", "license")


class Page(html.parser.HTMLParser):
    """What a page links to, what it loads, and where links may lead in it."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = {""}, set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        if tag == "a" and attrs.get("href"):
            self.links.add(attrs["href"])
        if tag in LOADS and attrs.get(LOADS[tag]):
            (self.links if attrs.get("rel") in NAVIGATION else self.loads).add(attrs[LOADS[tag]])
        self.loads.update(re.findall(r"url\(['\"]?([^)'\"]+)", attrs.get("style") or ""))


def remote(address):
    return re.match(r"(https?:)?//", address) is not None


def network(out, pages):
    """What a page would load from elsewhere."""
    for path, page in pages.items():
        yield from (f"{path.relative_to(out)}: loads {x}" for x in sorted(page.loads) if remote(x))
    for path in sorted(out.rglob("*.css")):
        text = path.read_text()
        for address in re.findall(r"""(?:url\(|@import)\s*['"]?([^)'"\s;]+)""", text):
            if remote(address):
                yield f"{path.relative_to(out)}: loads {address}"
    for path in sorted(out.rglob("*.js")):
        for address in re.findall(r"""(?:fetch|import|importScripts|\.src\s*=|\.open)\s*\(?\s*['"]"""
                                  r"""((?:https?:)?//[^'"]+)""", path.read_text()):
            yield f"{path.relative_to(out)}: loads {address}"


def broken(out, pages):
    """Links to files and anchors that are not there."""
    for path, page in pages.items():
        for address in sorted(page.links | page.loads):
            if re.match(r"[a-z]+:|//", address):
                continue
            file, _, anchor = urllib.parse.unquote(address).partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            if not target.is_file():
                yield f"{path.relative_to(out)}: {address}: no such file"
            elif target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(out)}: {address}: no such place"


def interface(root, name):
    """A public header without what is nobody's business: detail, private members, macros."""
    text = (root / name).read_text()
    text = re.sub(r"namespace [\w: ]*\bdetail \{.*?\n\}  // namespace [\w: ]*\bdetail\n", "", text,
                  flags=re.S)
    text = re.sub(r"\n private:.*?\n\};", "\n};", text, flags=re.S)
    return re.sub(r"^#(.*\\\n)*.*", "", text, flags=re.M)


def declared(root):
    """The functions of the public headers, found by their mark alone: independent of Doxygen."""
    found = set()
    for name in headers.public_headers(root):
        text = re.sub(r"//.*", "", interface(root, name))
        found.update(re.findall(r"EMBER_API\s[^;{}()=]*?\b(\w+)\(", text))
    return found


def lost(out, root):
    """Comments of public headers, by their first words, that are not on the header's page."""
    for name in headers.public_headers(root):
        path = out / "cpp" / f"{name.removeprefix('ember/')}.html"
        if name.endswith(".h"):
            text = path.read_text().partition("<article")[2] if path.is_file() else ""
            shown = words(html.unescape(re.sub(r"<[^>]*>", "", text)))
            for comment in re.findall(r"(?:^ *///(?!<).*\n)+", interface(root, name), re.M):
                start = words(re.sub(r"^ *///", "", comment, flags=re.M))[:60]
                if start not in shown and not re.search(r"(?:/|\.) Internal\b", comment):
                    yield f"{name}: not on its page: {start} ..."


def words(text):
    return " ".join(re.findall(r"[A-Za-z0-9]+", text))


def absent(out, root, python):
    """Public names that the search does not find."""
    text = (out / "searchindex.js").read_text()
    index = json.loads(text[text.index("{"):text.rindex("}") + 1])
    found = {f"{prefix}.{entry[4]}".lstrip(".") if prefix else entry[4]
             for prefix, entries in index["objects"].items() for entry in entries}
    if len(index["terms"]) < 1000 or len(found) < 500:
        yield f"searchindex.js: only {len(index['terms'])} words and {len(found)} names"
    short = {name.split("::")[-1] for name in found}
    yield from (f"{name}: declared in a public header, and not in the reference of C++"
                for name in sorted(declared(root) - short))
    yield from (f"{name}: a name of the Python package, and not in its reference"
                for name in sorted(set(python) - found))


def check_site(out, root, python):
    """Fails on broken links, on whatever a page would load from a network, and on missing names."""
    pages = {path: Page(path.read_text()) for path in sorted(out.rglob("*.html"))}
    trouble = [*broken(out, pages), *network(out, pages), *lost(out, root),
               *absent(out, root, python)]
    if trouble:
        raise SystemExit("\n".join(trouble))
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links; "
          "nothing comes from a network")


if __name__ == "__main__":
    check_site(pathlib.Path(sys.argv[1]).resolve(), headers.HERE.parents[1], [])
