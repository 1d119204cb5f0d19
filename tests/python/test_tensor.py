"""What a tensor is: sizes, dtypes, devices, numbers, objects, errors."""

import math
import pickle

import pytest

import ember
import ember as torch


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
    assert repr((5,) + size) == "torch.Size([5, 2, 3, 4])"
    assert repr(size * 2) == "torch.Size([2, 3, 4, 2, 3, 4])"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert repr(pickle.loads(pickle.dumps(size, protocol))) == "torch.Size([2, 3, 4])"
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
    with pytest.raises(TypeError):
        [5] + size


def test_sizes_that_change_while_they_are_read():
    class Shortens:
        def __index__(self):
            del sizes[1:]
            return 2

    sizes = [Shortens(), object(), 3]
    assert torch.zeros(sizes).shape == (2,)


def test_dtypes():
    assert torch.float is torch.float32 and torch.long is torch.int64 and torch.half is torch.float16
    assert torch.ones(1).dtype is torch.float32
    assert torch.bfloat16.itemsize == 2 and torch.complex64.is_complex
    assert not torch.uint8.is_signed and torch.int8.is_signed
    assert torch.complex64.to_real() is torch.float32
    assert torch.chalf is torch.complex32 and torch.complex32.to_real() is torch.float16
    assert torch.half.to_complex() is torch.chalf and torch.ones(2).chalf().half().dtype is torch.half
    assert torch.chalf.itemsize == 4 and torch.chalf.is_complex
    assert (torch.ones(2).half() * 1j).dtype is torch.complex32
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


def test_numbers(device):
    """item, float, int, bool and complex of one element; of several they are refused."""
    x = torch.tensor(3.5, device=device)
    assert (x.item(), float(x), int(x), bool(x), complex(x)) == (3.5, 3.5, 3, True, 3.5 + 0j)
    i = torch.tensor(2, device=device)
    assert [10, 20, 30][i] == 30
    with pytest.raises(RuntimeError, match="without overflow"):
        [10][torch.tensor(2 ** 64 - 1, dtype=torch.uint64, device=device)]
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
    for number in float("inf"), float("nan"), 1e30:  # int64 only, if it is complex
        with pytest.raises(RuntimeError, match="to type int64_t without overflow"):
            int(torch.tensor(complex(number, 0)))
    assert int(torch.tensor(-2.75 + 0j)) == -2


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
def test_what_a_dtype_has_not_is_not_implemented(place):
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        ember.ones(2, dtype=ember.bool, device=place).floor()


def test_missing_names():
    """A name of torch's that is not here says where to look; others are as Python has them."""
    for module, name in (torch, "einsum"), (torch.cuda, "gds"):
        with pytest.raises(AttributeError, match=rf"module '{module.__name__}' has no attribute "
                                                 f"'{name}'.*not in ember yet.*coverage.md"):
            getattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'$"):
        torch.__wrapped__
    with pytest.raises(ImportError):
        from ember import einsum  # noqa: F401


def test_without_gradients():
    """What says that none are wanted is taken as it is."""
    with torch.no_grad(), torch.inference_mode(), torch.inference_mode(False):
        assert not torch.is_grad_enabled()
    with torch.enable_grad(), torch.set_grad_enabled(False):
        pass
    torch.set_grad_enabled(True)
    with pytest.raises(TypeError, match="mode is 1, expected a bool"):
        torch.set_grad_enabled(1)

    @torch.no_grad()
    @torch.inference_mode()
    def twice(x):
        return x * 2

    @torch.no_grad
    @torch.enable_grad
    @torch.set_grad_enabled(False)
    @torch.inference_mode
    def thrice(x):
        return x * 3

    assert twice(torch.ones(1)).item() == 2 and thrice(torch.ones(1)).item() == 3


def test_missing_gradients():
    """What torch.Tensor has for gradients says that there are none, or is missing for hasattr."""
    x = torch.ones(2)
    assert x.grad is None and x.grad_fn is None and x.retains_grad is False
    for name in "backward", "register_hook", "retain_grad":
        with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}': ember "
                                                 "computes no gradients"):
            getattr(x, name)
        assert not hasattr(x, name) and not hasattr(torch.Tensor, name)
    with pytest.raises(NotImplementedError, match="computes no gradients"):
        x.requires_grad = True
    with pytest.raises(NotImplementedError, match="requires_grad=True: ember computes no gradients"):
        x.requires_grad_()
    x.requires_grad = False
    assert x.requires_grad is False and x.requires_grad_(False) is x and x.detach_() is x
    x.grad = None
    assert not vars(x)
    with pytest.raises(AttributeError, match="'grad' cannot be set: ember computes no gradients"):
        x.grad = torch.ones(2)
    with pytest.raises(AttributeError, match="no attribute 'backwards'$"):
        x.backwards


def test_refusals_say_what_to_do():
    x = torch.ones(2)
    for make in (lambda: torch.Tensor(2, 3), lambda: torch.Tensor([1.5]), torch.Tensor,
                 lambda: torch.Tensor(data=x)):
        with pytest.raises(TypeError, match=r"ember.empty\(2, 3\) makes one of these sizes"):
            make()
    with pytest.raises(TypeError, match="Tensor does not support deleting items.*ember.cat"):
        del x[0]
    assert x.shape == (2,)


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


def test_hash_is_that_of_the_object():
    x = torch.ones(2)
    assert hash(x) == id(x)


def test_products_from_the_right():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = torch.tensor([1.0, 10.0])
    assert x.__rmatmul__(y).tolist() == [31.0, 42.0]
    with pytest.raises(TypeError):
        2 @ x
