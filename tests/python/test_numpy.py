"""NumPy both ways, DLPack, and the CUDA array interface."""

import gc
import subprocess
import sys
import weakref

import pytest

np = pytest.importorskip("numpy")

import ember as torch

SHARED = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
          "complex64", "complex128", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("name", SHARED)
def test_round_trip_shares_memory(name):
    array = np.arange(12).astype(name).reshape(3, 4)[:, ::2]
    tensor = torch.from_numpy(array)
    assert str(tensor.dtype) == "torch." + name
    assert tensor.shape == (3, 2) and tensor.stride() == (4, 2)
    assert tensor.tolist() == array.tolist()
    back = tensor.numpy()
    assert back.dtype == array.dtype and back.strides == array.strides
    assert np.shares_memory(back, array)
    array[0, 0] = 1
    assert tensor[0, 0].item() == back[0, 0] == 1


def test_memory_lives_as_long_as_needed():
    array = np.ones(1000)
    gone = weakref.ref(array)
    tensor = torch.from_numpy(array)[5:]
    del array
    gc.collect()
    assert tensor.tolist() == [1.0] * 995 and gone() is not None
    del tensor
    gc.collect()
    assert gone() is None
    view = torch.ones(1000).numpy()
    gc.collect()
    assert view.sum() == 1000


def test_special_shapes():
    """No dimensions, no elements, and broadcast arrays."""
    for shape in [(), (0,), (2, 0, 3), (1, 1), (1,)]:
        array = np.zeros(shape, np.float32)
        tensor = torch.from_numpy(array)
        assert tensor.shape == shape
        assert tensor.numpy().shape == shape
        assert torch.tensor(array).shape == shape
    wide = np.broadcast_to(np.arange(3), (4, 3))
    assert torch.from_numpy(wide).stride() == (0, 1)
    assert torch.from_numpy(np.arange(4)[::2][:1]).tolist() == [0]


def test_what_numpy_has_and_we_do_not():
    with pytest.raises(ValueError, match="At least one stride in the given numpy array is negative"):
        torch.from_numpy(np.arange(3)[::-1])
    assert torch.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]  # copied
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.str_"):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(ValueError, match="byte order different from the native"):
        torch.from_numpy(np.arange(3, dtype=">i4"))
    with pytest.raises(ValueError, match="strides not a multiple of the element byte size"):
        torch.from_numpy(np.zeros(4, [("a", "i1"), ("b", "<i4")])["b"])
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        torch.from_numpy([1])
    with pytest.raises(TypeError, match="unsupported ScalarType BFloat16"):
        torch.ones(1, dtype=torch.bfloat16).numpy()


def test_cuda_tensors_have_no_array():
    x = torch.ones(2, device="cuda:0")
    words = (r"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\(\) to copy the "
             r"tensor to host memory first.")
    with pytest.raises(TypeError, match=words):
        x.numpy()
    with pytest.raises(TypeError, match=words):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_tensors_as_arrays():
    """NumPy functions take tensors, without a copy where they can."""
    x = torch.arange(4.0)
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    turned = torch.ones(2, 3).T
    assert np.array(turned).strides == np.array(turned.numpy()).strides == (4, 12)
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    assert np.add(x, 1).tolist() == [1.0, 2.0, 3.0, 4.0]
    for made in (np.add(x, 1), np.sin(x), np.maximum(x, np.ones(4)), np.add.reduce(x), np.modf(x)[0]):
        assert isinstance(made, torch.Tensor)
    assert np.isnan(x).dtype == torch.bool and np.add.reduce(x).shape == ()
    assert np.add(x, 1, out=np.zeros(4, np.float32)).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert (x * np.float64(2)).dtype == torch.float32
    assert (np.float32(2) * x).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert isinstance(np.float64(2) * x, torch.Tensor)


def test_operators_beside_arrays():
    x = torch.arange(4.0)
    array = np.array([0.0, 5.0, 2.0, 3.0])
    for made in (x + array, x - array, x * array, x / (array + 1), x @ array, x ** array):
        assert isinstance(made, torch.Tensor) and made.dtype == torch.float64
    assert (x - array[::-1]).tolist() == [-3.0, -1.0, -3.0, 3.0]
    assert (torch.arange(2) << np.arange(2)).tolist() == [0, 2]
    y = x
    y += array
    assert isinstance(y, torch.Tensor) and y.tolist() == (x + array).tolist()
    for operator in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        made = getattr(x, operator)(array)
        assert made.dtype == torch.bool
        assert made.tolist() == getattr(x.numpy(), operator)(array).tolist()
    for made in (array == x, array != x, array < x, array >= x):
        assert isinstance(made, torch.Tensor)
    assert (array == x).tolist() == [True, False, True, True]
    assert (array < x).tolist() == (x > array).tolist()
    assert (x == None) is False and (x == "a") is False and (x == [1]) is False
    with pytest.raises(TypeError):
        array * x
    with pytest.raises(TypeError):
        x < "a"
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.datetime64"):
        x == np.zeros(4, "M8[s]")
    with pytest.raises(TypeError):
        torch.add(x, array)
    there = x.cuda()
    for operate in (lambda: there == array, lambda: array == there, lambda: there < array,
                    lambda: there + array, lambda: there @ array, lambda: np.sin(there)):
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            operate()


@pytest.mark.parametrize("name", SHARED)
def test_scalars_keep_their_dtype(name):
    number = np.dtype(name).type(1)
    dtype = getattr(torch, name)
    for made in (torch.tensor(number), torch.as_tensor(number), torch.tensor([number]),
                 torch.tensor([[number, number]]), torch.tensor([np.full(2, number)])):
        assert made.dtype == dtype
    assert torch.full((1,), number).dtype == torch.full((1,), number.item()).dtype


def test_lists_of_scalars():
    assert torch.tensor(np.float64(0.1)).item() == 0.1
    assert torch.tensor([np.float32(1), np.float64(0.1)]).tolist() == [1.0, 0.1]
    assert torch.tensor([np.int8(1), 2]).dtype == torch.int64
    assert torch.tensor([np.float16(1), np.int64(2)]).dtype == torch.float16
    assert torch.tensor([np.float16(1), 2.0]).dtype == torch.float32
    assert torch.tensor([np.int64(1), np.int64(2)]).dtype == torch.int64
    assert torch.tensor(np.uint64(2 ** 63)).item() == 2 ** 63
    with pytest.raises(ValueError, match=f"{2 ** 63} is outside the range of int64"):
        torch.tensor(np.uint64(2 ** 63), dtype=torch.int64)


def test_a_list_of_sizes_that_changes_while_it_is_read():
    """It counts as it was at first."""
    class Number:
        def __init__(self, owner, value):
            self.owner, self.value = owner, value

        def __index__(self):
            self.owner.clear()
            return self.value

    def sizes(*values):
        made = []
        made.extend(Number(made, value) for value in values)
        return made

    assert torch.zeros(sizes(2, 3, 1)).shape == (2, 3, 1)
    assert torch.ones(6).view(sizes(2, 3)).shape == (2, 3)
    assert torch.ones(2, 3, 4).sum(sizes(0, 1)).tolist() == [6] * 4
    assert torch.zeros([2, Number([], 3)]).shape == (2, 3)
    with pytest.raises(TypeError):
        torch.zeros([2 ** 70, 1])


def test_a_list_that_changes_while_it_is_read():
    class Number(np.float32):
        def item(self):
            data.clear()
            return 1.0

    Number.__name__ = "numpy.odd"
    data = [Number(1), Number(2), Number(3)]
    with pytest.raises(ValueError, match="the sequence at dim 0 changed while it was read"):
        torch.tensor(data, dtype=torch.float32)


def test_indices_beyond_64_bits():
    x = torch.arange(3)
    for index in (np.array([2 ** 64 - 1], dtype=np.uint64), np.uint64(2 ** 63), [np.uint64(2 ** 64 - 1)]):
        with pytest.raises((IndexError, ValueError), match="beyond 64 bits|outside the range of int64"):
            x[index]
    assert x[np.array([2, 0], dtype=np.uint64)].tolist() == [2, 0]
    assert x[np.array([], dtype=np.uint64)].tolist() == []
    assert x[np.uint64(1)].item() == 1


def test_integers_as_devices():
    assert torch.ones(1, device=np.int64(0)).device == torch.device(np.int32(0)) == torch.device("cuda:0")
    assert torch.ones(1).to(np.int64(0)).device == torch.device("cuda", np.int64(0))
    with torch.cuda.device(np.int64(0)):
        assert torch.cuda.current_device() == 0


def test_read_only_arrays_warn_once():
    script = '''if True:
        import warnings
        import numpy as np, ember
        array = np.ones(2)
        array.flags.writeable = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ember.tensor(array)
            assert not caught
            {first}(array)
            assert [w.category for w in caught] == [UserWarning], caught
            assert "not writable" in str(caught[0].message)
            ember.from_numpy(array), ember.as_tensor(array)
            assert len(caught) == 1
        '''
    for first in ("ember.from_numpy", "ember.as_tensor"):
        subprocess.run([sys.executable, "-c", script.format(first=first)], check=True)


def test_as_tensor():
    """It shares or converts, as torch says which."""
    array = np.arange(3.0)
    assert np.shares_memory(torch.as_tensor(array).numpy(), array)
    x = torch.ones(2)
    assert torch.as_tensor(x) is x
    assert torch.as_tensor(x, dtype=torch.int64).dtype == torch.int64
    assert torch.as_tensor([1, 2], device="cuda:0").device == torch.device("cuda:0")


def test_tensor_copies_arrays():
    array = np.arange(3.0)
    tensor = torch.tensor(array)
    assert tensor.dtype == torch.float64
    array[0] = 5
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    assert torch.tensor(array, device="cuda:0", dtype=torch.int32).tolist() == [5, 1, 2]
    assert torch.tensor(np.float64(1.5) * np.ones(())).shape == ()


@pytest.mark.parametrize("name", SHARED)
def test_dlpack_with_numpy(name):
    x = torch.arange(6).to(getattr(torch, name)).view(2, 3).T
    array = np.from_dlpack(x)
    assert array.dtype == name and array.tolist() == x.tolist()
    assert np.shares_memory(array, x.numpy())
    back = torch.from_dlpack(np.arange(6).astype(name).reshape(2, 3)[:, 1:])
    assert back.dtype == x.dtype
    assert back.tolist() == np.arange(6).astype(name).reshape(2, 3)[:, 1:].tolist()


def test_dlpack_round_trip(device):
    x = torch.arange(6.0, device=device).to(torch.bfloat16).view(2, 3)
    y = torch.from_dlpack(x)
    assert y.device == x.device and y.dtype == x.dtype and y.data_ptr() == x.data_ptr()
    z = torch.from_dlpack(x.T.__dlpack__())
    assert z.stride() == (1, 3) and z.tolist() == x.T.tolist()
    capsule = x.__dlpack__(max_version=(1, 0))
    assert torch.from_dlpack(capsule).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="DLTensor capsules can be consumed only once"):
        torch.from_dlpack(capsule)
    for other, kind in ((3, "int"), ([1.0], "list"), (None, "NoneType")):
        with pytest.raises(RuntimeError, match=f"__dlpack_device__, or a DLPack capsule, got {kind}; "
                                               "ember.tensor makes"):
            torch.from_dlpack(other)
    assert torch.from_dlpack(torch.empty(0, 2, device=device)).shape == (0, 2)
    assert torch.from_dlpack(torch.tensor(3, device=device)).item() == 3


def test_dlpack_elsewhere(device):
    """device= and copy=."""
    x = torch.arange(3.0, device=device)
    copied = torch.from_dlpack(x, copy=True)
    assert copied.data_ptr() != x.data_ptr() and copied.tolist() == x.tolist()
    assert torch.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    assert torch.from_dlpack(x, device=device).data_ptr() == x.data_ptr()
    elsewhere = "cpu" if x.is_cuda else "cuda:0"
    moved = torch.from_dlpack(x, device=elsewhere)
    assert str(moved.device) == elsewhere and moved.tolist() == x.tolist()
    with pytest.raises(ValueError, match="cannot move to another device with copy=False"):
        torch.from_dlpack(x, device=elsewhere, copy=False)
    with pytest.raises(AssertionError, match="ext_tensor is already a DLPack capsule"):
        torch.from_dlpack(x.__dlpack__(), copy=True)
    assert torch.from_dlpack(x, device=None, copy=None).data_ptr() == x.data_ptr()


class Producer:
    """Has DLPack's methods and nothing else of a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_tensors_of_what_has_dlpack(device):
    x = torch.arange(6, device=device, dtype=torch.int16).view(2, 3).T
    copied = torch.tensor(Producer(x))
    assert copied.dtype is torch.int16 and copied.device == x.device and copied.tolist() == x.tolist()
    shared = torch.as_tensor(Producer(x))
    assert shared.data_ptr() == x.data_ptr() != copied.data_ptr() and shared.stride() == x.stride()
    there = torch.as_tensor(Producer(x), torch.float32, "cpu")
    assert there.dtype is torch.float32 and there.device.type == "cpu" and there.tolist() == x.tolist()
    assert torch.ones(1, device=device).new_tensor(Producer(x)).dtype is torch.float32


def test_dlpack_streams_of_the_cpu():
    x = torch.ones(2)
    assert torch.from_dlpack(x.__dlpack__(stream=-1)).tolist() == [1, 1]  # the consumer does not wait
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        x.__dlpack__(stream=0)
    for wrong in ("1", object()):
        with pytest.raises(TypeError, match="stream must be"):
            x.__dlpack__(stream=wrong)


def test_dlpack_devices():
    """Which kind of device is announced, and which stream may be asked for."""
    assert torch.ones(1).__dlpack_device__() == (1, 0)
    kind = 12 if torch.cuda.is_simulated() else 2
    assert torch.ones(1, device="cuda:0").__dlpack_device__() == (kind, 0)
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(1).__dlpack__(stream=1)
    with pytest.raises(BufferError):
        torch.ones(1).__dlpack__(dl_device=(2, 0))


def test_cuda_array_interface():
    """The dictionary that CuPy and Numba read."""
    x = torch.ones(2, 3, device="cuda:0")
    if torch.cuda.is_simulated():  # no CUDA library can use its memory
        with pytest.raises(AttributeError, match="on a tensor of a simulated device"):
            x.__cuda_array_interface__
        return
    about = x.__cuda_array_interface__
    assert about["version"] == 3 and about["shape"] == (2, 3) and about["typestr"] == "<f4"
    assert about["data"] == (x.data_ptr(), False) and about["strides"] is None
    assert about["stream"] == 1
    assert x.T.__cuda_array_interface__["strides"] == (4, 12)
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        stream = torch.cuda.current_stream().cuda_stream
        assert x.__cuda_array_interface__["stream"] == stream
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")


def test_as_tensor_of_a_cuda_array():
    """Memory of another library's that is offered by ``__cuda_array_interface__`` alone."""
    class Foreign:
        def __init__(self, tensor, **changed):
            self.about = {"version": 3, "shape": (2, 3), "typestr": "<f4", "strides": None,
                          "data": (tensor.data_ptr(), False), "stream": 1, **changed}

        @property
        def __cuda_array_interface__(self):
            return self.about

    x = torch.arange(6, device="cuda:0", dtype=torch.float32).reshape(2, 3)
    if torch.cuda.is_simulated():
        with pytest.raises(TypeError, match="a Foreign offers .* that of a real GPU, and the "
                                            "devices here are simulated: copy it to the host"):
            torch.as_tensor(Foreign(x))
        return
    foreign = Foreign(x)
    y = torch.as_tensor(foreign, device="cuda")
    assert y.data_ptr() == x.data_ptr() and y.tolist() == x.tolist()
    seen = weakref.ref(foreign)
    del foreign
    assert seen() is not None
    del y
    assert seen() is None
    assert torch.as_tensor(Foreign(x, shape=(3, 2), strides=(4, 12))).tolist() == x.T.tolist()
    with pytest.raises(TypeError, match="typestr: got '<f3'"):
        torch.as_tensor(Foreign(x, typestr="<f3"))
    with pytest.raises(TypeError, match="mask"):
        torch.as_tensor(Foreign(x, mask=x))


def test_arrays_in_lists():
    """An array has one dtype, and may have no dimensions, or no elements."""
    for data, dtype in (([1, np.array(2)], torch.int64), ([1, np.array(2, "i1")], torch.int64),
                        ([False, np.array(2, "u1")], torch.uint8), ([1, np.array(2.0)], torch.float64),
                        ([1.0, np.array(2)], torch.float32), ([1, np.array(2, "c8")], torch.complex64)):
        for made in (torch.tensor(data), torch.as_tensor(data)):
            assert made.dtype is dtype and made.tolist() == [data[0], 2]
    assert torch.tensor([[1, np.array(2)], [np.array(3), 4]]).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor([1, np.array(2)], dtype=torch.float16).tolist() == [1, 2]
    assert torch.tensor([np.zeros(0, "i4")]).dtype is torch.int32
    assert torch.tensor([np.zeros(0), []]).dtype is torch.float64
    for data in ([1, np.array("x")], [1, np.array(None)], [1, np.array([2])], [np.array(2)]):
        with pytest.raises(TypeError):
            torch.tensor(data)
    with pytest.raises(TypeError):
        torch.tensor([1, np.array(2.5)], dtype=torch.int32)


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_numbers(name):
    dtype = getattr(torch, name)
    most = int(np.iinfo(name).max)
    for device in ("cpu", "cuda"):
        x = torch.tensor([0, 1, most], dtype=dtype, device=device)
        assert x.tolist() == [0, 1, most] and x[2].item() == most
        assert (x == torch.full((), most, dtype=dtype)).tolist() == [False, False, True]
        assert x.eq(1).tolist() == [False, True, False]
        assert not x.is_signed() and not dtype.is_signed
        assert x.cpu().numpy().tolist() == [0, 1, most]
        assert torch.from_dlpack(x).dtype is dtype
        assert x.type().endswith(f"UInt{name[4:]}Tensor")
    assert torch.tensor(np.array([most], name)).tolist() == [most]
    assert torch.tensor(np.dtype(name).type(most)).dtype is dtype
    with pytest.raises((OverflowError, RuntimeError)):
        torch.tensor([most + 1], dtype=dtype)
    with pytest.raises(NotImplementedError, match="not implemented for 'UInt"):
        torch.ones(3, dtype=dtype) + 1
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64"):
        torch.promote_types(dtype, torch.int8)
