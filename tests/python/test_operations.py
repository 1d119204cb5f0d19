"""Reductions, sorting, products, joining: against NumPy, and what Python adds to them."""

import copy
import math
import pickle
import warnings

import pytest

np = pytest.importorskip("numpy")

import ember as torch


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), [1]])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "std"])
def test_reductions(name, dim, values, device):
    """Against NumPy, with dim, several dims and keepdim."""
    x = torch.tensor(values, device=device)
    axis = tuple(dim) if isinstance(dim, list) else dim
    options = {"ddof": 1} if name in ("var", "std") else {}
    expected = getattr(np, name)(values.astype(np.float64), axis=axis, **options)
    for result in (getattr(torch, name)(x, dim=dim), getattr(x, name)(dim)):
        np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-4)
    kept = getattr(x, name)(dim=dim, keepdim=True)
    assert kept.dim() == 3
    out = torch.empty(0, device=device)
    assert getattr(torch, name)(x, dim, out=out) is out


def test_positions(values, device):
    """argmax, argmin and the indices of max and min, against NumPy."""
    x = torch.tensor(values, device=device)
    assert x.argmax().item() == values.argmax()
    assert torch.argmin(x, dim=1).tolist() == values.argmin(axis=1).tolist()
    found = x.max(dim=2)
    assert found.values.tolist() == values.max(axis=2).tolist()
    assert found.indices.tolist() == values.argmax(axis=2).tolist()
    best, where = torch.min(x, 0, keepdim=True)
    assert best.shape == where.shape == (1, 5, 6)
    zeros, out = torch.zeros_like(x), torch.empty_like(x)
    assert torch.max(x, zeros).tolist() == np.maximum(values, 0).tolist()
    assert torch.max(x, zeros, out=out) is out and out.tolist() == np.maximum(values, 0).tolist()
    assert x.min(zeros).tolist() == np.minimum(values, 0).tolist()
    assert x.max().item() == values.max()
    assert repr(found) == ("torch.return_types.max(\nvalues=%r,\nindices=%r)" % tuple(found))
    with pytest.raises(RuntimeError, match=r"argmax\(\): does not support bool input"):
        (x > 0).argmax()


def test_truth(device):
    """any, all and count_nonzero."""
    x = torch.tensor([[0, 1], [2, 3]], device=device)
    assert x.any().item() is True and x.all().item() is False
    assert x.all(dim=1).tolist() == [False, True]
    assert x.any().dtype == torch.bool
    # Of uint8 the answer is uint8, as torch has it.
    byte = x.to(torch.uint8)
    assert byte.all(dim=1).dtype == byte.any().dtype == torch.uint8
    assert byte.all(dim=1).tolist() == [0, 1] and byte.any().item() == 1
    assert torch.count_nonzero(x).item() == 3
    assert x.count_nonzero(0, 1).item() == 3
    assert x.sum(dtype=torch.float64).dtype == torch.float64
    assert x.sum().dtype == torch.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        x.mean()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(2)


def test_norm(values, device):
    """p as a number or "fro", against NumPy."""
    x = torch.tensor(values, device=device)
    for p, order in [("fro", 2), (1, 1), (math.inf, np.inf)]:
        np.testing.assert_allclose(x.norm(p).item(), np.linalg.norm(values.reshape(-1), order),
                                   rtol=1e-5)
    assert x.norm(None, 0).tolist() == x.norm(2, 0).tolist()
    np.testing.assert_allclose(torch.norm(x, dim=1).cpu().numpy(), np.linalg.norm(values, axis=1),
                               rtol=1e-5)


def test_order(values, device):
    """sort, argsort and topk against NumPy."""
    x = torch.tensor(values, device=device)
    ordered = torch.sort(x, dim=1, descending=True)
    assert ordered.values.tolist() == (-np.sort(-values, axis=1)).tolist()
    assert x.argsort(0).tolist() == values.argsort(axis=0, kind="stable").tolist()
    places = torch.empty(0, device=device, dtype=torch.int64)
    assert torch.argsort(x, 1, stable=True, out=places) is places
    assert places.tolist() == values.argsort(axis=1, kind="stable").tolist()
    top = x.topk(2)
    assert top.values.tolist() == (-np.sort(-values, axis=-1))[..., :2].tolist()
    assert top.indices.dtype == torch.int64
    out = torch.empty(0, device=device), torch.empty(0, device=device, dtype=torch.int64)
    torch.topk(x, 3, dim=0, largest=False, out=out)
    assert out[0].tolist() == np.sort(values, axis=0)[:3].tolist()
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        x.topk(7)


def test_products(device):
    """mm, matmul and their relatives against NumPy."""
    random = np.random.default_rng(1)
    a, b = random.normal(size=(3, 4)), random.normal(size=(4, 5))
    x, y = torch.tensor(a, device=device), torch.tensor(b, device=device)

    def same(result, expected):
        np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-12)
    for result in (x @ y, torch.mm(x, y), x.matmul(y), x.mm(y), torch.addmm(x.new_zeros(5), x, y)):
        same(result, a @ b)
    same(torch.addmm(x.new_ones(5), x, y, beta=2, alpha=3), 2 + 3 * (a @ b))
    same(x.mv(y[:, 0]), a @ b[:, 0])
    same(torch.dot(x[0], y[:, 1]), a[0] @ b[:, 1])
    same(torch.bmm(x[None], y[None]), (a @ b)[None])
    out = torch.empty(3, 5, dtype=torch.float64, device=device)
    assert torch.matmul(x, y, out=out) is out
    same(out, a @ b)
    assert out.addmm_(x, y, beta=0) is out
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x4\)"):
        x @ x


def test_joining(device):
    """cat, stack and concat, and shapes that do not fit."""
    x = torch.ones(2, 3, device=device)
    assert torch.cat([x, x * 2]).tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 2
    assert torch.cat((x, x), dim=-1).shape == (2, 6)
    assert torch.stack([x, x], 1).shape == (2, 2, 3)
    assert torch.concat([x]).shape == (2, 3)
    with pytest.raises(RuntimeError, match="expected a non-empty list of Tensors"):
        torch.cat([])
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        torch.cat([x, 3])


def test_unbiased_forms(values, device):
    x = torch.tensor(values, device=device)
    for name in ("var", "std"):
        call, function = getattr(x, name), getattr(torch, name)
        of_all = call(correction=0).item()
        for result in (call(False), call(unbiased=False), function(x, False), call(None, False)):
            assert result.item() == of_all
        assert call(True).item() == call(correction=None).item() == call().item()
        along = call(0, correction=0, keepdim=True)
        for result in (call(0, False, True), call(dim=0, unbiased=False, keepdim=True),
                       function(x, 0, False, True), call(axis=0, unbiased=False, keepdims=True)):
            assert result.shape == along.shape and result.tolist() == along.tolist()
        assert call(0, False).shape == (5, 6)
        out = torch.empty(0, device=device)
        assert function(x, (0, 1), False, out=out) is out
        with pytest.raises(TypeError):
            call(0, correction=0, unbiased=False)
        with pytest.raises(TypeError):
            call(True, True)


@pytest.mark.parametrize("name, rest", [
    ("sum", {}), ("prod", {}), ("mean", {}), ("var", {}), ("std", {}), ("amax", {}), ("amin", {}),
    ("argmax", {}), ("argmin", {}), ("any", {}), ("all", {}), ("max", {}), ("min", {}),
    ("norm", {}), ("count_nonzero", {}), ("cumsum", {}), ("cumprod", {}), ("softmax", {}),
    ("log_softmax", {}), ("sort", {}), ("argsort", {}), ("topk", {"k": 2}), ("squeeze", {}),
    ("unsqueeze", {}), ("unbind", {}), ("chunk", {"chunks": 2}), ("select", {"index": 0}),
    ("narrow", {"start": 1, "length": 2}), ("index_select", {"index": torch.tensor([2, 0])})])
def test_names_of_numpy(name, rest, values):
    """axis= and keepdims= wherever dim= and keepdim= are."""
    x = torch.tensor(values)
    kept = name in ("sum prod mean var std amax amin argmax argmin any all max min norm").split()
    for call in (getattr(x, name), lambda *a, **k: getattr(torch, name)(x, *a, **k)):
        expected = repr(call(dim=1, **rest))
        assert repr(call(axis=1, **rest)) == expected
        if kept:
            expected = repr(call(dim=1, keepdim=True))
            for names in (("dim", "keepdims"), ("axis", "keepdim"), ("axis", "keepdims")):
                assert repr(call(**dict(zip(names, (1, True))))) == expected
        with pytest.raises(TypeError):
            call(dim=1, axis=1, **rest)
    parts = [x, x]
    assert torch.cat(parts, axis=1).shape == (4, 10, 6)
    assert torch.stack(parts, axis=1).shape == (4, 2, 5, 6)


def test_no_dimension(device):
    """dim=() reduces nothing."""
    x = torch.tensor([[0.0, 1, 2], [3, 0, 5]], device=device)
    for call in (torch.any, torch.all):
        for kept in (False, True):
            assert call(x, dim=(), keepdim=kept).tolist() == (x != 0).tolist()
        assert call(x.byte(), ()).dtype == torch.uint8
        out = torch.empty(2, 3, dtype=torch.bool, device=device)
        assert call(x, (), out=out) is out and out.tolist() == (x != 0).tolist()
        assert call(x.sum(), ()).item() is True
    assert x.sum(()).item() == 11 and x.amax(()).item() == 5


def test_outputs(device):
    """out= of several results takes a tuple or a list of the right tensors."""
    x = torch.tensor([[0.0, 1, 2], [3, 4, 5]], device=device)
    values = torch.empty(2, device=device)
    indices = torch.empty(2, dtype=torch.int64, device=device)
    for found in (torch.max(x, 1, out=(values, indices)),
                  torch.sort(x[0, :2], out=[values, indices])):
        assert found[0] is values and found[1] is indices
    wide = torch.empty(2, dtype=torch.float64, device=device)
    for call in (lambda: torch.argmax(x, 1, out=wide), lambda: torch.any(x, 1, out=wide),
                 lambda: torch.amax(x, 1, out=wide), lambda: torch.min(x, 1, out=(wide, indices)),
                 lambda: torch.softmax(x[:, 0], 0, out=wide)):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype|Expected the dtype for input and out"):
            call()
    out = torch.empty(3, device=device)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        assert torch.sum(x, 1, out=out) is out
    assert out.tolist() == x.sum(1).tolist()
    with pytest.raises(RuntimeError, match="doesn't match the result's shape"):
        torch.sum(x, 1, out=x)


def test_arguments_of_other_kinds():
    x = torch.zeros(4)
    for size in (2.0, [1.0, 3], "text"):
        with pytest.raises(TypeError, match="split_size: expected an int or a sequence of ints"):
            x.split(size)
    for out in (1, [1, 1.0], (x, 1.0), (x, None), (x,)):
        with pytest.raises(TypeError, match="out: expected a tuple of two tensors"):
            torch.sort(x, out=out)
    with pytest.raises(TypeError, match="dl_device: expected"):
        x.__dlpack__(dl_device="cpu")


def test_factors(device):
    """alpha, beta and value as numbers or tensors without dimensions."""
    x = torch.tensor([1.0, 2], device=device)
    y = torch.tensor([3.0, 4], device=device)
    for two in (2, 2.0, torch.tensor(2), torch.tensor(2.0, device=device)):
        assert torch.add(x, y, alpha=two).tolist() == x.add(y, alpha=two).tolist() == [7, 10]
        assert x.clone().sub_(y, alpha=two).tolist() == [-5, -6]
        assert torch.addcmul(x, y, y, value=two).tolist() == [19, 34]
        assert x.addcdiv(y, x, value=two).tolist() == [7, 6]
        z = x.clone()
        assert z.addcmul_(y, y, value=two) is z and z.tolist() == [19, 34]
        out = torch.empty(0, device=device)
        assert torch.addcdiv(x, y, x, value=two, out=out) is out and out.tolist() == [7, 6]
        at = torch.tensor([0], device=device)
        assert x[:1].index_add(0, at, y[:1], alpha=two).tolist() == [7]
        eye = torch.tensor([[1.0, 0], [0, 1]], device=device)
        assert torch.addmm(eye, eye, eye, beta=two, alpha=two).tolist() == [[4, 0], [0, 4]]
    with pytest.raises(TypeError, match="alpha: expected a number or a tensor without dimensions"):
        x.add(y, alpha=torch.tensor([2.0]))


def test_round(device):
    x = torch.tensor([1234.5678, -0.25], dtype=torch.float64, device=device)
    assert torch.round(x, decimals=1).tolist() == x.round(decimals=1).tolist() == [1234.6, -0.2]
    out = torch.empty(0, dtype=torch.float64, device=device)
    assert torch.round(x, decimals=-2, out=out) is out and out.tolist() == [1200, 0]
    assert x.round_(decimals=2) is x and x.tolist() == [1234.57, -0.25]
    with pytest.raises(TypeError):
        x.round(1)


def test_refused_arithmetic(device):
    flag = torch.tensor([True], device=device)
    x = torch.arange(3, device=device)
    for call in (lambda: 1 - flag, lambda: flag - 1.5, lambda: x - flag, lambda: x.sub_(True)):
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
            call()
    for call in (lambda: x ** -1, lambda: torch.pow(x, -2), lambda: flag ** -1):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
            call()
    assert (2 ** x).tolist() == [1, 2, 4] and (x ** -1.0)[1].item() == 1


OUTPUTS = {
    "empty": lambda out: torch.empty(2, 3, out=out),
    "zeros": lambda out: torch.zeros((2, 3), out=out),
    "ones": lambda out: torch.ones(2, 3, out=out),
    "full": lambda out: torch.full((2, 3), 7, out=out),
    "arange": lambda out: torch.arange(1, 7, out=out),
    "rand": lambda out: torch.rand(2, 3, out=out),
    "randn": lambda out: torch.randn(2, 3, out=out),
    "randint": lambda out: torch.randint(5, (2, 3), out=out),
    "randperm": lambda out: torch.randperm(6, out=out),
    "normal": lambda out: torch.normal(0.0, 1.0, (2, 3), out=out),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_new_tensors_in_outputs(name, device):
    shape = (6,) if name in ("arange", "randperm") else (2, 3)
    out = torch.empty(shape, dtype=torch.float64, device=device)
    address = out.data_ptr()
    assert OUTPUTS[name](out) is out
    assert out.data_ptr() == address and tuple(out.shape) == shape and out.dtype == torch.float64
    empty = torch.empty(0, dtype=torch.float64, device=device)
    assert OUTPUTS[name](empty) is empty and tuple(empty.shape) == shape
    other = torch.empty(5, dtype=torch.float64, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if name != "arange" else "ignore")
        assert OUTPUTS[name](other) is other
    assert tuple(other.shape) == shape


def test_options_of_new_tensors_agree_with_their_output():
    out = torch.empty(3)
    assert torch.zeros(3, out=out, dtype=torch.float32, device="cpu:0") is out
    with pytest.raises(RuntimeError, match=r"dtype Int does not match dtype of out parameter \(Float"):
        torch.zeros(3, out=out, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="does not match device of out parameter"):
        torch.zeros(3, out=out, device="cuda")


def test_results_in_outputs(device):
    x = torch.arange(6.0, device=device).reshape(2, 3)
    index = torch.tensor([[0, 0, 1]], device=device)
    row = torch.tensor([0], device=device)
    source = torch.ones(1, 3, device=device)
    calls = {
        "tril": lambda **out: torch.tril(x, **out),
        "triu": lambda **out: torch.triu(x, 1, **out),
        "diag": lambda **out: torch.diag(x, **out),
        "take": lambda **out: torch.take(x, row, **out),
        "scatter": lambda **out: torch.scatter(x, 0, index, source, **out),
        "scatter of a number": lambda **out: torch.scatter(x, 0, index, 9.0, **out),
        "scatter_add": lambda **out: torch.scatter_add(x, 0, index, source, **out),
        "index_add": lambda **out: torch.index_add(x, 0, row, source, alpha=2, **out),
        "index_copy": lambda **out: torch.index_copy(x, 0, row, source, **out),
        "norm": lambda **out: torch.norm(x, **out),
    }
    for name, call in calls.items():
        out = torch.empty(0, device=device)
        assert call(out=out) is out, name
        assert out.tolist() == call().tolist(), name
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            call(out=torch.empty(0, dtype=torch.int32, device=device))
    for name in ("tril", "triu", "scatter", "scatter_add", "index_add", "index_copy"):
        wanted, kept = calls[name]().tolist(), x.clone()
        calls[name](out=x)  # may be the input
        assert x.tolist() == wanted, name
        x.copy_(kept)
    with pytest.raises(RuntimeError, match="single memory location"):
        calls["index_copy"](out=source)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.take(x, row, out=x[0, :1])


def test_norm_refuses_narrower_dtypes_and_other_kinds(device):
    x = torch.ones(3, device=device)
    assert torch.norm(x, dtype=torch.float64).dtype == torch.float64
    with pytest.raises(RuntimeError, match="without narrowing to the specified dtype .Half"):
        torch.norm(x, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="dtype should be real for real inputs, but got Comp"):
        torch.norm(x, dtype=torch.complex64)


def test_a_resized_output_that_is_an_error(device):
    """Warnings as errors are raised, also where the core warns."""
    x = torch.arange(6.0, device=device).reshape(2, 3)
    calls = [lambda: torch.add(x, 1, out=torch.ones(2, device=device)),
             lambda: torch.sum(x, 1, out=torch.ones(3, device=device)),
             lambda: torch.mm(x, x.T, out=torch.ones(3, device=device)),
             lambda: torch.sort(x, out=(torch.ones(2, device=device),
                                        torch.ones(2, device=device, dtype=torch.int64)))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in calls:
            with pytest.raises(UserWarning, match="was resized"):
                call()


def test_number_of_threads():
    before = torch.get_num_threads()
    assert before >= 1
    x = torch.arange(300_000.0)
    try:
        sums = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            assert torch.get_num_threads() == count
            sums.append((x.sin().sum().item(), x.view(500, 600).softmax(1).sum(0).tolist()))
        assert sums[1:] == sums[:1] * 2
        for wrong in (0, -1):
            with pytest.raises(RuntimeError, match=f"expected a positive number, got {wrong}"):
                torch.set_num_threads(wrong)
        assert torch.get_num_threads() == 5
    finally:
        torch.set_num_threads(before)


def test_complex_numbers_that_are_real():
    one = torch.ones(2)
    for call in (torch.addcmul, torch.addcdiv):
        made = call(one, one, one, value=complex(2, 0))
        assert made.dtype == torch.float32 and made.tolist() == [3.0, 3.0]
        with pytest.raises(RuntimeError):
            call(one, one, one, value=2j)
    with pytest.raises(RuntimeError, match="norm: p: expected a number without an imaginary part"):
        torch.norm(one, p=1j)


def test_results_share_nothing_with_their_input():
    x = torch.ones(2, 3, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        torch.sum(x, 0, out=x)
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]
    square = torch.arange(9).view(3, 3)
    assert square.T.masked_fill(torch.tensor([True, False, True]), 1).is_contiguous()
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 2 with size 2"):
        torch.zeros(5, 0, 2).index_select(2, torch.tensor([1, 4, 0]))
    byte = torch.ones(1, 1, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="uint8 without overflow: 300"):
        byte.addmm(byte, byte, alpha=300)
    with pytest.raises(TypeError, match="not dict"):
        torch.cat({})


def test_comparisons_of_whole_tensors(device):
    x = torch.tensor([1.0, 2.0], device=device)
    assert torch.allclose(x, x + 1e-7) and not x.allclose(x + 1)
    assert torch.isclose(x, x + torch.tensor([0, 1.0], device=device)).tolist() == [True, False]
    assert torch.allclose(x, x + 1, atol=1) and x.allclose(x + 1, rtol=1)
    assert torch.equal(x, x.double()) and not x.equal(x[:1]) and torch.equal(x, x.clone()) is True
    with pytest.raises(RuntimeError, match="Float did not match Double"):
        torch.isclose(x, x.double())


def test_counts_of_elements(device):
    x = torch.tensor([3, 1, 3], device=device)
    assert torch.bincount(x).tolist() == [0, 1, 0, 2] and x.bincount(minlength=5).shape == (5,)
    assert torch.bincount(x, weights=x.float() / 2).tolist() == [0, 0.5, 0, 3]
    assert torch.unique(x).tolist() == x.unique(sorted=False).tolist() == [1, 3]
    elements, inverse = torch.unique(x, return_inverse=True)
    assert elements[inverse].tolist() == x.tolist()
    elements, counts = x.unique(return_counts=True)
    assert counts.tolist() == [1, 2]
    assert torch.unique_consecutive(x).tolist() == [3, 1, 3]
    assert [t.tolist() for t in torch.unique_consecutive(x, True, True)] == [
        [3, 1, 3], [0, 1, 2], [1, 1, 1]]
    assert torch.unique_consecutive(x.view(3, 1), dim=0).tolist() == [[3], [1], [3]]
    assert torch.repeat_interleave(x, 2).tolist() == [3, 3, 1, 1, 3, 3]
    assert x.repeat_interleave(x - 1, dim=0, output_size=4).tolist() == [3, 3, 3, 3]
    assert torch.repeat_interleave(x).tolist() == [0, 0, 0, 1, 2, 2, 2]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_unique_slices(device, dim):
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    x = np.random.default_rng(dim + 1).integers(0, 2, (7, 5, 3))[:, :, ::-1]
    expected = np.unique(x, axis=dim, return_inverse=True, return_counts=True)
    given = torch.tensor(x, device=device)
    for of in (given, given.bool(), given.to(torch.float16)):
        slices, inverse, counts = torch.unique(of, return_inverse=True, return_counts=True, dim=dim)
        assert slices.dtype == of.dtype
        assert (slices.cpu().numpy() == expected[0]).all()
        assert inverse.tolist() == expected[1].reshape(-1).tolist()
        assert counts.tolist() == expected[2].tolist()
        runs, places = of.index_select(dim, inverse.sort().indices).unique_consecutive(
            return_inverse=True, dim=dim)
        assert runs.equal(slices) and places.tolist() == inverse.sort().values.tolist()
        # As torch has them: one slice lies behind the other.
        assert slices.movedim(dim, 0).is_contiguous() and runs.stride() == slices.stride()


def test_everyday_shapes(device):
    x = torch.arange(6, device=device).reshape(2, 3)
    assert x.movedim(0, 1).tolist() == torch.moveaxis(x, (0,), (1,)).tolist() == x.T.tolist()
    assert torch.ravel(x).shape == (6,) and x.unflatten(1, (3, -1)).shape == (2, 3, 1)
    assert torch.broadcast_to(x, (4, 2, 3)).shape == (4, 2, 3)
    assert torch.outer(x[0], x[1]).tolist() == [[0, 0, 0], [3, 4, 5], [6, 8, 10]]
    assert torch.concatenate([x, x], axis=1).shape == (2, 6)
    with pytest.raises(RuntimeError, match="outer: Expected 1-D argument vec2, but got 2-D"):
        torch.outer(x[0], x)


def test_dimensions_of_several(device):
    number, row, matrix = torch.tensor(1, device=device), torch.arange(3, device=device), torch.ones(2, 3)
    assert torch.atleast_1d(number).shape == (1,) and torch.atleast_1d(row) is row
    assert torch.atleast_2d(row).tolist() == [[0, 1, 2]] and torch.atleast_3d(row).shape == (1, 3, 1)
    assert [x.shape for x in torch.atleast_3d(number, row)] == [(1, 1, 1), (1, 3, 1)]
    assert [x.shape for x in torch.atleast_2d([number, matrix])] == [(1, 1), (2, 3)]
    assert torch.atleast_1d() == () == torch.broadcast_tensors()
    with pytest.raises(TypeError, match=r"atleast_1d\(\): expected Tensor as element 1 in argument 0, but got int"):
        torch.atleast_1d(row, 3)
    with pytest.raises(TypeError, match=r"broadcast_tensors\(\): expected Tensor as element 0"):
        torch.broadcast_tensors([row, row])
    x, y = torch.broadcast_tensors(row, torch.zeros(2, 1, device=device))
    assert x.tolist() == [[0, 1, 2]] * 2 and y.shape == (2, 3) and x.data_ptr() == row.data_ptr()
    assert torch.broadcast_shapes((2, 1), 3, torch.Size([1, 1, 1])) == (1, 2, 3)
    assert isinstance(torch.broadcast_shapes(), torch.Size)
    with pytest.raises(RuntimeError, match="Mismatching argument at index 1"):
        torch.broadcast_shapes((2, 3), (4,))
    with pytest.raises(TypeError, match="shapes"):
        torch.broadcast_shapes("23")


def test_views_of_the_object_itself(device):
    x = torch.arange(6, device=device).view(2, 3)
    other = x.detach()
    assert x.t_() is x and x.shape == (3, 2) and other.shape == (2, 3)
    assert x.unsqueeze_(0).transpose_(0, 2).shape == (2, 3, 1)
    assert x.swapdims_(0, 1).swapaxes_(0, 1).squeeze_().tolist() == other.tolist()
    assert torch.ones(1, 3, 1).squeeze_(0, 2).shape == (3,) and torch.ones(3, 1).broadcast_to(2, 3, 1).shape == (2, 3, 1)
    assert x.tril_() is x and other.tolist() == [[0, 0, 0], [3, 4, 0]]
    assert x.triu_(1).sum().item() == 0
    assert x.type_as(torch.zeros(1)).dtype == torch.float32 and x.swapdims(0, 1).shape == (3, 2)


def test_two_results_at_once(device):
    x = torch.tensor([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]], device=device)
    var, mean = torch.var_mean(x, 1)
    assert var.tolist() == [7, 0] and mean.tolist() == [3, 4]
    std, mean = torch.std_mean(x, dim=(0, 1), correction=0, keepdim=True)
    assert std.shape == mean.shape == (1, 1) and std.item() == x.std(correction=0).item()
    assert torch.var_mean(x, False)[0].item() == torch.var(x, False).item()
    with pytest.raises(RuntimeError, match="var_mean only support floating point"):
        torch.var_mean(torch.arange(3, device=device))
    both = x.aminmax(dim=1)
    assert both.min.tolist() == [1, 4] and both.max.tolist() == [6, 4]
    assert repr(torch.aminmax(torch.tensor(3))) == "torch.return_types.aminmax(\nmin=tensor(3),\nmax=tensor(3))"
    out = torch.empty(3, device=device), torch.empty(3, device=device)
    assert torch.aminmax(x, dim=0, out=out).max is out[1] and out[0].tolist() == [1, 2, 4]
    with pytest.raises(RuntimeError, match="cannot compute aminmax over an empty dimension"):
        torch.zeros(0, device=device).aminmax()
    with pytest.raises(TypeError, match="min and max"):
        torch.aminmax(x, out=(x,))
    assert torch.take_along_dim(x, x.argmax(1, keepdim=True), 1).tolist() == [[6], [4]]
    assert x.take_along_dim(torch.tensor([[-1], [4]], device=device), dim=1).tolist() == [[6], [4]]
    assert torch.take_along_dim(x, x.argsort(1), dim=1).tolist() == x.sort(1).values.tolist()
    with pytest.raises(RuntimeError, match="dtype of indices should be Long but got Int"):
        x.take_along_dim(torch.zeros(2, 1, dtype=torch.int32, device=device), 1)
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        x.take_along_dim(torch.tensor([0], device=device), 1)


def test_arranged(device):
    x, y = torch.arange(3, device=device), torch.arange(2, device=device)
    assert torch.dstack((x, x)).tolist() == [[[0, 0], [1, 1], [2, 2]]]
    assert torch.column_stack((y, torch.stack((y, y)))).tolist() == [[0, 0, 1], [1, 0, 1]]
    assert torch.row_stack((y, y)).flipud().fliplr().tolist() == [[1, 0], [1, 0]]
    with pytest.raises(RuntimeError, match="fliplr: Input must be >= 2-d"):
        y.fliplr()
    assert torch.hstack((x, y)).tolist() == [0, 1, 2, 0, 1] and torch.vstack([x, x]).shape == (2, 3)
    assert [g.shape for g in torch.meshgrid(x, y, indexing="xy")] == [(2, 3), (2, 3)]
    assert torch.meshgrid([x, y])[0].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert torch.tile(y, (2, 2)).tolist() == y.tile(2, 2).tolist() == [[0, 1, 0, 1]] * 2
    assert torch.diff(x * x).tolist() == x.square().diff(n=1).tolist() == [1, 3]
    assert x.diff(prepend=y, append=y + 1).tolist() == [1, -1, 1, 1, -1, 1]
    with pytest.raises(RuntimeError, match="to be the same dimension as input"):
        x.diff(append=x.sum())
    assert torch.trace(torch.eye(3, device=device)).item() == 3
    assert torch.median(x).item() == 1
    values, indices = torch.median(torch.tensor([[3, 1, 2]], device=device), dim=1, keepdim=True)
    assert values.tolist() == [[2]] and indices.tolist() == [[2]]
    assert x.median(0).values.item() == 1
    z = torch.tensor([[1000.0, 1000.0]], device=device)
    assert torch.logsumexp(z, dim=1).tolist() == z.logsumexp((1,)).tolist()
    assert round(torch.logsumexp(z, -1).item() - 1000, 3) == 0.693
    w = torch.tensor([-1.0, 4.0], device=device)
    assert torch.relu_(w) is w and torch.sqrt_(w).tolist() == [0, 2]
    assert not hasattr(torch, "isnan_") and w.is_leaf


def test_limits():
    f = torch.finfo(torch.float16)
    assert (f.bits, f.eps, f.max, f.min, f.tiny, f.dtype) == (16, 2**-10, 65504, -65504, 2**-14, "float16")
    assert repr(torch.finfo()) == (
        "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, "
        "smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)")
    assert torch.finfo(torch.complex128).bits == 64
    i = torch.iinfo(torch.uint64)
    assert (i.bits, i.min, i.max, i.dtype) == (64, 0, 2**64 - 1, "uint64")
    assert repr(torch.iinfo(torch.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    assert f == torch.finfo(torch.half) != torch.finfo(torch.float32) and len({f, torch.finfo(torch.half)}) == 1
    assert i == torch.iinfo(torch.uint64) != torch.iinfo(torch.int8) and i != f
    with pytest.raises(TypeError, match="finfo: dtype: got int8"):
        torch.finfo(torch.int8)


def test_named_results_are_copied_and_pickled():
    x = torch.tensor([[1.0, 3.0, 2.0]])
    for found in (x.max(1), x.min(1), x.sort(1), x.topk(2, 1), x.median(1)):
        for same in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), copy.copy(found)):
            assert type(same) is type(found)
            assert torch.equal(same.values, found.values)
            assert torch.equal(same.indices, found.indices)
    assert type(x.max(1)) is torch.return_types.max


def test_median_into_outputs(values, device):
    """As max has it: their dtypes are the results', they get the right shape, and are not one."""
    x = torch.tensor(values, device=device)
    out = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
    found = torch.median(x, 1, True, out=out)
    assert found.values is out[0] and found.indices is out[1]
    assert out[0].shape == (4, 1, 6)
    assert out[0].tolist() == np.sort(values, axis=1)[:, 2:3].tolist()
    assert x.gather(1, out[1]).equal(out[0])
    for wrong in (torch.empty(0, dtype=torch.float64, device=device), out[1]), (out[0], out[0].int()):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            torch.median(x, 1, out=wrong)
    whole = torch.ones(2, 3, dtype=torch.int64, device=device)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.median(whole, 1, out=(whole, whole))
    assert out[0].shape == (4, 1, 6)


def test_diff_into_an_output(device):
    """Of a dtype that can hold the result; also where nothing is subtracted."""
    x = torch.tensor([1, 4, 9, 16], device=device)
    out = torch.empty(0, dtype=torch.float32, device=device)
    assert torch.diff(x, n=2, out=out) is out and out.tolist() == [2, 2]
    assert torch.diff(x, n=0, out=torch.empty(0, device=device)).tolist() == [1, 4, 9, 16]
    same = torch.empty(0, dtype=torch.int64, device=device)
    assert torch.diff(x, n=0, out=same).tolist() == x.tolist()
    same.zero_()
    assert x.tolist() == [1, 4, 9, 16]
    assert torch.diff(x, out=x[:3]).tolist() == [3, 5, 7]
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        torch.diff(x.float(), out=same)


def test_mean_into_a_wider_output(device):
    """It is computed in that dtype."""
    x = torch.tensor([1.0, 2.0, 4.0, 0.1], device=device) / 3
    out = torch.empty((), dtype=torch.float64, device=device)
    expected = x.cpu().numpy().astype(np.float64).mean()
    assert abs(torch.mean(x, 0, out=out).item() - expected) < 1e-15
    narrow = torch.empty((), device=device)
    assert torch.mean(x.double(), 0, out=narrow).item() == np.float32(expected)


def test_round_of_decimals_in_place(device):
    x = torch.tensor([25.0, 1.26], device=device)
    assert torch.round_(x, decimals=1) is x and x.tolist() == torch.tensor([25.0, 1.3]).tolist()
    assert torch.round_(x, decimals=-1).tolist() == [20, 0]


def test_repeats_that_are_too_many_together():
    x = torch.zeros(3)
    for repeats in ([2 ** 63 - 1, 2 ** 63 - 1, 4], [2 ** 62] * 3, [2 ** 62, 2 ** 62, 0], [2 ** 63 - 1, 1, 2 ** 63 - 1]):
        for device in ("cpu", "cuda"):
            with pytest.raises(RuntimeError, match="the repeats are 2\\^63 or more together"):
                x.to(device).repeat_interleave(torch.tensor(repeats, device=device))
    with pytest.raises(RuntimeError, match="more elements than there can be"):
        x.repeat_interleave(torch.tensor([2 ** 63 - 1, 0, 0]))
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        x.repeat_interleave(torch.tensor([-1, 2 ** 62, 2 ** 62]))


def test_repeats_with_an_output_size(device):
    repeats = torch.tensor([1, 0, 2], device=device)
    for size in None, 3:
        assert torch.repeat_interleave(repeats, output_size=size).tolist() == [0, 2, 2]
