"""record_traces.py on histories made by hand, and replay_trace on what it writes: recorder_test.py REPLAY_TRACE"""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "python"))
import record_traces  # noqa: E402

MIB = 1 << 20
BASE = 0x7F0000000000
PROGRAM = ""


def entry(action, addr, size=0, stream=0, **more):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 1, **more}


# Chapter 8 by hand: 1000 bytes are a block of 1024 in a segment of 2 MiB, another pool has its own.
HISTORY = [
    entry("segment_alloc", BASE, 2 * MIB),
    entry("alloc", BASE, 1000),
    entry("segment_alloc", BASE + 4 * MIB, 20 * MIB, 17, pool_id=(0, 5)),
    entry("alloc", BASE + 4 * MIB, 3 * MIB, 17, pool_id=(0, 5)),
    {"action": "oom", "device_free": 5, "size": 1, "stream": 0, "time_us": 1},
    entry("free_requested", BASE, 1000),
    entry("free_completed", BASE, 1000),
    entry("segment_free", BASE, 2 * MIB),
    entry("snapshot", 0, 3 * MIB),
]


def replay(text, *options):
    return subprocess.run([PROGRAM, *options, "-"], input=text, capture_output=True, text=True, check=False)


class Recorder(unittest.TestCase):
    def text(self, **peaks):
        return record_traces.text_of(HISTORY, "by\nhand", **peaks)

    def test_the_text(self):
        self.assertEqual(
            self.text(native=[3 * MIB + 1024, 22 * MIB]).splitlines(),
            ["ember-trace 1", "program by hand", "peak native 3146752 23068672", "+ 3f80000000 2097152 0 0",
             "a 3f80000000 1000 0 0", "+ 3f80002000 20971520 1 1", "a 3f80002000 3145728 1 1", "r 3f80000000",
             "c 3f80000000", "- 3f80000000", "end 7"])

    def test_pools_that_only_segments_name(self):
        history = [{name: value for name, value in each.items() if name != "pool_id"} for each in HISTORY[:5]]
        segments = [{"address": BASE + 4 * MIB, "segment_pool_id": (0, 5)},
                    {"address": BASE, "segment_pool_id": (0, 0)}]
        self.assertEqual(record_traces.text_of(history, "", segments=segments).splitlines()[2:],
                         record_traces.text_of(HISTORY[:5], "").splitlines()[2:])
        # Whose a segment was that is there no more, nobody knows.
        gone = [*history, entry("free_requested", BASE), entry("free_completed", BASE), entry("segment_free", BASE)]
        with self.assertRaises(record_traces.Told):
            record_traces.text_of(gone, "", segments=segments[:1])
        self.assertIn("- 3f80000000", record_traces.text_of(gone, "", segments=segments[1:]))

    def test_what_is_left_out_is_told(self):
        for history in ([entry("free_requested", BASE)], [entry("segment_map", BASE, 2 * MIB)],
                        [entry("segment_alloc", BASE + 1, 2 * MIB)]):
            with self.assertRaises(record_traces.Told):
                record_traces.text_of(history, "")

    def test_replay_finds_what_was_counted(self):
        done = replay(self.text(native=[3 * MIB + 1024, 22 * MIB], expandable=[3 * MIB + 1024, 22 * MIB]), "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("by hand: 7 entries, 2 streams", done.stdout)
        self.assertIn("torch: every block and segment is where the trace has it", done.stdout)
        self.assertNotIn("other peaks", done.stdout)
        for who in ("ember", "expandable_segments:True"):
            self.assertIn(f"{who} reserves at most 26.00 MiB: yes; no more calls later: yes", done.stdout)

    def test_replay_finds_what_is_not_so(self):
        done = replay(self.text(native=[3 * MIB, 22 * MIB]), "--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("torch: PyTorch counted other peaks", done.stdout)
        self.assertEqual(replay(self.text(native=[3 * MIB, 22 * MIB])).returncode, 0)
        text = self.text(expandable=[MIB, 10 * MIB])  # 14 MiB with 2 for each stream, of 20 + 2
        self.assertEqual(replay(text, "--check").returncode, 1)
        self.assertEqual(replay(text, "--check", "--over-mib", "7", "--over-calls", "9").returncode, 1)
        self.assertEqual(replay(text, "--check", "--over-mib", "8").returncode, 0)

    def test_replay_refuses(self):
        for text, options, why in (
                ("nothing", (), "line 1: the text ends within it"),
                (self.text()[:-1], (), "the text ends within it"),
                (self.text(), ("--device", "-1"), "--device: got '-1', expected a number"),
                (self.text(), ("--over-calls", "2.5"), "--over-calls: got '2.5', expected a number"),
                (self.text(), ("--all",), "'--all' is no option")):
            done = replay(text, *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
