"""cuda.graphed: functions whose calls become replays by themselves. What is expected is what the
function itself gives."""

import gc
import threading
import warnings
from collections import OrderedDict, defaultdict

import pytest

import ember as torch
from ember import cuda

pytestmark = pytest.mark.usefixtures("caching")  # without it captures are refused


def counted(function):
    def calls(*args, **kwargs):
        calls.count += 1
        return function(*args, **kwargs)
    calls.count = 0
    return calls


def test_decorator_with_and_without_arguments():
    @cuda.graphed
    def twice(x):
        """Doubles."""
        return x * 2

    @cuda.graphed(max_graphs=2, copy=False)
    def thrice(x):
        return x * 3

    x = torch.ones(3, device="cuda")
    for value in (1.0, 2.0, 3.0, 4.0):
        x.fill_(value)
        assert twice(x).tolist() == [2 * value] * 3
        assert thrice(x).tolist() == [3 * value] * 3
        assert cuda.graphed(lambda t: t + 1)(x).tolist() == [value + 1] * 3
    assert twice.__name__ == "twice" and twice.__doc__ == "Doubles."
    with pytest.raises(ValueError, match="max_graphs has to be at least 1, got 0"):
        cuda.graphed(max_graphs=0)(lambda t: t)


def test_signatures():
    def eager(x, *, scale=1, parts=(), mode="sum"):
        y = x * scale
        for part in parts:
            y = y + part["bias"]
        return {"y": y, "mode": mode, "all": [getattr(y, mode)(), None, scale]}

    body = counted(eager)
    function = cuda.graphed(body)
    for _ in range(4):
        for size in (2, 3):
            for scale, mode in ((2, "sum"), (2.0, "sum"), (2, "mean")):
                x = torch.arange(size, dtype=torch.float32, device="cuda")
                bias = torch.full((size,), 7.0, device="cuda")
                ours = function(x, scale=scale, parts=[{"bias": bias}, {"bias": x}], mode=mode)
                theirs = eager(x, scale=scale, parts=[{"bias": bias}, {"bias": x}], mode=mode)
                assert ours["y"].tolist() == theirs["y"].tolist()
                assert ours["mode"] == mode and ours["all"][1] is None
                assert type(ours["all"][2]) is type(scale)
                assert ours["all"][0].item() == theirs["all"][0].item()
    assert body.count <= 6 * 3, "once, a capture, and one more where addresses change"


def test_the_least_recently_used_goes():
    body = counted(lambda x, n: x + n)
    function = cuda.graphed(body, max_graphs=2)
    x = torch.zeros(2, device="cuda")

    def called(n):
        before = body.count
        assert function(x, n).tolist() == [float(n)] * 2
        return body.count - before

    assert [called(n) for n in (0, 0, 1, 1, 0, 2, 2, 0, 2, 1)] == [1, 1, 1, 1, 0, 1, 1, 0, 0, 1]
    function.clear()
    assert called(0) == 1


@pytest.mark.parametrize("check", ["warn", "error"])
def test_arguments_that_come_and_go_are_no_mistake(check, monkeypatch):
    monkeypatch.setenv("EMBER_GRAPH_CHECK", check)
    weights = [torch.ones(3, device="cuda")]
    function = cuda.graphed(lambda x, y: (x * 2 + weights[0], y[1:] + 1, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in range(5):
            a, b, c = function(torch.full((3,), float(value), device="cuda"),
                               torch.full((4,), float(value), device="cuda"))
            assert a.tolist() == [2 * value + 1] * 3
            assert b.tolist() == [value + 1] * 3 and c.tolist() == [value] * 3
    weights[0] = None  # which the graph goes on reading
    expected = (pytest.warns(UserWarning, match="stale-memory") if check == "warn" else
                pytest.raises(RuntimeError, match="stale-memory"))
    with expected:
        function(torch.ones(3, device="cuda"), torch.ones(4, device="cuda"))


def test_signatures_come_in_any_order(monkeypatch):
    monkeypatch.setenv("EMBER_GRAPH_CHECK", "error")
    function = cuda.graphed(lambda x: (x * 2).sum() + x)
    streams = [cuda.current_stream(), cuda.Stream()]
    for turn, size in enumerate([1, 2, 3] * 3 + [3, 2, 1, 2, 3, 3, 1]):
        with cuda.stream(streams[turn % 2]):
            x = torch.full((size,), float(turn), device="cuda")
            assert function(x).tolist() == [turn * (2 * size + 1)] * size


def test_a_call_that_does_nothing():
    function = cuda.graphed(lambda x: x + 1 if x.numel() else x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            assert function(torch.ones(0, 2, device="cuda")).shape == (0, 2)
            assert function(torch.ones(1, 2, device="cuda")).tolist() == [[2, 2]]


def test_changes_in_place():
    total = torch.zeros(3, device="cuda")

    @cuda.graphed
    def step(x, by):
        x += by
        total.add_(x)
        return x

    one, expected, alive = torch.ones(3, device="cuda"), 0.0, []
    for call in range(6):
        x = torch.full((3,), float(call), device="cuda")
        alive.append(x)
        assert step(x, one) is x
        expected += call + 1
        assert x.tolist() == [call + 1.0] * 3
        assert total.tolist() == [expected] * 3


def test_methods():
    class Layer:
        def __init__(self, weight):
            self.weight = torch.full((2,), weight, device="cuda")
            self.calls = 0

        @cuda.graphed
        def forward(self, x):
            self.calls += 1
            return x * self.weight

    layers, x = (Layer(2.0), Layer(3.0)), torch.ones(2, device="cuda")
    for _ in range(4):
        assert [layer.forward(x).tolist() for layer in layers] == [[2.0] * 2, [3.0] * 2]
    layers[0].weight.fill_(5.0)
    assert layers[0].forward(x).tolist() == [5.0] * 2
    assert [layer.calls for layer in layers] == [2, 2]


def test_random_numbers():
    def eager(x):
        return torch.rand_like(x), torch.randn(2, device="cuda")

    function, x = cuda.graphed(eager), torch.zeros(5, device="cuda")
    drawn = []
    for draw in eager, function:
        cuda.manual_seed(11)
        drawn.append([[part.tolist() for part in draw(x)] for _ in range(5)])
    assert drawn[0] == drawn[1]


@pytest.mark.reported_by_tools
@pytest.mark.parametrize("what", ["host", "cpu", "unhashable", "result", "swallowed"])
def test_without_a_graph_it_says_so_once(what):
    total = torch.zeros(1, device="cuda")

    @cuda.graphed
    def function(x, other=None):
        total.add_(1)
        if what == "host":
            return x * x.sum().item()
        if what == "swallowed":
            try:
                x.sum().item()
            except RuntimeError:
                pass
        if what == "result":
            return torch.ones(2)
        return x * 2

    x = torch.ones(2, device="cpu" if what == "cpu" else "cuda")
    other = {1, 2} if what == "unhashable" else None
    expected = [1.0] * 2 if what == "result" else [2.0] * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(1, 5):
            assert function(x, other).tolist() == expected
            assert total.item() == call
    said = [str(each.message) for each in caught if "graphed" in str(each.message)]
    assert len(said) == 1 and "function is called without a graph: " in said[0], said
    reason = {"host": "item", "cpu": "argument 0 is on cpu", "unhashable": "unhashable type: 'set'",
              "result": "result 0 is on cpu", "swallowed": "capture"}[what]
    assert reason in said[0]


def test_containers_are_the_callers_own():
    x = torch.ones(4, device="cuda")

    def step(state):
        state["h"] = state["h"] * 2
        return state["h"] + 1

    graphed, state = cuda.graphed(step), {"h": x}
    with pytest.warns(UserWarning, match="it changes a list or dict that it is given"):
        assert [graphed(state)[0].item() for _ in range(5)] == [3, 5, 9, 17, 33]
    assert state["h"][0].item() == 32

    noted = []
    log = cuda.graphed(lambda a, log: log.append(1) or a + 1)
    log(x, noted)
    assert noted == [1]
    for kind in (dict, OrderedDict):
        same = cuda.graphed(lambda given: OrderedDict(y=given["a"] + 1))
        results = [same(kind(a=x)) for _ in range(4)]
        assert all(type(one) is OrderedDict and one["y"][0].item() == 2 for one in results)
    by_tuple = cuda.graphed(lambda given: {("y", 1): given["x", Two((0,))] * 2})
    assert [by_tuple({("x", Two((0,))): x})["y", 1][0].item() for _ in range(4)] == [2] * 4
    keys = cuda.graphed(lambda given: x + (1 if type(next(iter(given))) is bool else 2))
    assert [keys({key: x})[0].item() for key in (1, 1, True, True)] == [3, 3, 2, 2]


class Rows(list):
    def __init__(self, one):
        super().__init__([one])


@pytest.mark.parametrize("given", [lambda x: defaultdict(lambda: x), lambda x: Rows(x)])
def test_containers_of_other_classes_are_as_they_are(given):
    x = torch.ones(4, device="cuda")
    graphed = cuda.graphed(lambda state: (state[0] + 1, type(state).__name__))
    with pytest.warns(UserWarning, match="is called without a graph"):
        results = [graphed(given(x)) for _ in range(3)]
    assert all(one[0][0].item() == 2 and one[1] == type(given(x)).__name__ for one in results)


class Held:
    def __init__(self, tensor):
        self.tensor = tensor


@pytest.mark.parametrize("hide, find", [
    (Held, lambda held: held.tensor), (lambda y: {y}, lambda one: next(iter(one))),
    (lambda y: lambda: y, lambda function: function()), (lambda y: iter([y]), next)])
def test_results_in_which_tensors_hide_are_new_ones(hide, find):
    graphed = cuda.graphed(lambda a: hide(a + 1))
    with pytest.warns(UserWarning, match="a result is of .*, in which tensors may be"):
        kept = [graphed(torch.full((4,), float(i), device="cuda")) for i in range(5)]
    assert [find(one)[0].item() for one in kept] == [1, 2, 3, 4, 5]


def test_arguments_that_become_other_views():
    def turned(a):
        a.t_()
        return a * 1

    graphed = cuda.graphed(turned)
    a = torch.arange(4.0, device="cuda").view(2, 2)
    expected = a.clone()
    with pytest.warns(UserWarning, match="it makes argument 0 another view"):
        for _ in range(4):
            assert graphed(a).tolist() == turned(expected).tolist()
            assert a.tolist() == expected.tolist()

    def longer(a):
        return a.unsqueeze_(0).add_(1)

    graphed = cuda.graphed(longer)
    with pytest.warns(UserWarning, match="another view"):
        for _ in range(4):
            a = torch.zeros(3, device="cuda")
            assert graphed(a).shape == a.shape == (1, 3) and a.tolist() == [[1, 1, 1]]


def test_named_results():
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]], device="cuda")
    found = cuda.graphed(lambda a: torch.max(a, 1))
    results = [found(x) for _ in range(4)]
    assert all(one.values.tolist() == [3, 5] and one.indices.tolist() == [0, 1] for one in results)
    taken = cuda.graphed(lambda pair: pair.values * 2)
    assert [taken(torch.sort(x)).tolist() for _ in range(4)] == [[[2, 6], [4, 10]]] * 4


class Two(tuple):
    pass


class Number(int):
    pass


def test_classes_of_the_programs():
    x = torch.ones(3, device="cuda")
    taken = cuda.graphed(lambda pair: pair[0] * 2)
    with pytest.warns(UserWarning, match="Two is a tuple of a class of its own"):
        assert [taken(Two((x * i,)))[0].item() for i in range(4)] == [0, 2, 4, 6]

    def hidden(a):
        number = Number(1)
        number.tensor = a * 2
        return number

    hiding = cuda.graphed(hidden)
    with pytest.warns(UserWarning, match="a result is of Number"):
        kept = [hiding(x * i) for i in range(5)]
    assert [one.tensor[0].item() for one in kept] == [0, 2, 4, 6, 8]
    given = {1, 2}
    with pytest.warns(UserWarning):
        assert cuda.graphed(lambda one: one)(given) is given


def test_what_is_no_function():
    with pytest.raises(TypeError, match="graphed: function: expected something to call, got int"):
        cuda.graphed(5)


def test_exceptions_come_through():
    fails = [True]

    @cuda.graphed
    def function(x):
        if fails[0]:
            raise KeyError("mine")
        return x + 1

    x = torch.zeros(2, device="cuda")
    with pytest.raises(KeyError, match="mine"):
        function(x)
    fails[0] = False
    assert function(x).tolist() == [1.0] * 2
    fails[0] = True
    with pytest.raises(KeyError, match="mine"):
        function(x)
    assert not cuda.is_current_stream_capturing()
    fails[0] = False
    assert function(x).tolist() == function(x).tolist() == [1.0] * 2


def test_what_ends_a_program_ends_the_capture_only():
    calls = []

    @cuda.graphed
    def function(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return x + 1

    x = torch.zeros(2, device="cuda")
    function(x)
    with pytest.raises(KeyboardInterrupt):
        function(x)
    assert len(calls) == 2, "and the function is not called again"
    assert not cuda.is_current_stream_capturing()
    assert function(x).tolist() == function(x).tolist() == [1.0] * 2
    assert len(calls) == 3


def test_in_a_capture_it_is_part_of_that():
    inner = cuda.graphed(lambda x: x * 2)
    x = torch.ones(2, device="cuda")
    inner(x), inner(x)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = inner(x) + 1
    x.fill_(4.0)
    graph.replay()
    assert y.tolist() == [9.0] * 2


def test_threads():
    function, wrong = cuda.graphed(lambda x, n: (x + n) * 2, max_graphs=2), []

    def work(t):
        with cuda.stream(cuda.Stream()):
            for call in range(12):
                n = (call + t) % 3
                got = function(torch.full((n + 1,), float(call), device="cuda"), n).tolist()
                if got != [2.0 * (call + n)] * (n + 1):
                    wrong.append((t, call, got))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_goes_with_the_function():
    x = torch.ones(1 << 18, device="cuda")

    def use():
        function = cuda.graphed(lambda t: (t * 2 + 1, 3))
        for _ in range(3):
            function(x)

    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    before = cuda.memory_allocated(), cuda.memory_reserved()
    use()
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    assert (cuda.memory_allocated(), cuda.memory_reserved()) == before
