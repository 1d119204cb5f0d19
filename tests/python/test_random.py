"""Random numbers: seeds, states, distributions; the same numbers on every device."""

import copy
import pickle

import pytest

import ember as torch
from ember import cuda


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_default_generators():
    """One of each device, of which `cuda.manual_seed` and its like speak."""
    assert len(cuda.default_generators) == cuda.device_count()
    first, *_ = cuda.default_generators
    cuda.manual_seed(11)
    assert first.device == torch.device("cuda:0") and first.initial_seed() == 11
    x = torch.rand(3, device="cuda")
    first.manual_seed(11)
    assert torch.rand(3, device="cuda", generator=first).tolist() == x.tolist()
    assert first.get_offset() == cuda._get_rng_state_offset() == cuda.default_generators[0].get_offset()
    assert cuda.default_generators[-1].device.index == cuda.device_count() - 1
    for wrong in (cuda.device_count(), -cuda.device_count() - 1, 2**40):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range"):
            cuda.default_generators[wrong]
    with pytest.raises(TypeError):
        cuda.default_generators["cuda:0"]


def test_seeds():
    """manual_seed, seed and initial_seed, of the CPU, of one device and of all."""
    torch.manual_seed(7)
    assert torch.initial_seed() == cuda.initial_seed() == 7
    cuda.manual_seed(8)
    assert cuda.initial_seed() == 8 and torch.initial_seed() == 7
    cuda.manual_seed_all(-1)
    assert cuda.initial_seed() == 2 ** 64 - 1
    assert cuda.seed() is None and cuda.seed_all() is None
    assert torch.seed() == torch.initial_seed() < 2 ** 53
    assert torch.random.initial_seed() == torch.initial_seed()
    with pytest.raises(ValueError, match="Overflow"):
        torch.manual_seed(2 ** 64)


def test_states():
    """A state that is put back gives the same numbers again."""
    state = cuda.get_rng_state()
    assert state.dtype == torch.uint8 and state.shape == (16,) and not state.is_cuda
    x = torch.randn(100, device="cuda")
    cuda.set_rng_state(state)
    assert torch.randn(100, device="cuda").tolist() == x.tolist()
    states = cuda.get_rng_state_all()
    assert len(states) == cuda.device_count()
    cuda.set_rng_state_all(states)
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        cuda.set_rng_state(torch.ones(16))
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        cuda.set_rng_state(torch.ones(5, dtype=torch.uint8))
    here = torch.get_rng_state()
    y = torch.rand(3)
    torch.random.set_rng_state(here)
    assert torch.rand(3).tolist() == y.tolist()


DRAWS = {
    "rand": lambda d: torch.rand(3, 5, device=d),
    "randn": lambda d: torch.randn((3, 5), device=d, dtype=torch.float64),
    "randint": lambda d: torch.randint(-3, 9, (20,), device=d),
    "randperm": lambda d: torch.randperm(50, device=d),
    "normal": lambda d: torch.normal(1.0, 2.0, (7,), device=d),
    "uniform_": lambda d: torch.empty(9, device=d).uniform_(-1, 1),
    "normal_": lambda d: torch.empty(9, device=d).normal_(0.0, 1.0),
    "exponential_": lambda d: torch.empty(9, device=d).exponential_(),
    "bernoulli_": lambda d: torch.empty(9, device=d).bernoulli_(0.25),
    "bernoulli": lambda d: torch.bernoulli(torch.full((9,), 0.5, device=d)),
    "multinomial": lambda d: torch.multinomial(torch.tensor([1.0, 2.0, 3.0], device=d), 9, True),
    "random_": lambda d: torch.empty(9, device=d, dtype=torch.int32).random_(5, 10),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_numbers_on_every_device(name):
    results = []
    for place in ["cpu", "cuda:0"]:
        torch.manual_seed(123)
        results.append(DRAWS[name](place).tolist())
    assert results[0] == results[1]


def test_generators(device):
    """Generators of one's own: seeds, clones and states."""
    g = torch.Generator(device=device)
    assert g.initial_seed() == 67280421310721 and g.device == torch.device(device)
    assert g.manual_seed(5) is g
    x = torch.rand(10, device=device, generator=g)
    g.manual_seed(5)
    other = g.clone_state()
    assert torch.rand(10, device=device, generator=g).tolist() == x.tolist()
    assert other.get_offset() == 0 and g.get_offset() == 4
    other.set_state(g.get_state())
    assert other.get_offset() == 4
    with pytest.raises(RuntimeError, match="Expected a '.*' device type for generator"):
        torch.rand(1, device="cpu" if device != "cpu" else "cuda", generator=g)


def test_copies_of_generators(device):
    """A copy draws what the original would have drawn, and neither disturbs the other."""
    g = torch.Generator(device).manual_seed(5)
    torch.rand(3, device=device, generator=g)
    made = [copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g))]
    expected = torch.rand(7, device=device, generator=g).tolist()
    for one in made:
        assert one.device == g.device
        assert torch.rand(7, device=device, generator=one).tolist() == expected


def test_fork_rng():
    """What is drawn inside leaves no trace."""
    x = torch.rand(3)
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="expected 'cuda'"):
        torch.random.fork_rng(device_type="tpu")
    with torch.random.fork_rng(device_type="cuda"):
        torch.rand(100)
        torch.rand(100, device="cuda")
    assert torch.rand(3).tolist() == x.tolist()


def test_ranges(device):
    """Each distribution stays within its range."""
    x = torch.rand(1000, device=device)
    assert 0 <= min(x.tolist()) and max(x.tolist()) < 1
    assert sorted(torch.randperm(100, device=device).tolist()) == list(range(100))
    assert set(torch.randint(3, (100,), device=device).tolist()) == {0, 1, 2}
    weights = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]], device=device)
    drawn = weights.multinomial(50, replacement=True).tolist()
    assert set(drawn[0]) == {1, 2} and set(drawn[1]) == {0}
    assert sorted(torch.multinomial(weights[0], num_samples=2).tolist()) == [1, 2]
    with pytest.raises(RuntimeError, match="n_sample > prob_dist.size"):
        weights.multinomial(4)


def test_manual_seed_returns_the_default_generator():
    assert torch.manual_seed(3) is torch.default_generator
    assert torch.random.manual_seed(3) is torch.default_generator
    assert torch.default_generator.initial_seed() == 3


def test_bernoulli_as_a_method(device):
    p = torch.tensor([0.0, 1.0], device=device)
    assert p.bernoulli().tolist() == [0, 1]
    assert p.bernoulli(1.0).tolist() == [1, 1] and p.bernoulli(p=0).tolist() == [0, 0]
    generator = torch.Generator(device).manual_seed(3)
    first = torch.full((64,), 0.5, device=device).bernoulli(generator=generator)
    assert first.equal(torch.bernoulli(torch.full((64,), 0.5, device=device), generator=generator.manual_seed(3)))


def test_probabilities_of_the_cpu_are_named():
    with pytest.raises(RuntimeError, match=r"^bernoulli expects p to be in \[0, 1\], but got p=2.0"):
        torch.bernoulli(torch.tensor([2.0]))


def test_whole_numbers_like_another_tensor(device):
    like = torch.empty(40, 50, device=device).t()
    whole = torch.randint_like(like, 3)
    assert (whole.dtype, whole.device, whole.stride()) == (torch.float32, like.device, (1, 50))
    assert sorted(set(whole.flatten().tolist())) == [0, 1, 2]
    whole = torch.randint_like(like, -2, 1, dtype=torch.int8)
    assert whole.dtype == torch.int8 and sorted(set(whole.flatten().tolist())) == [-2, -1, 0]
    assert torch.randint_like(like, high=2, low=1).unique().tolist() == [1]
    assert torch.randint_like(like, torch.tensor(1)).unique().tolist() == [0]
    with pytest.raises(RuntimeError, match="high must be a scalar tensor and on CPU"):
        torch.randint_like(like, torch.tensor([1]))
    first = torch.Generator(device).manual_seed(5)
    second = torch.Generator(device).manual_seed(5)
    assert torch.equal(torch.randint_like(like, 99, generator=first),
                       torch.randint_like(like, 0, 99, generator=second))
    with pytest.raises(RuntimeError, match="from=5 >= to=5"):
        torch.randint_like(like, 5, 5)
    with pytest.raises(TypeError):
        torch.randint_like(like, 2.5)
