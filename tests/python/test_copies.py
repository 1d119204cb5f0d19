"""Copies and conversions: of dtypes, between devices, by copy and pickle."""

import copy
import pickle

import pytest

import ember as torch

np = pytest.importorskip("numpy")


def test_type():
    """type() names and converts, by dtype and by legacy name."""
    x = torch.ones(2)
    assert x.type(None) == x.type() == "torch.FloatTensor"
    assert x.type(torch.float32) is x and x.type("torch.FloatTensor") is x
    assert x.type(torch.int32, non_blocking=True).tolist() == [1, 1]
    assert x.type("torch.DoubleTensor").dtype == torch.float64
    there = x.type("torch.cuda.HalfTensor")
    assert there.device == torch.device("cuda:0") and there.dtype == torch.float16
    assert there.type("torch.FloatTensor").device == torch.device("cpu")
    with pytest.raises(ValueError, match="invalid type: 'double'"):
        x.type("double")
    with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
        x.type(3)


@pytest.mark.needs_devices(2)
def test_type_stays_on_its_device():
    x = torch.ones(2, device="cuda:1")
    assert x.type("torch.cuda.FloatTensor") is x
    assert x.type("torch.cuda.IntTensor").device == x.device == x.type(torch.int8).device


def test_typed_classes():
    """Programs that are older than dtypes ask for these (the reference, chapter 24)."""
    x, y = torch.ones(2), torch.ones(2, device="cuda", dtype=torch.int64)
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.cuda.FloatTensor)
    assert isinstance(y, torch.cuda.LongTensor) and not isinstance(y, torch.cuda.FloatTensor)
    assert not isinstance(y, torch.LongTensor) and not isinstance(3, torch.LongTensor)
    assert torch.cuda.HalfTensor.dtype is torch.float16 and torch.cuda.HalfTensor.is_cuda
    assert x.type(torch.FloatTensor) is x and y.type(torch.cuda.LongTensor) is y
    assert x.type(torch.cuda.HalfTensor).type() == "torch.cuda.HalfTensor"
    for of, device in ((torch, "cpu"), (torch.cuda, "cuda")):
        for name in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long",
                     "Short"):
            kind = getattr(of, name + "Tensor")
            made = torch.zeros(1, dtype=kind.dtype, device=device)
            assert isinstance(made, kind) and made.type() == f"{kind.__module__}.{kind.__name__}"
    with pytest.raises(TypeError, match=r"torch.cuda.FloatTensor is a type.*device='cuda'"):
        torch.cuda.FloatTensor(2, 3)
    with pytest.raises(ValueError, match="invalid type: 'builtins.str'"):
        x.type(str)


def test_copies_of_objects(device):
    x = torch.arange(6, device=device).view(2, 3)
    x.note = ["mine"]
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow is not x and shallow.data_ptr() == x.data_ptr() and shallow.note is x.note
    assert deep.data_ptr() != x.data_ptr() and deep.note == x.note and deep.note is not x.note
    for made in (shallow, deep):
        assert made.tolist() == x.tolist() and made.device == x.device and made.dtype == x.dtype
    row, column, twice = copy.deepcopy([x[1], x.T[1:], [x, x]])
    assert column.stride() == (1, 3) and row.storage_offset() == 3 and twice[0] is twice[1]
    row[1] = 70
    assert column[0, 1] == 70 == twice[0][1, 1] and x[1, 1] == 4
    assert copy.deepcopy(x[:0]).shape == (0, 3)
    assert copy.deepcopy(torch.empty(0, 2, device=device)).shape == (0, 2)


def test_pickle(device):
    x = torch.arange(24, device=device).view(2, 3, 4)
    x.note = "mine"
    made = pickle.loads(pickle.dumps(x))
    assert made.tolist() == x.tolist() and made.device == x.device and made.note == "mine"
    for view in (x.transpose(0, 2), x[1, ::2], x[:, 1], x[0, 0].expand(3, 4), x[1, 2, 3], x[2:]):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            made = pickle.loads(pickle.dumps(view, protocol))
            assert made.stride() == view.stride() and made.tolist() == view.tolist()
    assert len(pickle.dumps(torch.ones(1).expand(10 ** 6))) < 1000
    for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.float16, torch.complex128):
        y = torch.tensor([1, 0, 1], dtype=dtype, device=device)
        made = pickle.loads(pickle.dumps(y))
        assert made.dtype is dtype and made.tolist() == y.tolist()


def test_pickle_of_what_is_no_tensor():
    """In every protocol: by name, or by what it is made from."""
    generator = torch.Generator()
    generator.manual_seed(7)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = lambda given: pickle.loads(pickle.dumps(given, protocol))
        assert again(torch.add) is torch.add and again(torch.zeros) is torch.zeros
        assert again(torch.fft.fft) is torch.fft.fft
        assert again(generator).initial_seed() == 7
        size = again(torch.Size([2, 3]))
        assert type(size) is torch.Size and size == (2, 3)
    assert pickle.loads(pickle.dumps(torch.Tensor.add)) is torch.Tensor.add
    assert torch.Size([2, 3]).__reduce__() == (torch.Size, ((2, 3),))
    assert copy.deepcopy(torch.add) is torch.add


def test_layout_of_copies(device):
    """A copy of what has gaps has none, and its dimensions are in the order of the original's."""
    x = torch.arange(24.0, device=device).view(2, 3, 4)[:, :, ::2]
    for view in (x.permute(2, 0, 1), x.transpose(0, 1), x[:, :2].mT):
        expected = np.empty_like(np.lib.stride_tricks.as_strided(
            np.zeros(99, np.float32), view.shape, [4 * step for step in view.stride()]))
        for made in (view.clone(), view.to(torch.float64), view.to("cpu", copy=True),
                     torch.empty_like(view), torch.zeros_like(view)):
            assert [4 * step for step in made.stride()] == list(expected.strides)
        assert view.clone().tolist() == view.tolist()


def test_broken_pickles():
    state = list(torch.arange(3).__getstate__())
    made = lambda **change: torch.Tensor.__new__(torch.Tensor).__setstate__(
        tuple(change.get(f"part{i}", part) for i, part in enumerate(state)))
    made()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        made(part4="cuda:99")
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        made(part1=(4,))
    with pytest.raises(ValueError, match="23 bytes, expected whole elements of 8"):
        made(part3=bytes(23))
    with pytest.raises(ValueError, match="of 0 parts, expected 6"):
        torch.Tensor.__new__(torch.Tensor).__setstate__(())


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


@pytest.mark.needs_devices(2)
def test_copies_between_devices():
    x = torch.arange(6.0).view(2, 3)
    last = torch.cuda.device_count() - 1
    there = x.cuda(last)
    assert there.device == torch.device("cuda", last)
    other = torch.empty(3, 2, device="cuda:0")
    assert other.copy_(there.T) is other
    assert other.tolist() == x.T.tolist()
    assert torch.zeros(2, 3).copy_(torch.ones(3, device="cuda:1")).tolist() == [[1.0] * 3] * 2
    assert other.fill_(3).tolist() == [[3.0] * 2] * 3
    assert other.zero_().tolist() == [[0.0] * 2] * 3
    assert other.clone() is not other
    assert other.copy_(5).tolist() == [[5.0] * 2] * 3
    assert other[:, :1].expand(3, 2).fill_(2).tolist() == [[2.0] * 2] * 3
    assert other[0].expand(2, 2).zero_().tolist() == [[0.0] * 2] * 2
    assert other.tolist() == [[0.0, 0.0], [2.0, 5.0], [2.0, 5.0]]


def test_pinned():
    x = torch.ones(4)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.pin_memory() is pinned and pinned[1:].is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.arange(3, pin_memory=True).is_pinned()
    assert torch.arange(0, 3, 2, pin_memory=True).is_pinned()
    assert x.pin_memory("cuda").is_pinned(device="cuda") and not x.is_pinned(None)
    assert pinned.pin_memory(device=torch.device("cuda:0")) is pinned
    with pytest.raises(RuntimeError, match="Invalid device string: 'cude'"):
        x.is_pinned("cude")
    back = x.cuda().to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    assert back.is_pinned() and back.tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()


def test_what_is_copied_by_either_name(device):
    """torch's documentation says src, its code other."""
    x = torch.zeros(2, device=device)
    assert x.copy_(src=torch.ones(2)) is x and x.tolist() == [1, 1]
    assert x.copy_(other=torch.full((2,), 2)) is x and x.tolist() == [2, 2]


def test_data_is_a_tensor(device):
    x = torch.ones(2, device=device)
    for wrong, kind in (3, "int"), (None, "NoneType"), ("a", "str"):
        with pytest.raises(TypeError, match=f"^Variable data has to be a tensor, but got {kind}$"):
            x.data = wrong
    assert x.tolist() == [1, 1]
