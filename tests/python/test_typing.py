"""What type checkers make of the stubs: nothing to say on the package and on everyday code, and
something on every line of a page of mistakes."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import ember

PAGES = pathlib.Path(__file__).parent / "typing"


def run(place, *command):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run([sys.executable, "-m", *command], cwd=place, env=environment, text=True,
                          capture_output=True, timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: there is something to say
    return done.stdout


def say(found, file, line, message):
    found.setdefault(str(file), {})[line] = message


def mypy(place):
    found = {}
    text = run(place, "mypy", "--strict", "--config-file=", "--cache-dir=cache", "--no-pretty",
               "--hide-error-context", "ember", "everyday.py", "wrong.py")
    for file, line, message in re.findall(r"^(\S+?):(\d+): error: (.*)$", text, re.MULTILINE):
        say(found, file, int(line), message)
    return found


def basedpyright(place):
    found = {}
    settings = {"include": ["ember", "everyday.py", "wrong.py"], "typeCheckingMode": "standard"}
    (place / "pyrightconfig.json").write_text(json.dumps(settings))
    text = run(place, "basedpyright", "--outputjson", "--pythonpath", sys.executable)
    for diagnostic in json.loads(text)["generalDiagnostics"]:
        if diagnostic["severity"] == "error":
            file = pathlib.Path(diagnostic["file"]).relative_to(place.resolve())
            say(found, file, diagnostic["range"]["start"]["line"] + 1, diagnostic["message"])
    return found


@pytest.fixture(scope="module", params=[mypy, basedpyright], ids=lambda checker: checker.__name__)
def found(request, tmp_path_factory):
    """File -> line -> what a checker says there."""
    for module in (request.param.__name__, "numpy"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    # Copies: of what is installed, checkers would not speak.
    place = tmp_path_factory.mktemp("typing")
    shutil.copytree(pathlib.Path(ember.__file__).parent, place / "ember",
                    ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    for page in PAGES.glob("*.py"):
        shutil.copy(page, place)
    return request.param(place)


def test_nothing_in_the_package(found):
    assert {file: lines for file, lines in found.items() if file.startswith("ember")} == {}


def test_nothing_in_everyday_code(found):
    assert found.get("everyday.py", {}) == {}


def test_every_mistake(found):
    lines = (PAGES / "wrong.py").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    said = found["wrong.py"]
    assert [lines[number - 1] for number in sorted(marked - set(said))] == []
    assert {number: message for number, message in said.items() if number not in marked} == {}
