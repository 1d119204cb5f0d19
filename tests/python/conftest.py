"""What the tests share: the devices that there are."""

import os
import signal
import tempfile

import pytest

import ember

# What a shell starts in the background ignores Ctrl-C, and would hand that down to the children that
# tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs of tests that are run by tests must not write their results over those of a suite.
os.environ.pop("GTEST_OUTPUT", None)

# Kernels that tests compile are of no use to others, and those of other runs would hide what compiles
# (as in tests/jit/cache_folder.cpp).
kernels = tempfile.TemporaryDirectory(prefix="ember-kernels-")
os.environ["EMBER_KERNEL_CACHE_PATH"] = os.environ.get("EMBER_TEST_KERNELS", kernels.name)
os.environ.pop("USE_PYTORCH_KERNEL_CACHE", None)
WATCHED = os.environ.get("EMBER_SANITIZER", "0") not in ("", "0")
CHECKED = os.environ.get("EMBER_SIM_CHECK_ACCESSES", "0") not in ("", "0")


def pytest_configure(config):
    """Sockets are no other program's, and in one folder from the start: whoever starts to share, in
    whichever test, is found by the programs that later tests start."""
    runtime = tempfile.TemporaryDirectory(prefix="ember-test-", dir="/tmp")
    config.add_cleanup(runtime.cleanup)
    os.environ["XDG_RUNTIME_DIR"] = runtime.name


@pytest.fixture(scope="module")
def own_sockets():
    """The machine of simulated devices is shared, as the first child does it, and for good."""
    ember._C.cuda._share_machine()
    yield
    ember.cuda.ipc_collect()


# What turns the stream sanitizer on. A tool that a test is run under has names like them of its own.
SANITIZER_VARIABLES = ("EMBER_SANITIZER", "TORCH_CUDA_SANITIZER")


def environment_with(**given):
    """The present one with what is given; None takes a variable out. Where that is simulated devices,
    CUDA_VISIBLE_DEVICES, which may have the numbers of the machine's GPUs, goes unless it is given."""
    made = {**os.environ, **given}
    if (given.get("EMBER_DEVICES") or "").startswith("sim") and "CUDA_VISIBLE_DEVICES" not in given:
        made["CUDA_VISIBLE_DEVICES"] = None
    return {name: value for name, value in made.items() if value is not None}


def pytest_generate_tests(metafunc):
    """On the CPU tests do the same whatever watches devices, or checks their memory: python.sim has them."""
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["cuda:0"] if WATCHED or CHECKED else ["cpu", "cuda:0"])


def pytest_sessionfinish(session):
    """Where the sanitizer watches the suite (python.watched), everything in it has to be checked."""
    if WATCHED:
        summary = ember.cuda._sanitizer.summary()
        print(f"\nsanitizer: {summary}")
        if "; 0 unchecked launches" not in summary:
            session.exitstatus = 1


@pytest.fixture
def caching():
    """For tests of what the caching allocator does, and counts."""
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
        pytest.skip("needs caching, and PYTORCH_NO_CUDA_MEMORY_CACHING is set")


def pytest_collection_modifyitems(items):
    """What counts a device's memory exactly comes before what may leave some."""
    items.sort(key=lambda item: item.get_closest_marker("counts_memory") is None)


def pytest_runtest_setup(item):
    if WATCHED and item.get_closest_marker("not_watched"):
        pytest.skip("not for the stream sanitizer (EMBER_SANITIZER)")
    for marker in item.iter_markers("needs_devices"):
        if ember.cuda.device_count() < marker.args[0]:
            pytest.skip(f"needs {marker.args[0]} devices")


@pytest.fixture
def devices():
    """The indices of two devices, or of three where there are as many."""
    count = ember.cuda.device_count()
    if count < 2:
        pytest.skip("needs two devices")
    return list(range(min(count, 3)))
