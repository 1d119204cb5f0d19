"""ember.cuda.nvtx, beside the tool of tests/nvtx/."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import ember
from ember.cuda import nvtx

# The tool has counterparts of its own in C++; here it answers with depths and numbers alone.
TOOL = os.environ.get("EMBER_TEST_NVTX_TOOL")


def beside_a_tool(program):
    if not TOOL or not nvtx.is_compiled_in():
        pytest.skip("needs the tool of the tests, and NVTX compiled in")
    environment = dict(os.environ, NVTX_INJECTION64_PATH=TOOL)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment,
                          capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_tool_sees_everything():
    beside_a_tool("""
        import threading
        from ember.cuda import nvtx
        assert nvtx.mark("here") is None
        assert nvtx.range_push("outer") == 0
        assert nvtx.range_push("inner", color=0xff00ff00, category="reading", payload=3) == 1
        io = nvtx.Domain("io")
        assert io.range_push("of its own", payload=2.5) == 0 == io.range_pop()
        assert nvtx.range_pop() == 1
        with nvtx.range("batch {} of {total}", 3, total=7):
            assert nvtx.range_push("in it") == 2 and nvtx.range_pop() == 2

        @nvtx.range("step")
        def step(deep):
            depth = nvtx.range_push("here")
            nvtx.range_pop()
            return depth if deep == 0 else step(deep - 1)

        assert step(0) == 2 and step(2) == 4 and step(0) == 2
        try:
            with nvtx.range("fails"):
                raise KeyError("as it is")
        except KeyError:
            pass
        assert nvtx.range_pop() == 0
        assert nvtx.range_pop() < 0

        step = nvtx.registered("step")
        assert nvtx.range_push(step) == 0 == nvtx.range_pop()
        with nvtx.range(step):
            assert nvtx.range_push(step, payload=1) == 1 == nvtx.range_pop()
        with io.range(io.registered("of its own")):
            assert io.range_push(step) == 1 == io.range_pop()
        nvtx.mark(step)
        nvtx.range_end(nvtx.range_start(step))

        first, second = nvtx.range_start("first"), nvtx.range_start("second", payload=-1)
        assert 0 < first < second
        thread = threading.Thread(target=nvtx.range_end, args=(first,))
        thread.start()
        thread.join()
        assert nvtx.range_end(second) is None
        depths = []
        thread = threading.Thread(target=lambda: depths.append(nvtx.range_push("its own stack")))
        thread.start()
        thread.join()
        assert depths == [0]
    """)


@pytest.mark.skipif("NVTX_INJECTION64_PATH" in os.environ, reason="there is a tool")
def test_without_a_tool():
    assert nvtx.range_push("nobody looks") < 0
    assert nvtx.range_pop() < 0
    assert nvtx.range_end(nvtx.range_start("nobody looks")) is None


def test_ranges_are_decorators():
    @nvtx.range("sum of {}", "two")
    def add(a, b=1):
        """Adds."""
        return a + b

    assert add(1) == 2 and add(1, b=2) == 3
    assert add.__name__ == "add" and add.__doc__ == "Adds."


def test_domains():
    io = nvtx.Domain("test domains")
    assert io == nvtx.Domain("test domains") != nvtx.Domain("another one")
    assert hash(io) == hash(nvtx.Domain("test domains")) and io != "test domains"
    assert io.name == "test domains"
    assert io.category("reading") == 1 == io.category("reading")
    assert io.category("writing") == 2
    with io.range("{:.1f}", 0.25):
        io.mark("here", category="reading")
    io.range_end(io.range_start("across", category=2))


def test_registered_strings():
    io = nvtx.Domain("test domains")
    step = io.registered("step")
    assert step == io.registered("step") != io.registered("leap") and step != "step"
    assert step != nvtx.registered("step") and isinstance(step, nvtx.RegisteredString)
    assert str(step) == "step" and len({step, io.registered("step")}) == 1
    with io.range(step):
        io.mark(step, category="reading", color=1)
    io.range_end(io.range_start(step))
    with nvtx.range(nvtx.registered("{}"), 3):  # text again: what is formatted is new each time
        pass


def test_mistakes():
    with pytest.raises(TypeError):
        nvtx.registered(3)
    with pytest.raises(ValueError, match="name of a domain is empty"):
        nvtx.Domain("")
    with pytest.raises(TypeError):
        nvtx.mark(3)
    with pytest.raises(TypeError, match="payload: expected an int or a float, got str"):
        nvtx.mark("here", payload="three")
    with pytest.raises(OverflowError):
        nvtx.mark("here", payload=1 << 64)
    nvtx.mark("here", payload=(1 << 64) - 1)


def test_ranges_of_many_threads():
    def work():
        for i in range(100):
            with nvtx.range("{}", i):
                ember.zeros(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_ranges_in_coroutines():
    async def work():
        with nvtx.range("a coroutine"):
            await asyncio.sleep(0)

    asyncio.run(work())
