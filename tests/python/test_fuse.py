"""ember.fuse: results, names, numbers that change, and what is refused with its line."""

import gc
import math
import weakref

import pytest

import ember as torch


def numbers(*sizes, device="cpu"):
    count = math.prod(sizes)
    return (torch.arange(count, device=device).float() * 0.37).sin().mul(4).view(sizes)


def same(a, b):
    """The same dtype, and bit for bit, NaN being NaN."""
    assert a.dtype == b.dtype and a.shape == b.shape and a.device == b.device
    if not a.is_floating_point():
        return a.tolist() == b.tolist()
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return bool(((a.contiguous().view(bits) == b.contiguous().view(bits)) |
                 (a.isnan() & b.isnan())).all())


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def adam(weights, gradient, mean, square, *, rate, step, betas=(0.9, 0.999)):
    mean.mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
    square.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    mean_hat = mean / (1 - betas[0]**step)
    square_hat = square / (1 - betas[1]**step)
    weights.sub_(rate * mean_hat / (square_hat.sqrt() + 1e-8))


def black_scholes(spot, strike, years, rate, volatility):
    def cdf(x):
        return 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    spread = volatility * torch.sqrt(years)
    up = (torch.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    return spot * cdf(up) - strike * torch.exp(-rate * years) * cdf(up - spread)


def softmax(scores, mask, temperature):
    scores = torch.where(mask, scores / temperature, -math.inf)
    scores = (scores - scores.amax(-1, keepdim=True)).exp()
    return scores / scores.sum(-1, keepdim=True)


def test_gelu(device):
    fused = torch.fuse(gelu)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = numbers(30, 40, device=device).to(dtype)
        assert same(fused(x), gelu(x))
        assert same(fused(x.t()), gelu(x.t()))


def test_a_step_of_adam(device):
    fused = torch.fuse(adam)
    states = [[numbers(300, device=device), torch.zeros(300, device=device),
               torch.zeros(300, device=device)] for _ in range(2)]
    for step in range(1, 4):
        gradient = numbers(300, device=device) * step
        for state, call in zip(states, (adam, fused)):
            call(state[0], gradient, *state[1:], rate=0.1 / step, step=step)
    assert all(same(a, b) for a, b in zip(*states))


def test_black_scholes(device):
    years = numbers(1000, device=device).abs() + 0.1
    arguments = years * 30, years * 28, years, 0.02, 0.3
    assert same(torch.fuse(black_scholes)(*arguments), black_scholes(*arguments))


def layer_norm(x, weight, bias):
    apart = x - x.mean(-1, keepdim=True)
    return apart / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * weight + bias


def close(made, right):
    assert made.dtype == right.dtype and made.shape == right.shape and made.device == right.device
    return torch.allclose(made, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [1, 20, 1000, 5000])
def test_rows(device, length):
    scores = numbers(8, length, device=device)
    mask = torch.arange(length, device=device) % 4 < 3
    assert close(torch.fuse(softmax)(scores, mask, 0.7), softmax(scores, mask, 0.7))
    weight, bias = numbers(length, device=device), numbers(length, device=device) + 1
    if length > 1:
        assert close(torch.fuse(layer_norm)(scores, weight, bias),
                     layer_norm(scores, weight, bias))

    @torch.fuse
    def loss(x, y):
        return ((x - y) ** 2).mean(), torch.softmax(x, -1).amax(), (x > y).any(dim=1)

    for made, right in zip(loss(scores, weight), loss.__wrapped__(scores, weight)):
        assert close(made.float(), right.float())


def test_any_structure_of_results():
    @torch.fuse
    def several(x):
        y = x.sin() * 2
        return {"y": y, "truth": y > 0, "whole": [(y * 10).int()]}

    x = numbers(100, device="cuda")
    found = several(x)
    assert same(found["y"], x.sin() * 2)
    assert same(found["truth"], x.sin() * 2 > 0)
    assert same(found["whole"][0], (x.sin() * 2 * 10).int())


def test_numbers_and_what_is_closed_over_are_those_of_the_call(tmp_path, monkeypatch):
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho started >> "{tmp_path}/starts"\nexec c++ "$@"\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    offset = 1.0

    @torch.fuse
    def f(x, rate):
        return x * rate - offset + 0.125

    x = numbers(77)
    for rate in (0.5, 0.25, -3.0):
        offset += rate
        assert same(f(x, rate), x * rate - offset + 0.125)
    assert (tmp_path / "starts").read_text().count("started") == 1


def test_16_bit_floats_without_rounding():
    @torch.fuse(precise=False)
    def loose(x):
        return (x + 2**-11) - x

    one = torch.ones(3, dtype=torch.float16)
    assert loose(one).tolist() == [2**-11] * 3
    assert torch.fuse(loose.__wrapped__)(one).tolist() == [0.0] * 3


def test_wraps_functions_and_methods():
    class Layer:
        scale = 2.0

        @torch.fuse
        def forward(self, x):
            """Scaled."""
            return x * self.scale + 1

    layer = Layer()
    x = numbers(5)
    assert same(layer.forward(x), x * 2 + 1)
    layer.scale = 3.0
    assert same(layer.forward(x), x * 3 + 1)
    assert Layer.forward.__name__ == "forward" and Layer.forward.__doc__ == "Scaled."
    assert same(torch.fuse(lambda x: x.sin().cos())(x), x.sin().cos())
    with pytest.raises(TypeError, match="fuse: expected a function, got int"):
        torch.fuse(3)


@pytest.mark.parametrize("ask", [
    lambda x: x.item(), bool, float, lambda x: int(x), lambda x: 3 if x > 0 else 4,
    lambda x: [1, 2, 3][x.long()]
], ids=["item", "bool", "float", "int", "if", "index"])
def test_refuses_what_depends_on_values(device, ask):
    @torch.fuse
    def choose(x):
        total = (x * 2).sum()
        return x * ask(total)  # here

    line = choose.__wrapped__.__code__.co_firstlineno + 3
    x = torch.zeros(3, device=device)
    with pytest.raises(RuntimeError, match="'choose' asks for the value of a tensor") as error:
        choose(x)
    assert f'test_fuse.py", line ' in str(error.value)
    if ask in (bool, float):  # the others are functions of Python, with lines of their own
        assert f'test_fuse.py", line {line}, in choose' in str(error.value)
    assert x.sum().item() == 0


def test_errors_are_those_of_the_operations(device):
    @torch.fuse
    def f(x):
        x.add_(1)
        return x + torch.ones(3, device=x.device)

    x = torch.ones(4, device=device)
    with pytest.raises(RuntimeError, match="must match"):
        f(x)
    assert x.tolist() == [2.0] * 4  # as without fuse


def test_keeps_no_memory_of_what_lies_between(caching):
    x = torch.ones(1 << 20, device="cuda")
    fused = torch.fuse(gelu)
    fused(x)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = fused(x)
    assert torch.cuda.max_memory_allocated() - before == y.nbytes


def test_elements_that_are_read_on_the_way_are_those_of_that_moment():
    numpy = pytest.importorskip("numpy")
    seen = []

    @torch.fuse
    def f(x):
        x.add_(1)
        seen.append(x.tolist())
        x.mul_(3)
        seen.append(numpy.array(x.numpy()).tolist())
        x.sub_(1)
        seen.append(str(x))
        return (x * 2).tolist()

    x = torch.ones(2)
    assert f(x) == [10.0, 10.0]
    assert seen == [[2.0, 2.0], [6.0, 6.0], "tensor([5., 5.])"]


def test_lets_go_of_its_tensors():
    x = torch.ones(3)
    seen = weakref.ref(x)
    torch.fuse(lambda y: y * 2 + 1)(x)
    del x
    gc.collect()
    assert seen() is None
