#!/usr/bin/env python3
"""Runs the suites that need no GPU again and again, as many side by side as there are cores: whether
one of them fails now and then.

    python3 tools/rounds.py [--minutes M] [--rounds N] [--jobs J] [--suites REGEX] [--build FOLDER]
                            [--after STATE...]

The suites are those of ctest in FOLDER (build/release), which has to be built, without scripts, whose
folders cannot be shared. Each run has a folder of its own for its results and temporary files; compiled
kernels they share, as in one ./dev test. Ends after N rounds (50), or when what began within M minutes
has ended, with a line of counts. What failing runs printed is kept in FOLDER/rounds, and how far it is,
once a second, in FOLDER/rounds/state.json. --after takes such files of earlier calls with the same
sources: the runs that passed then count, and those that are missing are done. The exit status is 1 if a
run failed.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
Suite = collections.namedtuple("Suite", "name command environment changes folder limit")
# Of a suite that takes long, several runs at the end would leave other cores without work.
LONG = re.compile(r"(python|sweep|comm|memory|ops|random|reduce|sort|races|explore|runtime|ipc)\b")


def suites(build, wanted):
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                            capture_output=True, text=True, check=True).stdout
    found = []
    for test in json.loads(listed)["tests"]:
        has = {one["name"]: one["value"] for one in test["properties"]}
        if "LABELS" in has or test["name"].endswith(".cuda") or "command" not in test:
            continue
        if re.search(wanted, test["name"]):
            found.append(Suite(test["name"], test["command"], has.get("ENVIRONMENT", []),
                               has.get("ENVIRONMENT_MODIFICATION", []),
                               has.get("WORKING_DIRECTORY", str(ROOT)), float(has.get("TIMEOUT", 300))))
    return sorted(found, key=lambda suite: not LONG.match(suite.name))


def environment_of(suite, folder):
    """What ctest gives it, but results and temporary files in a folder of its own."""
    made = dict(os.environ)
    made.update(one.split("=", 1) for one in suite.environment)
    for change in suite.changes:
        name, what = change.split("=", 1)
        how, value = what.split(":", 1)
        if how == "unset":
            made.pop(name, None)
        elif how == "set":
            made[name] = value
        elif how == "path_list_prepend":
            made[name] = value + (":" + made[name] if made.get(name) else "")
        else:
            raise ValueError(f"{suite.name}: {change}")
    made["GTEST_OUTPUT"] = f"xml:{folder}/results.xml"
    made["TMPDIR"] = str(folder)
    return made


def run(suite, folder):
    """The exit status, or that it did not end: it has four times as long as alone."""
    command = [f"--junitxml={folder}/results.xml" if part.startswith("--junitxml=") else part
               for part in suite.command]
    if "pytest" in command:
        command += ["-p", "no:cacheprovider", f"--basetemp={folder}/pytest"]
    with open(folder / "output", "w") as output:
        started = subprocess.Popen(command, env=environment_of(suite, folder), cwd=suite.folder,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return started.wait(4 * suite.limit)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            return "not ended"


class Rounds:
    def __init__(self, all_suites, rounds, before, until, kept):
        self.passed = collections.Counter({suite.name: before[suite.name] for suite in all_suites})
        self.waiting = collections.deque((suite, i) for i in range(rounds) for suite in all_suites
                                         if i >= self.passed[suite.name])
        self.lock = threading.Lock()
        self.failed, self.until, self.kept = [], until, kept

    def work(self):
        while time.monotonic() < self.until:
            with self.lock:
                if not self.waiting:
                    return
                suite, i = self.waiting.popleft()
            # A short path: sockets lie in these folders.
            folder = pathlib.Path(tempfile.mkdtemp(prefix="r"))
            try:
                status = run(suite, folder)
                if status in (0, 77):
                    with self.lock:
                        self.passed[suite.name] += 1
                    continue
                with self.lock:
                    self.failed.append((suite.name, i, status))
                shutil.copy(folder / "output", self.kept / f"{suite.name}-{i}.txt")
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def state(self):
        with self.lock:
            return {"rounds": min(self.passed.values()), "runs": sum(self.passed.values()),
                    "failed": list(self.failed), "passed": dict(self.passed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--suites", default="", metavar="REGEX")
    parser.add_argument("--after", type=pathlib.Path, nargs="*", default=[], metavar="STATE")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="FOLDER")
    options = parser.parse_args()
    # A shell that starts this in the background has it ignored, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = suites(options.build, options.suites)
    if not found:
        sys.exit("rounds: there is no such suite")
    before = sum((collections.Counter(json.loads(file.read_text())["passed"])
                  for file in options.after), collections.Counter())
    kept = options.build / "rounds"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    kernels = tempfile.TemporaryDirectory(prefix="k")
    os.environ["EMBER_TEST_KERNELS"] = kernels.name
    rounds = Rounds(found, options.rounds, before, time.monotonic() + 60 * options.minutes, kept)
    workers = [threading.Thread(target=rounds.work, daemon=True) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(1)
        (kept / "state.new").write_text(json.dumps(rounds.state()))
        os.replace(kept / "state.new", kept / "state.json")
    state = rounds.state()
    for name, i, status in state["failed"]:
        print(f"failed: {name} in round {i + 1}: {status} ({kept}/{name}-{i}.txt)")
    print(f"{len(found)} suites, {state['rounds']} whole rounds, {state['runs']} runs, "
          f"{len(state['failed'])} failed")
    return bool(state["failed"])


if __name__ == "__main__":
    sys.exit(main())
