"""Reductions, sorting, products, joining: against NumPy, and what Python adds to them."""

import math

import pytest

np = pytest.importorskip("numpy")

import ember as torch


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), [1]])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "std"])
def test_reductions(name, dim, values, device):
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
    x = torch.tensor(values, device=device)
    assert x.argmax().item() == values.argmax()
    assert torch.argmin(x, dim=1).tolist() == values.argmin(axis=1).tolist()
    found = x.max(dim=2)
    assert found.values.tolist() == values.max(axis=2).tolist()
    assert found.indices.tolist() == values.argmax(axis=2).tolist()
    best, where = torch.min(x, 0, keepdim=True)
    assert best.shape == where.shape == (1, 5, 6)
    assert torch.max(x, torch.zeros_like(x)).tolist() == np.maximum(values, 0).tolist()
    assert x.max().item() == values.max()
    assert repr(found).startswith("torch.return_types.max(")
    with pytest.raises(RuntimeError, match="\"argmax\" not implemented for 'Bool'"):
        (x > 0).argmax()


def test_truth(device):
    x = torch.tensor([[0, 1], [2, 3]], device=device)
    assert x.any().item() is True and x.all().item() is False
    assert x.all(dim=1).tolist() == [False, True]
    assert x.any().dtype == torch.bool
    # Of uint8 the answer is uint8, as torch has it.
    byte = x.to(torch.uint8)
    assert byte.all(dim=1).dtype == byte.any().dtype == torch.uint8
    assert byte.all(dim=1).tolist() == [0, 1] and byte.any().item() == 1
    assert torch.count_nonzero(x).item() == 3
    assert x.sum(dtype=torch.float64).dtype == torch.float64
    assert x.sum().dtype == torch.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        x.mean()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(2)


def test_norm(values, device):
    x = torch.tensor(values, device=device)
    for p, order in [("fro", 2), (1, 1), (math.inf, np.inf)]:
        np.testing.assert_allclose(x.norm(p).item(), np.linalg.norm(values.reshape(-1), order),
                                   rtol=1e-5)
    np.testing.assert_allclose(torch.norm(x, dim=1).cpu().numpy(), np.linalg.norm(values, axis=1),
                               rtol=1e-5)


def test_order(values, device):
    x = torch.tensor(values, device=device)
    ordered = torch.sort(x, dim=1, descending=True)
    assert ordered.values.tolist() == (-np.sort(-values, axis=1)).tolist()
    assert x.argsort(0).tolist() == values.argsort(axis=0, kind="stable").tolist()
    top = x.topk(2)
    assert top.values.tolist() == (-np.sort(-values, axis=-1))[..., :2].tolist()
    assert top.indices.dtype == torch.int64
    out = torch.empty(0, device=device), torch.empty(0, device=device, dtype=torch.int64)
    torch.topk(x, 3, dim=0, largest=False, out=out)
    assert out[0].tolist() == np.sort(values, axis=0)[:3].tolist()
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        x.topk(7)


def test_products(device):
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
    x = torch.ones(2, 3, device=device)
    assert torch.cat([x, x * 2]).tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 2
    assert torch.cat((x, x), dim=-1).shape == (2, 6)
    assert torch.stack([x, x], 1).shape == (2, 2, 3)
    assert torch.concat([x]).shape == (2, 3)
    with pytest.raises(RuntimeError, match="expected a non-empty list of Tensors"):
        torch.cat([])
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        torch.cat([x, 3])
