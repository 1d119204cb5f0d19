"""docs/first-stream-bug.md: its files are written and its commands are run, in order, and print what
stands there. A line `...` stands for any lines, `...` at the end of a line for the rest of it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import ember

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first-stream-bug.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LIBRARIES = pathlib.Path(ember.__file__).parents[2] / "lib"


def commands_of(block):
    """Pairs of a command and what it is to print."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == ""
    return list(zip(parts[1::2], parts[2::2]))


def pattern(expected):
    lines = []
    for line in expected.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            open_end = line.endswith(" ...")
            lines.append(re.escape(line[:-3] if open_end else line) + (".*" if open_end else "") + r"\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Runs a command as somebody does who has installed ember."""
    tools = tmp_path_factory.mktemp("tools")
    place = tmp_path_factory.mktemp("work")
    for name, command in {"python": '"$@"', "pytest": '-m pytest "$@"', "ember": '-m ember "$@"'}.items():
        (tools / name).write_text(f"#!/bin/sh\nexec {sys.executable} {command}\n")
        (tools / name).chmod(0o755)
    # What makes pytest find the plugin: the entry point, as pip writes it.
    points = re.search(r"^\[project.entry-points.pytest11\]\n(.*?)\n\n",
                       (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
    (tools / "ember-0.dist-info").mkdir()
    (tools / "ember-0.dist-info" / "METADATA").write_text("Name: ember\nVersion: 0\n")
    (tools / "ember-0.dist-info" / "entry_points.txt").write_text(
        "[pytest11]\n" + points.replace('"', "") + "\n")
    # Alone: the settings of this project are not those of the reader's.
    (place / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("EMBER_", "PYT", "CUDA_VISIBLE")) and name not in ("CI", "BUILD_NUMBER")}
    environment = {
        **kept, "COLUMNS": "160", "PATH": f"{tools}:{kept['PATH']}",
        "PYTHONPATH": f"{pathlib.Path(ember.__file__).parents[1]}:{tools}",
        "CPATH": str(ROOT), "LIBRARY_PATH": str(LIBRARIES), "LD_LIBRARY_PATH": str(LIBRARIES)}
    status = 0

    def run(command):
        nonlocal status
        done = subprocess.run(["bash", "-c", f"(exit {status}); {command}"], cwd=place, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False)
        status = done.returncode
        return done.stdout
    run.place = place
    return run


def test_page(shell):
    # To compile takes most of the time; once is enough, and it needs a shared library.
    without_cpp = ("PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ or shutil.which("c++") is None
                   or not (LIBRARIES / "libember.so").exists()
                   or not any(pathlib.Path(folder, "gtest/gtest.h").exists()
                              for folder in ("/usr/include", "/usr/local/include")))
    seen = []
    for kind, text in BLOCKS:
        if kind == "console":
            for command, expected in commands_of(text):
                if without_cpp and "scores_test" in command:
                    continue
                seen.append(command)
                printed = shell(command)
                assert re.fullmatch(pattern(expected), printed), \
                    f"$ {command}\n{printed}\n--- expected\n{expected}"
        else:
            name = re.match(r"(?:#|//) (\S+)\n", text)[1]
            path = shell.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if kind == "yaml":
                steps = re.findall(r"- run: (.*)", text)
                assert [step for step in steps if not step.startswith("pip install ")] == [
                    command for command in steps if command in seen], "what CI runs was run before"
    assert len(seen) >= 10 and any(command.startswith("ember race") for command in seen)


def test_statuses_are_those_of_the_command():
    from ember import race
    table = {int(number): text for number, text in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)}
    assert sorted(table) == [race.CLEAN, race.RACE, 2, race.DIFFERS, race.FAILED, race.NOT_WATCHED,
                             race.NOT_CHECKED, race.NO_FOLDER, race.NOT_STARTED]
