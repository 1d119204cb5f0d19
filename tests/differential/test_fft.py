"""Fourier transforms beside PyTorch's on the CPU: values, dtypes, strides and errors."""

import itertools

import numpy as np
import pytest
import torch

import ember

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SIZES = [(None, None), ((3, 7), (0, 2)), ((-1, 4), (2, 1)), (None, (3, 1, 0)), ((2,), None),
         (None, (0,)), ((0, 3), None), ((2, 3), (1,)), (None, (1, 1)), (None, (7,)), (None, ())]


@pytest.fixture(autouse=True)
def there_are_transforms():
    try:
        ember.fft.fft(ember.ones(1))
    except RuntimeError as error:
        pytest.skip(str(error))


def signals():
    random = np.random.default_rng(0)
    real = random.standard_normal((4, 5, 6, 3))
    yield real
    yield real + 1j * random.standard_normal(real.shape)
    yield real.astype(np.float32).transpose(2, 0, 3, 1)
    yield (real * 9).astype(np.int32)


def outcome(call):
    try:
        result = call()
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error).__name__, str(error).split("\n")[0]
    if isinstance(result, torch.Tensor):
        result = result.resolve_conj()
    return result.numpy(), tuple(result.stride())


def compare(name, call):
    """`call(library)` in both."""
    ours, theirs = outcome(lambda: call(ember)), outcome(lambda: call(torch))
    if isinstance(theirs[0], str):
        assert ours == theirs, name
        return
    assert not isinstance(ours[0], str), (name, ours)
    assert ours[0].dtype == theirs[0].dtype and ours[0].shape == theirs[0].shape, name
    assert ours[1] == theirs[1], (name, "strides")
    exact = 1e-12 if ours[0].dtype in (np.float64, np.complex128) else 2e-5
    size = np.abs(theirs[0]).max() if theirs[0].size else 1
    assert np.abs(ours[0] - theirs[0]).max(initial=0) <= exact * size, name


@pytest.mark.parametrize("name", ONE)
def test_one_dimension(name):
    for x, n, dim, norm in itertools.product(signals(), (None, 3, 8, 0, -1), (-1, 0, 2, 9),
                                             (None, "ortho", "forward", "backward", "bad")):
        compare((name, x.dtype, n, dim, norm), lambda library: getattr(library.fft, name)(
            library.from_numpy(x), n, dim, norm))


@pytest.mark.parametrize("name", [one + kind for one in ONE for kind in "2n"])
def test_several_dimensions(name):
    for x, (s, dim), norm in itertools.product(signals(), SIZES, (None, "ortho", "forward")):
        if name.endswith("2") and dim is None:
            dim = (-2, -1)
        compare((name, x.dtype, s, dim, norm), lambda library: getattr(library.fft, name)(
            library.from_numpy(x), s, dim, norm))


@pytest.mark.parametrize("options", [
    {"n_fft": 8, "hop_length": 2}, {"n_fft": 9, "win_length": 5, "hop_length": 2},
    {"n_fft": 8, "hop_length": 3, "center": False, "normalized": True},
    {"n_fft": 8, "pad_mode": "circular"}, {"n_fft": 8, "pad_mode": "replicate"},
    {"n_fft": 8, "pad_mode": "constant"}, {"n_fft": 60}, {"n_fft": 8, "hop_length": 0},
    {"n_fft": 4, "win_length": 8}, {"n_fft": 8, "onesided": False}], ids=str)
def test_short_time_transforms(options):
    x = np.random.default_rng(1).standard_normal((3, 50))
    window = np.hanning(options.get("win_length", options["n_fft"])) + 0.1
    back = {key: value for key, value in options.items() if key != "pad_mode"}

    def there(library):
        return library.stft(library.from_numpy(x), window=library.from_numpy(window),
                            return_complex=True, **options)

    def and_back(library):
        return library.istft(there(library), window=library.from_numpy(window), **back)

    compare("stft", there)
    compare("istft", and_back)
