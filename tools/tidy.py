#!/usr/bin/env python3
"""clang-tidy over the library's sources, from the compile commands of a build folder without unity
builds. Exits with 1 if it found something.

    python3 tools/tidy.py DIR ROOT [--jobs N]

Most checks walk over all that a source includes, which takes ten times as long as the source: so
several sources are checked together. Where a group has findings, or cannot be compiled as one, the
sources that the findings name are checked by themselves: that is what is printed.
"""

import argparse
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

TOOL = "clang-tidy-14"
GROUP = 20
# What a file that includes sources is told, and what sources are told that are included.
NOT_OF_GROUPS = "-bugprone-suspicious-include,-google-global-names-in-headers"


def flags_of(entry):
    """What the source is compiled with, without compiler, output and the source itself."""
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if os.path.basename(word).startswith("clang++"))
    flags, skip = [], False
    for word in words[compiler + 1:]:
        if skip or word == "-c" or word == entry["file"]:
            skip = False
        elif word == "-o":
            skip = True
        else:
            flags.append(word)
    return tuple(flags)


def sources(folder, root):
    """One entry for each source: some are compiled for every type, of which float has most to show."""
    once = {}
    with open(os.path.join(folder, "compile_commands.json")) as file:
        for entry in json.load(file):
            name = entry["file"]
            if name.startswith(os.path.join(root, "ember") + os.sep):
                if name not in once or "=float " in entry["command"]:
                    once[name] = entry
    return {name: flags_of(entry) for name, entry in sorted(once.items())}


def groups_of(flags):
    """Lists of sources with the same flags, neighbours together."""
    alike = {}
    for name, its in flags.items():
        alike.setdefault(its, []).append(name)
    return [names[i:i + GROUP] for names in alike.values() for i in range(0, len(names), GROUP)]


class Checker:
    def __init__(self, folder, root, flags):
        self.root, self.flags = root, flags
        self.made = os.path.join(folder, "together")
        os.makedirs(self.made, exist_ok=True)

    def run(self, source, flags, checks):
        command = [TOOL, "--quiet", f"--config-file={self.root}/.clang-tidy", f"--checks={checks}",
                   source, "--", *flags]
        done = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return done.returncode, done.stdout

    def alone(self, name):
        return self.run(name, self.flags[name], "")

    def together(self, names):
        """What was found in a group: the output of those that have something to say."""
        rest = []
        if len(names) > 1:
            # The static analyzer looks into the main file alone, and into what a file of such a
            # name includes.
            source = os.path.join(self.made, "UnifiedSource_" + names[0].strip("/").replace("/", "_"))
            with open(source, "w") as file:
                file.writelines(f'#include "{name}"\n' for name in names)
            rc, text = self.run(source, self.flags[names[0]], NOT_OF_GROUPS)
            if rc == 0:
                return 0, ""
            rest = [name for name in names if f"{name}:" not in text]
            if len(rest) == len(names):
                rest = []
        results = [self.alone(name) for name in names if name not in rest]
        if rest:
            results.append(self.together(rest))
        return max(rc for rc, _ in results), "".join(text for _, text in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("root")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    flags = sources(options.folder, options.root)
    if not flags:
        sys.exit(f"tidy: no source below {options.root}/ember in the compile commands of "
                 f"{options.folder}")
    checker = Checker(options.folder, options.root, flags)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(checker.together, names) for names in groups_of(flags)]
        for job in concurrent.futures.as_completed(jobs):
            rc, text = job.result()
            if rc != 0:
                failed = True
                print(text, end="", flush=True)
    print(f"{len(flags)} sources checked")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
