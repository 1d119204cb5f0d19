"""cuda.batch(): operations that are handed over several at once are the same operations."""

import threading

import pytest

import ember as torch
from ember import cuda


def test_results_are_the_same():
    x = torch.zeros(1024, device="cuda")
    with cuda.batch():
        for _ in range(100):
            x += 1
    assert x.sum().item() == 1024 * 100
    for _ in range(3):
        with cuda.batch():
            for i in range(40):
                x = x * 0.5 + i
            first = x[0].item()  # a wait of the host, inside
    y = torch.full((1,), 100.0)
    for _ in range(3):
        for i in range(40):
            y = y * 0.5 + i
    assert first == y[0].item()


def test_blocks_nest_and_end_with_exceptions():
    x = torch.zeros(4, device="cuda")
    with cuda.batch():
        x += 1
        with cuda.batch():
            x += 1
        x += 1
    with pytest.raises(ZeroDivisionError):
        with cuda.batch():
            x += 1
            1 / 0
    x += 1
    assert x.tolist() == [5] * 4


def test_one_object_serves_several_blocks():
    x = torch.zeros(4, device="cuda")
    together = cuda.batch()
    for _ in range(3):
        with together, together:
            x += 1
    assert x.tolist() == [3] * 4


def test_streams_in_a_block():
    x = torch.zeros(64, device="cuda")
    side = cuda.Stream()
    with cuda.batch():
        x += 1
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            x *= 3
        cuda.current_stream().wait_stream(side)
        x += 1
    assert x.tolist() == [4] * 64


def test_pointers_and_handles_are_given_out_inside():
    x = torch.zeros(8, device="cuda")
    with cuda.batch() as nothing:
        assert nothing is None
        x += 1
        assert x.data_ptr() != 0
        x += 1
        assert cuda.current_stream().cuda_stream == 0
        x += 1
        same = torch.from_dlpack(x)
        same += 1
        cuda.batch.hand_over()
    assert x.tolist() == [4] * 8
    assert cuda.batch.hand_over() is None  # outside of a block it does nothing


def test_leaving_on_another_thread_is_refused():
    block = cuda.batch()
    block.__enter__()
    caught = []

    def leave():
        try:
            block.__exit__(None, None, None)
        except RuntimeError as error:
            caught.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    block.__exit__(None, None, None)
    assert caught == ["batch: left on another thread than it was entered on, expected the same one"]


def test_a_thread_that_ends_inside_hands_over():
    x = torch.zeros(8, device="cuda")
    cuda.synchronize()

    def work():
        nonlocal x
        cuda.batch().__enter__()
        x += 1

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert x.tolist() == [1] * 8


def test_out_of_memory_inside():
    x = torch.zeros(8, device="cuda")
    with cuda.batch():
        x += 1
        with pytest.raises(cuda.OutOfMemoryError):
            torch.empty(1 << 45, device="cuda")
        x += 1
    assert x.tolist() == [2] * 8
