#!/usr/bin/env python3
"""clang-tidy over the library's sources, from the compile commands of a build folder without unity
builds. Exits with 1 if it found something.

    python3 tools/tidy.py DIR ROOT [--jobs N]

Most checks walk over all that a source includes, which takes ten times as long as the source: so
several sources of a folder are checked together. The static analyzer, which follows paths, looks into
the main file alone and gets them one by one. Where a group has a finding, or cannot be compiled as
one, each of its sources is checked by itself: that is what is printed.
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
    """Lists of sources of one folder and the same flags."""
    alike = {}
    for name, its in flags.items():
        alike.setdefault((os.path.dirname(name), its), []).append(name)
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

    def analysed(self, name):
        """Only the analyzer's checks, of those that are on."""
        return self.run(name, self.flags[name],
                        "-clang-diagnostic-*,-bugprone-*,-concurrency-*,-performance-*,-misc-*,"
                        "-google-*,-modernize-*,-readability-*")

    def together(self, names):
        """What was found in a group: the output of those that have something to say."""
        if len(names) > 1:
            source = os.path.join(self.made, names[0].strip("/").replace("/", "_"))
            with open(source, "w") as file:
                file.writelines(f'#include "{name}"\n' for name in names)
            rc, _ = self.run(source, self.flags[names[0]], "-bugprone-suspicious-include")
            if rc == 0:
                return 0, ""
        results = [self.alone(name) for name in names]
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
        jobs += [pool.submit(checker.analysed, name) for name in flags]
        for job in concurrent.futures.as_completed(jobs):
            rc, text = job.result()
            if rc != 0:
                failed = True
                print(text, end="", flush=True)
    print(f"{len(flags)} sources checked")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
