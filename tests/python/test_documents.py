"""The documents' own examples, as they are written there."""

import argparse

import pytest

import ember as torch


def place(tensor):
    return tensor.device


@pytest.mark.needs_devices(3)
def test_semantics_devices():
    cuda = torch.device('cuda')     # Default CUDA device
    cuda0 = torch.device('cuda:0')
    cuda2 = torch.device('cuda:2')  # GPU 2 (these are 0-indexed)

    x = torch.tensor([1., 2.], device=cuda0)
    # x.device is device(type='cuda', index=0)
    y = torch.tensor([1., 2.]).cuda()
    # y.device is device(type='cuda', index=0)

    with torch.cuda.device(1):
        # allocates a tensor on GPU 1
        a = torch.tensor([1., 2.], device=cuda)

        # transfers a tensor from CPU to GPU 1
        b = torch.tensor([1., 2.]).cuda()
        # a.device and b.device are device(type='cuda', index=1)

        # You can also use ``Tensor.to`` to transfer a tensor:
        b2 = torch.tensor([1., 2.]).to(device=cuda)
        # b.device and b2.device are device(type='cuda', index=1)

        c = a + b
        # c.device is device(type='cuda', index=1)

        z = x + y
        # z.device is device(type='cuda', index=0)

        # even within a context, you can specify the device
        # (or give a GPU index to the .cuda call)
        d = torch.randn(2, device=cuda2)
        e = torch.randn(2).to(cuda2)
        f = torch.randn(2).cuda(cuda2)
        # d.device, e.device, and f.device are all device(type='cuda', index=2)

    assert repr(x.device) == "device(type='cuda', index=0)"
    assert [place(t) for t in (x, y, z)] == [cuda0] * 3
    assert [place(t) for t in (a, b, b2, c)] == [torch.device('cuda', 1)] * 4
    assert [place(t) for t in (d, e, f)] == [cuda2] * 3
    assert z.tolist() == c.tolist() == [2., 4.]


@pytest.mark.needs_devices(2)
def test_cross_device_addition_is_refused():
    a = torch.ones(2, device='cuda:0')
    b = torch.ones(2, device='cuda:1')
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but "
                       "found at least two devices, cuda:0 and cuda:1!"):
        a + b
    a.copy_(b + b)  # copies are allowed
    assert a.tolist() == [2., 2.]


def test_device_agnostic_code():
    parser = argparse.ArgumentParser(description='PyTorch Example')
    parser.add_argument('--disable-cuda', action='store_true',
                        help='Disable CUDA')
    args = parser.parse_args([])
    args.device = None
    if not args.disable_cuda and torch.cuda.is_available():
        args.device = torch.device('cuda')
    else:
        args.device = torch.device('cpu')

    x = torch.empty((8, 42), device=args.device)
    assert x.shape == (8, 42)
    assert x.device == torch.device('cuda:0')

    train_loader = [torch.ones(3), torch.zeros(3)]
    cuda0 = torch.device('cuda:0')  # CUDA GPU 0
    for i, x in enumerate(train_loader):
        x = x.to(cuda0)
        assert x.device == cuda0


@pytest.mark.needs_devices(2)
def test_device_context(capsys):
    print("Outside device is 0")  # On device 0 (default in most scenarios)
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        print("Inside device is 1")  # On device 1
        assert torch.cuda.current_device() == 1
    print("Outside device is still 0")  # On device 0
    assert torch.cuda.current_device() == 0


def test_new_tensors_keep_device_and_dtype():
    cuda = torch.device('cuda')
    x_cpu = torch.empty(2)
    x_gpu = torch.empty(2, device=cuda)
    x_cpu_long = torch.empty(2, dtype=torch.int64)

    y_cpu = x_cpu.new_full([3, 2], fill_value=0.3)
    assert str(y_cpu) == ("tensor([[0.3000, 0.3000],\n"
                          "        [0.3000, 0.3000],\n"
                          "        [0.3000, 0.3000]])")

    y_gpu = x_gpu.new_full([3, 2], fill_value=-5)
    assert str(y_gpu) == ("tensor([[-5., -5.],\n"
                          "        [-5., -5.],\n"
                          "        [-5., -5.]], device='cuda:0')")

    y_cpu_long = x_cpu_long.new_tensor([[1, 2, 3]])
    assert str(y_cpu_long) == "tensor([[1, 2, 3]])"


@pytest.mark.needs_devices(2)
def test_like():
    x_cpu = torch.empty(2, 3)
    x_gpu = torch.empty(2, 3, device='cuda:1')

    y_cpu = torch.ones_like(x_cpu)
    y_gpu = torch.zeros_like(x_gpu)
    assert y_cpu.tolist() == [[1.] * 3] * 2
    assert y_gpu.device == torch.device('cuda', 1)
    assert y_gpu.tolist() == [[0.] * 3] * 2


def test_pinned_copies_do_not_wait():
    pinned = torch.arange(1000.).pin_memory()
    assert pinned.is_pinned()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = pinned.to('cuda', non_blocking=True)
        y = pinned.cuda(non_blocking=True)
        z = x + y
    stream.synchronize()
    assert z.cpu().tolist() == [2. * i for i in range(1000)]


def test_wait_stream():
    cuda = torch.device('cuda')
    s = torch.cuda.Stream()  # Create a new stream.
    A = torch.empty((100, 100), device=cuda).normal_(0.0, 1.0)
    s.wait_stream(torch.cuda.current_stream())  # without it, the documents' incorrect example
    with torch.cuda.stream(s):
        # sum() waits for normal_()
        B = torch.sum(A)
    torch.cuda.current_stream().wait_stream(s)
    A.record_stream(s)
    assert B.item() == pytest.approx(A.cpu().double().sum().item(), abs=1e-2)


def test_memory_management(caching):
    x = torch.ones(1 << 20, device='cuda')
    assert torch.cuda.memory_allocated() >= 4 << 20
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    with pytest.warns(FutureWarning):
        assert torch.cuda.memory_cached() >= torch.cuda.memory_allocated()
    with pytest.warns(FutureWarning):
        torch.cuda.max_memory_cached()
    del x
    torch.cuda.empty_cache()
