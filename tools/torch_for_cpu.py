#!/usr/bin/env python3
"""Makes a virtual environment with the PyTorch that the random calls of tests/differential are compared
with, for the CPU alone.

    python3 tools/torch_for_cpu.py FOLDER

PyPI's wheel asks for 2.7 GB of CUDA's libraries. It is installed without them, and libraries that have
their names, and functions that fail, stand in for them: torch.cuda.is_available() is False. 540 MB are
downloaded. Needs g++ and binutils.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

TORCH = "torch==2.11.0"
OTHERS = ["numpy", "pytest", "filelock", "fsspec", "jinja2", "networkx", "sympy", "typing_extensions",
          "setuptools"]
# What CUDA's libraries define begins so.
CUDA = re.compile(r"(cu|nccl|nvrtc|nvshmem|nvJitLink|__cuda|nvtx)\w*$")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def symbols(library, which):
    """The names that a library defines, or that it takes from others."""
    lines = output("nm", "-D", which, str(library)).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


def missing(libraries):
    found = set()
    for library in libraries:
        found |= set(re.findall(r"(\S+) => not found", output("ldd", str(library))))
    return found


def versions(libraries, name):
    """The versions of symbols that libraries ask of the one of that name."""
    asked = set()
    for library in libraries:
        part = re.search(rf"required from {re.escape(name)}:\n((?:\s+0x.*\n)*)",
                         output("objdump", "-p", str(library)))
        if part:
            asked |= {line.split()[-1] for line in part[1].splitlines()}
    return sorted(asked)


def stand_in(folder, libraries):
    defined = set().union(*(symbols(library, "--defined-only") for library in libraries))
    wanted = set().union(*(symbols(library, "--undefined-only") for library in libraries)) - defined
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work, "functions.c")
        # What CUDA calls cudaErrorUnknown.
        source.write_text("".join(f"int {name}(void) {{ return 999; }}\n"
                                  for name in sorted(wanted) if CUDA.match(name)))
        # One that is there may ask for others.
        made = set()
        while names := missing(libraries):
            if names <= made:
                sys.exit(f"libraries that the loader does not find: {', '.join(sorted(names))}")
            made |= names
            for name in names:
                script = pathlib.Path(work, "versions")
                first, *rest = versions(libraries, name) or ["ANY"]
                script.write_text(f"{first} {{ global: *; }};\n" + "".join(f"{v} {{ }};\n" for v in rest))
                subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}",
                                f"-Wl,--version-script={script}", str(source), "-o", str(folder / name)],
                               check=True)


def main():
    folder = pathlib.Path(sys.argv[1]).absolute()
    absent = [tool for tool in ("g++", "nm", "objdump", "ldd") if shutil.which(tool) is None]
    if absent:
        sys.exit(f"not found: {', '.join(absent)}")
    venv.create(folder, with_pip=True, clear=True, symlinks=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "1", "--timeout", "20"]
    subprocess.run([*install, "--no-deps", TORCH], check=True)
    subprocess.run([*install, *OTHERS], check=True)
    lib = next(folder.glob("lib/python*/site-packages/torch/lib"))
    stand_in(lib, sorted(lib.glob("*.so")))
    subprocess.run([python, "-c", "import torch; assert torch.ones(2).add(1).tolist() == [2, 2]"], check=True)
    (folder / "ready").touch()  # what broke off before has to be made anew


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
