"""ember.cuda.comm between two devices, or three where there are as many."""

import pytest

import ember as torch
from ember.cuda import comm


def test_broadcast(devices):
    """Devices in every form, outputs, and the source itself where it already is."""
    x = torch.arange(6.0).view(2, 3)
    last = devices[-1]
    copies = comm.broadcast(x, [*devices[:-1], f"cuda:{last}"])
    assert isinstance(copies, tuple)
    assert [str(t.device) for t in copies] == [f"cuda:{i}" for i in devices]
    assert all(t.tolist() == x.tolist() for t in copies)
    again = comm.broadcast(copies[1], devices=(1, 0))
    assert again[0] is copies[1]
    out = [torch.empty(2, 3, device="cuda:0"), torch.empty(2, 3, device=last)]
    results = comm.broadcast(x, out=out)
    assert results[0] is out[0] and results[1] is out[1] and out[1].tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="Exactly one of 'devices' and 'out' must be specified, "
                                           "but got devices="):
        comm.broadcast(x)
    with pytest.raises(RuntimeError, match="Expected non-negative device index, but got -1"):
        comm.broadcast(x, [-1])
    with pytest.raises(RuntimeError, match="Expected all output tensors to be CUDA tensors, but "
                                           "output tensor at index 0 has device 'cpu'"):
        comm.broadcast(x, out=[torch.empty(2, 3)])


@pytest.mark.usefixtures("devices")
def test_broadcast_coalesced():
    tensors = [torch.full((n,), n, device="cuda:0") for n in range(5)]
    tensors.append(torch.ones(3, dtype=torch.float64, device="cuda:0"))
    results = comm.broadcast_coalesced(tensors, [0, 1], buffer_size=16)
    assert isinstance(results, list) and len(results) == 2
    assert all(a is b for a, b in zip(results[0], tensors))
    assert [t.tolist() for t in results[1]] == [t.tolist() for t in tensors]
    assert all(t.device == torch.device("cuda:1") for t in results[1])
    with pytest.raises(RuntimeError, match=r"All tensors must be on devices\[0\]: 1"):
        comm.broadcast_coalesced(tensors, [1, 0])


def test_reduce_add(devices):
    inputs = [torch.full((2, 2), float(i), device=i) for i in devices]
    total = float(sum(devices))
    result = comm.reduce_add(inputs, destination=1)
    assert result.device == torch.device("cuda:1") and result.tolist() == [[total] * 2] * 2
    assert comm.reduce_add(inputs[:1]) is inputs[0]
    sums = comm.reduce_add_coalesced([[t, t * 2] for t in inputs], 0)
    assert [t.tolist() for t in sums] == [[[total] * 2] * 2, [[2 * total] * 2] * 2]
    with pytest.raises(AssertionError, match="reduce_add expects all inputs to be on GPUs"):
        comm.reduce_add([inputs[0], torch.ones(2, 2)])
    with pytest.raises(ValueError, match="input 1 has invalid size: got 3, but expected 2x2"):
        comm.reduce_add([inputs[0], torch.ones(3, device=1)])
    with pytest.raises(RuntimeError, match="expects destination to be on the same GPU"):
        comm.reduce_add(inputs[1:2], destination=0)


def test_scatter(devices):
    """Pieces by chunk(), by sizes and by outputs; the source may be anywhere."""
    x = torch.arange(10.0)
    pieces = comm.scatter(x, devices)
    assert [t.shape[0] for t in pieces] == {2: [5, 5], 3: [4, 4, 2]}[len(devices)]
    assert sum((t.tolist() for t in pieces), []) == x.tolist()
    pieces = comm.scatter(x.cuda(1), [1, 0], chunk_sizes=[3, 7])
    assert pieces[0].tolist() == [0.0, 1.0, 2.0] and len(pieces[1]) == 7
    pieces = comm.scatter(x, [0, 1], streams=[torch.cuda.Stream(0), None])
    torch.cuda.synchronize(0)
    assert len(pieces) == 2
    out = [torch.empty(4, device=0), torch.empty(6, device=devices[-1])]
    assert comm.scatter(x, out=out)[1] is out[1]
    with pytest.raises(RuntimeError, match="Expected at least one device to scatter to"):
        comm.scatter(x, [])
    with pytest.raises(RuntimeError, match="Expected devices and chunk_sizes to be of same length"):
        comm.scatter(x, [0, 1], [10])


def test_gather(devices):
    """Destination, dimension and output; -1 for the CPU warns."""
    pieces = [torch.full((2, 1), float(i), device=i) for i in devices]
    assert comm.gather(pieces).device == torch.device("cuda:0")
    wide = comm.gather(pieces, dim=1, destination="cpu")
    assert wide.tolist() == [[float(i) for i in devices]] * 2 and not wide.is_cuda
    with pytest.warns(FutureWarning, match="Using -1 to represent CPU tensor is deprecated"):
        assert not comm.gather(pieces, destination=-1).is_cuda
    out = torch.empty(2 * len(devices), 1, device=devices[-1])
    assert comm.gather(pieces, out=out) is out
    with pytest.raises(RuntimeError, match="Expected at least one tensor to gather from"):
        comm.gather([])
    with pytest.raises(RuntimeError, match="'destination' must not be specified when 'out' is "
                                           "specified, but got destination="):
        comm.gather(pieces, destination=1, out=out)
    with pytest.raises(RuntimeError, match="Expected all input tensors to be CUDA tensors"):
        comm.gather([torch.ones(1)])


@pytest.mark.usefixtures("devices")
def test_streams_of_other_kinds():
    with pytest.raises(TypeError, match="streams: expected streams or None, got int"):
        comm.scatter(torch.arange(6.0), [0, 1], streams=[3, 4])


@pytest.mark.usefixtures("devices")
def test_arguments_of_other_kinds_are_named():
    """What came, and what was expected, of which argument."""
    x = torch.arange(6.0, device="cuda:0")
    for call, text in (
            (lambda: comm.broadcast(x, 1), "devices: expected a sequence of ints, strs or devices, "
                                           "but got int"),
            (lambda: comm.broadcast(x, [0, 1.5]), "devices: .* but got one with float"),
            (lambda: comm.broadcast(x, out=5), "out: expected a sequence of Tensors, but got int"),
            (lambda: comm.broadcast_coalesced(x, [0, "cuda:1", None]), "devices: .* with NoneType"),
            (lambda: comm.broadcast_coalesced(5, [0, 1]), "tensors: expected a sequence of Tensors"),
            (lambda: comm.reduce_add(7), "inputs: expected a sequence of Tensors, but got int"),
            (lambda: comm.reduce_add([x, 3]), "inputs: .* but got one with int"),
            (lambda: comm.reduce_add_coalesced([x, 3]), "inputs: .*"),
            (lambda: comm.gather(3), "tensors: expected a sequence of Tensors, but got int"),
            (lambda: comm.scatter(x, [0, 1], streams=torch.cuda.Stream()),
             "streams: expected a sequence of streams or None, but got Stream"),
            (lambda: torch.cuda._host_function(5),
             "function: expected something that can be called, but got int")):
        with pytest.raises(TypeError, match=text):
            call()

    def broken(error):
        yield x
        raise error("of the caller's own")

    for error in (KeyError, TypeError):
        with pytest.raises(error, match="of the caller's own"):
            comm.reduce_add(broken(error))
