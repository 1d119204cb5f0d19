"""ember.sim: runs that a seed decides, from Python. What they promise is tested in C++ (tests/order)."""

import subprocess
import sys
import textwrap

import pytest
from conftest import environment_with

import ember


def run(program, **environment):
    left_out = {"EMBER_SIM_SCHEDULE": None, "EMBER_SANITIZER": None}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True,
                          text=True, env=environment_with(EMBER_DEVICES="sim:2", **{**left_out, **environment}),
                          timeout=100, check=False)


PRODUCT = """
    import sys
    import ember
    assert not ember.sim.seeded()
    if len(sys.argv) == 1:
        ember.sim.schedule("random:0")
    side = ember.cuda.Stream()
    assert ember.sim.seeded()

    def product():
        x = ember.ones(8, device="cuda")
        x += 1
        with ember.cuda.stream(side):
            y = x * 10
        ember.cuda.synchronize()
        return y.sum().item()
"""


def test_seeds_decide_and_logs_repeat(tmp_path):
    done = run(PRODUCT + f"""
    def of_seed(seed):
        ember.sim.begin_run(seed)
        return product()
    results = [of_seed(seed) for seed in range(40)]
    assert results == [of_seed(seed) for seed in range(40)]
    assert 160.0 in results and len(set(results)) > 1
    assert ember.sim.replay_line().startswith("EMBER_SIM_SCHEDULE=random:39")
    wrong = next(seed for seed, result in enumerate(results) if result != 160)
    assert of_seed(wrong) == results[wrong]
    text = ember.sim.log()
    assert text.startswith("ember schedule log 1\\nschedule random:" + str(wrong))
    ember.sim.save_log({str(tmp_path / "log")!r})
    ember.sim.begin_run({"replay:" + str(tmp_path / "log")!r})
    assert product() == results[wrong] and ember.sim.log() == text
    ember.sim.begin_run("pct:7:2")
    assert "pct:7:2" in ember.sim.log()
    """)
    assert done.returncode == 0, done.stderr


def test_errors():
    done = run("""
        import ember
        def expect(kind, text, function, *arguments):
            try:
                function(*arguments)
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)
        expect(ValueError, "random:x", ember.sim.schedule, "random:x")
        assert ember.sim.log() == ember.sim.replay_line() == ""
        ember.cuda.init()
        expect(RuntimeError, "devices are in use already", ember.sim.schedule, "random:0")
        expect(RuntimeError, "begin_run", ember.sim.begin_run, 1)
        expect(FileNotFoundError, "No such file or directory: '/nowhere/log'", ember.sim.save_log, "/nowhere/log")
        expect(TypeError, "begin_run", ember.sim.begin_run, -1)
        expect(TypeError, "begin_run", ember.sim.begin_run, None)
    """)
    assert done.returncode == 0, done.stderr
    done = run("import ember\nember.sim.begin_run('threads')", EMBER_SIM_SCHEDULE="random:0")
    assert "ValueError" in done.stderr or "RuntimeError" in done.stderr
    done = run("import ember\nember.sim.begin_run(3)", EMBER_SIM_SCHEDULE="threads")
    assert ("no seed decides where the devices were made with 'threads'. Choose a schedule that a seed "
            "decides before the first use of a device") in done.stderr


def test_watch():
    if ember.cuda.device_count() == 0:
        pytest.skip("needs a device")
    watch = ember.cuda._sanitizer.Watch()
    x = ember.ones(8, device="cuda")
    with ember.cuda.stream(ember.cuda.Stream()):
        x + 1
    report, = watch.reports()
    assert "add.float32" in report and "1 race in" in watch.summary()
    watch.stop()
    with ember.cuda.stream(ember.cuda.Stream()):
        x * 2
    assert watch.reports() == [report] and watch.unchecked() == []
