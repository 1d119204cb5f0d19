#!/usr/bin/env python3
"""Counts the tests of a run, for ./dev test.

usage: tools/count_tests.py [--left-out WHAT] PRESET...

Reads, for each preset, build/PRESET/results/: suites.junit, which ctest writes, and one file for
each suite of GoogleTest's or pytest's cases. Those suites are counted by test case, scripts as one.
Names the failures, gives the reasons for skipping, and ends with one line of counts. Fails if a
test did, or if none was run.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# What became of a case: "pass", "fail" or "skip"; where it is; why.
Outcome = collections.namedtuple("Outcome", "state where why", defaults=("",))


def one_line(text):
    return re.sub(r"[\n\t]", " ", text).rstrip()


def suites(results):
    """(name, state, why) of every suite that ctest ran."""
    junit = results / "suites.junit"
    if not junit.exists():
        return
    for suite in ElementTree.parse(junit).iter("testcase"):
        status = suite.get("status")
        skipped = suite.find("skipped")
        if status == "disabled":
            yield suite.get("name"), "skip", "disabled"
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            reasons = re.findall(r"skipped: (.*)", suite.findtext("system-out", ""))
            yield suite.get("name"), "skip", one_line(reasons[-1]) if reasons else ""
        else:
            yield suite.get("name"), "pass" if status == "run" else "fail", ""


def case_outcome(case):
    """(state, why) of an element <testcase> of GoogleTest's or pytest's."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "fail", ""
    if case.get("result") == "suppressed":
        return "skip", "disabled by its name"
    skipped = case.find("skipped")
    if skipped is not None:
        # GoogleTest begins with a line of file and number.
        message = re.sub(r"\A[^\n]*:\d+\n", "", skipped.get("message", ""))
        return "skip", one_line(message)
    return ("skip" if case.get("result") == "skipped" else "pass"), ""


def cases(where, file):
    try:
        elements = list(ElementTree.parse(file).iter("testcase"))
    except ElementTree.ParseError:
        return [Outcome("fail", where, f"{file} cannot be read")]
    found = []
    for case in elements:
        state, why = case_outcome(case)
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        found.append(Outcome(state, f"{where}: {name}", why))
    return found


def listed_cases(program):
    listing = subprocess.run([program, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True)
    return [line for line in listing.stdout.splitlines() if line.startswith("  ")]


def verdict(log, suite):
    """What ctest printed of a failed suite: "Timeout", "Exception: SegFault", "Failed"."""
    found = "did not run"
    for line in log.splitlines():
        match = re.search(r"\*\*\*(.*?) +[0-9.]+ sec", line)
        if match and f": {suite} " in line:
            found = match[1]
    return found


def outcomes(preset):
    """Every outcome of a preset; the current folder is the repository's."""
    build = pathlib.Path("build", preset)
    log = pathlib.Path("build", "log", f"ctest-{preset}.txt")
    log_text = log.read_text(errors="replace") if log.exists() else ""
    for suite, state, why in suites(build / "results"):
        where = f"{preset} {suite}"
        program = build / "bin" / f"test_{re.sub(r'[.](sim|cuda)$', '', suite)}"
        has_cases = os.access(program, os.X_OK)
        file = build / "results" / f"{suite}.xml"
        found = []
        if file.exists():
            found = cases(where, file)
        elif state == "pass":
            early = Outcome("fail", where, "ended early, without a result")
            found = [early if has_cases else Outcome("pass", where)]
        elif state == "skip":
            count = len(listed_cases(program)) if has_cases else 1
            found = [Outcome("skip", where, why)] * count
        yield from found
        # A suite can fail though no case did: a crash, a time limit, a leak.
        if state == "fail" and not any(outcome.state == "fail" for outcome in found):
            yield Outcome("fail", where, verdict(log_text, suite))


def report(all_outcomes, left_out):
    """Prints the report; whether everything is well."""
    total = collections.Counter(outcome.state for outcome in all_outcomes)
    if total["fail"]:
        print("Failed:")
    for outcome in all_outcomes:
        if outcome.state == "fail":
            print(f"  {outcome.where}" + (f" ({outcome.why})" if outcome.why else ""))
    reasons = collections.Counter(
        outcome.why or "no reason given" for outcome in all_outcomes if outcome.state == "skip"
    )
    if reasons:
        print("Skipped:")
    for why, count in reasons.items():
        print(f"  {count}: {why}")
    if not total["pass"] and not total["fail"]:
        print("No test was run.")
    if left_out:
        print(f"Left out: {left_out}.")
    print(f"{total['pass']} passed, {total['fail']} failed, {total['skip']} skipped")
    return total["fail"] == 0 and total["pass"] > 0


def main():
    parser = argparse.ArgumentParser(description="Counts the tests of a run.")
    parser.add_argument("--left-out", metavar="WHAT", default="", help="tests that were not built")
    parser.add_argument("presets", metavar="PRESET", nargs="+")
    options = parser.parse_args()
    all_outcomes = [outcome for preset in options.presets for outcome in outcomes(preset)]
    sys.exit(not report(all_outcomes, options.left_out))


if __name__ == "__main__":
    main()
