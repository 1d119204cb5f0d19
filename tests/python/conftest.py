"""What the tests share: the devices that there are."""

import pytest

import ember


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["cpu", "cuda:0"])


@pytest.fixture
def three_devices():
    if ember.cuda.device_count() < 3:
        pytest.skip("needs three devices")
