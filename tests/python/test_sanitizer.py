"""The stream sanitizer: ember.cuda._sanitizer, and what the environment asks for."""

import json
import os
import subprocess
import sys
import textwrap
import traceback

import pytest
from conftest import SANITIZER_VARIABLES

import ember
from ember.cuda import _sanitizer as csan


def run(*parts, **environment):
    """What a process of its own says: the sanitizer stays on once it is."""
    program = "\n".join(map(textwrap.dedent, parts))
    others = {name: value for name, value in os.environ.items()
              if not name.startswith(SANITIZER_VARIABLES)}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**others, **environment}, check=False)


RACE = """
    import ember as torch
    side = torch.cuda.Stream()
    def produce():
        return torch.ones(64, device="cuda")
    def consume(x):
        with torch.cuda.stream(side):
            return x + 1
    x = produce()
"""


def test_enabled():
    said = run("""
        from ember.cuda import _sanitizer
        assert not _sanitizer.cuda_sanitizer.enabled
        _sanitizer.enable_cuda_sanitizer()
        _sanitizer.enable_cuda_sanitizer()  # once is enough
        assert _sanitizer.cuda_sanitizer.enabled
    """, RACE, """
    try:
        consume(x)
    except _sanitizer.CUDASanitizerErrors as raised:
        assert str(raised) == "detected 1 errors"
        error, = raised.errors
    assert error.data_ptr == x.data_ptr()
    assert error.current_access.type is _sanitizer.AccessType.READ
    assert error.previous_access.type is _sanitizer.AccessType.WRITE
    assert error.current_access.operator == "add.float32"
    assert error.current_access.aliases == ["self"] and not error.current_access.is_output
    assert error.current_access.stream == side.cuda_stream
    assert "in consume" in str(error) and "in produce" in str(error)
    side.wait_stream(torch.cuda.current_stream())
    y = consume(x)  # in order
    side.synchronize()
    assert y.sum().item() == 128
    assert _sanitizer.summary().startswith("1 race in ")
    """)
    assert said.returncode == 0, said.stderr
    assert said.stderr.count("CSAN detected a possible data race") == 1
    assert "What would have ordered them: a wait of stream " in said.stderr


@pytest.mark.parametrize("name", ["EMBER_SANITIZER", "TORCH_CUDA_SANITIZER"])
def test_environment(name):
    said = run(RACE, "consume(x)", **{name: "1"})
    assert "CUDASanitizerErrors: detected 1 errors" in said.stderr
    said = run(RACE, "consume(x)", **{name: "0"})
    assert said.returncode == 0 and not said.stderr


def test_environment_continues_and_writes_json(tmp_path):
    path = tmp_path / "races.jsonl"
    said = run(RACE, "consume(x)\nprint('went on')", EMBER_SANITIZER="continue",
               EMBER_SANITIZER_JSON=str(path))
    assert said.stdout == "went on\n"
    race, = map(json.loads, path.read_text().splitlines())
    assert race["kind"] == "race" and race["certainty"] == "certain"
    assert race["previous"]["access"] == "write" and "in produce" in race["previous"]["stack"]
    assert race["access"]["argument_name"] == "self" and race["previous"]["argument_name"] == "self"
    said = run(RACE, "consume(x)", EMBER_SANITIZER="1", EMBER_SANITIZER_SUPPRESS="mul*,add.*")
    assert said.returncode == 0 and not said.stderr
    said = run(RACE, EMBER_SANITIZER="yes")
    assert "EMBER_SANITIZER is 'yes', expected 0, 1, continue or guard" in said.stderr
    said = run(RACE, EMBER_SANITIZER="1", EMBER_SANITIZER_JSON="/no/such/folder/x")
    assert "EMBER_SANITIZER_JSON is '/no/such/folder/x', which cannot be opened" in said.stderr


# ---- The objects that tools build

A, B = 1, 2  # pointers
LEFT, RIGHT = 101, 102  # streams
EVENT = 201


class Handler:
    """Launches with the shortest arguments."""

    def __init__(self):
        self.handler = csan.EventHandler()

    def launch(self, stream, read=(), written=()):
        aliases = {pointer: [f"arg{pointer}"] for pointer in [*read, *written]}
        return self.handler._handle_kernel_launch(stream, read, written, set(), "op", aliases)

    def __getattr__(self, name):
        return getattr(self.handler, "_handle_" + name)


@pytest.fixture
def handler():
    return Handler()


def test_handler_finds_races(handler):
    assert handler.launch(LEFT, written=[A]) == []
    error, = handler.launch(RIGHT, read=[A])
    assert isinstance(error, csan.UnsynchronizedAccessError)
    assert (error.data_ptr, error.allocation_stack_trace) == (A, None)
    assert (error.current_access.seq_num, error.previous_access.seq_num) == (2, 1)
    assert (error.current_access.stream, error.previous_access.stream) == (RIGHT, LEFT)
    assert error.current_access.aliases == ["arg1"]
    assert handler.launch(LEFT, read=[B]) == handler.launch(RIGHT, read=[B]) == []
    assert len(handler.launch(0, written=[B])) == 2, "with both reads"
    assert len(handler.launch(LEFT, written=[B])) == 1, "reads are cleared by a write"


def test_handler_knows_events(handler):
    handler.launch(LEFT, written=[A])
    handler.event_record(EVENT, LEFT)
    handler.launch(LEFT, written=[B])
    handler.event_wait(EVENT, RIGHT)
    assert handler.launch(RIGHT, written=[A]) == []
    assert len(handler.launch(RIGHT, written=[B])) == 1
    handler.event_deletion(EVENT)
    handler.event_wait(EVENT, 0)  # stands for nothing
    assert len(handler.launch(0, written=[A])) == 1


@pytest.mark.parametrize("wait", [lambda h: h.stream_synchronization(LEFT),
                                  lambda h: h.event_synchronization(EVENT),
                                  lambda h: h.device_synchronization()])
def test_handler_knows_waits_of_the_host(handler, wait):
    handler.launch(LEFT, written=[A])
    handler.event_record(EVENT, LEFT)
    wait(handler)
    assert handler.launch(RIGHT, written=[A]) == []
    handler.stream_creation(103)
    assert handler.launch(103, written=[A]) != []  # RIGHT's came after the wait


def test_handler_knows_memory(handler):
    handler.memory_allocation(A)
    handler.launch(LEFT, written=[A])
    handler.memory_deallocation(A)
    handler.memory_allocation(A)
    assert handler.launch(RIGHT, written=[A]) == [], "another tensor"
    error, = handler.launch(LEFT, read=[A])
    assert "test_handler_knows_memory" in "".join(error.allocation_stack_trace.format())


def test_handler_keeps_what_it_may_name(handler):
    handler.launch(LEFT, written=[A])
    for _ in range(3000):
        assert handler.launch(RIGHT, written=[B]) == []
    assert len(handler.handler._launches) <= 1000
    error, = handler.launch(RIGHT, read=[A])
    assert error.previous_access.seq_num == 1


def test_handler_tolerates_what_it_did_not_see(handler, caplog):
    caplog.set_level("INFO", logger="ember.cuda._sanitizer")
    handler.launch(LEFT, written=[A])
    handler.event_wait(EVENT, LEFT)
    handler.event_creation(EVENT)
    handler.memory_allocation(A)
    handler.stream_creation(LEFT)
    said = [record.message for record in caplog.records]
    assert [message.split(",")[0].split(".")[0] for message in said] == [
        "Found tensor with pointer: 1", "Found Stream with id: 101", "Found Event with id: 201",
        "Found duplicate event creation in the trace for event with id: 201",
        "Found duplicate tensor allocation in the trace for tensor with pointer: 1",
        "Found duplicate Stream creation in the trace for Stream with id: 101"]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_text_of_an_error():
    def access(kind, number, stream, aliases, is_output):
        trace = traceback.StackSummary.from_list([("file", number, "name", f"trace {number}")])
        return csan.Access(kind, number, stream, f"schema{number}", aliases, is_output, trace)

    current = access(csan.AccessType.WRITE, 1, 11, ["b"], True)
    previous = access(csan.AccessType.READ, 2, 12, ["a", "c"], False)
    expected = textwrap.dedent("""\
        ============================
        CSAN detected a possible data race on tensor with data pointer 7
        Access by stream 11 during kernel:
        schema1
        writing to argument(s) b, and to the output
        With stack trace:
          File "file", line 1, in name
            trace 1

        Previous access by stream 12 during kernel:
        schema2
        reading from argument(s) a, c
        With stack trace:
          File "file", line 2, in name
            trace 2

        """)
    error = csan.UnsynchronizedAccessError(7, None, current, previous)
    assert str(error) == expected + "Trace for tensor allocation not found."
    made = traceback.StackSummary.from_list([("file", 0, "name", "alloc")])
    error = csan.UnsynchronizedAccessError(7, made, current, previous)
    assert str(error) == expected + ('Tensor was allocated with stack trace:\n'
                                     '  File "file", line 0, in name\n    alloc\n')
    current.aliases = []
    assert "writing to the output\n" in str(error)
    assert str(csan.CUDASanitizerErrors([error, error])) == "detected 2 errors"
    assert issubclass(csan.UnsynchronizedAccessError, csan.SynchronizationError)


def test_stacks_of_the_first_use_are_those_of_python():
    """Nobody has asked for stacks before there are devices, which the call makes that is the first
    use of them."""
    said = run("""
        import ember as torch

        def produce():
            return torch.zeros(1000, device="cuda")

        x = produce()
        with torch.cuda.stream(torch.cuda.Stream()):
            x.add_(1)
    """, EMBER_SANITIZER="1")
    assert said.returncode != 0
    report = said.stderr[said.stderr.index("Previous access"):]
    before, allocated = report.split("Tensor was allocated with stack trace:")
    assert "in produce" in before and "libember" not in before, report
    assert "in produce" in allocated and "libember" not in allocated, report


class _Alias:
    def __init__(self, is_write):
        self.is_write = is_write


class _Argument:
    def __init__(self, name, is_write=None):
        self.name = name
        self.alias_info = None if is_write is None else _Alias(is_write)


class _Schema:
    def __init__(self, *arguments):
        self.arguments = arguments


def test_arguments_by_their_schema():
    a, b, out = (ember.ones(4, device="cuda") for _ in range(3))
    handler = csan.ArgumentHandler()
    handler.parse_inputs(_Schema(_Argument("self"), _Argument("others"), _Argument("alpha"),
                                 _Argument("out", True)), (a, [b, a]), {"out": out, "alpha": 2})
    handler.parse_outputs(out)
    assert handler.dataptrs_read == {a.data_ptr(), b.data_ptr()}
    assert handler.dataptrs_written == handler.outputs == {out.data_ptr()}
    assert handler.tensor_aliases == {a.data_ptr(): ["self", "others"], b.data_ptr(): ["others"],
                                      out.data_ptr(): ["out"]}
    handler = csan.ArgumentHandler()
    handler.parse_inputs(_Schema(_Argument("self")), (ember.ones(2),), {})
    handler.parse_outputs(None, [a, b])
    assert handler.dataptrs_read == set(), "not of the CPU"
    assert handler.tensor_aliases == {a.data_ptr(): [], b.data_ptr(): []}


HOST = """
    import copy, pickle
    import ember as torch
    from ember.cuda import _sanitizer
    x = torch.arange(8.0, device="cuda")
    cpu = torch.arange(4)

    def pinned():
        return torch.zeros(8, pin_memory=True)

    def said(touch, to_host, waits):
        h = pinned()
        torch.cuda.synchronize()
        if to_host:
            h.copy_(x, non_blocking=True)
        else:
            x.copy_(h, non_blocking=True)
        if waits:
            torch.cuda.synchronize()
        try:
            touch(h)
        except _sanitizer.CUDASanitizerErrors:
            return True
        finally:
            torch.cuda.synchronize()
        return False
"""


def test_every_way_of_the_host_is_seen():
    """Pinned memory beside a copy in flight: read while it is written, written while it is read."""
    said = run(HOST, """
    reads = {
        "tolist": lambda h: h.tolist(),
        "str": str,
        "item": lambda h: h[3].item(),
        "pickle": pickle.dumps,
        "deepcopy": copy.deepcopy,
        "share_memory_": lambda h: h.share_memory_(),
        "fft": torch.fft.fft,
        "gather": lambda h: h.gather(0, cpu),
        "index_select": lambda h: h.index_select(0, cpu),
        "take": lambda h: h.take(cpu),
        "an index": lambda h: h[cpu],
        "a mask": lambda h: h[torch.ones(8, dtype=torch.bool)],
        "scatter_'s source": lambda h: torch.zeros(8).scatter_(0, cpu, h),
        "index_add_'s source": lambda h: torch.zeros(8).index_add_(0, torch.arange(8), h),
        "index_copy_'s source": lambda h: torch.zeros(8).index_copy_(0, torch.arange(8), h),
        "an assignment's source": lambda h: torch.zeros(8).__setitem__(torch.arange(8), h),
        "weights": lambda h: (h + 1).multinomial(2),
        "sum": lambda h: h.sum(),
        "sort": lambda h: h.sort(),
        "cat": lambda h: torch.cat([h, h]),
        "a product": lambda h: h @ h,
        "equal": lambda h: torch.equal(h, torch.zeros(8)),
    }
    writes = {
        "fill_": lambda h: h.fill_(7),
        "scatter_": lambda h: h.scatter_(0, cpu, 7.0),
        "scatter_add_": lambda h: h.scatter_add_(0, cpu, torch.ones(4)),
        "index_fill_": lambda h: h.index_fill_(0, cpu, 7),
        "index_add_": lambda h: h.index_add_(0, cpu, torch.ones(4)),
        "index_copy_": lambda h: h.index_copy_(0, cpu, torch.ones(4)),
        "index_put_": lambda h: h.index_put_((cpu,), torch.ones(4)),
        "an assignment": lambda h: h.__setitem__(cpu, 7),
        "gather's output": lambda h: torch.gather(torch.ones(8), 0, torch.arange(8), out=h),
        "index_select's output":
            lambda h: torch.index_select(torch.ones(8), 0, torch.arange(8), out=h),
        "normal_": lambda h: h.normal_(),
        "cumsum's output": lambda h: torch.cumsum(torch.ones(8), 0, out=h),
    }
    for some, to_host in ((reads, True), (writes, False)):
        for name, touch in some.items():
            assert not said(touch, to_host, waits=True), name
            if not said(touch, to_host, waits=False):
                print("unseen:", name)
    print("through")
    """, EMBER_SANITIZER="1")
    assert (said.stdout, said.returncode) == ("through\n", 0), said.stderr


@pytest.mark.parametrize("pointer", ["x.data_ptr()", "x.__dlpack__()"])
def test_a_pointer_to_memory_that_a_reset_took_is_an_error(pointer):
    said = run(HOST, f"""
    torch.cuda.synchronize()
    torch.cuda.reset_device(0)
    try:
        {pointer}
    except torch.AcceleratorError as error:
        print("reset" in str(error))
    """, EMBER_SANITIZER="continue")
    assert (said.stdout, said.returncode) == ("True\n", 0), said.stderr


@pytest.mark.parametrize(("pointer", "clean"), [
    ("h.data_ptr()", False),
    ("h.numpy()", False),
    ("numpy.from_dlpack(h)", False),
    ("h.tolist()", True),
    ("torch.from_numpy(numpy.zeros(8, numpy.float32)).copy_(x)", True),
    ("torch.from_numpy(numpy.zeros(8, numpy.float32)).copy_(x, non_blocking=True)", False),
    ("x.copy_(torch.from_numpy(numpy.zeros(8, numpy.float32)), non_blocking=True)", True),
])
def test_pointers_to_memory_of_the_host_are_counted(pointer, clean):
    said = run("import numpy", HOST, f"""
    h = pinned()
    h.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    {pointer}
    torch.cuda.synchronize()
    """, EMBER_SANITIZER="continue", EMBER_SANITIZER_SUMMARY="/dev/stdout")
    summary = json.loads(said.stdout)
    assert (summary["exposed"], summary["clean"]) == (0 if clean else 1, clean), said.stderr
