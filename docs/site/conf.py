"""Settings of Sphinx for the documentation site; build.py runs it."""

import pathlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.domains.cpp import CPPDomain
from sphinx.environment.adapters.toctree import document_toc
from sphinx.util.nodes import make_refnode

ROOT = pathlib.Path(__file__).resolve().parents[2]

project = "ember"
release = re.search(r'"(.*)"', (ROOT / "ember/version.h").read_text())[1]
extensions = ["myst_parser"]
myst_heading_anchors = 4  # as tools/documents.sh and code hosts name them
highlight_language = "none"

html_theme = "furo"
html_title = f"ember {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# The pages are there for a screen: long signatures get a line for each argument.
cpp_maximum_signature_line_length = 100
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
add_function_parentheses = False


# ---- Names in the text lead to where they are described


def targets(app):
    """Where each described name of C++ and Python is; of overloads the first one counts."""
    if hasattr(app, "ember_targets"):
        return app.ember_targets
    found = app.ember_targets = {}
    for domain in ("cpp", "py"):
        for name, _, _, page, anchor, _ in app.env.get_domain(domain).get_objects():
            found.setdefault(name, (page, anchor))
    return found


def candidates(text):
    """What a name in the text may be in full: `cuda::Stream`, `cuda.Stream`, `allocate(n)`, `Event`."""
    name = re.match(r"[A-Za-z_][\w:.]*(?=\(.*\)$|$)", text, re.S)
    if not name:
        return []
    name = name[0]
    if "::" in name:
        return [name, f"ember::{name}", f"ember::cuda::{name}"]
    if "." in name:
        return [name, f"ember.{name}", f"ember.cuda.{name}"]
    if name[0].isupper() or text.endswith(")"):
        return [f"ember::cuda::{name}", f"ember::{name}"]
    return []


def link_names(app, doctree, page):
    if page.startswith("python/"):  # its signatures have links already, and its words mean Python's
        return
    known = targets(app)
    for literal in list(doctree.findall(nodes.literal)):
        around = literal.parent
        while around and not isinstance(
                around, (nodes.reference, nodes.title, addnodes.desc_signature, addnodes.pending_xref)):
            around = around.parent
        if around:
            continue
        for name in candidates(literal.astext()):
            if name in known:
                target, anchor = known[name]
                uri = app.builder.get_relative_uri(page, target) + "#" + anchor
                literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=uri,
                                                     internal=True))
                break


# ---- The list of a page's functions stands beside that page only
# Sphinx copies it into the navigation of every page, to leave it out there again: half of the time.


def shorten_navigation(app, env):
    env.ember_contents, env.tocs = env.tocs, {page: titles(toc) for page, toc in env.tocs.items()}


def titles(contents):
    short = contents.deepcopy()
    for item in list(short.findall(nodes.list_item)):
        for entry in item.findall(nodes.reference):
            if entry.get("anchorname", "").startswith(("#_CPP", "#ember", "#c.")) and item.parent:
                item.parent.remove(item)
            break
    for empty in [x for x in short.findall(nodes.bullet_list) if not x.children and x.parent]:
        empty.parent.remove(empty)
    return short


def own_contents(app, page, template, context, doctree):
    env = app.env
    if page in env.ember_contents:
        short, env.tocs = env.tocs, env.ember_contents
        context["toc"] = app.builder.render_partial(document_toc(env, page, app.tags))["fragment"]
        context["furo_hide_toc"] = context["toc"].count("<li>") < 2
        env.tocs = short


def imported(app, env, node, inside):
    """What a `using` declaration brings in, which Doxygen does not tell: by its last names alone."""
    if node.get("refdomain") == "cpp":
        known, given = targets(app), node["reftarget"]
        last = given.rpartition("::")[2]
        found = [name for name in known if name.endswith(f"::{given}")
                 and not name.endswith(f"::{last}::{last}")]  # a constructor
        if len(found) == 1:
            page, anchor = known[found[0]]
            return make_refnode(app.builder, node["refdoc"], page, anchor, inside)
    return None


def drop_namespaces(app, doctree):
    """`std` is a reduction and `cuda` a method; the names of the standard are not described here."""
    for name in list(doctree.findall(addnodes.pending_xref)):
        if name.get("refdomain") == "cpp" and re.match(r"std(::|$)|cuda$", name["reftarget"]):
            name.replace_self(name.children)


class Cpp(CPPDomain):
    """Without the names of parameters, which the search would show among those of functions."""

    def get_objects(self):
        return (x for x in super().get_objects() if not x[2].endswith("Param"))


def setup(app):
    app.add_domain(Cpp, override=True)
    app.connect("doctree-read", drop_namespaces)
    app.connect("missing-reference", imported)
    app.connect("doctree-resolved", link_names)
    app.connect("env-updated", shorten_navigation)
    app.connect("html-page-context", own_contents, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
