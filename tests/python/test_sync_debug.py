"""Chapter 16: waits of the host, shown, refused, counted."""

import threading
import warnings

import pytest

import ember
from ember import cuda

TEXT = "called a synchronizing CUDA operation"


@pytest.fixture(autouse=True)
def quiet():
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cuda.set_sync_debug_mode(0)


def set_mode(mode):
    with pytest.warns(UserWarning, match="prototype"):
        cuda.set_sync_debug_mode(mode)


def waiting():
    x = ember.arange(6.0, device="cuda").reshape(2, 3)
    host = ember.ones(2, 3)
    mask = x > 2
    index = ember.tensor([0, 1])
    values = ember.ones(3, device="cuda")

    def write_by_mask():
        x.clone()[mask] = values

    return {
        "item": lambda: x[0, 0].item(),
        "bool": lambda: bool(x[0, 1] > 0),
        "cpu": lambda: x.cpu(),
        "cuda": lambda: host.cuda(),
        "nonzero": lambda: x.nonzero(),
        "read by mask": lambda: x[mask],
        "write by mask": write_by_mask,
        "index of the host": lambda: x[index],
        "synchronize": lambda: cuda.current_stream().synchronize(),
    }


def others():
    x = ember.arange(6.0, device="cuda").reshape(2, 3)
    mask = x > 2
    index = ember.tensor([0, 1]).cuda()

    def write_by_mask():
        x.clone()[mask] = 5

    def write_by_index():
        x.clone()[index] = 5

    event = cuda.Event()
    event.record()
    return {
        "write a number by mask": write_by_mask,
        "read by index": lambda: x[index],
        "write by index": write_by_index,
        "repeats of a device": lambda: ember.repeat_interleave(x, index, 0, output_size=1),
        "any": lambda: x.any(),
        "all": lambda: x.all(),
        "randperm": lambda: ember.randperm(20000, device="cuda"),
        "device": lambda: cuda.synchronize(),
        "event": lambda: event.synchronize(),
        "allocator": lambda: cuda.empty_cache(),
    }


def test_modes():
    assert cuda.get_sync_debug_mode() == 0
    for mode, number in (("warn", 1), ("error", 2), ("default", 0), (1, 1), (2, 2), (0, 0)):
        set_mode(mode)
        assert cuda.get_sync_debug_mode() == number
    with pytest.raises(RuntimeError, match="^invalid value of debug_mode, expected one of "
                                           "`default`, `warn`, `error`$"):
        cuda.set_sync_debug_mode("on")
    with pytest.raises(RuntimeError, match="^invalid value of debug_mode, expected one of 0,1,2$"):
        cuda.set_sync_debug_mode(3)
    with pytest.raises(TypeError):
        cuda.set_sync_debug_mode(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            cuda.set_sync_debug_mode(0)


@pytest.mark.parametrize("name", list(waiting()))
def test_waits(name):
    call = waiting()[name]
    call()
    set_mode("warn")
    with pytest.warns(UserWarning, match=f"^{TEXT}$"):
        call()
    set_mode("error")
    with pytest.raises(RuntimeError, match=f"^{TEXT}$"):
        call()
    set_mode("default")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


@pytest.mark.parametrize("name", list(others()))
def test_others(name):
    call = others()[name]
    set_mode("error")
    call()


def test_a_budget():
    x = ember.ones(3, device="cuda")
    text = "3 waits of the host in a scope whose budget is 2: 3 of kind copy"
    with pytest.raises(RuntimeError, match=f"^{text}$"):  # said again, if nobody listened
        with cuda.WaitBudget(2) as budget:
            x.cpu()
            assert budget.used == 1
            x.cpu()
            with pytest.raises(RuntimeError, match=f"^a copy to the host: {text}$"):
                x.cpu()
    assert budget.used == 3


def test_a_budget_that_was_overdrawn_ends_in_an_error():
    big = ember.ones(1 << 22, device="cuda")
    with pytest.raises(RuntimeError, match="of kind memory"):
        with cuda.WaitBudget(0, kinds=["memory"]):
            del big
            cuda.empty_cache()


def test_a_budget_leaves_other_errors_alone():
    with pytest.raises(KeyError):
        with cuda.WaitBudget(0):
            raise KeyError


def test_budgets_are_a_threads():
    with cuda.WaitBudget(0) as none:
        thread = threading.Thread(target=lambda: ember.ones(1, device="cuda").item())
        thread.start()
        thread.join()
    assert none.used == 0


def test_kinds():
    with pytest.raises(ValueError, match="kinds: got 'streams', expected some of copy, stream"):
        cuda.WaitBudget(1, kinds=["streams"])
    with pytest.raises(ValueError, match="kinds: got none"):
        cuda.WaitBudget(1, kinds=[])
    with cuda.WaitBudget(0, kinds=["event", "device"]) as budget:
        ember.ones(1, device="cuda").item()
        with pytest.raises(RuntimeError, match="already"):
            budget.__enter__()


def test_counts():
    before = cuda.host_waits()
    ember.ones(1, device="cuda").item()
    cuda.synchronize()
    after = cuda.host_waits()
    assert {kind: after[kind] - before[kind] for kind in ("copy", "device", "event")} == {
        "copy": 1, "device": 1, "event": 0}
