"""tools/count_tests.py on what ctest, GoogleTest and pytest write, the ugly cases too."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import count_tests  # noqa: E402

# As CMake 3.25 writes it.
CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="9" failures="0" disabled="0" skipped="0" time="1">
%s
</testsuite>
"""
RUN = '<testcase name="%s" classname="%s" time="1" status="run"><system-out>x</system-out></testcase>'
FAIL = (
    '<testcase name="%s" classname="%s" time="1" status="fail"><failure message=""/>'
    "<system-out>a &lt;b&gt; [NON-XML-CHAR-0x1B]</system-out></testcase>"
)
SKIP = (
    '<testcase name="%s" classname="%s" time="1" status="notrun">'
    '<skipped message="SKIP_RETURN_CODE=77"/>'
    "<system-out>skipped: no NVIDIA GPU\n</system-out></testcase>"
)
NOT_FOUND = (
    '<testcase name="%s" classname="%s" time="0" status="notrun">'
    '<skipped message="Unable to find executable"/><system-out></system-out></testcase>'
)
DISABLED = '<testcase name="%s" classname="%s" time="0" status="disabled"/>'

# As GoogleTest 1.12 writes it.
GOOGLETEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" disabled="1" errors="0" time="0.1" name="AllTests">
  <testsuite name="Pool" tests="5">
    <testcase name="Grows" status="run" result="completed" time="0.1" classname="Pool" />
    <testcase name="Says&lt;more&gt;" status="run" result="completed" time="0" classname="Pool">
      <failure message="x.cpp:7&#x0A;Expected: a &lt; b" type=""><![CDATA[x.cpp:7]]></failure>
    </testcase>
    <testcase name="NeedsTwo" status="run" result="skipped" time="0" classname="Pool">
      <skipped message="/tests/x.cpp:12&#x0A;needs &quot;two&quot; devices&#x0A;" />
    </testcase>
    <testcase name="Bare" status="run" result="skipped" time="0" classname="Pool">
      <skipped message="/tests/x.cpp:12&#x0A;" />
    </testcase>
    <testcase name="DISABLED_Later" status="notrun" result="suppressed" time="0" classname="Pool" />
  </testsuite>
</testsuites>
"""

# As pytest writes it: on one line.
PYTEST = (
    '<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" tests="3">'
    '<testcase classname="test_a" name="test_one[1]" time="0.1" />'
    '<testcase classname="test_a" name="test_two" time="0.1">'
    '<error message="failed on setup">E &amp; F</error></testcase>'
    '<testcase classname="test_a" name="test_three" time="0.1">'
    '<skipped type="pytest.skip" message="no &quot;NumPy&quot;">a.py:3: no</skipped></testcase>'
    "</testsuite></testsuites>"
)


class CountTests(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        for folder in ("build/release/results", "build/release/bin", "build/log"):
            os.makedirs(folder)

    def tearDown(self):
        os.chdir(self.before)
        self.folder.cleanup()

    def suites(self, **suites):
        """Suites by name; a double underscore stands for a dot."""
        lines = []
        for name, line in suites.items():
            name = name.replace("__", ".")
            lines.append(line % (name, name))
        self.write("results/suites.junit", CTEST % "\n".join(lines))

    def write(self, path, text):
        pathlib.Path("build/release", path).write_text(text)

    def program(self, name, *listing):
        """A test program that lists these lines."""
        path = pathlib.Path("build/release/bin", f"test_{name}")
        path.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(listing) + "\nEND\n")
        path.chmod(0o755)

    def counted(self, left_out=""):
        """(lines printed, whether everything is well)"""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            well = count_tests.report(list(count_tests.outcomes("release")), left_out)
        return printed.getvalue().splitlines(), well

    def test_cases_of_googletest(self):
        self.suites(pool__sim=FAIL)
        self.write("results/pool.sim.xml", GOOGLETEST)
        self.assertEqual(
            self.counted(),
            (
                [
                    "Failed:",
                    "  release pool.sim: Pool.Says<more>",
                    "Skipped:",
                    '  1: needs "two" devices',
                    "  1: no reason given",
                    "  1: disabled by its name",
                    "1 passed, 1 failed, 3 skipped",
                ],
                False,
            ),
        )

    def test_cases_of_pytest(self):
        self.suites(python=FAIL)
        self.write("results/python.xml", PYTEST)
        self.assertEqual(
            self.counted(),
            (
                [
                    "Failed:",
                    "  release python: test_a.test_two",
                    "Skipped:",
                    '  1: no "NumPy"',
                    "1 passed, 1 failed, 1 skipped",
                ],
                False,
            ),
        )

    def test_scripts_count_as_one(self):
        self.suites(layering=RUN, digits=SKIP, later=DISABLED)
        self.assertEqual(
            self.counted(),
            (
                ["Skipped:", "  1: no NVIDIA GPU", "  1: disabled", "1 passed, 0 failed, 2 skipped"],
                True,
            ),
        )

    def test_skipped_program_counts_its_cases(self):
        self.suites(pool__cuda=SKIP, layering=RUN)
        self.program("pool", "Pool.", "  Grows", "  Shrinks  # GetParam() = 4", "Other.", "  One")
        self.assertEqual(
            self.counted(), (["Skipped:", "  3: no NVIDIA GPU", "1 passed, 0 failed, 3 skipped"], True)
        )

    def test_program_that_wrote_no_result_did_not_pass(self):
        self.suites(pool__sim=RUN)
        self.program("pool", "Pool.", "  Grows")
        self.assertEqual(
            self.counted()[0][1], "  release pool.sim (ended early, without a result)"
        )

    def test_suite_that_fails_though_no_case_did(self):
        # A leak, a crash, a time limit: the reason stands in what ctest printed, the last time.
        self.suites(pool__sim=FAIL, ghost=NOT_FOUND)
        self.write("results/pool.sim.xml", PYTEST.replace("error", "system-out"))
        pathlib.Path("build/log/ctest-release.txt").write_text(
            "1/2 Test  #1: pool.sim ....***Failed   0.10 sec\n"
            "1/2 Test  #1: pool.sim ....***Exception: SegFault   0.10 sec\n"
            "2/2 Test  #2: pool.sim.more ....***Timeout   9.00 sec\n"
        )
        lines, well = self.counted()
        self.assertFalse(well)
        self.assertEqual(
            lines[:3],
            [
                "Failed:",
                "  release pool.sim (Exception: SegFault)",
                "  release ghost (did not run)",
            ],
        )
        self.assertEqual(lines[-1], "2 passed, 2 failed, 1 skipped")

    def test_truncated_result_is_a_failure(self):
        self.suites(pool__sim=RUN)
        self.write("results/pool.sim.xml", GOOGLETEST[:300])
        lines, well = self.counted()
        self.assertFalse(well)
        self.assertIn("pool.sim.xml cannot be read", lines[1])

    def test_nothing_run_is_no_success(self):
        self.assertEqual(
            self.counted("the tests written with GoogleTest, which was not found"),
            (
                [
                    "No test was run.",
                    "Left out: the tests written with GoogleTest, which was not found.",
                    "0 passed, 0 failed, 0 skipped",
                ],
                False,
            ),
        )


if __name__ == "__main__":
    unittest.main()
