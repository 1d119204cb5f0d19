"""ember.cuda: memory."""

import threading
import warnings

import pytest

import ember as torch
from ember import cuda

MIB = 1 << 20


@pytest.fixture(autouse=True)
def clean():
    cuda.synchronize()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()


def test_counters(caching):
    """allocated, reserved and their peaks follow one tensor through its life."""
    before = cuda.memory_allocated()
    x = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    assert cuda.memory_allocated() == before + MIB
    assert cuda.memory_allocated("cuda:0") == cuda.memory_allocated(0)
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    del x
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() == before + MIB
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == before
    reserved = cuda.max_memory_reserved()
    cuda.empty_cache()
    assert cuda.memory_reserved() <= reserved
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.memory_allocated(99)


def test_stats(caching):
    """Names, order and number of the statistics are the documented ones."""
    before = cuda.memory_stats()
    x = torch.empty(1000, dtype=torch.uint8, device="cuda")
    stats = cuda.memory_stats()
    assert list(stats) == sorted(stats)
    assert len(stats) == 9 * 3 * 4 + 8 + 6
    assert stats["allocated_bytes.all.current"] == cuda.memory_allocated()
    assert stats["reserved_bytes.all.peak"] == cuda.max_memory_reserved()
    requested = "requested_bytes.small_pool.current"
    assert stats[requested] == before[requested] + 1000
    assert stats["max_split_size"] == -1 and stats["num_ooms"] >= 0
    del x
    assert cuda.memory_stats(0)["allocation.all.freed"] == stats["allocation.all.freed"] + 1


def test_accumulated_stats_begin_again(caching):
    x = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    del y
    current = {name: value for name, value in cuda.memory_stats().items()
               if name.endswith((".current", ".peak"))}
    cuda.reset_accumulated_memory_stats()
    stats = cuda.memory_stats()
    assert {name: stats[name] for name in current} == current
    assert not any(value for name, value in stats.items()
                   if name.endswith((".allocated", ".freed")) or name.startswith("num_"))
    del x
    z = torch.empty(MIB, dtype=torch.uint8, device="cuda:0")
    stats = cuda.memory_stats(0)
    assert (stats["allocated_bytes.all.allocated"], stats["allocated_bytes.all.freed"]) == (MIB, MIB)
    assert stats["allocation.all.freed"] == 1
    del z
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.reset_accumulated_memory_stats(99)


def test_host_stats(caching):
    """What is pinned is counted, in blocks that are less than an eighth larger than asked for."""
    torch.empty(1, pin_memory=True)  # initialises
    cuda.synchronize()
    cuda.reset_peak_host_memory_stats()
    cuda.reset_accumulated_host_memory_stats()
    before = cuda.host_memory_stats()
    assert list(before) == sorted(before)
    assert len(before) == 4 * 4 + 2 * 5 + 2
    assert before["active_bytes.peak"] == before["active_bytes.current"]
    x = torch.empty(9 * MIB, dtype=torch.uint8, pin_memory=True)
    stats = cuda.host_memory_stats()
    assert stats["active_bytes.current"] == before["active_bytes.current"] + 9 * MIB
    assert stats["active_bytes.allocated"] == 9 * MIB
    assert stats["active_requests.current"] == before["active_requests.current"] + 1
    assert stats["num_host_alloc"] == stats["host_alloc_time.count"] <= 1
    assert stats["host_alloc_time.total"] == stats["host_alloc_time.max"]
    del x
    after = cuda.host_memory_stats_as_nested_dict()
    assert after["active_bytes"]["freed"] == 9 * MIB
    assert after["active_bytes"]["peak"] == stats["active_bytes.peak"]
    assert after["num_host_alloc"] == stats["num_host_alloc"]
    assert set(after["host_free_time"]) == {"avg", "count", "max", "min", "total"}
    torch._C._host_emptyCache()
    assert cuda.host_memory_stats()["allocations.current"] <= after["allocations"]["current"]


def test_nested_stats(caching):
    """The tree has the same numbers under the parts of their names."""
    cuda.init()
    flat = {}

    def flatten(name, of):
        for key, value in of.items():
            if isinstance(value, dict):
                flatten(name + key + ".", value)
            else:
                flat[name + key] = value

    flatten("", cuda.memory_stats_as_nested_dict())
    assert flat == cuda.memory_stats()


def test_summary(caching):
    """The table has the counters of memory_stats, and rows of pools unless it is abbreviated."""
    last = cuda.device_count() - 1
    x = torch.empty(5 * MIB, dtype=torch.uint8, device=f"cuda:{last}")
    text = cuda.memory_summary(last)
    lines = text.splitlines()
    assert text.endswith("|\n") and {len(line) for line in lines} == {77}
    assert f"device ID {last} " in lines[1] and len(lines) == 6 + 9 * 4 + 2 * 2 + 1
    row = next(line for line in lines if "Allocated memory" in line)
    assert int(row.split("|")[2].split()[0]) == cuda.memory_allocated(last) // 1024
    assert len(cuda.memory_summary(f"cuda:{last}", abbreviated=True).splitlines()) == 6 + 11 * 2 + 1
    del x


@pytest.mark.parametrize("old, new, words", [
    ("memory_cached", "memory_reserved", "has been renamed to `torch.cuda.memory_reserved`"),
    ("max_memory_cached", "max_memory_reserved",
     "has been renamed to `torch.cuda.max_memory_reserved`"),
    ("reset_max_memory_allocated", None, "now calls torch.cuda.reset_peak_memory_stats"),
    ("reset_max_memory_cached", None, "now calls torch.cuda.reset_peak_memory_stats"),
])
def test_old_names_warn(old, new, words):
    with pytest.warns(FutureWarning, match=words):
        result = getattr(cuda, old)()
    if new:
        assert result == getattr(cuda, new)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FutureWarning):
            getattr(cuda, old)()


def test_out_of_memory_is_no_catastrophe(caching):
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory. Tried to allocate") as caught:
        torch.empty(total, device="cuda")
    assert isinstance(caught.value, RuntimeError)
    assert torch.ones(3, device="cuda").tolist() == [1.0] * 3
    assert cuda.memory_stats()["num_ooms"] >= 1


def test_fraction(caching):
    """A limit holds, as out-of-memory, and can be lifted."""
    assert cuda.get_per_process_memory_fraction() == 1.0
    total = cuda.mem_get_info()[1]
    cuda.set_per_process_memory_fraction(0.1)
    try:
        assert cuda.get_per_process_memory_fraction() == 0.1
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(total // 5, dtype=torch.uint8, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(TypeError, match="Invalid type for fraction argument, must be `float`"):
        cuda.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match=r"Invalid fraction value: 1.5\d*. Allowed range: 0~1"):
        cuda.set_per_process_memory_fraction(1.5)


def test_addresses(caching):
    """Memory by address, with a stream in each of its forms."""
    before = cuda.memory_allocated()
    address = cuda.caching_allocator_alloc(1000)
    assert address != 0 and cuda.memory_allocated() == before + 1024
    cuda.caching_allocator_delete(address)
    assert cuda.memory_allocated() == before
    assert cuda.caching_allocator_alloc(0) == 0
    cuda.caching_allocator_delete(0)
    stream = cuda.Stream()
    for given in (stream, stream.cuda_stream, 0):
        cuda.caching_allocator_delete(cuda.caching_allocator_alloc(512, "cuda:0", given))
    with pytest.raises(TypeError, match="Invalid type for stream argument, must be"):
        cuda.caching_allocator_alloc(512, stream="fast")
    with pytest.raises(RuntimeError, match="invalid device pointer: 0x1234"):
        cuda.caching_allocator_delete(0x1234)
    assert cuda.get_allocator_backend() == "native"


@pytest.mark.not_watched
def test_record_stream(caching):
    """Freed memory that another stream still reads is not given out again."""
    s = cuda.Stream()
    x = torch.ones(MIB, device="cuda")
    address = x.data_ptr()
    s.wait_stream(cuda.current_stream())
    go = threading.Event()
    with cuda.stream(s):
        y = x + 1
        cuda._host_function(lambda: go.wait(60))
    x.record_stream(s)
    del x
    other = torch.empty(MIB, device="cuda").data_ptr()
    go.set()
    assert other != address
    s.synchronize()
    assert y[:2].tolist() == [2.0, 2.0]


def test_errors_leave_no_memory_behind():
    x = torch.ones(3, device="cuda")
    before = cuda.memory_allocated()
    for _ in range(100):
        with pytest.raises(RuntimeError):
            x + torch.ones(2, device="cuda")
    assert cuda.memory_allocated() == before
