"""ember.cuda.CUDAGraph and ember.cuda.graph. Chapter 7 of the documents."""

import gc
import subprocess
import sys
import threading
import warnings
import weakref

import pytest

import ember as torch
from ember import cuda

pytestmark = pytest.mark.usefixtures("caching")  # without it captures are refused


def capture(work, graph=None, **how):
    graph = graph or cuda.CUDAGraph()
    with cuda.graph(graph, **how):
        result = work()
    return graph, result


def test_replays_with_changed_inputs():
    x = torch.zeros(16, 16, device="cuda")

    def step():
        y = x * 2 + 1
        return (y @ x).sin(), y.sum(), y.mean(0)

    graph, captured = capture(step)
    for value in (1.0, -2.5):
        x.fill_(value)
        x[3] = 7.0
        graph.replay()
        for ours, eager in zip(captured, step()):
            assert ours.tolist() == eager.tolist()


def test_a_capture_does_nothing():
    x = torch.ones(4, device="cuda")
    graph, _ = capture(lambda: x.add_(1))
    assert x.tolist() == [1] * 4
    graph.replay()
    graph.replay()
    assert x.tolist() == [3] * 4


def test_by_hand():
    x = torch.ones(4, device="cuda")
    graph = cuda.CUDAGraph()
    stream = cuda.Stream()
    cuda.synchronize()
    with cuda.stream(stream):
        graph.capture_begin(pool=cuda.graph_pool_handle(), capture_error_mode="thread_local")
        assert cuda.is_current_stream_capturing()
        assert stream.is_capturing()
        y = x * 3
        graph.capture_end()
        assert not cuda.is_current_stream_capturing()
    graph.replay()
    assert y.tolist() == [3] * 4


@pytest.mark.reported_by_tools
def test_external_events():
    x, y = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    side = cuda.Stream()
    begin, end = (cuda.Event(enable_timing=True, external=True) for _ in range(2))
    go = side.record_event(cuda.Event(external=True))

    def work():
        begin.record()
        x.add_(1)
        end.record()
        go.wait()
        y.copy_(x)

    graph, _ = capture(work)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        begin.elapsed_time(end)
    for round in (1, 2):
        side.record_event(go)
        graph.replay()
        end.synchronize()
        assert begin.elapsed_time(end) >= 0
        with cuda.stream(side):
            end.wait()
            assert x.tolist() == [round] * 64
        cuda.synchronize()
        assert y.tolist() == [round] * 64


@pytest.mark.reported_by_tools
def test_a_record_that_is_refused_leaves_the_event_as_it_was():
    event = cuda.Event(interprocess=True)
    event.record()
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        capture(event.record)
    event.synchronize()
    event.record()
    event.synchronize()
    assert event.query()


def test_replays_with_other_tensors():
    x, y = torch.ones(4, 8, device="cuda"), torch.zeros(4, 8, device="cuda")
    graph, total = capture(lambda: y.copy_(x * 2 + x[0]).sum())
    other, out = torch.full((4, 8), 5.0, device="cuda"), torch.zeros(4, 8, device="cuda")
    graph.replay(bind={x: other, y: out})
    assert out.tolist() == [[15] * 8] * 4
    assert total.item() == 15 * 32
    assert y.tolist() == [[0] * 8] * 4
    graph.replay()
    assert y.tolist() == [[3] * 8] * 4
    graph.replay({x: other})
    assert y.tolist() == [[15] * 8] * 4


@pytest.mark.parametrize("other, said", [
    (lambda: torch.ones(4, device="cuda", dtype=torch.int32), "has dtype int32, expected float32"),
    (lambda: torch.ones(2, 2, device="cuda"), r"has shape \[2, 2\], expected \[4\]"),
    (lambda: torch.ones(8, device="cuda")[::2], r"has strides \[2\], expected \[1\]"),
    (lambda: torch.ones(4), "has device cpu, expected cuda:0"),
    (lambda: torch.ones(5, device="cuda")[1:], "modulo 16, 4, expected 0"),
])
def test_other_tensors_have_to_be_alike(other, said):
    x = torch.ones(4, device="cuda")
    graph, y = capture(lambda: x + 1)
    with pytest.raises(RuntimeError, match="CUDAGraph.replay: bind, pair 0: .*" + said):
        graph.replay(bind={x: other()})
    graph.replay()
    assert y.tolist() == [2] * 4


def test_only_tensors_are_bound():
    x = torch.ones(4, device="cuda")
    graph, _ = capture(lambda: x + 1)
    with pytest.raises(TypeError, match="bind, pair 0: the new one is a int, expected a tensor"):
        graph.replay(bind={x: 5})
    with pytest.raises(RuntimeError, match="the graph does not use the captured tensor"):
        graph.replay(bind={torch.ones(4, device="cuda"): torch.ones(4, device="cuda")})


def test_capturing_is_false_before_the_first_use():
    code = ("from ember import cuda; assert not cuda.is_current_stream_capturing(); "
            "assert not cuda.is_initialized()")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_streams_are_joined_by_events():
    x = torch.full((100,), 2.0, device="cuda")
    side = cuda.Stream()

    def work():
        main = cuda.current_stream()
        event = main.record_event()
        side.wait_event(event)
        with cuda.stream(side):
            right = x * 10
        left = x + 1
        main.wait_stream(side)
        return left + right

    graph, out = capture(work)
    for value in (2.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert out[99].item() == value * 11 + 1


def test_pools():
    handle = cuda.graph_pool_handle()
    assert handle[0] == 0 and handle[1] > 0
    x = torch.ones(10, device="cuda")
    first, y = capture(lambda: x + 1, pool=handle)
    assert first.pool() == handle
    second, z = capture(lambda: y * 2, pool=first.pool())
    first.replay()
    second.replay()
    assert z.tolist() == [4] * 10
    own, _ = capture(lambda: x + 1)
    number, zero = own.pool()
    assert zero == 0 and number > handle[1], "a pool made by a capture is (n, 0)"


def test_the_stream_that_captures():
    seen = []
    x = torch.ones(4, device="cuda")

    def work():
        x.add_(1)
        seen.append(cuda.current_stream())

    capture(work)
    capture(work)
    assert seen[0] == seen[1] == cuda.graph.default_capture_stream
    mine = cuda.Stream()
    capture(work, stream=mine)
    assert seen[2] == mine
    assert cuda.current_stream() == cuda.default_stream()


def test_an_empty_graph_warns():
    with pytest.warns(UserWarning, match="The CUDA Graph is empty. This usually means"):
        graph, _ = capture(lambda: None)
    graph.replay()
    cuda.synchronize()


def test_errors():
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="Called CUDAGraph::replay without a preceding successful"):
        graph.replay()
    with pytest.raises(RuntimeError, match=r"Called CUDAGraph::pool\(\) without a preceding"):
        graph.pool()
    with pytest.raises(RuntimeError, match=r"capture_end\(\) called before capture_begin\(\)."):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="Unknown capture error mode. Expected"):
        graph.capture_begin(capture_error_mode="loose")
    with pytest.raises(RuntimeError, match="intended to be called by the user only when keep_graph"):
        graph.instantiate()
    x = torch.ones(4, device="cuda")
    capture(lambda: x.add_(1), graph)
    with pytest.raises(RuntimeError, match="This CUDAGraph instance already owns a captured graph."):
        capture(lambda: x.add_(1), graph)
    assert cuda.current_stream() == cuda.default_stream()
    graph.reset()
    capture(lambda: x.mul_(3), graph)
    graph.replay()
    assert x.tolist() == [3] * 4


def test_kept_graphs_and_handles(tmp_path):
    x = torch.ones(4, device="cuda")
    graph, _ = capture(lambda: x.add_(1), cuda.CUDAGraph(keep_graph=True))
    assert graph.raw_cuda_graph() > 0
    with pytest.raises(RuntimeError, match=r"until instantiate\(\) has been called"):
        graph.raw_cuda_graph_exec()
    graph.instantiate()
    assert graph.raw_cuda_graph_exec() > 0
    graph.replay()
    assert x.tolist() == [2] * 4
    graph.debug_dump(str(tmp_path / "kept.dot"))
    assert "digraph" in (tmp_path / "kept.dot").read_text()


def test_debug_dump(tmp_path):
    x = torch.ones(4, device="cuda")
    graph, _ = capture(lambda: x.add_(1))
    path = tmp_path / "graph.dot"
    with pytest.warns(UserWarning, match="CUDA Graphs debug not enabled, set with"):
        graph.debug_dump(path)
    assert not path.exists()
    graph = cuda.CUDAGraph()
    graph.enable_debug_mode()
    capture(lambda: x.add_(1).sum(), graph)
    graph.debug_dump(str(path))
    text = path.read_text()
    assert "digraph" in text and "->" in text
    graph.replay()
    assert x.tolist() == [2] * 4


@pytest.mark.reported_by_tools
@pytest.mark.parametrize("call, text", [
    (lambda x: x.sum().item(), "item"),
    (lambda x: x.cpu(), "Cannot copy between CPU and CUDA tensors during CUDA graph capture"),
    (lambda x: x.tolist(), "Cannot copy between CPU and CUDA tensors during CUDA graph capture"),
    (lambda x: x.copy_(torch.ones(4)), "unless the CPU tensor is pinned"),
    (lambda x: cuda.synchronize(), "synchronize"),
    (lambda x: cuda.current_stream().synchronize(), "Stream.synchronize"),
    (lambda x: cuda.current_stream().query(), "query"),
])
def test_what_cannot_be_captured(call, text):
    x = torch.ones(4, device="cuda")
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=text):
        capture(lambda: call(x), graph)
    assert not cuda.is_current_stream_capturing()
    assert cuda.current_stream() == cuda.default_stream()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    capture(lambda: x.add_(1), graph)
    graph.replay()
    assert x.tolist() == [2] * 4


def test_an_exception_out_of_the_block():
    x = torch.ones(4, device="cuda")
    graph = cuda.CUDAGraph()
    with pytest.raises(KeyError):
        with cuda.graph(graph):
            x.add_(1)
            raise KeyError("mine")
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert x.tolist() == [1] * 4


@pytest.mark.parametrize("error", [ValueError, None])
def test_a_block_that_leaves_another_stream_current_leaves_no_capture(error):
    x, other, g = torch.ones(2, device="cuda"), cuda.Stream(), cuda.CUDAGraph()
    before = cuda.current_stream()
    try:
        with pytest.raises(error or RuntimeError, match="mine" if error else "Capture must end on the same stream"):
            with cuda.graph(g):
                x.add_(1)
                cuda.set_stream(other)
                if error:
                    raise error("mine")
    finally:
        cuda.set_stream(before)
    assert not cuda.is_current_stream_capturing() and x.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with cuda.graph(g):
        x.add_(1)
    g.replay()
    assert x.tolist() == [2, 2]


def test_a_capture_that_is_given_up_takes_noted_operations_with_it():
    """What a fused function or a batch has put off belongs to the capture, and is not done after it."""
    x, other, g = torch.ones(2, device="cuda"), cuda.Stream(), cuda.CUDAGraph()

    def leaves(t):
        with cuda.graph(g):
            t.add_(5)
            cuda.set_stream(other)
            raise ValueError("mine")

    def in_batch():
        with cuda.batch():
            leaves(x)

    before = cuda.current_stream()
    for call in (lambda: torch.fuse(leaves)(x), in_batch):
        try:
            with pytest.raises(ValueError, match="mine"):
                call()
        finally:
            cuda.set_stream(before)
        assert not cuda.is_current_stream_capturing() and x.tolist() == [1, 1]


def test_other_threads_go_on():
    x = torch.ones(1000, device="cuda")
    stop = threading.Event()
    failures = []

    def eager():
        y = torch.ones(1000, device="cuda")
        while not stop.is_set():
            try:
                y = (y * 2).clamp(0, 100)
            except RuntimeError as error:
                failures.append(error)
                return

    thread = threading.Thread(target=eager)
    thread.start()
    try:
        graphs = [capture(lambda: x.add_(1))[0] for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    assert not failures
    for graph in graphs:
        graph.replay()
    assert x[0].item() == 6


def test_host_functions():
    calls = []

    class Call:
        def __call__(self):
            calls.append(1)

    call = Call()
    alive = weakref.ref(call)
    graph, _ = capture(lambda: cuda._host_function(call))
    del call
    gc.collect()
    assert calls == [] and alive() is not None
    graph.replay()
    graph.replay()
    cuda.synchronize()
    assert calls == [1, 1]


def test_random_numbers_of_the_default_generator():
    def draws():
        return [torch.rand(100, device="cuda"), torch.randn(7, device="cuda"),
                torch.randint(0, 50, (9,), device="cuda"), torch.randperm(20, device="cuda"),
                torch.multinomial(torch.ones(6, device="cuda"), 8, replacement=True)]

    cuda.manual_seed(3)
    graph, out = capture(draws)
    state = cuda.get_rng_state()
    replayed = []
    for _ in range(3):
        graph.replay()
        replayed.append([x.tolist() for x in out])
    cuda.set_rng_state(state)
    assert replayed == [[x.tolist() for x in draws()] for _ in range(3)]
    cuda.manual_seed(3)
    graph.replay()
    assert [x.tolist() for x in out] == replayed[0]
    assert [x.tolist() for x in draws()] == replayed[1], "eager draws and replays mixed"


def test_register_generator_state():
    generator = torch.Generator(device="cuda").manual_seed(5)
    x = torch.ones(4, device="cuda")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        with pytest.raises(RuntimeError, match="Attempt to increase offset for a CUDA generator not"
                                               " in capture mode."):
            torch.rand(4, device="cuda", generator=generator)
        x.add_(1)
    graph = cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with cuda.graph(graph):
        out = torch.rand(4, device="cuda", generator=generator)
        with pytest.raises(RuntimeError, match="Cannot register the state during capturing stage."):
            graph.register_generator_state(generator)
    graph.replay()
    first = out.tolist()
    assert generator.get_offset() == 4
    assert first == torch.rand(4, device="cuda",
                               generator=torch.Generator(device="cuda").manual_seed(5)).tolist()
    with pytest.raises(RuntimeError, match="expected a generator for a CUDA device"):
        cuda.CUDAGraph().register_generator_state(torch.Generator())


@pytest.mark.parametrize("call, name", [
    (lambda g, state: g.manual_seed(1), "Cannot call CUDAGeneratorImpl::set_current_seed"),
    (lambda g, state: g.initial_seed(), "Cannot call CUDAGeneratorImpl::current_seed"),
    (lambda g, state: g.get_state(), "Cannot call CUDAGeneratorImpl::current_seed"),
    (lambda g, state: g.set_state(state), "Cannot call CUDAGeneratorImpl::set_state"),
    (lambda g, state: g.get_offset(), "Cannot call CUDAGeneratorImpl::get_offset"),
    (lambda g, state: g.set_offset(8), "Cannot call CUDAGeneratorImpl::set_offset"),
    (lambda g, state: g.seed(), "Cannot call CUDAGeneratorImpl::seed"),
    (lambda g, state: cuda.manual_seed(1), "Cannot call CUDAGeneratorImpl::set_current_seed"),
    (lambda g, state: cuda.get_rng_state(), "Cannot call CUDAGeneratorImpl::current_seed"),
    (lambda g, state: torch.Generator(device="cuda"), "Cannot construct a new CUDAGeneratorImpl"),
])
def test_states_are_unknown_in_captures(call, name):
    generator = torch.Generator(device="cuda").manual_seed(2)
    state = generator.get_state()
    graph = cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with cuda.graph(graph):
        out = torch.rand(4, device="cuda", generator=generator)
        with pytest.raises(RuntimeError, match=name + " during CUDA graph capture. "):
            call(generator, state)
    graph.replay()  # the capture went on
    again = torch.Generator(device="cuda").manual_seed(2)
    assert out.tolist() == torch.rand(4, device="cuda", generator=again).tolist()


def test_fourier_transforms():
    x = torch.zeros(3, 130, device="cuda")
    graph, (half, back) = capture(lambda: (torch.fft.rfft(x), torch.fft.irfft(torch.fft.rfft(x))))
    for value in (1.0, 2.0):
        x.copy_((torch.arange(390, device="cuda") * value).sin().view(3, 130))
        graph.replay()
        assert half.tolist() == torch.fft.rfft(x).tolist()
        assert back.tolist() == torch.fft.irfft(torch.fft.rfft(x)).tolist()


# ---- What is checked

def stale(**how):
    x = torch.ones(1000, device="cuda")
    graph, y = capture(lambda: x + 1, cuda.CUDAGraph(**how))
    del x
    return graph, y


def test_memory_that_is_gone_is_warned_of_where_it_is_replayed():
    graph, _ = stale()
    with pytest.warns(UserWarning, match="graph check: stale-memory: captured add.float32 reads") as seen:
        graph.replay()
    text = str(seen[0].message)
    assert "Captured with stack trace:" in text and "Freed with stack trace:" in text
    assert text.count("test_graphs.py") >= 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.replay()  # once
    cuda.synchronize()


def test_validate_makes_it_an_error_or_nothing():
    graph, _ = stale(validate="error")
    with pytest.raises(RuntimeError, match="graph check: stale-memory: "):
        graph.replay()
    graph, _ = stale(validate="off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.replay()
    cuda.synchronize()
    with pytest.raises(ValueError, match="validate is 'maybe', expected off, warn or error"):
        cuda.CUDAGraph(validate="maybe")


def test_the_environment_decides_of_graphs_that_were_not_told(monkeypatch):
    monkeypatch.setenv("EMBER_GRAPH_CHECK", "error")
    graph, _ = stale()
    with pytest.raises(RuntimeError, match="stale-memory"):
        graph.replay()
    monkeypatch.setenv("EMBER_GRAPH_CHECK", "sometimes")
    with pytest.raises(ValueError, match="EMBER_GRAPH_CHECK is 'sometimes', expected off, warn or error"):
        capture(lambda: torch.ones(1, device="cuda"))


def test_a_warning_that_is_an_error_is_raised_by_the_replay():
    graph, _ = stale(validate="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="stale-memory"):
            graph.replay()


@pytest.mark.reported_by_tools
def test_a_result_that_is_read_before_the_replay():
    x = torch.ones(100, device="cuda")
    graph, y = capture(lambda: x + 1, cuda.CUDAGraph(validate="error"))
    with pytest.raises(RuntimeError, match="graph check: read-before-replay: "):
        y * 2
    graph.replay()
    assert (y * 2).tolist() == [4] * 100


def test_replays_that_overlap_or_come_out_of_turn():
    x = torch.ones(100, device="cuda")
    first, y = capture(lambda: x + 1, cuda.CUDAGraph(validate="error"))
    second, z = capture(lambda: y * 2, cuda.CUDAGraph(validate="error"), pool=first.pool())
    with pytest.raises(RuntimeError, match="graph check: replays-out-of-order: .*capture 2 .*before"):
        second.replay()
    one, other = cuda.Stream(), cuda.Stream()
    with cuda.stream(one):
        first.replay()
    with cuda.stream(other), pytest.raises(RuntimeError, match="graph check: overlapping-replays"):
        second.replay()
    cuda.synchronize()
    with cuda.stream(one):
        first.replay()
    other.wait_stream(one)
    with cuda.stream(other):
        second.replay()
    cuda.synchronize()
    assert z.tolist() == [4] * 100


@pytest.mark.reported_by_tools
def test_each_capture_says_by_what_it_became_invalid():
    """Of two at once, on threads of their own."""
    if not cuda.is_simulated():
        pytest.skip("CUDA says that it is invalid, and not by what")
    x = torch.ones(1, device="cuda")
    cuda.synchronize()
    both = threading.Barrier(2, timeout=60)
    said = {}

    def work(name, spoil):
        stream, graph = cuda.Stream(), cuda.CUDAGraph()
        with cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            both.wait()
            with pytest.raises(RuntimeError):
                spoil(stream)
            both.wait()
            with pytest.raises(RuntimeError) as refused:
                x + 1
            both.wait()
            with pytest.raises(RuntimeError) as ended:
                graph.capture_end()
        said[name] = [str(refused.value), str(ended.value)]

    threads = [threading.Thread(target=work, args=("(item)", lambda stream: x.item())),
               threading.Thread(target=work, args=("Stream.synchronize", lambda stream: stream.synchronize()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 2
    for name, texts in said.items():
        for text in texts:
            assert name in text.split("by this: ")[1], text


@pytest.mark.reported_by_tools
def test_the_end_of_a_failed_capture_says_what_and_where():
    x = torch.ones(1, device="cuda")
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=r"became invalid by this: .*item.*[\s\S]*test_graphs.py"):
        with cuda.graph(graph):
            try:
                x.item()
            except RuntimeError:
                pass
            if cuda.is_simulated():  # CUDA says that it is invalid, and not by what
                with pytest.raises(RuntimeError, match="error during capture[\\s\\S]*by this: .*item"):
                    x + 1
    side = cuda.Stream()
    with pytest.raises(RuntimeError, match=r"unjoined work[\s\S]*Forked with stack trace:[\s\S]*test_graphs.py"):
        with cuda.graph(graph):
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                x.add_(1)
    graph, _ = capture(lambda: x.add_(1), graph)
    graph.replay()
    assert x.tolist() == [2]


def test_describe_lists_the_captured_work():
    x = torch.ones(100, device="cuda")
    graph, y = capture(lambda: (x + 1) * 2)
    nodes = graph.describe()
    assert [node["name"] for node in nodes] == ["add.float32", "mul.float32"]
    assert [node["after"] for node in nodes] == [[], [0]]
    assert all(node["kind"] == "kernel" and node["memory_known"] for node in nodes)
    assert {"address": x.data_ptr(), "bytes": 400, "writes": False, "argument": "self"} in nodes[0]["memory"]
    assert any(each["address"] == y.data_ptr() and each["writes"] for each in nodes[1]["memory"])
    assert "test_graphs.py" in nodes[0]["stack"]
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        cuda.CUDAGraph().describe()


def test_graphed_callables():
    w = torch.full((3, 3), 2.0, device="cuda")
    calls = []

    def layer(x, scale):
        calls.append(1)
        return {"y": (x @ w).relu() * scale, "sums": (x.sum(), [scale.sum()])}

    x, scale = torch.ones(3, 3, device="cuda"), torch.full((3,), 5.0, device="cuda")
    graphed = cuda.make_graphed_callables(layer, (x, scale))
    assert len(calls) == 4, "three to warm up, one to capture"
    for value in (1.0, -2.0):
        a, b = torch.full((3, 3), value, device="cuda"), torch.full((3,), value + 7, device="cuda")
        ours = graphed(a, b)
        assert len(calls) == 4
        assert ours["y"].tolist() == ((a @ w).relu() * b).tolist()
        assert ours["sums"][0].item() == a.sum().item()
        assert ours["sums"][1][0].item() == b.sum().item()
    assert x.tolist() == [[-2.0] * 3] * 3, "arguments are copied to the samples"
    x.fill_(3.0)
    assert graphed(x, scale)["sums"][0].item() == 27.0, "and the sample itself is not"


def test_several_graphed_callables():
    x, y = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    first, second = cuda.make_graphed_callables(
        (lambda t: t + 1, lambda pair: (pair[0] * pair[1],)), ((x,), ((x, y),)),
        num_warmup_iters=1, allow_unused_input=True, pool=cuda.graph_pool_handle())
    out, = second((first(torch.full((4,), 2.0, device="cuda")), torch.full((4,), 5.0)))
    assert out.tolist() == [15.0] * 4


@pytest.mark.reported_by_tools
def test_graphed_callables_must_not_wait():
    x = torch.zeros(4, device="cuda")
    with pytest.raises(RuntimeError, match="item"):
        cuda.make_graphed_callables(lambda t: t * t.sum().item(), (x,))
    assert cuda.current_stream() == cuda.default_stream()
    assert cuda.make_graphed_callables(lambda t: t + 1, (x,))(x).tolist() == [1.0] * 4


def test_graphed_callables_say_what_is_wrong():
    x = torch.zeros(4, device="cuda")
    with pytest.raises(AssertionError, match="sample_args for each callable must contain only "
                                             "Tensors. Other types are not allowed."):
        cuda.make_graphed_callables(lambda t, n: t * n, (x, 3))
    with pytest.raises(ValueError, match="there are 2 callables and sample_args for 1"):
        cuda.make_graphed_callables((abs, abs), ((x,),))
    with pytest.raises(TypeError, match="callables must return tensors.*got int"):
        cuda.make_graphed_callables(lambda t: 3, (x,))
    with pytest.raises(RuntimeError, match="num_warmup_iters must not be negative, got -1"):
        cuda.make_graphed_callables(abs, (x,), num_warmup_iters=-1)

    def throws(t):
        result = t + 1
        if cuda.is_current_stream_capturing():
            raise KeyError("mine")
        return result

    with pytest.raises(KeyError, match="mine"):
        cuda.make_graphed_callables(throws, (x,))
    assert cuda.current_stream() == cuda.default_stream()
    graphed = cuda.make_graphed_callables(lambda t: t + 1, (x,))
    with pytest.raises(TypeError, match="arguments like its sample_args: 1 tensors.*got 2"):
        graphed(x, x)
    with pytest.raises(RuntimeError, match=r"has to be like its sample, float32 \[4\], got float32 \[1\]"):
        graphed(torch.zeros(1, device="cuda"))
    assert graphed(x).tolist() == [1.0] * 4
