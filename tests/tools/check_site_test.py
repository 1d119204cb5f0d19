"""docs/site/check.py finds what is wrong with a site: a small one, with one flaw at a time."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/site"))
import check  # noqa: E402

LIST = "target_sources(ember PUBLIC FILE_SET HEADERS BASE_DIRS ${X} FILES\n  a/a.h\n  a/b.inc)\n"
HEADER = """// What it is.
#pragma once
#define EMBER_NAME(name) \\
  EMBER_API int name##_out();
namespace ember::inline v0 {
namespace detail {
/// Nobody's business.
EMBER_API int hidden();
}  // namespace detail
/// How many `things` there are.
EMBER_API int count(int start = 0);
}  // namespace ember::inline v0
"""
PAGE = """<html><link rel="stylesheet" href="../../_static/x.css"><a href="https://elsewhere.org/">x</a>
<article><dt id="count">int count(int start)</dt> How many <code>things</code> there are.
<a href="../../index.html#top">x</a></article></html>"""
INDEX = """Search.setIndex({"terms":{}, "objects":{"":[[0,0,1,"","ember::count"]],
"ember":[[0,0,1,"","abs"]]}})"""


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.out = pathlib.Path(folder.name), pathlib.Path(folder.name) / "out"
        self.write("ember/CMakeLists.txt", LIST)
        self.write("ember/a/a.h", HEADER)
        self.write("ember/a/b.inc", "")
        self.write("out/index.html", '<html><p id="top"></p></html>')
        self.write("out/cpp/a/a.h.html", PAGE)
        self.write("out/_static/x.css", "a { background: url(data:x) }")
        self.write("out/searchindex.js", INDEX)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def trouble(self, python=("ember.abs",)):
        pages = {path: check.Page(path.read_text()) for path in sorted(self.out.rglob("*.html"))}
        return "\n".join([*check.broken(self.out, pages), *check.network(self.out, pages),
                          *check.lost(self.out, self.root),
                          *check.absent(self.out, self.root, python)])

    def test_a_good_site(self):
        self.assertEqual(self.trouble(), "searchindex.js: only 0 words and 2 names")

    def test_links(self):
        self.write("out/cpp/a/a.h.html", PAGE.replace("#top", "#bottom"))
        self.assertIn("cpp/a/a.h.html: ../../index.html#bottom: no such place", self.trouble())
        self.write("out/cpp/a/a.h.html", PAGE.replace("index", "outdex"))
        self.assertIn("cpp/a/a.h.html: ../../outdex.html#top: no such file", self.trouble())
        self.write("out/cpp/a/a.h.html", PAGE.replace("x.css", "y.css"))
        self.assertIn("y.css: no such file", self.trouble())

    def test_the_network(self):
        for bad in ('<script src="https://cdn.org/x.js"></script>', '<img src="//cdn.org/x.png">',
                    '<link rel="preload" href="http://cdn.org/x">',
                    '<p style="background: url(https://cdn.org/x)">'):
            self.write("out/index.html", f'<html><p id="top"></p>{bad}</html>')
            self.assertIn("index.html: loads", self.trouble(), bad)
        self.write("out/index.html", '<html><p id="top"></p></html>')
        for bad in ("@import 'https://cdn.org/x.css';", "a { b: url(//cdn.org/x) }"):
            self.write("out/_static/x.css", bad)
            self.assertIn("_static/x.css: loads", self.trouble(), bad)
        self.write("out/_static/x.css", "")
        self.write("out/_static/x.js", 'fetch("https://cdn.org/x")')
        self.assertIn("_static/x.js: loads https://cdn.org/x", self.trouble())

    def test_names_and_comments(self):
        self.write("out/searchindex.js", INDEX.replace("ember::count", "ember::other"))
        self.assertIn("count: declared in a public header", self.trouble())
        self.assertIn("ember.add: a name of the Python package", self.trouble(["ember.add"]))
        self.write("out/cpp/a/a.h.html", PAGE.replace("How many", "How few"))
        self.assertIn("ember/a/a.h: not on its page: How many things there are", self.trouble())


if __name__ == "__main__":
    unittest.main()
