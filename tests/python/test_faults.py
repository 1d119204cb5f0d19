"""Faults on request: ember.sim.faults and EMBER_SIM_FAULTS."""

import os
import subprocess
import sys
import textwrap

import pytest

import ember
from ember import cuda, sim

pytestmark = pytest.mark.skipif("not __import__('ember').cuda.is_simulated()",
                                reason="real devices fail when they like")


@pytest.fixture(autouse=True)
def undisturbed():
    yield
    sim.faults("")


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True,
                          text=True, env={**os.environ, **environment}, check=False)


def test_a_launch_fails():
    x = ember.ones(4, device="cuda")
    sim.faults("launch:2")
    x + 1
    with pytest.raises(ember.AcceleratorError, match="launch number 2 fails on request"):
        x + 1
    assert sim.faults_happened() == 1
    assert (x + 1).sum().item() == 8


def test_an_allocation_fails():
    cuda.empty_cache()
    sim.faults("alloc:1+")
    with pytest.raises(cuda.OutOfMemoryError):
        ember.ones(1 << 22, device="cuda")
    sim.faults("")
    assert ember.ones(1 << 22, device="cuda")[-1].item() == 1


def test_bad_texts():
    for text in ("launch", "launch:0", "lost:1", "slow:1", "lunch:1", "launch:1, copy:1"):
        with pytest.raises(ValueError, match="EMBER_SIM_FAULTS="):
            sim.faults(text)
    with pytest.raises(ValueError, match="names a device that does not exist"):
        sim.faults("lost:63@1")


def test_a_kernel_fault_names_the_call():
    said = run("""
        import ember
        ember.cuda.record_launches(16)
        def innocent(x):
            return x + 1
        def culprit(x):
            return x * 2
        x = ember.ones(4, device="cuda")
        ember.sim.faults("kernel:2")
        y = culprit(innocent(x))
        try:
            ember.cuda.synchronize()
        except ember.AcceleratorError as error:
            print(error)
        print([(each.name, each.state) for each in ember.cuda.recent_launches()][-2:])
        ember.sim.faults("")
        ember.cuda.reset_device()
        assert ember.ones(4, device="cuda").sum().item() == 4
    """)
    assert "operation 'mul.float32' on cuda:0 faulted: on request" in said.stdout, said
    assert "in culprit" in said.stdout and "in innocent" not in said.stdout
    assert "[('add.float32', 'finished'), ('mul.float32', 'dropped')]" in said.stdout
    assert said.returncode == 0


def test_from_the_environment():
    program = """
        import ember
        x = ember.ones(4, device="cuda")
        x.cpu()
    """
    said = run(program, EMBER_SIM_FAULTS="copy:1")
    assert "copy number 1 fails on request (copy in EMBER_SIM_FAULTS)" in said.stderr
    said = run(program, EMBER_SIM_FAULTS="copy")
    assert "ValueError: EMBER_SIM_FAULTS='copy': 'copy': expected copy:" in said.stderr
    assert run(program, EMBER_SIM_FAULTS="").returncode == 0


@pytest.mark.needs_devices(2)
def test_a_pair_that_lies():
    said = run("""
        import warnings
        import ember
        x = ember.arange(1000.0, device="cuda:0")
        ember.sim.faults("liar:0-1")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                assert (x.to("cuda:1").cpu() == x.cpu()).all()
        print([str(each.message) for each in caught])
    """)
    assert said.returncode == 0, said
    assert said.stdout.count("peer access between cuda:0 and cuda:1 delivers wrong bytes") == 1
