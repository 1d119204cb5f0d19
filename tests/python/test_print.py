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
