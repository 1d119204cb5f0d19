"""Tensors as torch prints them. The expected texts follow torch's published rules; many are in its
documentation as they stand here."""

import math

import pytest

import ember as torch


@pytest.mark.parametrize("data, text", [
    (1.0, "tensor(1.)"),
    (3.14159, "tensor(3.1416)"),
    (7, "tensor(7)"),
    (True, "tensor(True)"),
    (1 + 2j, "tensor(1.+2.j)"),
    ([], "tensor([])"),
    ([1.0, 2.0], "tensor([1., 2.])"),
    ([1, -20, 300], "tensor([  1, -20, 300])"),
    ([True, False], "tensor([ True, False])"),
    ([0.0, 0.0], "tensor([0., 0.])"),
    ([-0.0, 1.0], "tensor([-0., 1.])"),
    ([0.1, 22.25], "tensor([ 0.1000, 22.2500])"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
    ([1e9], "tensor([1.0000e+09])"),
    ([1e8], "tensor([100000000.])"),
    ([math.nan, 1.0], "tensor([nan, 1.])"),
    ([math.inf, -math.inf, 0.5], "tensor([   inf,   -inf, 0.5000])"),
    ([math.nan], "tensor([nan])"),
    ([1.5 - 2.25j, -0.5j], "tensor([1.5000-2.2500j, -0.0000-0.5000j])"),
    ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
    ([[[1.0], [2.0]], [[3.0], [4.0]]],
     "tensor([[[1.],\n         [2.]],\n\n        [[3.],\n         [4.]]])"),
])
def test_text(data, text):
    """Texts as torch prints them."""
    assert str(torch.tensor(data)) == text
    assert repr(torch.tensor(data)) == text


def test_lines_are_80_wide():
    x = torch.arange(30)
    assert str(x) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])")


def test_large_ones_are_summarised():
    assert str(torch.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert "..." not in str(torch.arange(1000))
    assert str(torch.zeros(100, 20)) == (
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n" * 1 +
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n" * 2 +
        "        ...,\n" +
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n" * 2 +
        "        [0., 0., 0.,  ..., 0., 0., 0.]])")
    # Only what is shown decides how it is shown.
    x = torch.zeros(2000)
    x[1000] = 1e-9
    assert str(x) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


@pytest.fixture
def printing():
    yield torch.set_printoptions
    torch.set_printoptions(profile="default")


# As torch 2.11 writes them.
@pytest.mark.parametrize("options, make, text", [
    ({"precision": 2}, lambda: torch.tensor([0.1, 22.25]), "tensor([ 0.10, 22.25])"),
    ({"precision": 0}, lambda: torch.tensor([0.1, 22.75]), "tensor([ 0, 23])"),
    ({"precision": 6}, lambda: torch.tensor([1 + 2.5j, 0.25j]), "tensor([1.+2.500000j, 0.+0.250000j])"),
    ({"threshold": 5, "edgeitems": 1}, lambda: torch.arange(6), "tensor([0,  ..., 5])"),
    ({"threshold": 5, "edgeitems": 2}, lambda: torch.arange(30.).view(5, 6),
     "tensor([[ 0.,  1.,  ...,  4.,  5.],\n        [ 6.,  7.,  ..., 10., 11.],\n        ...,\n"
     "        [18., 19.,  ..., 22., 23.],\n        [24., 25.,  ..., 28., 29.]])"),
    ({"threshold": 0}, lambda: torch.arange(7), "tensor([0, 1, 2,  ..., 4, 5, 6])"),
    ({"threshold": 0, "edgeitems": 4}, lambda: torch.arange(8), "tensor([0, 1, 2, 3, 4, 5, 6, 7])"),
    ({"threshold": 0, "edgeitems": 2**62}, lambda: torch.arange(3), "tensor([0, 1, 2])"),
    ({"threshold": math.inf}, lambda: torch.zeros(1001)[::500], "tensor([0., 0., 0.])"),
    ({"linewidth": 20}, lambda: torch.arange(10), "tensor([0, 1, 2, 3,\n        4, 5, 6, 7,\n        8, 9])"),
    ({"linewidth": 30}, lambda: torch.ones(3, dtype=torch.float64),
     "tensor([1., 1., 1.],\n       dtype=torch.float64)"),
    ({"sci_mode": True}, lambda: torch.tensor([1.0, -2.0]), "tensor([ 1.0000e+00, -2.0000e+00])"),
    ({"sci_mode": True}, lambda: torch.tensor([1.5, 0.0]), "tensor([1.5000e+00, 0.0000e+00])"),
    ({"sci_mode": True}, lambda: torch.zeros(2), "tensor([0., 0.])"),
    ({"sci_mode": False}, lambda: torch.tensor([1e-5, 1.0]), "tensor([0.0000, 1.0000])"),
    ({"sci_mode": False}, lambda: torch.tensor([1e9, 1.0]), "tensor([1000000000.,          1.])"),
    ({"sci_mode": False}, lambda: torch.tensor([math.inf, 1e-9, math.nan]),
     "tensor([   inf, 0.0000,    nan])"),
    ({"sci_mode": True, "precision": 1}, lambda: torch.tensor([1e3 + 1j]), "tensor([1.0e+03+1.0e+00j])"),
    ({"profile": "short"}, lambda: torch.arange(1001) / 8,
     "tensor([  0.00,   0.12,  ..., 124.88, 125.00])"),
    ({"profile": "short", "precision": 3}, lambda: torch.tensor(0.12345), "tensor(0.123)"),
])
def test_options(printing, options, make, text):
    printing(**options)
    assert str(make()) == text


def test_options_stay_until_a_profile(printing):
    x = torch.tensor([0.125, 1e-7])
    printing(precision=2)
    printing(sci_mode=False)
    assert str(x) == "tensor([0.12, 0.00])"
    printing()  # sci_mode is as the numbers need it again, and nothing else changes
    assert str(x) == "tensor([1.25e-01, 1.00e-07])"
    printing(profile="default")
    assert str(x) == "tensor([1.2500e-01, 1.0000e-07])"
    printing(profile="full")
    assert str(torch.arange(1001)).count(",") == 1000


@pytest.mark.parametrize("options, message", [
    ({"precision": -1}, "precision is -1, expected at least 0"),
    ({"precision": 101}, "precision is 101, expected at most 100"),
    ({"threshold": -100}, "threshold is -100.0, expected at least 0"),
    ({"threshold": math.nan}, "threshold is nan, expected a number"),
    ({"edgeitems": 0}, "edgeitems is 0, expected at least 1"),
    ({"linewidth": 0}, "linewidth is 0, expected at least 1"),
    ({"profile": "long"}, "profile is 'long', expected 'default', 'short' or 'full'"),
])
def test_bad_options(printing, options, message):
    with pytest.raises(ValueError, match=message):
        printing(**{"precision": 3, **options})
    assert str(torch.tensor(0.5)) == "tensor(0.5000)"
    with pytest.raises(TypeError):
        printing(precision="4")


def test_suffixes():
    """size, dtype and device are said where they cannot be seen."""
    assert str(torch.empty(0)) == "tensor([])"
    assert str(torch.empty(2, 0)) == "tensor([], size=(2, 0))"
    assert str(torch.empty(0, dtype=torch.int64)) == "tensor([], dtype=torch.int64)"
    assert str(torch.empty(0, 3, device="cuda:0", dtype=torch.bool)) == (
        "tensor([], device='cuda:0', size=(0, 3), dtype=torch.bool)")
    assert str(torch.ones(1, dtype=torch.float64)) == "tensor([1.], dtype=torch.float64)"
    assert str(torch.ones(1, dtype=torch.float16, device="cuda:0")) == (
        "tensor([1.], device='cuda:0', dtype=torch.float16)")
    assert str(torch.ones(1, dtype=torch.uint8)) == "tensor([1], dtype=torch.uint8)"
    assert str(torch.ones(1, dtype=torch.complex64)) == "tensor([1.+0.j])"
    assert str(torch.ones(1, dtype=torch.complex128)) == "tensor([1.+0.j], dtype=torch.complex128)"


def test_a_long_line_breaks_before_the_suffix():
    x = torch.arange(100, 118, device="cuda:0")
    assert all(len(line) <= 80 for line in str(x).split("\n"))
    z = torch.arange(100, 112, device="cuda:0")
    assert str(z).endswith(" 111],\n       device='cuda:0')")
    y = torch.full((15,), 123, device="cuda:0")
    assert str(y) == ("tensor([" + ", ".join(["123"] * 14) + ",\n        123], device='cuda:0')")


def test_devices_print_alike(device):
    x = torch.tensor([[1.5, -2.0], [0.0, 1e3]], device=device).T
    suffix = ", device='cuda:0'" if device != "cpu" else ""
    assert str(x) == ("tensor([[   1.5000,    0.0000],\n"
                      "        [  -2.0000, 1000.0000]]" + suffix + ")")


def test_small_objects():
    """dtypes, sizes and devices."""
    assert repr(torch.float32) == str(torch.float32) == "torch.float32"
    assert repr(torch.bool) == "torch.bool"
    assert repr(torch.Size([2, 3])) == "torch.Size([2, 3])"
    assert repr(torch.device("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(torch.device("cuda")) == "device(type='cuda')"
    assert str(torch.device("cuda", 1)) == "cuda:1"
    assert f"{torch.tensor(2.5):.2f}" == "2.50"
    assert f"{torch.tensor([1])}" == "tensor([1])"
