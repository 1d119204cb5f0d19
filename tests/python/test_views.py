"""Views, indices, and what is the tensor itself."""

import pytest

import ember as torch


def test_what_is_the_tensor_itself():
    x = torch.zeros(3)
    assert all(same is x for same in (+x, x.positive(), torch.positive(x), x.conj(), x.real,
                                      x.flatten(), torch.flatten(x), x.contiguous()))
    z = torch.zeros(2, 3, dtype=torch.complex64)
    assert z.conj() is not z and z.real is not z and z.flatten() is not z
    assert z.flatten(1) is z
    with pytest.raises(RuntimeError, match="Bool"):
        +torch.tensor([True])


def test_transposed():
    x = torch.arange(24).view(2, 3, 4)
    assert x.T.shape == (4, 3, 2) and x.mT.shape == x.mH.shape == (2, 4, 3)
    assert x.T[3, 2, 1] == 23 and x.adjoint().tolist() == x.mT.tolist()
    z = torch.tensor([[1 + 2j, 3 - 1j]])
    assert z.H.tolist() == torch.adjoint(z).tolist() == [[1 - 2j], [3 + 1j]]
    point = torch.tensor(5)
    assert point.T == point.mT == point.H == point.mH == 5
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        x.H
    with pytest.raises(RuntimeError, match="matrices or batches of matrices. Got 1-D"):
        x[0, 0].mT


def test_views_share_memory(device):
    x = torch.arange(12, device=device).view(3, 4)
    x.T[0, 1] = 100
    assert x[1, 0].item() == 100
    assert x.reshape(-1).shape == (12,) and x.reshape((2, 6)).shape == (2, 6)
    assert x.permute(1, 0).stride() == (1, 4) == x.permute((1, 0)).stride()
    assert x.transpose(0, 1).shape == x.t().shape == x.mT.shape == torch.Size([4, 3])
    assert x.unsqueeze(0).squeeze(0).shape == x.shape
    assert x.narrow(1, 1, 2).tolist() == [row[1:3] for row in x.tolist()]
    assert [t.shape[0] for t in x.chunk(2)] == [2, 1]
    assert [t.shape[1] for t in x.split([1, 3], dim=1)] == [1, 3]
    for odd in ("ab", 2.5, [1, "a"], None):
        with pytest.raises(TypeError):
            x.split(odd)
    with pytest.raises(OverflowError, match=f"{2 ** 70} is outside"):
        x.split(2 ** 70)
    assert len(x.unbind(1)) == 4
    assert x[:1].expand(5, 4).stride() == (0, 1)
    assert x.diagonal().shape == (3,)
    assert x.flatten().shape == (12,)
    assert torch.transpose(x, 0, 1).shape == (4, 3)
    assert x.as_strided((2, 2), (1, 1)).tolist()[0] == x.view(-1)[:2].tolist()
    with pytest.raises(RuntimeError, match=r"Use .reshape\(...\) instead"):
        x.T.view(12)
    c = torch.tensor([1 + 2j], device=device)
    assert torch.view_as_real(c).tolist() == [[1.0, 2.0]]
    assert (c.real.tolist(), c.imag.tolist()) == ([1.0], [2.0])


def test_views_as_another_dtype(device):
    x = torch.ones(2, 3, device=device)
    assert x.view(torch.int32).tolist() == [[0x3f800000] * 3] * 2
    assert x.T.view(dtype=torch.int32).stride() == (1, 3)
    halves = x.view(torch.int16)
    assert halves.shape == (2, 6) and halves.view(torch.float32).tolist() == x.tolist()
    halves[0, 0] = 1
    assert x[0, 0] != 1 and x[0, 1] == 1
    assert torch.ones(2, device=device).view(torch.complex64).tolist() == [1 + 1j]
    assert torch.ones(2, device=device).view(float).shape == (1,)
    with pytest.raises(RuntimeError, match=r"self.stride\(-1\) must be 1 to view Float as Short"):
        x.T.view(torch.int16)
    with pytest.raises(RuntimeError, match=r"self.size\(-1\) must be divisible by 2"):
        x.view(torch.int64)


def test_squeeze_several(device):
    x = torch.ones(1, 2, 1, 3, device=device)
    assert x.squeeze((0, 2)).shape == torch.squeeze(x, dim=[0, -2]).shape == (2, 3)
    assert x.squeeze(()).shape == x.shape and x.squeeze(0).shape == (2, 1, 3)
    assert x.squeeze(0, 2).shape == (2, 3) and x.squeeze(0, 1, -2).shape == (2, 3)
    assert x.squeeze().shape == x.squeeze(None).shape == (2, 3)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        x.squeeze((0, 0))
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        x.squeeze(0, 0)
    with pytest.raises(TypeError, match="^dim: expected ints or one sequence of ints, got "):
        x.squeeze("x")
    with pytest.raises(TypeError):
        torch.squeeze(x, 0, 2)
    with pytest.raises(IndexError, match="but got 7"):
        x.squeeze((7,))


def test_indexing(device):
    x = torch.arange(24, device=device).view(2, 3, 4)
    plain = x.tolist()
    assert x[1].tolist() == plain[1]
    assert x[-1, 0].tolist() == plain[-1][0]
    assert x[1, 2, 3].item() == 23
    assert x[..., 1].tolist() == [[r[1] for r in m] for m in plain]
    assert x[:, None].shape == (2, 1, 3, 4)
    assert x[0, 1:3, ::2].tolist() == [r[::2] for r in plain[0][1:3]]
    assert x[()].shape == x.shape
    assert x[1:1].shape == (0, 3, 4)
    assert [t.shape for t in x] == [(3, 4)] * 2
    x[0] = -1
    x[1, :, 0] = torch.tensor([7, 8, 9], device=device)
    x[1, 0, 1:3] = [5, 6]
    assert x[0].tolist() == [[-1] * 4] * 3
    assert x[1].tolist()[0] == [7, 5, 6, 15]
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[2]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 3"):
        x[0, 0, 0, 0]
    with pytest.raises(ValueError, match="step must be"):
        x[::-1]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1))


def test_set_without_a_source(device):
    x = torch.ones(2, 3, device=device, dtype=torch.float64)
    y = x[0]
    assert x.set_() is x and x.shape == (0,) and x.dtype == torch.float64 and x.device == y.device
    assert y.tolist() == [1.0] * 3


def test_data(device):
    """Another object of the same view; assigned to, whatever that is."""
    x = torch.ones(2, 3, device=device)
    same = x.data
    assert same is not x and same.data_ptr() == x.data_ptr() and same.stride() == x.stride()
    y = torch.zeros(4, device=device)
    x.data = y
    assert x.shape == (4,) and x.data_ptr() == y.data_ptr() and same.tolist() == [[1.0] * 3] * 2
    kept = y.view(2, 2)
    y.data = torch.arange(3)
    assert y.dtype is torch.int64 and y.device.type == "cpu" and y.tolist() == [0, 1, 2]
    assert kept.tolist() == [[0.0, 0.0]] * 2 and kept.device == x.device
    y.data = y.data.to(device)
    assert y.device == x.device and y.tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        x.data = 1


def test_assignment_to_shared_elements(device):
    """A number is no exception; fill_ is."""
    x = torch.zeros(3, 1, device=device).expand(3, 2)
    for key in (..., slice(None), (), None, 0, slice(1, 2), True):
        with pytest.raises(RuntimeError, match="single memory location"):
            x[key] = 3
    assert x.tolist() == [[0.0] * 2] * 3
    x[:, 0] = 2
    assert x.fill_(4).tolist() == [[4.0] * 2] * 3


def test_splits_as_in_numpy(device):
    np = pytest.importorskip("numpy")
    x = torch.arange(2 * 5 * 6, device=device).view(2, 5, 6)
    a = x.cpu().numpy()

    def same(ours, theirs):
        assert isinstance(ours, tuple) and len(ours) == len(theirs)
        assert all(np.array_equal(one.cpu().numpy(), other) for one, other in zip(ours, theirs))

    for dim in range(3):
        for how in (1, 4, 9, [2, 4], [3, 1], [-1], []):
            same(torch.tensor_split(x, how, dim), np.array_split(a, how, dim))
            given = torch.tensor(how, dtype=torch.int64)
            same(x.tensor_split(given, dim), np.array_split(a, how, dim))
        for size, step in ((1, 1), (2, 3), (5 if dim == 1 else 2, 1)):
            windows = np.lib.stride_tricks.sliding_window_view(a, size, dim)
            assert np.array_equal(x.unfold(dim, size, step).cpu().numpy(),
                                  windows[(slice(None),) * dim + (slice(None, None, step),)])
    same(x.hsplit(5), np.hsplit(a, 5))
    same(x.hsplit(1, 3), np.hsplit(a, [1, 3]))
    same(torch.vsplit(x, (1,)), np.vsplit(a, (1,)))
    same(x.dsplit(sections=3), np.dsplit(a, 3))
    same(torch.dsplit(x, indices=[1]), np.dsplit(a, [1]))
    same(torch.hsplit(x[0, 0], 2), np.hsplit(a[0, 0], 2))
    x.unfold(2, 2, 2)[..., 0].zero_()
    assert x[0, 0].tolist() == [0, 1, 0, 3, 0, 5]
    for wrong in (True, 2.5, torch.tensor([1, 2]), np.array([1, 2])):
        with pytest.raises(TypeError):
            torch.hsplit(x, wrong)
    with pytest.raises(RuntimeError, match="to have dtype of long, but got Int"):
        x.tensor_split(torch.tensor(2, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="zero-dimensional or one-dimensional tensor, but got a"):
        x.tensor_split(torch.tensor([[2]]))
    if x.is_cuda:
        with pytest.raises(RuntimeError, match="to be on cpu, but it's on cuda:0"):
            x.tensor_split(torch.tensor([2], device=device))
