"""What concerns the whole process: its end, warnings, what is put off until CUDA is initialised."""

import os
import subprocess
import sys
import warnings

import pytest
from conftest import environment_with

import ember as torch
from ember import cuda


def child(code, *options, timeout=60, **environment):
    return subprocess.run([sys.executable, *options, "-c", "import ember, time\n"
                           "cuda = ember.cuda\n" + code], env=environment_with(**environment),
                          capture_output=True, text=True, timeout=timeout)


# ---- The end of the interpreter

def test_the_end_waits_for_a_host_function_that_has_begun():
    code = """
import threading
begun = threading.Event()
def function():
    begun.set()
    time.sleep(0.1)
    print("done", flush=True)
cuda._host_function(function)
begun.wait()
"""
    for _ in range(20):
        done = child(code)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_end_does_not_wait_for_a_device():
    done = child("cuda._sleep(10 ** 10)\n"
                 "cuda._host_function(lambda: print('called', flush=True))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.reported_by_tools
@pytest.mark.parametrize("call", [
    "(x + 1).sum().item()", "cuda.synchronize()", "cuda._host_function(lambda: None)"])
def test_the_end_comes_while_a_daemon_thread_is_at_work(call):
    code = f"""
import threading
x = ember.zeros(1000, device="cuda")
begun = threading.Event()
def work():
    while True:
        {call}
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait()
"""
    for _ in range(5):
        done = child(code)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.reported_by_tools
def test_a_forked_child_ends_though_a_host_function_was_running():
    done = child("""
import os, threading
begun, go = threading.Event(), threading.Event()
cuda._host_function(lambda: (begun.set(), go.wait()))
begun.wait()
pid = os.fork()
if pid == 0:
    raise SystemExit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
go.set()
""")
    assert done.returncode == 0, done.stderr


def test_tensors_die_while_a_host_function_is_waiting():
    """Without a cache the memory goes back to the device, which waits: not with the lock held."""
    done = child("""
x = ember.ones(1000, device="cuda")
ran = []
cuda._sleep(10 ** 8)
cuda._host_function(lambda: ran.append(1))
del x
cuda.synchronize()
print(ran)
""", PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr


def test_a_host_function_must_not_wait_for_itself():
    said = []

    def function():
        for wait in cuda.synchronize, stream.synchronize:
            try:
                wait()
            except RuntimeError as error:
                said.append(str(error))
    stream = cuda.current_stream()
    cuda._host_function(function)
    stream.synchronize()
    assert len(said) == 2 and all("would wait for itself" in text for text in said)


# ---- Warnings

def test_trouble_with_devices_is_a_warning_of_pythons():
    code = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert not cuda.is_available() and cuda.device_count() == 0
assert [w.category for w in caught] == [UserWarning] * 2, caught
assert str(caught[0].message).startswith("CUDA initialization: EMBER_DEVICES='nonsense'")
assert caught[0].filename == "<string>"
with warnings.catch_warnings():
    warnings.simplefilter("error")
    for ask in cuda.is_available, cuda.device_count:
        try:
            ask()
        except UserWarning as warning:
            print(type(warning).__name__)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    assert not cuda.is_available()
"""
    done = child(code, EMBER_DEVICES="nonsense")
    assert (done.returncode, done.stdout, done.stderr) == (0, "UserWarning\n" * 2, "")


# ---- Put off until CUDA is initialised

def test_a_call_that_fails_later_says_where_it_was_made():
    done = child("""
def the_caller():
    cuda.set_rng_state(ember.zeros(16, dtype=ember.uint8), 9)
the_caller()
for _ in range(2):
    try:
        cuda.init()
    except ember.DeferredCudaCallError as error:
        text = str(error)
        assert text.startswith("CUDA call failed lazily at initialization with error: ")
        assert "invalid device ordinal" in text
        assert "CUDA call was originally invoked at:\\n\\n  File " in text
        print(text.count("in the_caller"))
""")
    assert (done.returncode, done.stdout) == (0, "1\n1\n"), done.stderr


# ---- Arguments

def test_numbers_are_shown_as_they_were_given():
    x = torch.arange(4.0)
    for call, number in [
            (lambda: cuda.comm.broadcast(x, [0, -2]), "-2"),
            (lambda: cuda.get_device_name(-5), "-5"),
            (lambda: cuda.set_device(2 ** 31), "2147483648"),
            (lambda: cuda.synchronize(2 ** 40), "1099511627776"),
            (lambda: torch.empty(1, device=2 ** 40), "1099511627776"),
            (lambda: torch.device("cuda", 2 ** 31), "2147483648"),
            (lambda: cuda.set_device(2 ** 70), str(2 ** 70)),
            (lambda: cuda.comm.gather([x.cuda()], 0, 2 ** 40), "1099511627776"),
            (lambda: cuda.comm.gather([x.cuda()], 0, -7), "-7"),
            (lambda: cuda.comm.scatter(x, [0, -3]), "-3"),
            (lambda: cuda.caching_allocator_alloc(2 ** 63), str(2 ** 63))]:
        with pytest.raises((RuntimeError, AssertionError, ValueError), match=rf"\b{number}\b"
                           if number[0] != "-" else number):
            call()
    assert cuda.device(-5).idx == -5 and cuda.device(2 ** 31).idx == 2 ** 31


def test_scatter_takes_no_negative_devices():
    for x in torch.arange(4.0), torch.arange(4.0).cuda():
        for streams in None, [cuda.Stream(0), None]:
            with pytest.raises(RuntimeError, match="Expected non-negative device index, but got -1"):
                cuda.comm.scatter(x, [-1, 0], streams=streams)


def test_arguments_of_the_wrong_kind():
    x = torch.ones(2, device="cuda")
    with pytest.raises(TypeError, match="destination"):
        cuda.comm.gather([x, x], 0, 1.0)
    with pytest.raises(AttributeError, match="is_cuda"):
        cuda.device_of(None)
    with pytest.raises(RuntimeError, match="record_stream: expected a CUDA tensor"):
        torch.ones(2).record_stream(cuda.Stream())
    torch.ones(2).pin_memory().record_stream(cuda.Stream())
    assert cuda.Event(external=False).query() and cuda.Event(external=True).query()
    assert cuda.Stream().is_capturing() is False and cuda.current_stream().is_capturing() is False


def test_seeds_and_offsets():
    for seed in 2 ** 64, -2 ** 63 - 1:
        for call in torch.manual_seed, cuda.manual_seed, torch.Generator().manual_seed:
            with pytest.raises(ValueError, match="Overflow when unpacking long"):
                call(seed)
    for seed in "3", 1.9, True, None:
        with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
            torch.Generator().manual_seed(seed)
    assert torch.Generator().manual_seed(2 ** 64 - 1).initial_seed() == 2 ** 64 - 1
    for offset in 2 ** 63, 2 ** 64 - 4, -4:
        with pytest.raises((RuntimeError, TypeError)):
            torch.Generator().set_offset(offset)
    state = torch.Generator().get_state()
    state[8:] = 255
    with pytest.raises(RuntimeError, match="offset must not be negative, got -1"):
        torch.Generator().set_state(state)


def test_states_of_all_devices_from_any_iterable():
    states = cuda.get_rng_state_all()
    cuda.set_rng_state_all(state for state in states)
    cuda.set_rng_state_all(tuple(states))
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        cuda.set_rng_state_all([3])
    with pytest.raises(TypeError):
        cuda.set_rng_state_all(3)


def test_out_of_memory_is_one_line():
    with warnings.catch_warnings(), pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    assert "\n" not in str(caught.value)


# ---- Faults

def test_a_simulated_device_goes_on_after_a_reset():
    code = """
x = ember.arange(4, device="cuda")
x[ember.tensor([9], device="cuda")]
for use in (cuda.synchronize, lambda: x + 1):
    try:
        use()
    except RuntimeError as error:
        assert "index 9 is out of bounds" in str(error), error
    else:
        raise SystemExit("no error")
cuda.reset_device()
assert (ember.arange(4, device="cuda") + 1).sum().item() == 10
try:
    x + 1
except RuntimeError as error:
    print(error)
del x
print(cuda.memory_allocated() >= 0)
"""
    ended = child(code, EMBER_DEVICES="sim:1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("True\n")
