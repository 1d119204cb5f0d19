"""What the tests share: the devices that there are."""

import os

import pytest

import ember


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["cpu", "cuda:0"])


@pytest.fixture
def caching():
    """For tests of what the caching allocator does, and counts."""
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
        pytest.skip("needs caching, and PYTORCH_NO_CUDA_MEMORY_CACHING is set")


@pytest.fixture
def three_devices():
    if ember.cuda.device_count() < 3:
        pytest.skip("needs three devices")
