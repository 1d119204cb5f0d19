"""Making tensors: of Python's values, and by functions that say what they hold."""

import math
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


@pytest.mark.filterwarnings("ignore:A list as an index")
def test_tensors_as_rows(device):
    """A tensor that comes first is an element; later ones may be rows, as in torch."""
    row = torch.tensor([5.0, 6.0], device=device)
    assert torch.tensor([[3.0, 4], row]).tolist() == [[3, 4], [5, 6]]
    assert torch.as_tensor([[3.0, 4], row]).tolist() == [[3, 4], [5, 6]]
    assert row.new_tensor([(3.0, 4), row]).tolist() == [[3, 4], [5, 6]]
    assert torch.tensor([[1], torch.ones(1, 1)]).tolist() == [[1], [1]]
    whole = torch.tensor([[[1, 2]], torch.tensor([[3, 4]])])
    assert whole.tolist() == [[[1, 2]], [[3, 4]]] and whole.dtype == torch.int64
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1 .got 3."):
        torch.tensor([[3.0, 4], torch.ones(3)])
    with pytest.raises(TypeError, match="not a sequence"):
        torch.tensor([[1, 2], torch.ones(())])
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([row, [1.0, 2]])
    for wrong in (torch.tensor([1, 2]), torch.tensor(1.5)):
        with pytest.raises(TypeError, match="only integer tensors of a single element"):
            torch.tensor([wrong], dtype=torch.int64)
    assert torch.tensor([torch.tensor(True)], dtype=torch.int64).tolist() == [1]


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


def test_objects_with_a_value_of_their_own():
    class Number:
        def __float__(self):
            return 2.5

        def __index__(self):
            return 7

        def __complex__(self):
            return 1 + 2j

    class Broken:
        def __float__(self):
            raise KeyError("mine")

    assert torch.tensor([Number()], dtype=torch.float64).tolist() == [2.5]
    assert torch.tensor([Number()], dtype=torch.int64).tolist() == [7]
    assert torch.tensor([Number()], dtype=torch.complex64).tolist() == [1 + 2j]
    with pytest.raises(KeyError, match="mine"):
        torch.tensor([Broken()], dtype=torch.float32)
    with pytest.raises(TypeError, match="must be real number, not object"):
        torch.tensor([object()], dtype=torch.float32)
    with pytest.raises(OverflowError, match="negative int to unsigned"):
        torch.tensor([-1], dtype=torch.uint64)


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


def test_requires_grad():
    """Every function that makes tensors takes False, and says of True that there are no gradients."""
    x = torch.ones(2, 2)
    probabilities = torch.full((2,), 0.5)
    makers = [
        lambda **k: torch.empty(2, 3, **k), lambda **k: torch.empty((2, 3), **k),
        lambda **k: torch.zeros(2, **k), lambda **k: torch.ones([2], **k),
        lambda **k: torch.full((2,), 1, **k), lambda **k: torch.full_like(x, 1, **k),
        lambda **k: torch.empty_like(x, **k), lambda **k: torch.zeros_like(x, **k),
        lambda **k: torch.ones_like(x, **k), lambda **k: torch.empty_strided((2,), (1,), **k),
        lambda **k: torch.arange(3, **k), lambda **k: torch.arange(0, 3, **k),
        lambda **k: torch.arange(0, 3, 2, **k), lambda **k: torch.linspace(0, 1, 3, **k),
        lambda **k: torch.eye(2, **k), lambda **k: torch.eye(2, 3, **k),
        lambda **k: torch.tensor([1.0], **k), lambda **k: torch.scalar_tensor(1, **k),
        lambda **k: x.new_empty(2, **k), lambda **k: x.new_zeros((2,), **k),
        lambda **k: x.new_ones(2, **k), lambda **k: x.new_full((2,), 1, **k),
        lambda **k: x.new_tensor([1.0], **k), lambda **k: torch.rand(2, **k),
        lambda **k: torch.randn((2,), **k), lambda **k: torch.rand_like(x, **k),
        lambda **k: torch.randn_like(x, **k), lambda **k: torch.randint(3, (2,), **k),
        lambda **k: torch.randint(0, 3, (2,), **k), lambda **k: torch.randperm(3, **k),
        lambda **k: torch.randint_like(x, 3, **k), lambda **k: torch.randint_like(x, 1, 3, **k),
        lambda **k: torch.normal(0.0, 1.0, (2,), **k),
    ]
    for make in makers:
        assert make(requires_grad=False).requires_grad is False
        with pytest.raises(NotImplementedError,
                           match="requires_grad=True: ember computes no gradients"):
            make(requires_grad=True)
    with pytest.raises(TypeError):
        torch.bernoulli(probabilities, requires_grad=False)


def test_linspace_and_eye(device):
    assert torch.linspace(0, 1, 5, device=device).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert torch.linspace(start=0, end=10, steps=4, dtype=torch.int64).tolist() == [0, 3, 6, 10]
    assert torch.linspace(torch.tensor(0), 3.0, 4, device=device).device.type == device[:4].rstrip(":")
    out = torch.empty(0, device=device)
    assert torch.linspace(0, 1j.imag, 3, out=out) is out and out.tolist() == [0, 0.5, 1]
    assert torch.linspace(0, 1j, 3, device=device).tolist() == [0, 0.5j, 1j]
    assert torch.eye(2, device=device).tolist() == [[1, 0], [0, 1]]
    assert torch.eye(1, m=2, dtype=torch.bool, device=device).tolist() == [[True, False]]
    assert torch.eye(2, out=out) is out and out.shape == (2, 2)
    with pytest.raises(RuntimeError, match="n must be greater or equal to 0, got -1"):
        torch.eye(-1)


@pytest.mark.parametrize("pinned", [None, False])
def test_pin_memory_may_be_none(pinned):
    """Everywhere, as in torch; and what makes random numbers and frequencies has the keyword, too."""
    x = torch.ones(2)
    made = [
        torch.zeros(2, pin_memory=pinned), torch.full((2,), 1, pin_memory=pinned), torch.eye(2, pin_memory=pinned),
        torch.arange(2, pin_memory=pinned), torch.zeros_like(x, pin_memory=pinned),
        torch.tensor([1], pin_memory=pinned), torch.scalar_tensor(1, pin_memory=pinned),
        torch.rand(2, pin_memory=pinned), torch.rand_like(x, pin_memory=pinned),
        torch.randn_like(x, pin_memory=pinned), torch.randint_like(x, 3, pin_memory=pinned),
        torch.fft.fftfreq(2, pin_memory=pinned),
        torch.fft.rfftfreq(2, pin_memory=pinned),
    ]
    assert not any(tensor.is_pinned() for tensor in made)


def test_bools_count_as_ints_behind_an_int():
    """As PyTorch has it; the first one would be something else."""
    assert torch.zeros(2, True).shape == torch.zeros((2, True)).shape == (2, 1)
    x = torch.ones(2, 3)
    assert x.reshape(2, True, 3).shape == (2, 1, 3) and x.permute(1, False).shape == (3, 2)
    assert x.count_nonzero(0, True) == 6 and x.sum((0, True)) == 6
    for call in (lambda: torch.zeros(True), lambda: torch.zeros((True, 2))):
        with pytest.raises(TypeError):
            call()
