"""Making tensors, looking at them, views, conversions."""

import copy
import math
import pickle
import threading

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
    assert torch.tensor([[], [1]]).dtype == torch.float32
    assert torch.tensor(range(3)).tolist() == [0, 1, 2]
    x = torch.tensor([1.0])
    y = torch.tensor(x)
    y += 1
    assert x.tolist() == [1.0]


def test_values_that_make_no_sense_are_both_kinds_of_error():
    for kind in (ValueError, RuntimeError, torch.InvalidValueError):
        with pytest.raises(kind, match="at most 64"):
            torch.zeros([1] * 65)


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


def test_errors_of_torchs_class():
    x = torch.zeros(3)
    for call in (lambda: x.gather(0, torch.tensor([5])),
                 lambda: x.scatter(0, torch.tensor([5]), 1.0),
                 lambda: x.scatter_add(0, torch.tensor([5]), torch.ones(1)),
                 lambda: x.index_select(0, torch.tensor([1.0])),
                 lambda: torch.zeros(2, dtype=torch.complex64).abs_(),
                 lambda: torch.int32.to_complex()):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert not isinstance(caught.value, (IndexError, NotImplementedError))
    for call in (lambda: x.index_select(0, torch.tensor([5])), lambda: torch.tensor(1).unbind(),
                 lambda: x.put_(torch.tensor([1, 2]), torch.ones(1)),
                 lambda: torch.tensor(1).roll(1, 0)):
        with pytest.raises(IndexError):
            call()
    for call in (lambda: ~x, lambda: torch.cat([x], out=torch.zeros(0).int()),
                 lambda: torch.tensor(b"bytes")):
        with pytest.raises(TypeError):
            call()


def test_names_of_parameters():
    x = torch.ones(2)
    assert torch.dot(x, tensor=x) == x.dot(tensor=x) == 2
    assert x.size(axis=0) == 2 and x.stride(axis=0) == 1


def test_a_factor_of_zero_leaves_no_nan():
    nan = torch.full((2, 2), float("nan"))
    assert torch.addmm(torch.ones(2, 2), nan, nan, alpha=0).tolist() == [[1, 1], [1, 1]]
    empty = torch.zeros(0)
    with pytest.raises(RuntimeError, match="Bad in-place call"):
        empty.addmm_(torch.ones(2, 0), torch.ones(0, 2))
    assert empty.shape == (0,)


def test_powers_by_numbers():
    values = [-3.5, -1.0, -0.0, 0.0, 0.25, 2.0, 1e30, float("inf"), float("nan")]
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.tensor(values, dtype=dtype)
        for exponent, other in ((2, x * x), (3, x * x * x), (-1, 1 / x), (0.5, x.sqrt()),
                                (-0.5, x.rsqrt())):
            if dtype is torch.bfloat16 and exponent == 3:
                other = (x.float() ** 3).bfloat16()
            assert str((x ** exponent).tolist()) == str(other.tolist()), (dtype, exponent)
    assert (torch.tensor([-3, 0, 7]) ** 2).tolist() == [9, 0, 49]
    assert (torch.tensor([3 + 4j]) ** 2).tolist() == [-7 + 24j]


def test_what_is_no_tensor():
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 3\)"):
        torch.tensor([[1, 2], [1, 2, 3]])
    with pytest.raises(TypeError, match="not a sequence"):
        torch.tensor([[1, 2], 3])
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        torch.tensor("text")
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        torch.tensor(["text"])
    with pytest.raises(RuntimeError, match="Could not infer dtype of object"):
        torch.tensor(object())
    for beyond in (2 ** 63, 2 ** 70, [1, 2 ** 70]):
        with pytest.raises(ValueError, match=r"Overflow when unpacking long: \d+ is outside"):
            torch.tensor(beyond)
    with pytest.raises(ValueError, match="an int of 100001 bits is outside the range of int64"):
        torch.tensor(2 ** 100000, dtype=torch.int32)
    with pytest.raises(TypeError, match="must be real number, not list"):
        torch.tensor([1, []])
    with pytest.raises(TypeError, match="must be real number, not complex"):
        torch.tensor([1j], dtype=torch.float32)


def test_sequences_in_themselves():
    class Endless:  # every element is as long as the whole
        def __len__(self):
            return 2

        def __getitem__(self, at):
            if at >= 2:
                raise IndexError
            return self if at else 0

    first, last, both, wide = [0], [], [0], [1]
    first.append(first)
    last.append(last)
    other = [1, both]
    both.append(other)
    wide += [wide, wide, wide]
    deep = 0
    for _ in range(100000):
        deep = [0, deep]
    x = torch.ones(4, 4)
    for nest in first, last, both, wide, deep, (0, first), Endless():
        for call in (torch.tensor, lambda n: torch.tensor([1, n]), x.new_tensor, lambda n: x[[0, 1], n],
                     lambda n: torch.tensor(n, dtype=torch.int64), lambda n: x.__setitem__(0, n)):
            with pytest.raises((ValueError, TypeError, IndexError),
                               match="too many dimensions|must be real number, not|not a sequence|"
                                     "expected sequence of length|only integers, slices"):
                call(nest)
        if nest is not deep and not isinstance(nest, Endless):
            with pytest.raises((ValueError, IndexError), match="too many|valid indices"):
                x[nest]
    for nest in first, both, wide, deep:
        with pytest.raises(ValueError, match="too many dimensions 'list'"):
            torch.tensor(nest)
    nest = 0
    for _ in range(16):  # as many as a tensor has at most
        nest = [nest]
    assert torch.tensor(nest).dim() == 16


def test_numbers_that_the_dtype_cannot_hold(device):
    for dtype, number in ((torch.int8, 300), (torch.int8, -129), (torch.uint8, 256), (torch.int32, 2 ** 31),
                          (torch.int16, 1e6), (torch.int64, float("nan"))):
        for call in (lambda: torch.tensor([number], dtype=dtype, device=device),
                     lambda: torch.tensor(number, dtype=dtype),
                     lambda: torch.ones(1, dtype=dtype, device=device).new_tensor([[number]]),
                     lambda: torch.full((2,), number, dtype=dtype, device=device)):
            with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
                call()
    assert torch.tensor([1e6], dtype=torch.float16).tolist() == [float("inf")]


def test_ints_beyond_64_bits():
    assert torch.tensor(2 ** 63, dtype=torch.float64).item() == 2.0 ** 63
    assert torch.tensor([2 ** 70], dtype=torch.float32).tolist() == [2.0 ** 70]
    assert torch.tensor([-2 ** 70], dtype=torch.complex64).tolist() == [-2.0 ** 70 + 0j]
    assert torch.tensor([2 ** 70, 0.5]).tolist() == [2.0 ** 70, 0.5]
    assert torch.tensor([2 ** 70], dtype=torch.bool).tolist() == [True]
    assert torch.full((1,), 2 ** 63, dtype=torch.float64).tolist() == [2.0 ** 63]
    x = torch.ones(2)
    assert torch.full_like(x, 2 ** 63).tolist() == x.new_full((2,), 2 ** 63).tolist() == [2.0 ** 63] * 2
    assert torch.scalar_tensor(2 ** 63).item() == 2.0 ** 63
    with pytest.raises(OverflowError, match="int too large to convert to float"):
        torch.tensor([2 ** 2000], dtype=torch.float64)
    words = f"{2 ** 63} is outside the range of int64"
    for call in (lambda n: x == n, lambda n: n == x, lambda n: x + n, lambda n: n - x, lambda n: n in x,
                 lambda n: torch.add(x, n), lambda n: torch.add(x, x, alpha=n), lambda n: x.pow(n),
                 lambda n: x.clamp(n), lambda n: torch.clamp(x, 0, n), lambda n: x.fill_(n),
                 lambda n: x.masked_fill(x > 0, n), lambda n: torch.where(x > 0, x, n),
                 lambda n: torch.full((1,), n), lambda n: torch.full((1,), n, dtype=torch.int32),
                 torch.arange, lambda n: torch.arange(0, n)):
        with pytest.raises(OverflowError, match=words):
            call(2 ** 63)
    with pytest.raises(OverflowError, match=words):
        x.__iadd__(2 ** 63)
    assert x.tolist() == [1.0, 1.0]
    assert (x * -2 ** 63).tolist() == [-2.0 ** 63] * 2
    for call in (torch.empty, lambda n: torch.empty((2, n)), x.view, lambda n: x.expand((n, 2)),
                 lambda n: torch.full((n,), 1)):
        with pytest.raises(TypeError, match="size: " + words):
            call(2 ** 63)


def test_what_it_is(device):
    """Shape, strides, sizes and kinds."""
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
    """Size is a tuple of ints with numel()."""
    size = torch.Size([2, 3, 4])
    assert size.numel() == 24
    assert repr(size[1:]) == "torch.Size([3, 4])"
    assert repr(size + (5,)) == "torch.Size([2, 3, 4, 5])"
    assert repr(size * 2) == "torch.Size([2, 3, 4, 2, 3, 4])"
    assert size[0] == 2 and hash(size) == hash((2, 3, 4))
    assert torch.zeros(size).shape == size
    assert repr(torch.Size([True, torch.tensor(3)])) == "torch.Size([1, 3])"
    assert torch.Size() == () and torch.Size(range(2)) == (0, 1)
    assert type(torch.Size([True])[0]) is int
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is 'str'\)"):
        torch.Size([1, "a"])
    with pytest.raises(TypeError, match=r"\(item 0 is 'float'\)"):
        torch.Size([2.5])
    with pytest.raises(TypeError, match=r"\(item 3 is 'str'\)"):
        size + ("a",)
    with pytest.raises(ValueError, match=f"{2 ** 63} is outside the range of int64"):
        torch.Size([2 ** 63])


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
    assert torch.device("cuda", None) == torch.device(type="cuda", index=None) == torch.device("cuda")
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
    with pytest.raises(RuntimeError, match="must not include an index"):
        torch.device("cuda:1", None)
    for odd in (True, 1.5, "1"):
        with pytest.raises(TypeError, match="index: expected an int, got "):
            torch.device("cuda", odd)
    with pytest.raises(OverflowError, match=f"{2 ** 70} is outside the range"):
        torch.device("cuda", 2 ** 70)


def test_factories(device):
    """Shapes as arguments, tuples and lists; values decide dtypes."""
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
    three = torch.tensor(3, **on)
    assert torch.arange(three).tolist() == torch.arange(0, three, torch.tensor(1)).tolist() == [0, 1, 2]
    assert torch.arange(torch.tensor(2.0), **on).dtype == torch.float32
    assert torch.full((2,), three, **on).tolist() == [3, 3]
    assert torch.full((1,), three.double()).dtype == torch.float32
    assert torch.scalar_tensor(three).item() == 3.0
    assert torch.full_like(three, three).item() == three.new_full((), three).item() == 3
    with pytest.raises(TypeError, match="expected a number or a tensor without dimensions"):
        torch.full((2,), torch.ones(1))
    x = torch.ones(2, 2, dtype=torch.float64, **on)
    for made in (torch.empty_like(x), torch.zeros_like(x), torch.full_like(x, 2), x.new_empty(3),
                 x.new_zeros(1, 2), x.new_ones((1, 2)), x.new_full([2], 3), x.new_tensor([1])):
        assert made.dtype == torch.float64 and made.device == x.device
    assert x.new_zeros(1, 2).shape == (1, 2)
    assert x.new_tensor([1], dtype=torch.int8).dtype == torch.int8
    with pytest.raises(ValueError, match="negative dimension -1"):
        torch.empty(-1, **on)
    with pytest.raises(ValueError, match="65 dimensions"):
        torch.empty([1] * 65, **on)
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
    assert x.squeeze().shape == x.squeeze(None).shape == (2, 3)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        x.squeeze((0, 0))
    with pytest.raises(IndexError, match="but got 7"):
        x.squeeze((7,))


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
    """item, float, int, bool and complex of one element; of several they are refused."""
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
    assert math.floor(x) == 3 and math.ceil(x) == 4
    for several in (torch.ones(2, device=device), torch.ones(0, device=device)):
        for convert in (float, int, complex, math.floor, math.sqrt):
            with pytest.raises(ValueError, match="only one element tensors can be converted to"):
                convert(several)
    z = torch.tensor([1 + 0j], device=device)
    assert (float(z), int(z), complex(z)) == (1.0, 1, 1 + 0j)
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without"):
        float(z * 1j)
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without"):
        int(z + 1j)
    assert int(torch.tensor(1e30, dtype=torch.float64)) == int(1e30)


def test_format():
    x = torch.tensor(1.5)
    assert f"{x:.2f}" == "1.50" and f"{x}" == "1.5"
    assert f"{torch.ones(1)}" == "tensor([1.])"
    for spec in (".2f", ">20"):
        with pytest.raises(TypeError, match="unsupported format string passed to Tensor.__format__"):
            format(torch.ones(1), spec)


def test_contains(device):
    """`in` compares with numbers and tensors."""
    x = torch.arange(3, device=device)
    assert 1 in x and 5 not in x and 1.5 not in x and True in x and 1j not in x
    assert x[1] in x and torch.tensor([7, 1, 7], device=device) in x
    assert 1 not in torch.ones(0, device=device)
    for nothing in ("a", None, [1]):
        with pytest.raises(RuntimeError, match="only supports Tensor or scalar, but you passed in a <"):
            nothing in x


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
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            made = pickle.loads(pickle.dumps(view, protocol))
            assert made.stride() == view.stride() and made.tolist() == view.tolist()
    assert len(pickle.dumps(torch.ones(1).expand(10 ** 6))) < 1000
    for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.float16, torch.complex128):
        y = torch.tensor([1, 0, 1], dtype=dtype, device=device)
        made = pickle.loads(pickle.dumps(y))
        assert made.dtype is dtype and made.tolist() == y.tolist()


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


def test_objects():
    """Attributes, hashing, set_ and detach."""
    x = torch.ones(2)
    x.note = "mine"
    assert x.note == "mine" and x in {x: 1}
    y = torch.zeros(3)
    assert y.set_(x) is y and y.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="source is int64 on cpu, expected float32 on cpu"):
        y.set_(torch.arange(3))
    with pytest.raises(RuntimeError, match="source is float32 on cuda:0, expected float32 on cpu"):
        y.set_(torch.ones(3, device="cuda:0"))
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


def test_default_device():
    """Factories make tensors where `with device:` says; what is like a tensor stays with it."""
    here = torch.ones(2, device="cpu")
    assert torch.get_default_device() == torch.device("cpu")
    with torch.device("cuda:0") as entered:
        assert entered == torch.device("cuda:0") == torch.get_default_device()
        for made in (torch.empty(2), torch.zeros(2), torch.ones(2), torch.full((2,), 1),
                     torch.arange(3), torch.rand(2), torch.randn(2), torch.randint(3, (2,)),
                     torch.randperm(3), torch.tensor([1.0]), torch.as_tensor([1.0]),
                     torch.as_tensor(here), torch.tensor(here), torch.scalar_tensor(1),
                     torch.normal(0.0, 1.0, (2,)), torch.empty_strided((2,), (1,))):
            assert made.device == entered
        for made in (torch.ones(2, device="cpu"), torch.ones_like(here), here.new_ones(2),
                     torch.rand_like(here), here.new_tensor([1])):
            assert not made.is_cuda
        with torch.device("cpu"):
            assert not torch.ones(2).is_cuda
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ones(1).device))
        thread.start()
        thread.join()
        assert seen == [torch.device("cpu")]
    assert not torch.ones(2).is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.ones(2).is_cuda
        assert torch.get_default_device() == torch.device("cuda", torch.cuda.current_device())
        with torch.device("cpu"):
            assert not torch.ones(2).is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.ones(2).is_cuda


def test_missing_names():
    """A name of torch's that is not here says where to look; others are as Python has them."""
    for module, name in (torch, "linspace"), (torch.cuda, "CUDAGraph"):
        with pytest.raises(AttributeError, match=rf"module '{module.__name__}' has no attribute "
                                                 f"'{name}'.*not in ember yet.*coverage.md"):
            getattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'$"):
        torch.__wrapped__
    with pytest.raises(ImportError):
        from ember import linspace  # noqa: F401


def test_set_without_a_source(device):
    x = torch.ones(2, 3, device=device, dtype=torch.float64)
    y = x[0]
    assert x.set_() is x and x.shape == (0,) and x.dtype == torch.float64 and x.device == y.device
    assert y.tolist() == [1.0] * 3


def test_result_type():
    """torch names the arguments by what they are."""
    x = torch.ones(2, dtype=torch.int32)
    assert torch.result_type(tensor=x, other=x.byte()) == torch.int32
    assert torch.result_type(tensor=x, other=1.5) == torch.result_type(scalar=1.5, tensor=x)
    assert torch.result_type(scalar1=1, scalar2=2.5) == torch.float32
    assert torch.result_type(x, True) == torch.int32
    with pytest.raises(TypeError):
        torch.result_type(tensor1=x, tensor2=x)


def test_powers_of_bools(device):
    x = torch.tensor([True, False], device=device)
    assert (x ** True).tolist() == [True, False] and (x ** False).tolist() == [True, True]
    assert x.square().dtype == (x ** 2).dtype == torch.int64
    assert x.pow_(False) is x and x.tolist() == [True, True]
    with pytest.raises(NotImplementedError):
        x ** x


def test_assignment_to_shared_elements(device):
    """A number is no exception; fill_ is."""
    x = torch.zeros(3, 1, device=device).expand(3, 2)
    for key in (..., slice(None), (), None, 0, slice(1, 2), True):
        with pytest.raises(RuntimeError, match="single memory location"):
            x[key] = 3
    assert x.tolist() == [[0.0] * 2] * 3
    x[:, 0] = 2
    assert x.fill_(4).tolist() == [[4.0] * 2] * 3
