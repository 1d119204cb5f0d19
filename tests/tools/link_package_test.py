"""tools/link_package.py in a new virtual environment: what it makes, and what pip makes of it."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import venv

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "link_package.py"


class LinkPackage(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        home = pathlib.Path(made.name).resolve()
        venv.create(home / "venv", with_pip=False)
        self.bin = home / "venv" / "bin"
        self.package = home / "built" / "ember"
        self.package.mkdir(parents=True)
        (self.package / "__init__.py").write_text("")
        (self.package / "__main__.py").write_text("def main():\n    print('the command')\n")
        self.link()
        self.packages = next((home / "venv").glob("lib/python*/site-packages"))

    def run_(self, *words):
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(words, check=True, capture_output=True, text=True,
                              env=environment).stdout

    def link(self):
        self.run_(self.bin / "python", TOOL, self.package.parent)

    def test_what_there_is(self):
        self.assertEqual(self.run_(self.bin / "ember"), "the command\n")
        look = ("import ember, importlib.metadata as m; print(ember.__file__); print(*[e.value for e "
                "in m.distribution('ember').entry_points if e.group == 'pytest11'])")
        self.assertEqual(self.run_(self.bin / "python", "-c", look).split(),
                         [str(self.package / "__init__.py"), "ember.pytest_plugin"])
        files = "import importlib.metadata as m; print(*m.distribution('ember').files)"
        for name in self.run_(self.bin / "python", "-c", files).split():
            self.assertTrue((self.packages / name).exists(), name)

    def test_a_second_time_changes_nothing(self):
        before = {path: path.read_bytes() for path in self.packages.glob("ember*/*")}
        self.link()
        self.assertEqual(before, {p: p.read_bytes() for p in self.packages.glob("ember*/*")})

    def test_what_pip_has_installed_stays(self):
        about = next(self.packages.glob("ember-*.dist-info"))
        (about / "INSTALLER").write_text("pip\n")
        (about / "RECORD").write_text("")
        self.link()
        self.assertEqual((about / "RECORD").read_text(), "")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
