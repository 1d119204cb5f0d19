"""Fourier transforms against NumPy, and SciPy where it is there; the plan cache."""

import concurrent.futures
import os
import warnings

import pytest

np = pytest.importorskip("numpy")

import ember as torch

WIDER = {torch.float32: np.float64, torch.complex64: np.complex128,
         torch.float64: np.longdouble, torch.complex128: np.clongdouble}
EPSILON = {torch.float32: 2.0**-23, torch.complex64: 2.0**-23,
           torch.float64: 2.0**-52, torch.complex128: 2.0**-52}
# NumPy before 2 transforms nothing wider than float64.
WIDE_NUMPY = int(np.__version__.split(".")[0]) >= 2


@pytest.fixture(autouse=True)
def there_are_transforms():
    try:
        torch.fft.fft(torch.ones(1))
    except RuntimeError as error:
        pytest.skip(str(error))


def signal(dtype, *shape, seed=0, device="cpu"):
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape)
    if dtype.is_complex:
        x = x + 1j * random.standard_normal(shape)
    return torch.tensor(x, dtype=dtype, device=device)


def wide(x):
    return x.cpu().numpy().astype(WIDER[x.dtype])


def wide_numpy(x):
    """As wide as NumPy transforms."""
    return wide(x) if WIDE_NUMPY else x.cpu().numpy()


def error(got, expected):
    """The distance relative to the size of what is expected, in units of the last place."""
    assert got.shape == expected.shape
    got = wide(got)
    size = np.sqrt((np.abs(expected)**2).sum())
    return float(np.sqrt((np.abs(got - expected)**2).sum()) / size) if size else 0.0


def transformed(function, x, expected, limit, *arguments, **keywords):
    """The transform of x, which is as exact as `limit` says; on simulated devices what the CPU's is,
    bit for bit, without computing what is expected once more."""
    got = function(x, *arguments, **keywords)
    if x.is_cuda and torch.cuda.is_simulated():
        assert torch.equal(got.cpu(), function(x.cpu(), *arguments, **keywords))
    else:
        assert error(got, expected()) <= limit, x.shape
    return got


def bound(dtype, *sizes):
    """2 eps log2 n for lengths of factors 2, 3, 5, 7, else 8 eps log2 n."""
    n = rest = int(np.prod(sizes))
    for factor in (2, 3, 5, 7):
        while rest % factor == 0:
            rest //= factor
    return (2 if rest == 1 else 8) * EPSILON[dtype] * max(np.log2(n), 1)


DTYPES = [torch.complex64,
          pytest.param(torch.complex128,
                       marks=pytest.mark.skipif(not WIDE_NUMPY, reason="needs NumPy 2"))]


# What these two read and write is seen with exact bounds in tests/fft.
@pytest.mark.once
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_length(dtype, device):
    """fft, ifft, rfft, irfft of every length up to 1100, or of every EMBER_TEST_LENGTH_STEP-th from
    EMBER_TEST_FIRST_LENGTH on."""
    real = torch.float32 if dtype is torch.complex64 else torch.float64
    slow = device.startswith("cuda") and not torch.cuda.is_simulated()  # cuFFT makes a plan in 20 ms
    first = int(os.environ.get("EMBER_TEST_FIRST_LENGTH", "1"))
    for n in range(first, 1101, int(os.environ.get("EMBER_TEST_LENGTH_STEP", "13" if slow else "1"))):
        x = signal(dtype, 2, n, seed=n, device=device)
        y = signal(real, 2, n, seed=n, device=device)
        limit = bound(dtype, n)
        transformed(torch.fft.fft, x, lambda: np.fft.fft(wide(x)), limit)
        transformed(torch.fft.ifft, x, lambda: np.fft.ifft(wide(x)), limit)
        half = transformed(torch.fft.rfft, y, lambda: np.fft.rfft(wide(y)), limit)
        transformed(torch.fft.fft, y, lambda: np.fft.fft(wide(y)), limit)
        transformed(torch.fft.irfft, half, lambda: np.fft.irfft(wide(half), n), limit, n)


LARGE = [2**20, 3**12, 5**8, 7**7, 2**5 * 3**4 * 5**3 * 7, 1000003, 262147, 2 * 65537]
if "EMBER_TEST_LARGE_FFT" in os.environ:
    LARGE += [2**24, 2**24 + 43]  # the latter is a prime


@pytest.mark.once
@pytest.mark.parametrize("n", LARGE)
def test_large_lengths(n, device):
    scipy = pytest.importorskip("scipy.fft")
    for dtype in (torch.complex64, torch.complex128):
        x = signal(dtype, n, device=device)
        assert error(torch.fft.fft(x), scipy.fft(wide(x))) <= bound(dtype, n)
        y = x.real.contiguous()
        assert error(torch.fft.rfft(y), scipy.rfft(wide(y))) <= bound(dtype, n)
        half = torch.fft.rfft(y)
        assert error(torch.fft.irfft(half, n), scipy.irfft(wide(half), n)) <= bound(dtype, n)


@pytest.mark.parametrize("shape, dim", [
    ((19, 1024), 1), ((15, 16384), 1), ((11, 10007), 1), ((7, 40000), 1), ((3, 131072), 1),
    ((9, 262144), 1), ((3, 640000), 1), ((2, 1 << 20), 1), ((1024, 21), 0), ((512, 5), 0), ((10007, 7), 0), ((2048, 3, 5), 0)], ids=str)
def test_batches(shape, dim, device):
    """Transforms that are computed several at a time, and those that are left over; by any number
    of threads, the same bits."""
    for dtype in (torch.complex64, torch.complex128):
        x = signal(dtype, *shape, device=device)
        limit = bound(dtype, shape[dim])
        if not WIDE_NUMPY and dtype is torch.complex128:
            limit *= 2  # NumPy's are no better
        got = transformed(torch.fft.fft, x, lambda: np.fft.fft(wide_numpy(x), axis=dim), limit, dim=dim)
        transformed(torch.fft.ifft, got, lambda: wide(x), 2 * limit, dim=dim)
        if device == "cpu":
            threads = torch.get_num_threads()
            for number in (1, 3):
                torch.set_num_threads(number)
                assert torch.equal(torch.fft.fft(x, dim=dim), got)
            torch.set_num_threads(threads)


# Of other halves than those of real signals each library makes what it likes (docs/differences.md).
FORWARD = {"irfft": "rfft", "hfft": "ihfft", "irfftn": "rfftn", "irfft2": "rfft2"}


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dimension(name, norm, device):
    """Every norm, dim and n, also of real and integer inputs."""
    dtypes = [torch.float32, torch.complex64, torch.int32]
    if WIDE_NUMPY:
        dtypes += [torch.float64, torch.complex128]
    for dtype in dtypes:
        x = signal(torch.float32 if dtype is torch.int32 else dtype, 4, 5, 6, device=device) * 9
        x = x.to(dtype)
        if dtype.is_complex and name in ("rfft", "ihfft"):
            continue
        given = x.cpu().numpy().astype(WIDER.get(dtype, np.float64))
        for n in (None, 3, 4, 9):
            for dim in (-1, 0, 1):
                expected = getattr(np.fft, name)(given, n, dim, norm)
                got = getattr(torch.fft, name)(x, n, dim, norm) if device == "cpu" else None
                if device != "cpu" and name in FORWARD:
                    half = getattr(np.fft, FORWARD[name])(expected, None, dim, norm)
                    kind = np.complex128 if EPSILON.get(dtype, 1) < 1e-10 else np.complex64
                    half = torch.tensor(half.astype(kind), device=device)
                    expected = getattr(np.fft, name)(wide(half), expected.shape[dim], dim, norm)
                    got = getattr(torch.fft, name)(half, expected.shape[dim], dim, norm)
                elif device != "cpu":
                    got = getattr(torch.fft, name)(x, n, dim, norm)
                points = max(n or x.shape[dim], expected.shape[dim])
                assert error(got, expected) <= bound(got.dtype, points), (dtype, n, dim)


CASES = [((4, 5, 6), None, None), ((4, 5, 6), (3, 8), (0, 2)), ((4, 5, 6), (7,), (1,)),
         ((4, 5, 6), (5, -1), (2, 0)), ((2, 3, 4, 5, 6), None, None), ((3, 4), None, (1, 0)),
         ((2, 3, 4, 5, 6), None, (4, 0, 2)), ((6, 5), (4, 4), None)]


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2",
                                  "irfft2"])
def test_several_dimensions(name, norm, device):
    for shape, s, dim in CASES:
        if name.endswith("2"):
            if dim is not None and len(dim) != 2:
                continue
            dim = dim or (-2, -1)
        x = signal(torch.float64 if name.startswith("r") else torch.complex128, *shape,
                   device=device)
        axes = dim if dim is not None or s is None else tuple(range(-len(s), 0))
        sizes = s
        if s is not None and -1 in s:
            sizes = tuple(x.shape[a] if n == -1 else n for n, a in zip(s, axes))
            if name.startswith("i") and "r" in name and s[-1] == -1:
                sizes = sizes[:-1] + (2 * (x.shape[axes[-1]] - 1),)
        expected = getattr(np.fft, name)(wide_numpy(x), sizes, axes, norm)
        if device != "cpu" and name in FORWARD:
            half = getattr(np.fft, FORWARD[name])(expected, None, axes, norm)
            axes = range(len(shape)) if axes is None else axes
            x = torch.tensor(half.astype(np.complex128), device=device)
            s = [expected.shape[a] for a in axes]
            expected = getattr(np.fft, name)(wide_numpy(x), s, tuple(axes), norm)
            if dim is None and len(s) < len(shape):
                dim = tuple(axes)
        got = getattr(torch.fft, name)(x, s=s, dim=dim, norm=norm)
        assert error(got, expected) <= bound(got.dtype, *got.shape), (shape, s, dim)


@pytest.mark.parametrize("name", ["hfft2", "ihfft2", "hfftn", "ihfftn"])
def test_hermitian_signals_of_several_dimensions(name, device):
    scipy = pytest.importorskip("scipy.fft")
    for shape, s, dim in CASES:
        if name.endswith("2"):
            if dim is not None and len(dim) != 2:
                continue
            dim = dim or (-2, -1)
        if s is not None and -1 in s:
            continue
        x = signal(torch.float64, *shape, device=device)
        for norm in (None, "ortho", "forward"):
            if name.startswith("i"):
                expected = getattr(scipy, name)(x.cpu().numpy(), s, dim, norm)
                assert error(getattr(torch.fft, name)(x, s, dim, norm), expected) <= 1e-14, shape
                continue
            axes = dim or tuple(range(len(shape)))[-len(s or shape):]
            half = scipy.ihfftn(x.cpu().numpy(), None, axes, norm)
            got = getattr(torch.fft, name)(torch.tensor(half, device=device),
                                           [shape[a] for a in axes], axes, norm)
            assert error(got, wide(x)) <= 1e-14, shape


def test_layouts(device):
    """Inputs with gaps, in other orders, expanded and behind one element."""
    x = signal(torch.complex64, 6, 7, 9, device=device)
    whole = torch.zeros(15 * 17 * 21 + 1, dtype=torch.complex64, device=device)
    views = [x, x.permute(2, 0, 1), x[::2, 1:, 2:8:3], x[1].expand(4, 7, 9), x.transpose(0, 1),
             whole[1:379].view(6, 7, 9)]
    for view in views:
        for dims in ((0,), (1,), (2,), (0, 2), (2, 1), (0, 1, 2)):
            limit = bound(torch.complex64, *(view.shape[dim] for dim in dims))
            expected = np.fft.fftn(wide(view), axes=dims)
            assert error(torch.fft.fftn(view, dim=dims), expected) <= limit
            real = view.real
            assert error(torch.fft.rfftn(real, dim=dims), np.fft.rfftn(wide(real), axes=dims)) <= limit


def test_inputs_stay_as_they_are(device):
    """Also where a library would write into them."""
    x = signal(torch.complex64, 8, 9, device=device)
    before = x.clone()
    torch.fft.irfft(x)
    torch.fft.irfft2(x, (8, 16))
    torch.fft.hfft(x, dim=0)
    torch.fft.fftn(x)
    assert bool((x == before).all())


def test_outputs(device):
    x = signal(torch.complex64, 4, 6, device=device)
    out = torch.empty(0, dtype=torch.complex64, device=device)
    assert torch.fft.fft(x, out=out) is out and out.shape == (4, 6)
    out = torch.empty(4, 6, dtype=torch.complex128, device=device)
    torch.fft.fft2(x, out=out)
    assert error(out.to(torch.complex64), np.fft.fft2(wide(x))) <= 1e-6
    with pytest.warns(UserWarning, match="resized"):
        torch.fft.irfft(x, out=torch.empty(3, device=device))
    with pytest.raises(RuntimeError, match="rfft expects a complex output tensor, but got Float"):
        torch.fft.rfft(x.real, out=torch.empty(0, device=device))


def test_frequencies(device):
    for n in (0, 1, 4, 5):
        for d in (1.0, 0.25):
            with np.errstate(all="ignore"):
                assert torch.fft.rfftfreq(max(n, 1), d, device=device).tolist() == \
                    pytest.approx(np.fft.rfftfreq(max(n, 1), d).tolist())
            if n:
                assert torch.fft.fftfreq(n, d=d, device=device).tolist() == \
                    pytest.approx(np.fft.fftfreq(n, d).tolist())
    assert torch.fft.fftfreq(6, dtype=torch.float64).dtype is torch.float64
    x = torch.arange(24, device=device).view(4, 6)
    for dim in (None, 0, (1, 0)):
        assert torch.fft.fftshift(x, dim).tolist() == \
            np.fft.fftshift(x.cpu().numpy(), dim).tolist()
        assert torch.fft.ifftshift(x, dim=dim).tolist() == \
            np.fft.ifftshift(x.cpu().numpy(), dim).tolist()


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_halves_along_powers_of_two(name):
    for n in (1, 2, 8, 64, 1024, 32768):
        points = n // 2 + 1 if name in ("irfft", "hfft") else n
        dtype = torch.float16 if name in ("rfft", "ihfft") else torch.complex32
        x = signal(dtype, 3, points, device="cuda:0")
        if name in ("irfft", "hfft"):  # halves of real signals
            x[:, 0] = x[:, 0].real
            x[:, -1] = x[:, -1].real
        got = getattr(torch.fft, name)(x, n, norm="ortho")
        assert got.dtype is (torch.float16 if name in ("irfft", "hfft") else torch.complex32)
        kind = np.complex128 if x.is_complex() else np.float64
        given = x.cpu().to(torch.complex64 if x.is_complex() else torch.float32).numpy().astype(kind)
        expected = getattr(np.fft, name)(given, n, norm="ortho")
        wider = got.cpu().to(torch.complex64 if got.is_complex() else torch.float32)
        assert error(wider, expected) <= 2 * 2.0**-10 * max(np.log2(n), 1), n
    with pytest.raises(RuntimeError, match="powers of two when computing in half precision, but got a "
                                           "signal size of.12"):
        getattr(torch.fft, name)(torch.ones(12, dtype=dtype, device="cuda:0"), 12)


def test_arguments():
    x = torch.ones(4)
    for call in (lambda: torch.fft.fft([1, 2]), lambda: torch.fft.fft(x, 1.5),
                 lambda: torch.fft.fft(x, norm=3)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(RuntimeError, match="Unsupported dtype Half: it is transformed on CUDA devices"):
        torch.fft.fft(x.half())
    with pytest.raises(RuntimeError, match="Unsupported dtype ComplexHalf: it is transformed on CUDA"):
        torch.fft.ifftn(x.chalf())
    for where in ("cpu", "cuda:0"):
        with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16$"):
            torch.fft.fft(x.bfloat16().to(where))
    with pytest.raises(RuntimeError, match="FFT dims must be unique"):
        torch.fft.fftn(torch.ones(2, 3), dim=(0, -2))
    with pytest.raises(AttributeError, match="has no attribute 'dct'"):
        torch.fft.dct


def test_short_time_transforms(device):
    window = torch.tensor(np.hanning(10)[1:-1], dtype=torch.float32, device=device)
    x = signal(torch.float32, 2, 60, device=device)
    pieces = torch.stft(x, 8, 2, window=window, return_complex=True)
    assert pieces.shape == (2, 5, 31)
    padded = np.pad(wide(x), ((0, 0), (4, 4)), mode="reflect")
    for t in (0, 7, 30):
        expected = np.fft.rfft(padded[:, 2 * t:2 * t + 8] * wide(window))
        assert error(pieces[:, :, t], expected) <= 1e-6
    back = torch.istft(pieces, 8, 2, window=window, length=60)
    assert error(back, wide(x)) <= 1e-6
    assert error(x.stft(8, 2, window=window, return_complex=True).istft(8, 2, window=window),
                 wide(x)) <= 1e-6
    with pytest.warns(UserWarning, match="return_complex=False is deprecated"):
        assert torch.stft(x, 8, window=window, return_complex=False).shape == (2, 5, 31, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="A window was not provided"):
            torch.stft(x, 8, return_complex=True)


# ---- The plan cache


@pytest.fixture
def plans():
    cache = torch.backends.cuda.cufft_plan_cache
    cache.clear()
    yield cache
    cache.max_size = 4096
    cache.clear()


def test_plans(plans):
    assert plans.max_size == 4096 and plans.size == 0
    x = torch.ones(16, device="cuda:0")
    torch.fft.rfft(x)
    torch.fft.rfft(x * 2)
    assert plans.size == plans[0].size == plans["cuda:0"].size == 1
    plans.max_size = 3
    for n in range(2, 9):
        torch.fft.rfft(x, n)
    assert plans.size == 3
    plans.max_size = 1
    assert plans.size == 1
    plans[0].clear()
    assert plans.size == 0
    plans.max_size = 0
    torch.fft.rfft(x)
    assert plans.size == 0


def test_plans_of_another_device(plans, devices):
    second = plans[1]
    second.clear()
    torch.fft.rfft(torch.ones(16, device="cuda:1"))
    assert plans.size == 0 and second.size == 1
    with torch.cuda.device(1):
        assert plans.size == 1
        plans.max_size = 5
    assert second.max_size == 5 and plans.max_size == 4096
    second.max_size = 4096
    second.clear()


def test_errors_of_plans(plans):
    count = torch.cuda.device_count()
    for index in (-1, count, 2**40):
        with pytest.raises(RuntimeError) as caught:
            plans[index]
        assert str(caught.value) == (f"cufft_plan_cache: expected 0 <= device index < {count}, "
                                     f"but got device with index {index}")
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        plans["cpu"]
    with pytest.raises(ValueError, match="Expected a torch.device with a specified index"):
        plans[None]
    with pytest.raises(RuntimeError) as caught:
        plans.size = 3
    assert str(caught.value).startswith(
        ".size is a read-only property showing the number of plans currently in the cache. ")
    with pytest.raises(RuntimeError) as caught:
        plans.max_size = -1
    assert str(caught.value) == "cuFFT plan cache size must be non-negative, but got -1"
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        plans.max_size = 2**70
    for wrong in (2.5, "3", True, None):
        with pytest.raises(TypeError):
            plans.max_size = wrong
    assert plans.max_size == 4096
    plans.max_size = 2**63 - 1
    assert plans.max_size == 2**63 - 1


def test_bytes_of_plans(plans):
    x = torch.ones(64, device="cuda:0")
    torch.fft.fft(x)
    one = plans.bytes
    if one == 0:
        pytest.skip("what a plan takes is too little to be seen on this device")
    torch.fft.fft(x, 32)
    plans.max_bytes = one
    assert plans.bytes <= one
    plans.max_bytes = 0


@pytest.mark.parametrize("most", [4096, 2, 0])
def test_threads_share_plans(plans, most):
    """Eight threads on eight streams, without a wrong bit."""
    plans.max_size = most
    inputs = [signal(torch.complex64, 16, n, device="cuda:0") for n in (256, 360, 1021)]
    expected = [torch.fft.fft(x).cpu().numpy().tobytes() for x in inputs]
    torch.cuda.synchronize()

    def work(thread):
        with torch.cuda.stream(torch.cuda.Stream()):
            return all(torch.fft.fft(inputs[(thread + i) % 3]).cpu().numpy().tobytes() ==
                       expected[(thread + i) % 3] for i in range(20))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
