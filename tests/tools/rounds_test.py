#!/usr/bin/env python3
"""tools/rounds.py with a few suites of its own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROUNDS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "rounds.py"
SUITES = r"""
add_test(good "sh" "-c" "echo fine; test -d $TMPDIR && echo x >$TMPDIR/x")
add_test(skipped "sh" "-c" "exit 77")
add_test(bad "sh" "-c" "echo what went wrong; exit 3")
add_test(surroundings "sh" "-c" "test $A.$B.$C.$D. = 1.2.new:old..")
set_tests_properties(surroundings PROPERTIES ENVIRONMENT "A=1"
  ENVIRONMENT_MODIFICATION "B=set:2;C=path_list_prepend:new;D=unset:")
add_test(own_results "sh" "-c" "echo $GTEST_OUTPUT | grep -q results.xml")
add_test(script "sh" "-c" "exit 1")
set_tests_properties(script PROPERTIES LABELS "script")
add_test(other.cuda "sh" "-c" "exit 1")
"""


def run(folder, *options):
    done = subprocess.run([sys.executable, str(ROUNDS), "--build", folder, *options], text=True,
                          capture_output=True, env={**os.environ, "C": "old", "D": "x"}, check=False)
    return done.returncode, done.stdout, done.stderr


class Rounds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        pathlib.Path(self.folder.name, "CTestTestfile.cmake").write_text(SUITES)

    def test_counts(self):
        status, out, error = run(self.folder.name, "--rounds", "3", "--jobs", "4")
        kept = pathlib.Path(self.folder.name, "rounds")
        self.assertEqual((status, error), (1, ""))
        self.assertEqual(out.splitlines()[-1], "5 suites, 0 whole rounds, 12 runs, 3 failed")
        self.assertIn(f"failed: bad in round 2: 3 ({kept}/bad-1.txt)", out)
        self.assertEqual((kept / "bad-1.txt").read_text(), "what went wrong\n")
        state = json.loads((kept / "state.json").read_text())
        self.assertEqual((state["passed"]["surroundings"], len(state["failed"])), (3, 3))

    def test_chosen_suites(self):
        status, out, _ = run(self.folder.name, "--rounds", "2", "--suites", "^(good|skipped|own)")
        self.assertEqual((status, out), (0, "3 suites, 2 whole rounds, 6 runs, 0 failed\n"))

    def test_time(self):
        status, out, _ = run(self.folder.name, "--minutes", "0", "--suites", "good")
        self.assertEqual((status, out), (0, "1 suites, 0 whole rounds, 0 runs, 0 failed\n"))

    def test_none(self):
        status, out, error = run(self.folder.name, "--suites", "nothing")
        self.assertEqual((status, out, error), (1, "", "rounds: there is no such suite\n"))


if __name__ == "__main__":
    unittest.main()
