"""Index tensors, masks, and what else picks elements, against NumPy."""

import warnings

import pytest

np = pytest.importorskip("numpy")

import ember as torch

ARRAY = np.arange(60).reshape(3, 4, 5)

INDICES = {
    "list": [0, 2], "array": np.array([[0, 1], [2, 0]]), "mask": ARRAY > 30,
    "rows": np.array([True, False, True]), "two": ([0, 2], [1, 3]), "negative": [-1, 0],
    "slices": (slice(None), [0, 3]), "ellipsis": (Ellipsis, [4, 0]), "empty": [],
    "new": (None, [1], slice(1, 3)),
}


def translated(index, device):
    if isinstance(index, tuple):
        return tuple(translated(item, device) for item in index)
    if isinstance(index, np.ndarray):
        return torch.tensor(index, device=device)
    return index


def plain(index):
    if isinstance(index, tuple):
        return tuple(plain(item) for item in index)
    return np.array(index, dtype=np.int64) if index == [] else index


@pytest.mark.parametrize("name", INDICES)
def test_reading(name, device):
    """x[index] against NumPy, for every kind of index and mixture."""
    x = torch.tensor(ARRAY, device=device)
    index = INDICES[name]
    expected = ARRAY[index if isinstance(index, np.ndarray) else plain(index)]
    result = x[translated(index, device)]
    assert result.shape == expected.shape and result.tolist() == expected.tolist()


@pytest.mark.parametrize("name", INDICES)
def test_writing(name, device):
    """x[index] = number against NumPy, for the same."""
    array = ARRAY.copy()
    x = torch.tensor(array, device=device)
    index = INDICES[name]
    array[index if isinstance(index, np.ndarray) else plain(index)] = -1
    x[translated(index, device)] = -1
    assert x.tolist() == array.tolist()


def test_writing_tensors(device):
    x = torch.zeros(3, 4, device=device)
    x[[0, 2]] = torch.ones(4, device=device)
    x[x > 0] = 5
    x[1] = [1, 2, 3, 4]
    assert x.tolist() == [[5.0] * 4, [1.0, 2.0, 3.0, 4.0], [5.0] * 4]


def test_errors(device):
    x = torch.tensor(ARRAY, device=device)
    with pytest.raises(IndexError, match="too many indices"):
        x[[0], [0], [0], [0]]
    with pytest.raises(IndexError):
        x[torch.tensor([True, False], device=device)]
    with pytest.raises(IndexError, match="only integers, slices"):
        x["text"]
    here = torch.tensor(ARRAY)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
        here[[5]]


def test_deprecated_indices(device):
    """Masks of bytes, and lists that stand for tuples."""
    x = torch.tensor(ARRAY, device=device)
    with pytest.warns(UserWarning, match="uint8 is taken for a mask"):
        assert x[torch.tensor([1, 0, 0], dtype=torch.uint8, device=device)].shape == (1, *ARRAY.shape[1:])
    for index in ([torch.tensor([0, 1]), torch.tensor([1, 0])], [[0, 1], [1, 0]], [0, None], [slice(1), 0]):
        with pytest.warns(UserWarning, match="is taken for the tuple"):
            got = x[index]
        assert got.tolist() == x[tuple(index)].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x[[1, 0]].tolist() == ARRAY[[1, 0]].tolist()
        assert x[[True, False, True]].tolist() == ARRAY[[True, False, True]].tolist()


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint16", "uint64", "float64"])
def test_empty_arrays_as_indices(name, device):
    x = torch.tensor(ARRAY, device=device)
    assert x[np.array([], dtype=name)].shape == (0, *ARRAY.shape[1:])
    assert x[:, np.empty((2, 0), dtype=name)].shape == (ARRAY.shape[0], 2, 0, *ARRAY.shape[2:])


def test_functions(device):
    """Reading and writing by index as functions, against NumPy."""
    x = torch.tensor(ARRAY, device=device)
    index = torch.tensor([2, 0], device=device)
    assert x.index_select(1, index).tolist() == ARRAY[:, [2, 0]].tolist()
    assert torch.index_select(x, 0, index).tolist() == ARRAY[[2, 0]].tolist()
    places = torch.tensor([[[1, 0]]], device=device)
    assert x.gather(2, places).tolist() == [[[1, 0]]]
    assert torch.gather(x, 2, places, sparse_grad=True).tolist() == [[[1, 0]]]
    assert x.take(index).tolist() == [2, 0]
    assert torch.nonzero(x[0] > 17).tolist() == np.argwhere(ARRAY[0] > 17).tolist()
    rows, columns = torch.where(x[0] > 17)
    assert [rows.tolist(), columns.tolist()] == [i.tolist() for i in np.where(ARRAY[0] > 17)]
    assert x.masked_select(x < 3).tolist() == [0, 1, 2]
    assert x.masked_fill(x > 2, 0).tolist() == np.where(ARRAY > 2, 0, ARRAY).tolist()
    y = torch.zeros(3, 3, device=device)
    assert y.scatter_(1, torch.tensor([[0], [1], [2]], device=device), 1.0) is y
    assert y.tolist() == np.eye(3).tolist()
    y.index_add_(0, index, torch.ones(2, 3, device=device), alpha=2)
    assert y.tolist() == (np.eye(3) + [[2], [0], [2]]).tolist()
    y.scatter_(1, index[None], value=9)
    assert y[0].tolist() == [9.0, 2.0, 9.0]
    found = torch.nonzero(x[0] > 17, as_tuple=True)
    assert [i.tolist() for i in found] == [i.tolist() for i in np.nonzero(ARRAY[0] > 17)]
    assert x.nonzero(as_tuple=False).shape == (ARRAY.size - 1, 3)


def test_in_place(device):
    """cumsum_, cumprod_, index_put_, and the parts of complex numbers."""
    x = torch.tensor([[1, 2], [3, 4]], device=device)
    assert x.cumsum_(1) is x and x.tolist() == [[1, 3], [3, 7]]
    assert x.cumprod_(dim=0).tolist() == [[1, 3], [3, 21]]
    rows, columns = torch.tensor([0, 1, 0], device=device), torch.tensor([1, 0, 1], device=device)
    one = torch.tensor(1, device=device)
    assert x.index_put_((rows, columns), one, accumulate=True).tolist() == [[1, 5], [4, 21]]
    assert x.index_put_([columns[:1]], one).tolist() == [[1, 5], [1, 1]]
    with pytest.raises(RuntimeError, match="expected at least one tensor"):
        x.index_put_((), one)
    for wrong in (rows, (0,), ([0],), (None, rows)):
        with pytest.raises(TypeError, match="indices: expected a tuple of tensors"):
            x.index_put_(wrong, one)
    z = torch.tensor([1 + 2j, 3 + 4j], device=device)
    z.real = torch.tensor([5.0, 6.0], device=device)
    z.imag = z.real
    z.real = 7
    assert z.tolist() == [7 + 5j, 7 + 6j]
    z.real = torch.tensor([5.0, 6.0], device=device)
    assert z.tolist() == [5 + 5j, 6 + 6j]
    with pytest.raises(RuntimeError):
        z.real.imag = z.real
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([torch.ones(2), torch.ones(2)])


def test_copies_with_changes(device):
    """index_add, index_copy and index_fill return a new tensor; put_ changes its own."""
    values = np.arange(12.0).reshape(4, 3)
    x = torch.tensor(values, device=device)
    index, source = torch.tensor([3, 0], device=device), torch.ones(2, 3, dtype=x.dtype)
    source = source.to(device)
    expected = values.copy()
    np.add.at(expected, [3, 0], 2 * np.ones((2, 3)))
    assert torch.index_add(x, 0, index, source, alpha=2).tolist() == expected.tolist()
    expected = values.copy()
    expected[[3, 0]] = 1
    assert x.index_copy(0, index, source).tolist() == expected.tolist()
    assert torch.index_fill(x, 0, index, 1).tolist() == expected.tolist()
    assert x.tolist() == values.tolist()
    places = torch.tensor([0, -1, 0], device=device)
    assert x.put_(places, places.to(x.dtype) + 5, accumulate=True) is x
    np.add.at(values.reshape(-1), [0, -1, 0], [5, 4, 5])
    assert x.tolist() == values.tolist()
    x.put_(torch.tensor([1, 2], device=device), torch.tensor([7.0, 8.0], device=device).to(x.dtype))
    np.put(values, [1, 2], [7, 8])
    assert x.tolist() == values.tolist()


def test_rearranging(device):
    """flip, roll, repeat, tril, triu and diag against NumPy."""
    x = torch.tensor(ARRAY, device=device)
    assert x.flip(0).tolist() == np.flip(ARRAY, 0).tolist()
    assert torch.flip(x, (0, 2)).tolist() == np.flip(ARRAY, (0, 2)).tolist()
    assert x.roll(2, 1).tolist() == np.roll(ARRAY, 2, 1).tolist()
    assert x[0].tril().tolist() == np.tril(ARRAY[0]).tolist()
    assert x[0].triu(1).tolist() == np.triu(ARRAY[0], 1).tolist()
    assert x.transpose(0, 2)[:, 1:].tril(-1).tolist() == np.tril(ARRAY.T[:, 1:], -1).tolist()
    assert torch.triu(x, -(2 ** 63)).tolist() == ARRAY.tolist()
    assert x[0, 0].repeat(2, 3).tolist() == np.tile(ARRAY[0, 0], (2, 3)).tolist()
    assert x.cumsum(1).tolist() == ARRAY.cumsum(1).tolist()
    assert torch.cumsum(x, dim=-1, dtype=torch.float64).dtype == torch.float64
    assert x[0, 0].diag().tolist() == np.diag(ARRAY[0, 0]).tolist()
    small = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    assert small.cumprod(0).tolist() == [[1.0, 2.0], [3.0, 8.0]]
    assert small.softmax(-1)[0].tolist() == pytest.approx([1 / (1 + np.e), np.e / (1 + np.e)])
    assert torch.log_softmax(small, dim=0)[1, 0].item() == pytest.approx(-np.log1p(np.exp(-2)))


FIRST = torch.tensor([True, False])


@pytest.mark.parametrize("mask", [[True, False], np.array([True, False]), FIRST,
                                  (FIRST, slice(None)), (Ellipsis, FIRST), (0, [True, False]), True])
def test_one_element_behind_a_mask_is_converted(mask, device):
    for value in (torch.tensor(7.5), torch.tensor([7.5]), torch.tensor([7.5], device=device)):
        x = torch.zeros(2, 2, dtype=torch.int32, device=device)
        x[mask] = value
        assert x[0, 0].item() == 7 and x.sum().item() in (7, 14, 28)
        before = x.tolist()
        for anything in (value, torch.ones(7), [1, 2, 3], 5):
            x[False] = anything
        with pytest.raises(TypeError):
            x[False] = None
        assert x.tolist() == before
    with pytest.raises(RuntimeError, match="without overflow"):
        x.to(torch.int8)[torch.tensor([True, False], device=device)] = 300
    x[True] = torch.tensor([1.5, 2.5], device=device)
    assert x.tolist() == [[1, 2], [1, 2]]
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[torch.tensor([0], device=device)] = torch.tensor(1.5, device=device)


def test_masked_fill_of_integers(device):
    x = torch.ones(2, dtype=torch.int32, device=device)
    mask = torch.tensor([True, False], device=device)
    assert x.masked_fill(mask, 2.5).tolist() == [2, 1]
    for value in (300, -129, 1j, float("nan"), torch.tensor(300)):
        with pytest.raises(RuntimeError, match="cannot be converted to type int8 without overflow"):
            x.to(torch.int8).masked_fill(mask, value)


@pytest.mark.filterwarnings("ignore:A list as an index")
def test_kinds_of_index(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    assert x[range(2)].tolist() == x.tolist() and x[range(0)].shape == (0, 3)
    assert x[:, range(0, 3, 2)].tolist() == [[0, 2], [3, 5]]
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        place = torch.tensor(1, dtype=dtype, device=device)
        assert x[0, place].item() == 1
        assert x[place].data_ptr() == x[1].data_ptr()  # a view, as of a number
        assert x[place.cpu()].tolist() == x[1].tolist()
    for dtype in ("int8", "int16", "uint16", "uint32", "uint64"):
        assert x[np.array([1, 0], dtype=dtype)].tolist() == x.flip(0).tolist()
    for nothing in ([], np.array([]), np.array([], dtype=np.float32)):
        assert x[nothing].shape == (0, 3)
    assert x[..., 0, ...].tolist() == [0, 3]
    # A list with something in it that is no number is a tuple.
    assert x[[torch.tensor([0, 1]), torch.tensor([1, 2])]].tolist() == [1, 5]
    assert x[[[0, 1], [1, 2]]].tolist() == [1, 5]
    assert x[[slice(None), 0]].tolist() == [0, 3] and x[[None]].shape == (1, 2, 3)
    assert x[[torch.tensor(0), torch.tensor(1)]].item() == 1
    assert x[[[0]] * 40].shape == (40, 1, 3)
    for index in (2 ** 70, -2 ** 70, (0, 2 ** 70)):
        with pytest.raises(ValueError, match="overflow"):
            x[index]
    assert x[:2 ** 70].shape == (2, 3)


def test_forms_of_arguments(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    at = torch.zeros(1, 1, dtype=torch.int64, device=device)
    assert x.flip(0, 1).tolist() == x.flip((0, 1)).tolist() == x.flip([0, 1]).tolist()
    expected = [[9, 1, 2], [3, 4, 5]]
    for nine in (9, torch.tensor(9.0)):
        assert x.scatter(0, at, value=nine).tolist() == expected
        assert torch.scatter(x, 0, at, value=nine).tolist() == expected
        assert x.clone().scatter_(axis=0, index=at, value=nine).tolist() == expected
    with pytest.raises(TypeError):
        x.flip()
    with pytest.raises(TypeError):
        x.repeat()
    assert x.repeat(repeats=(2, 1)).tolist() == x.repeat(2, 1).tolist()
    narrow = torch.tensor([0], dtype=torch.int32, device=device)
    for call in (lambda: x.take(narrow), lambda: x.index_copy(0, narrow, x[:1]),
                 lambda: x.put_(narrow, x[0, :1])):
        with pytest.raises(RuntimeError, match="Expected a long tensor for index"):
            call()
    with pytest.raises(IndexError, match="Expected dtype int64"):
        x.index_fill(0, narrow, 1)


def test_scatter_combines(device):
    x = torch.tensor([[3, 3, 3], [3, 3, 3]], device=device)
    at = torch.tensor([[0, 1, 1], [1, 0, 0]], device=device)
    source = torch.tensor([[1, 2, 3], [4, 5, 6]], device=device)
    assert x.scatter(0, at, source, reduce="add").tolist() == [[4, 8, 9], [7, 5, 6]]
    assert x.scatter(0, at, 2, reduce="multiply").tolist() == [[6, 6, 6], [6, 6, 6]]
    out = torch.empty_like(x)
    assert torch.scatter(x, 0, at, src=source, reduce="multiply", out=out) is out
    assert out.tolist() == [[3, 15, 18], [12, 6, 9]]
    assert x.scatter_(0, at, value=1, reduce="add") is x
    assert x.tolist() == [[4, 4, 4], [4, 4, 4]]
    with pytest.raises(RuntimeError, match="reduce argument must be either add or multiply"):
        x.scatter(0, at, source, reduce="mean")
    with pytest.raises(TypeError):
        x.scatter(0, at, source, reduce=1)


def test_a_part_of_a_tensor_for_all_of_it(device):
    """Values that are broadcast may lie in what is written."""
    def made():
        return torch.arange(6.0, device=device).reshape(2, 3)

    x = made()
    x[0] = x[0, 1]
    assert x.tolist() == [[1, 1, 1], [3, 4, 5]]
    x = made()
    x[:] = x[1]
    assert x.tolist() == [[3, 4, 5], [3, 4, 5]]
    x = made()
    x[...] = x[:, 1:2]
    assert x.tolist() == [[1, 1, 1], [4, 4, 4]]
    x = made()[0]
    x[1:] = x[2]
    assert x.tolist() == [0, 2, 2]
    x = made()
    x.fill_(x[1, 1])
    assert x.tolist() == [[4] * 3] * 2
    with pytest.raises(RuntimeError, match="a single memory location"):
        x.view(6)[1:] = x.view(6)[:-1]


def test_sequences_of_ones_own(device):
    """What has a length and items is an index like a list; text is none."""

    class Sequence:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return [0, 1, 2][i]

    x = torch.arange(5, device=device)
    assert x[Sequence()].tolist() == [0, 1, 2]
    x[Sequence()] = 7
    assert x.tolist() == [7, 7, 7, 3, 4]
    for wrong in "ab", b"ab", {1: 2}:
        with pytest.raises(IndexError, match="are valid indices"):
            x[wrong]
