"""Compiles and runs every program of a page, and compares what it prints with what the page says.

usage: tutorial.py PAGE COMPILER SOURCE LIBRARY_DIR WORK_DIR

A program is a block marked `cpp`; the block behind it, marked `text`, is its output. Addresses are
compared as "0x...".
"""

import os
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```(cpp|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(page):
    """Pairs of program and output; fails if they do not alternate."""
    blocks = [match.groups() for match in BLOCK.finditer(page)]
    assert blocks, "no programs"
    kinds = [kind for kind, _ in blocks]
    assert kinds == ["cpp", "text"] * (len(blocks) // 2), f"not in pairs: {kinds}"
    return [(blocks[i][1], blocks[i + 1][1]) for i in range(0, len(blocks), 2)]


def plain(output):
    lines = [line.rstrip() for line in output.splitlines()]
    return re.sub(r"0x[0-9a-f]+", "0x...", "\n".join(lines).strip())


def run(program, number, compiler, source, libraries, work):
    """What the program prints, and what is wrong with it."""
    path, binary = work / f"{number}.cpp", work / str(number)
    path.write_text(program)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Wshadow", "-Werror"]
    made = subprocess.run([compiler, "-std=c++20", *warnings, f"-I{source}", str(path), "-o", str(binary),
                           f"-L{libraries}", "-lember", f"-Wl,-rpath,{libraries}"],
                          capture_output=True, text=True)
    if made.returncode != 0:
        return "", made.stderr
    environment = {**os.environ, "EMBER_DEVICES": "sim:2@1GiB"}
    done = subprocess.run([str(binary)], capture_output=True, text=True, env=environment, timeout=60)
    trouble = f"exit status {done.returncode}\n{done.stderr}" if done.returncode != 0 else ""
    return done.stdout, trouble


def main():
    page, compiler, source, libraries, work = sys.argv[1:]
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number, (program, expected) in enumerate(programs(pathlib.Path(page).read_text()), 1):
        printed, trouble = run(program, number, compiler, source, libraries, work)
        if trouble or plain(printed) != plain(expected):
            failed += 1
            print(f"program {number}: {trouble or 'prints something else'}\n--- printed\n{printed}"
                  f"--- expected\n{expected}")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
