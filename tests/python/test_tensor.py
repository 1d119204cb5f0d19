"""Making tensors, looking at them, views, conversions."""

import math
import pickle

import pytest

import ember
import ember as torch


def test_from_python():
    assert torch.tensor([[1, 2], [3, 4]]).dtype == torch.int64
    assert torch.tensor([1, 2.5]).dtype == torch.float32
    assert torch.tensor([True, 2]).dtype == torch.int64
    assert torch.tensor([1, 2j]).dtype == torch.complex64
    assert torch.tensor(()).dtype == torch.float32
    assert torch.tensor([1], dtype=float).dtype == torch.float64
    assert torch.tensor([torch.tensor(1), 2]).tolist() == [1, 2]
    assert torch.tensor([[], []]).shape == (2, 0)
    assert torch.tensor(range(3)).tolist() == [0, 1, 2]
    x = torch.tensor([1.0])
    y = torch.tensor(x)
    y += 1
    assert x.tolist() == [1.0]


def test_what_is_no_tensor():
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 3\)"):
        torch.tensor([[1, 2], [1, 2, 3]])
    with pytest.raises(TypeError, match="not a sequence"):
        torch.tensor([[1, 2], 3])
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        torch.tensor("text")
    with pytest.raises(RuntimeError, match="Could not infer dtype of object"):
        torch.tensor(object())
    with pytest.raises(RuntimeError, match="Overflow when unpacking long"):
        torch.tensor(2 ** 70)
    with pytest.raises(TypeError, match="must be real number, not complex"):
        torch.tensor([1j], dtype=torch.float32)


def test_what_it_is(device):
    x = torch.empty(2, 3, device=device)
    assert x.shape == torch.Size([2, 3]) == x.size() == (2, 3)
    assert isinstance(x.shape, tuple)
    assert (x.size(-1), x.dim(), x.ndim, x.numel(), len(x)) == (3, 2, 2, 6, 2)
    assert x.stride() == (3, 1) and x.stride(0) == 3
    assert (x.element_size(), x.nbytes, x.itemsize, x.storage_offset()) == (4, 24, 4, 0)
    assert x.is_contiguous() and not x.T.is_contiguous()
    assert x.is_floating_point() and not x.is_complex() and x.is_signed()
    assert x.device == torch.device(device) and x.is_cuda == (device != "cpu")
    assert x.get_device() == (-1 if device == "cpu" else 0)
    assert x.data_ptr() != 0 and torch.empty(0).data_ptr() == 0
    assert x.type() == ("torch.FloatTensor" if device == "cpu" else "torch.cuda.FloatTensor")
    assert torch.is_tensor(x) and not torch.is_tensor(3)
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(torch.tensor(1))
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of "
                                         r"\[-2, 1\], but got 2\)"):
        x.size(2)


def test_size():
    size = torch.Size([2, 3, 4])
    assert size.numel() == 24
    assert repr(size[1:]) == "torch.Size([3, 4])"
    assert repr(size + (5,)) == "torch.Size([2, 3, 4, 5])"
    assert repr(size * 2) == "torch.Size([2, 3, 4, 2, 3, 4])"
    assert size[0] == 2 and hash(size) == hash((2, 3, 4))
    assert torch.zeros(size).shape == size


def test_dtypes():
    assert torch.float is torch.float32 and torch.long is torch.int64 and torch.half is torch.float16
    assert torch.ones(1).dtype is torch.float32
    assert torch.bfloat16.itemsize == 2 and torch.complex64.is_complex
    assert not torch.uint8.is_signed and torch.int8.is_signed
    assert torch.complex64.to_real() is torch.float32
    assert torch.promote_types(torch.uint8, torch.int8) is torch.int16
    assert torch.can_cast(torch.int64, torch.float32)
    assert not torch.can_cast(torch.float32, torch.int64)
    for dtype in (torch.float32, torch.bool, torch.int32):
        assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_devices():
    assert torch.device("cuda", 1) == torch.device("cuda:1") == torch.device(1)
    assert torch.device(torch.device("cpu")) == torch.device("cpu")
    assert torch.device("cuda").index is None and torch.device("cuda:1").index == 1
    assert torch.device("cuda") != torch.device("cuda:0")
    assert len({torch.device("cuda:0"), torch.device("cuda", 0)}) == 1
    assert pickle.loads(pickle.dumps(torch.device("cuda:1"))) == torch.device("cuda:1")
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda0'"):
        torch.device("cuda0")
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda0'"):
        torch.empty(1, device="cuda0")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.empty(1, device="cuda:99")
    with pytest.raises(RuntimeError, match="must not include an index"):
        torch.device("cuda:1", 1)


def test_factories(device):
    on = {"device": device}
    assert torch.zeros(2, 3, **on).tolist() == [[0.0] * 3] * 2
    assert torch.ones((2,), dtype=torch.int32, **on).tolist() == [1, 1]
    assert torch.zeros(**on).shape == ()
    assert torch.full((2,), 7, **on).dtype == torch.int64
    assert torch.full([2], True, **on).tolist() == [True, True]
    assert torch.arange(3, **on).tolist() == [0, 1, 2]
    assert torch.arange(1, 2, 0.25, **on).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert torch.arange(5, 0, step=-2, **on).tolist() == [5, 3, 1]
    assert torch.empty_strided((2, 3), (1, 2), **on).stride() == (1, 2)
    assert torch.scalar_tensor(3, **on).dtype == torch.float32
    x = torch.ones(2, 2, dtype=torch.float64, **on)
    for made in (torch.empty_like(x), torch.zeros_like(x), torch.full_like(x, 2), x.new_empty(3),
                 x.new_zeros(1, 2), x.new_ones((1, 2)), x.new_full([2], 3), x.new_tensor([1])):
        assert made.dtype == torch.float64 and made.device == x.device
    assert x.new_zeros(1, 2).shape == (1, 2)
    assert x.new_tensor([1], dtype=torch.int8).dtype == torch.int8
    with pytest.raises(ValueError, match="negative dimension -1"):
        torch.empty(-1, **on)
    with pytest.raises(ValueError, match="17 dimensions"):
        torch.empty([1] * 17, **on)
    with pytest.raises(TypeError):
        torch.empty(1.5, **on)


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


def test_numbers(device):
    x = torch.tensor(3.5, device=device)
    assert (x.item(), float(x), int(x), bool(x), complex(x)) == (3.5, 3.5, 3, True, 3.5 + 0j)
    i = torch.tensor(2, device=device)
    assert [10, 20, 30][i] == 30
    assert type(i.item()) is int and type(torch.tensor(True).item()) is bool
    assert torch.zeros(2, 0, device=device).tolist() == [[], []]
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        torch.ones(2, device=device).item()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(torch.ones(2, device=device))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(torch.ones(0, device=device))
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        [1][x]


def test_to_returns_itself_where_nothing_changes():
    x = torch.ones(2, device="cuda:0")
    assert x.to("cuda:0") is x and x.to(torch.float32) is x and x.cuda() is x and x.to(x) is x
    assert x.to(device="cuda:0", dtype=torch.float32) is x and x.contiguous() is x
    assert x.to("cuda:0", copy=True) is not x
    y = x.cpu()
    assert y.cpu() is y and y.float() is y
    assert x.to("cpu", torch.float64).dtype == torch.float64
    assert x.to(torch.int64, non_blocking=True).tolist() == [1, 1]
    assert y.to(torch.zeros(1, dtype=torch.int8, device="cuda:0")).dtype == torch.int8
    assert y.to(0).device == torch.device("cuda:0")
    assert y.double().dtype == torch.float64 and y.bool().tolist() == [True, True]
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        x.to("cuda:99")


def test_copies_between_devices(three_devices):
    x = torch.arange(6.0).view(2, 3)
    there = x.cuda(2)
    assert there.device == torch.device("cuda:2")
    other = torch.empty(3, 2, device="cuda:1")
    assert other.copy_(there.T) is other
    assert other.tolist() == x.T.tolist()
    assert torch.zeros(2, 3).copy_(torch.ones(3, device="cuda:1")).tolist() == [[1.0] * 3] * 2
    assert other.fill_(3).tolist() == [[3.0] * 2] * 3
    assert other.zero_().tolist() == [[0.0] * 2] * 3
    assert other.clone() is not other


def test_pinned():
    x = torch.ones(4)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.pin_memory() is pinned and pinned[1:].is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    back = x.cuda().to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    assert back.is_pinned() and back.tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()


def test_objects():
    x = torch.ones(2)
    x.note = "mine"
    assert x.note == "mine" and x in {x: 1}
    y = torch.zeros(3)
    assert y.set_(x) is y and y.data_ptr() == x.data_ptr()
    assert x.detach().data_ptr() == x.data_ptr()
    assert ember.__version__.count(".") == 2


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_numbers_that_do_not_fit_are_refused(place):
    for wrong in (
        lambda: ember.tensor([300], dtype=ember.uint8),
        lambda: ember.tensor([math.nan], dtype=ember.int32),
        lambda: ember.full((2,), 1j, dtype=ember.float32, device=place),
        lambda: ember.zeros(2, device=place).fill_(1e39),
        lambda: ember.zeros(2, dtype=ember.uint8, device=place).__setitem__(0, 300),
        lambda: ember.ones(2, dtype=ember.int8, device=place).clamp(max=200),
        lambda: ember.arange(3 + 4j),
    ):
        with pytest.raises(RuntimeError, match="without overflow: "):
            wrong()
    assert ember.tensor([1e39]).item() == math.inf
    assert ember.tensor([-1], dtype=ember.uint8).item() == 255


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_what_a_dtype_has_not_is_not_implemented(place):
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        ember.ones(2, dtype=ember.bool, device=place).floor()
