"""ember.cuda: private pools, allocations without the cache, and running out of memory."""

import gc
import threading
import weakref

import pytest

import ember as torch
from ember import cuda
from ember.multiprocessing import reductions

MIB = 1 << 20
pytestmark = pytest.mark.counts_memory


@pytest.fixture(autouse=True)
def clean(caching):
    cuda.synchronize()
    cuda.empty_cache()
    yield
    cuda.set_per_process_memory_fraction(1.0)
    cuda.empty_cache()


def on_device(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def allow(size):
    cuda.set_per_process_memory_fraction((size + 0.5) / cuda.mem_get_info()[1])


def addresses(segments):
    return [block["address"] for segment in segments for block in segment["blocks"]
            if block["state"] == "active_allocated"]


def test_pool():
    """What is allocated inside use_mem_pool is in the pool, and nothing else."""
    pool = cuda.MemPool()
    assert pool.id[0] == 0 and pool.id[1] > 0 and pool.allocator is None
    assert cuda.graphs.graph_pool_handle()[1] > pool.id[1]
    assert pool.use_count() == 1 and pool.snapshot() == []
    with cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        ours = on_device(3 * MIB)
        others = []
        thread = threading.Thread(target=lambda: others.append(on_device(1000)))
        thread.start()
        thread.join()
    assert pool.use_count() == 1
    ordinary = on_device(3 * MIB)
    segments = pool.snapshot(include_traces=False)
    assert addresses(segments) == [ours.data_ptr()]
    assert segments[0]["segment_pool_id"] == pool.id and segments[0]["device"] == 0
    assert segments[0]["total_size"] == 20 * MIB and segments[0]["segment_type"] == "large"
    assert segments[0]["blocks"][0]["requested_size"] == 3 * MIB
    del ours, ordinary, others
    cuda.empty_cache()
    assert cuda.memory_reserved() == 20 * MIB
    cuda.empty_cache(pool)
    assert cuda.memory_reserved() == 0


def test_a_function_with_a_pool():
    """As a decorator use_mem_pool is in force for each call: one that ends does not end another's."""
    pool, both, left = cuda.MemPool(), threading.Barrier(2, timeout=60), threading.Event()

    @cuda.use_mem_pool(pool)
    def made(last):
        both.wait()
        assert not last or left.wait(60)
        return on_device(3 * MIB)

    found = []
    first, second = (threading.Thread(target=lambda last=last: found.append(made(last)))
                     for last in (False, True))
    first.start()
    second.start()
    first.join()
    left.set()
    second.join()
    assert (made.__name__, pool.use_count(), len(found)) == ("made", 1, 2)
    blocks = [block["address"] for segment in pool.snapshot() for block in segment["blocks"]]
    assert {tensor.data_ptr() for tensor in found} <= set(blocks)
    outside = on_device(3 * MIB)
    assert outside.data_ptr() not in blocks


def test_pools_nest_and_end_with_their_blocks():
    outer, inner = cuda.MemPool(), cuda.MemPool(no_split=True)
    with cuda.use_mem_pool(outer), pytest.raises(KeyError):
        with cuda.use_mem_pool(inner, device="cuda:0"):
            small = on_device(1000)
            raise KeyError
    with cuda.use_mem_pool(outer):
        large = on_device(2 * MIB)
    assert addresses(outer.snapshot()) == [large.data_ptr()]
    assert [segment["total_size"] for segment in inner.snapshot()] == [1024]
    small.fill_(7)
    del inner
    assert small.sum().item() == 7000
    del small
    cuda.empty_cache()
    assert cuda.memory_reserved() == 20 * MIB


def test_wrong_pools():
    with pytest.raises(TypeError, match="MemPool: allocator: expected what CUDAPluggableAllocator"):
        cuda.MemPool(allocator=3)
    with pytest.raises(TypeError, match="pool: expected a MemPool, got int"):
        cuda.use_mem_pool(3)
    with pytest.raises(TypeError, match="pool: expected a MemPool or the id of one"):
        cuda.empty_cache("pool")
    cuda.empty_cache(cuda.graphs.graph_pool_handle())


def test_report_of_memory_of_graphs():
    """What only a graph keeps, free or still used by its capture, is named as such."""
    def fails():
        with pytest.raises(torch.OutOfMemoryError) as caught:
            on_device(200 * MIB)
        report = caught.value.report
        assert report.verdict == "private_pool" and report.verdict_bytes == 100 * MIB
        assert [pool["has_graphs"] for pool in report.pools] == [True]
        assert "once the graphs that were captured with these pools are reset" in str(caught.value)

    allow(256 * MIB)
    side = cuda.Stream()
    for crosses in (False, True):
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            x = on_device(100 * MIB)
            if crosses:
                side.wait_stream(cuda.current_stream())
                with cuda.stream(side):
                    x.fill_(1)
                x.record_stream(side)
                cuda.current_stream().wait_stream(side)
            del x
            if crosses:
                fails()
        fails()
        graph.reset()
        cuda.empty_cache()
        on_device(200 * MIB)
        cuda.empty_cache()


def test_without_the_cache():
    """Each allocation is one of the device's own, counted exactly."""
    with cuda.memory.caching_allocator_disabled():
        assert not cuda.memory.caching_allocator_enabled()
        x = on_device(1000)
        assert cuda.memory_allocated() == cuda.memory_reserved() == 1000
        del x
    assert cuda.memory_reserved() == 0
    cuda.memory.caching_allocator_enable(False)
    try:
        x = on_device(1000)
    finally:
        cuda.memory.caching_allocator_enable()
    assert cuda.memory_reserved() == 1000 and cuda.memory.caching_allocator_enabled()
    del x
    assert cuda.memory_reserved() == 0


def test_report():
    """The error says as figures what would help, and that helps."""
    assert torch.OutOfMemoryError("made by hand").report is None
    allow(256 * MIB)
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        on_device(200 * MIB)
    with pytest.raises(torch.OutOfMemoryError, match="held by private pools") as caught:
        on_device(100 * MIB)
    report = caught.value.report
    assert report.verdict == "private_pool" and report.verdict_pool == pool.id
    assert report.verdict_bytes == report.private_pools == 200 * MIB
    assert report.requested == report.segment == 100 * MIB and report.pool == (0, 0)
    assert report.device == 0 and report.total == cuda.mem_get_info()[1]
    assert report.limit == 256 * MIB and report.reserved == 200 * MIB and report.missing == 44 * MIB
    assert report.allocated == report.pending == report.fragmented == report.cached == 0
    assert report.pools == [{"id": pool.id, "reserved": 200 * MIB, "free": 200 * MIB,
                             "releasable": 200 * MIB, "has_graphs": False}]
    assert report.leased == [] and report.largest_free_block == 0 and not report.could_not_wait
    cuda.empty_cache(report.verdict_pool)
    on_device(100 * MIB)


def test_a_pool_that_lends():
    allow(256 * MIB)
    pool = cuda.MemPool(use_on_oom=True)
    with cuda.use_mem_pool(pool):
        on_device(200 * MIB)
    x = on_device(100 * MIB)
    assert addresses(pool.snapshot()) == [x.data_ptr()]


def test_callbacks():
    """They are asked before the error, and what one raises is raised."""
    class Holder:
        pass

    allow(256 * MIB)
    holder = Holder()
    holder.x = on_device(200 * MIB)
    reports = []

    def free(report, holder=holder):
        reports.append(report)
        holder.x = None
        return True

    number = cuda.memory.add_out_of_memory_callback(free)
    y = on_device(100 * MIB)
    assert [report.verdict for report in reports] == ["over_limit"]
    with pytest.raises(torch.OutOfMemoryError):
        on_device(300 * MIB)
    assert len(reports) == 2
    assert cuda.memory.remove_out_of_memory_callback(number)
    assert not cuda.memory.remove_out_of_memory_callback(number)
    kept = weakref.ref(holder)
    del free, holder
    gc.collect()
    assert kept() is None, "a callback that was removed is let go"

    def fails(report):
        raise KeyError(report.requested)

    number = cuda.memory.add_out_of_memory_callback(fails)
    try:
        with pytest.raises(KeyError, match=str(200 * MIB)):
            on_device(200 * MIB)
        del y
        assert cuda.memory_allocated() == 0
        on_device(200 * MIB)
    finally:
        cuda.memory.remove_out_of_memory_callback(number)
    with pytest.raises(TypeError, match="callback: expected a function, got int"):
        cuda.memory.add_out_of_memory_callback(3)


@pytest.fixture
def growing():
    cuda.memory._set_allocator_settings("expandable_segments:True")
    yield
    cuda.memory._set_allocator_settings("expandable_segments:False")


def test_a_pool_sleeps(growing):
    """Contents go to the host and come back to the same addresses; meanwhile the device has the memory."""
    before = cuda.memory_reserved()
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        weights = torch.arange(5 * MIB, device="cuda")
        scratch = on_device(20 * MIB).fill_(1)  # all of it is read when it goes to the host
    address, expected = weights.data_ptr(), weights.sum().item()
    cuda.empty_cache()
    free = cuda.mem_get_info()[0]
    assert pool.asleep is False
    pool.restore()  # nothing to do
    pool.offload()
    pool.offload()
    assert pool.asleep is True
    assert cuda.memory_reserved() == before
    # CUDA maps the copy on the host for the device, which takes some of it, and others may use the device.
    assert cuda.mem_get_info()[0] >= free + (60 if cuda.is_simulated() else 40) * MIB
    (segment,) = pool.snapshot()
    assert segment["asleep"] is True and segment["address"] == address
    with cuda.use_mem_pool(pool):
        with pytest.raises(RuntimeError, match=rf"pool \(0, {pool.id[1]}\) of device 0 is asleep.*restore\(\)"):
            on_device(MIB)
    with pytest.raises(RuntimeError, match="Tensors of a pool that is asleep cannot be shared"):
        reductions.dumps(weights)
    on_device(30 * MIB).fill_(7)  # others go on
    cuda.empty_cache()
    del scratch
    gc.collect()
    pool.restore()
    assert pool.asleep is False and "asleep" not in pool.snapshot()[0]
    assert cuda.memory_reserved() == before + 40 * MIB
    assert weights.data_ptr() == address and weights.sum().item() == expected


def test_a_pool_sleeps_on_without_memory(growing):
    """restore() of what does not fit says so, and the same call succeeds once it does."""
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        weights = torch.ones(10 * MIB, device="cuda")
    pool.offload()
    allow(cuda.memory_reserved() + 20 * MIB)
    with pytest.raises(cuda.OutOfMemoryError, match="MemPool.restore: .* stays asleep, and nothing is lost") as info:
        pool.restore()
    assert info.value.report.segment == 40 * MIB
    assert pool.asleep
    cuda.set_per_process_memory_fraction(1.0)
    pool.restore()
    assert weights.sum().item() == 10 * MIB


def test_a_pool_that_cannot_sleep():
    """The error names the setting."""
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        kept = on_device(20 * MIB)
    with pytest.raises(RuntimeError, match="20.00 MiB of it are in use in segments that do not grow; set expandable_"):
        pool.offload()
    assert pool.asleep is False
    del kept


def test_sharing_caps(growing):
    """What is not possible says what would change it."""
    ways = ("legacy_ipc", "fd", "fabric", "rdma", "peers")
    grown = on_device(20 * MIB)
    caps = cuda.memory.sharing_caps(grown)
    assert isinstance(caps, cuda.memory.SharingCaps) and caps.device == 0
    assert caps.legacy_ipc is False and caps.fd is True
    way = "fd" if cuda.is_simulated() else "legacy_ipc"
    assert cuda.is_simulated() or "expandable_segments:False" in caps.change["legacy_ipc"]
    cuda.memory._set_allocator_settings("expandable_segments:False")
    plain = on_device(30 * MIB)
    caps = cuda.memory.sharing_caps(plain.data_ptr() + 5)
    assert getattr(caps, way) is True
    assert list(caps.change) == [each for each in ways if not getattr(caps, each)]
    assert repr(caps).startswith("SharingCaps(device=0, legacy_ipc=")
    with pytest.raises(ValueError, match="sharing_caps: pointer: expected device memory in use, got 0x"):
        cuda.memory.sharing_caps(16)
    with pytest.raises(ValueError, match="page-locked memory of the host"):
        cuda.memory.sharing_caps(torch.ones(4).pin_memory())
    with pytest.raises(TypeError, match="expected an address, an int, or a tensor, got str"):
        cuda.memory.sharing_caps("x")
