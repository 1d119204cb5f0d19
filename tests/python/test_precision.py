"""Settings of how exact products are, and the handle of cuBLAS."""

import threading

import pytest

import ember

matmul = ember.backends.cuda.matmul


@pytest.fixture(autouse=True)
def defaults():
    yield
    matmul.fp32_precision = "none"
    matmul.allow_fp16_reduced_precision_reduction = True
    matmul.allow_bf16_reduced_precision_reduction = True
    matmul.allow_fp16_accumulation = False


def test_defaults():
    assert matmul.allow_tf32 is False
    assert matmul.allow_fp16_reduced_precision_reduction is True
    assert matmul.allow_bf16_reduced_precision_reduction is True
    assert matmul.allow_fp16_accumulation is False
    assert matmul.fp32_precision == "none"
    assert ember.get_float32_matmul_precision() == "highest"


def test_one_setting_by_three_names():
    for precision, allowed, name in (("high", True, "tf32"), ("medium", True, "tf32"),
                                     ("highest", False, "ieee")):
        assert ember.set_float32_matmul_precision(precision) is None
        assert ember.get_float32_matmul_precision() == precision
        assert matmul.allow_tf32 is allowed and matmul.fp32_precision == name
    matmul.allow_tf32 = True
    assert ember.get_float32_matmul_precision() == "high" and matmul.fp32_precision == "tf32"
    matmul.fp32_precision = "ieee"
    assert matmul.allow_tf32 is False


def test_switches_are_apart():
    matmul.allow_fp16_reduced_precision_reduction = False
    assert matmul.allow_bf16_reduced_precision_reduction is True
    assert matmul.allow_fp16_reduced_precision_reduction is False


def test_fp16_accumulation():
    matmul.allow_fp16_accumulation = True
    assert matmul.allow_fp16_accumulation is True
    assert matmul.allow_fp16_reduced_precision_reduction is True  # another switch
    x = ember.ones(2, 1024, dtype=ember.float16)
    assert (x @ x.T).tolist() == [[1024, 1024], [1024, 1024]]


def test_mistakes():
    with pytest.raises(RuntimeError,
                       match="set_allow_fp16_accumulation_cublas expects a bool, but got int"):
        matmul.allow_fp16_accumulation = 1
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got int"):
        matmul.allow_tf32 = 1
    with pytest.raises(TypeError, match="allow_bf16_reduced_precision_reduction expects a bool, "
                                        "but got <class 'NoneType'>"):
        matmul.allow_bf16_reduced_precision_reduction = None
    with pytest.raises(RuntimeError, match="Unknown precision: x"):
        matmul.fp32_precision = "x"
    with pytest.raises(AttributeError):
        matmul.allow_everything = True
    with pytest.raises(RuntimeError,
                       match="set_float32_matmul_precision expects a str, but got int"):
        ember.set_float32_matmul_precision(3)
    with pytest.warns(UserWarning, match="x is not one of 'highest', 'high', or 'medium'"):
        ember.set_float32_matmul_precision("x")
    assert ember.get_float32_matmul_precision() == "highest"


@pytest.mark.needs_devices(1)
def test_products(device):
    x = ember.randn(64, 64, device=device)
    before = x @ x
    matmul.allow_tf32 = True
    if device == "cpu" or ember.cuda.is_simulated():
        assert (x @ x == before).all()
    matmul.allow_tf32 = False
    assert (x @ x == before).all()


@pytest.mark.needs_devices(1)
def test_blas_handle():
    if ember.cuda.is_simulated():
        with pytest.raises(RuntimeError, match="the simulated driver does not offer handles of"):
            ember.cuda.current_blas_handle()
        return
    handle = ember.cuda.current_blas_handle()
    assert isinstance(handle, int) and handle != 0
    with ember.cuda.stream(ember.cuda.Stream()):
        assert ember.cuda.current_blas_handle() == handle
    others = []
    thread = threading.Thread(target=lambda: others.append(ember.cuda.current_blas_handle()))
    thread.start()
    thread.join()
    assert others[0] not in (0, handle)


def test_clear_workspaces():
    assert ember._C._cuda_clearCublasWorkspaces() is None
