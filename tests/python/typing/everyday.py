"""What people write in their first hour, for type checkers to find nothing in: test_typing.py.

It runs, too. Variables say their types where that is what a line is about.
"""
# pyright: strict

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ember as torch


def factories(device: torch.device | str) -> None:
    sizes: Sequence[int] = [2, 3]
    values: list[float] = [1.0, 2.0]
    torch.zeros(2, 3)
    torch.zeros((2, 3), dtype=torch.float16, device=device)
    torch.ones([2, 3], device="cpu", pin_memory=False)
    torch.empty(sizes)
    torch.empty(torch.zeros(2, 3).shape)
    torch.zeros(())
    torch.full((2, 2), 7, dtype=torch.int)
    torch.arange(10)
    torch.arange(0, 1, 0.25, dtype=torch.float64)
    torch.tensor(1.5)
    torch.tensor([1, 2, 3], dtype=torch.long)
    torch.tensor([[True, False], [False, True]], device=device)
    torch.tensor(values)
    torch.tensor([[[1 + 2j]]])
    torch.tensor((range(3), [3, 4, 5]))
    torch.tensor(np.eye(2))
    x = torch.randn(2, 3, device=device)
    torch.zeros_like(x)
    torch.full_like(x, float("inf"), dtype=torch.double)
    x.new_zeros(2, 2)
    x.new_tensor([1, 2])
    torch.as_tensor(values, device=device)
    torch.empty_strided((2, 2), (1, 2))


def dtypes_and_devices() -> None:
    kind: torch.dtype = torch.float32
    for kind in (torch.float, torch.int, torch.bool, torch.half, torch.bfloat16, torch.complex64):
        size: int = kind.itemsize
        assert size > 0
    wide: bool = torch.can_cast(torch.float, torch.double)
    assert wide and torch.promote_types(torch.int8, torch.half) == torch.float16
    here = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    index: int | None = here.index
    where: str = here.type
    assert where == "cuda" and index == 0
    assert torch.device("cuda", 0) == torch.device(here) != torch.device("cpu")
    torch.device(0)


def arithmetic(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = 2 * x + y / 3 - 1
    z = -z ** 2 % 5 + 2 ** x
    z += 1
    z *= y
    z = (1 - z).abs().clamp(min=0.1, max=10).sqrt().log()
    z = torch.where(z > 0, z, 0.0)
    z = torch.maximum(z, y) + torch.add(x, y, alpha=2) + torch.div(x, y, rounding_mode="floor")
    mask: torch.Tensor = (x > 0) & ~(y <= 1) | (x == y) | (x != 0)
    if (x == x).all() and not torch.isnan(x).any():
        z = z.masked_fill(mask, -1).mul_(2).add_(1, alpha=0.5)
    both: torch.Tensor = x @ y.T
    assert both.shape == (x.shape[0], y.shape[0])
    torch.add(x, y, out=z)
    return z.pow(2).exp()


def numbers(x: torch.Tensor) -> str:
    loss: float = x.mean().item()
    total = float(x.sum())
    count = int((x > 0).sum())
    best: int = int(x.argmax().item())
    some: bool = bool((x > 0).any())
    size: int = x.numel() + len(x) + x.dim()
    rows: list[list[float]] = x.tolist()
    assert range(3)[torch.tensor(1)] == 1
    if 1.0 in x and some:
        total += rows[0][0] + complex(x[0, 0]).real
    return f"{loss:.3f} {total:8.3f} {count} {best} {size} {x[0, 0]:.2f}"


def shapes(x: torch.Tensor) -> None:
    rows, columns = x.shape
    shape: torch.Size = x.size()
    last: int = x.size(-1)
    front: torch.Size = x.shape[:-1] + (1,)
    assert shape.numel() == rows * columns == x.shape.numel()
    assert front == (rows, 1) and last == columns and x.stride() == (columns, 1)
    x.view(-1, columns)
    x.view((-1,))
    x.view(torch.int32)
    x.reshape(columns, rows)
    x.reshape(x.shape)
    x.permute(1, 0).transpose(0, 1).t()
    x.unsqueeze(0).expand(4, -1, -1).squeeze(0).flatten()
    x.repeat(2, 1).flip(0)
    halves: tuple[torch.Tensor, ...] = x.chunk(2, dim=1)
    left, right = x.split([1, columns - 1], dim=1)
    torch.cat([left, right], dim=1)
    torch.stack(halves)
    first, *others = x.unbind(0)
    torch.cat([first, *others])
    x.T.contiguous()


def indexing(x: torch.Tensor) -> None:
    x[0]
    x[0, 1]
    x[-1, :]
    x[..., None]
    x[:, 1:3]
    x[::2]
    x[x > 0]
    x[[0, 1]]
    x[torch.tensor([1, 0]), 0]
    x[np.array([0, 1])]
    x[True]
    x[0] = 1
    x[0, 1] = 2.5
    x[:, 0] = x[:, 1]
    x[x < 0] = 0
    x[0, :2] = torch.tensor([1.0, 2.0])
    x[1, :2] = [3, 4]
    x[1] = np.zeros(x.shape[1])
    x[0] += 1
    for number, row in enumerate(x):
        row.fill_(number)
    rows: list[torch.Tensor] = list(x)
    for a, b in zip(rows, x):
        assert torch.is_tensor(a) and a.shape == b.shape
    x.index_select(0, torch.tensor([0], device=x.device)).sum()
    x.gather(1, torch.zeros(2, 1, dtype=torch.int64, device=x.device)).sum()
    x.scatter_(1, torch.zeros(2, 1, dtype=torch.int64, device=x.device), 1.0).add_(1)
    places: torch.Tensor = torch.nonzero(x)
    i, j = x.nonzero(as_tuple=True)
    assert len(places) == len(i) == len(j)


def reductions(x: torch.Tensor) -> None:
    x.sum()
    x.sum(0)
    x.sum(dim=(0, 1), keepdim=True)
    x.sum(axis=1, keepdims=True)
    torch.mean(x, 1)
    x.std(unbiased=False)
    x.var(0, correction=0)
    x.norm()
    x.norm(p=1, dim=1)
    largest: torch.Tensor = x.max()
    values: torch.Tensor = x.max(0).values
    where: torch.Tensor = x.max(dim=1).indices
    assert values.shape[0] == x.shape[1] and where.dtype == torch.long and largest.dim() == 0
    smallest, at = torch.min(x, dim=0)
    assert smallest.shape == at.shape
    best = x.topk(2)
    assert (best.values == x.sort(descending=True).values[:, :2]).all()
    torch.max(x, -x)
    x.softmax(1).cumsum(0).argmax(1)
    x.any(1)
    x.all()


def conversions(x: torch.Tensor, device: torch.device) -> None:
    whole: torch.Tensor = x.int()
    whole.float().bool().long().double().half().byte()
    x.to(torch.float16)
    x.to(device)
    x.to("cpu", torch.float64)
    x.to(device=0, dtype=torch.double, non_blocking=True)
    x.to(torch.zeros(1))
    x.to(dtype=torch.int8, copy=True)
    x.cuda()
    x.cuda(0, non_blocking=True)
    x.cpu().clone().detach()
    name: str = x.type()
    same: torch.Tensor = x.type(torch.float64)
    assert name.endswith("Tensor") and same.dtype == torch.float64 and same.is_floating_point()
    assert x.device.type == "cuda" and x.is_cuda and x.dtype.is_floating_point


def arrays(x: torch.Tensor) -> None:
    array = x.cpu().numpy()
    mean: float = float(array.mean())
    shared = torch.from_numpy(array)
    assert np.allclose(np.asarray(shared), array) and np.isfinite(mean)
    sums: torch.Tensor = (shared + array) * np.float32(2) + np.float32(1) * shared
    torch.from_dlpack(sums.numpy()).add_(0)
    torch.tensor(array.tolist())


def streams(x: torch.Tensor) -> torch.Tensor:
    side = torch.cuda.Stream()
    urgent = torch.cuda.Stream(device=x.device, priority=-1)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        begin.record()
        x = x * 2
        end.record(side)
    event: torch.cuda.Event = side.record_event()
    urgent.wait_event(event)
    with urgent:
        x += 1
    x.record_stream(side)
    torch.cuda.current_stream().wait_stream(urgent)
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    assert milliseconds >= 0 and side.query() and side != urgent
    with torch.cuda.device(0):
        torch.cuda.synchronize()
        return x


def memory() -> None:
    used: int = torch.cuda.memory_allocated()
    stats: dict[str, int] = torch.cuda.memory_stats(0)
    peak: int = stats["allocated_bytes.all.peak"] + torch.cuda.max_memory_allocated("cuda:0")
    free, total = torch.cuda.mem_get_info()
    assert used <= peak and free <= total
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    count: int = torch.cuda.device_count()
    name: str = torch.cuda.get_device_name(count - 1)
    major, minor = torch.cuda.get_device_capability()
    properties = torch.cuda.get_device_properties(0)
    assert name and major >= minor >= 0 and properties.total_memory == total
    try:
        torch.empty(1 << 50, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        assert "memory" in str(error)


@torch.cuda.nvtx.range("step {}", 1)
def step(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.nvtx.range("halves of {name}", name="x"):
        return x / 2


def tools(x: torch.Tensor) -> None:
    depth: int = torch.cuda.nvtx.range_push("outer", color=0xFF00FF00, payload=0.5)
    torch.cuda.nvtx.mark("here", category="everyday")
    assert torch.cuda.nvtx.range_pop() == depth
    library = torch.cuda.nvtx.Domain("everyday")
    handle: int = library.range_start("across", category=library.category("threads"))
    with library.range("inside"):
        halved: torch.Tensor = step(x)
    library.range_end(handle)
    busy: int = torch.cuda.utilization() + torch.cuda.memory_usage(0)
    used: int = torch.cuda.device_memory_used(0)
    watts: float = torch.cuda.power_draw(torch.device("cuda:0")) / 1000
    lines: list[str] = torch.cuda.list_gpu_processes().splitlines()
    assert busy >= 0 and used >= 0 and watts > 0 and lines and halved.shape == x.shape
    before: str = torch.get_float32_matmul_precision()
    torch.backends.cuda.matmul.allow_tf32 = True
    allowed: bool = torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision(before)
    torch.backends.cuda.matmul.fp32_precision = "none"
    assert allowed


def devices(x: torch.Tensor) -> None:
    everywhere = list(range(min(2, torch.cuda.device_count())))
    copies: tuple[torch.Tensor, ...] = torch.cuda.comm.broadcast(x, everywhere)
    total: torch.Tensor = torch.cuda.comm.reduce_add(copies, destination=0)
    parts = torch.cuda.comm.scatter(total, devices=everywhere, dim=1)
    whole = torch.cuda.comm.gather(parts, dim=1, destination="cpu")
    assert whole.shape == x.shape


def random(device: torch.device) -> None:
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    generator = torch.Generator(device=device).manual_seed(1)
    torch.rand(2, 3, generator=generator, device=device)
    torch.randint(0, 10, (3,), dtype=torch.int32)
    torch.randperm(5)
    torch.empty(3).uniform_(0, 1).normal_(std=2)
    state: torch.Tensor = torch.get_rng_state()
    torch.set_rng_state(state)
    torch.cuda.random.set_rng_state(torch.cuda.get_rng_state())
    torch.random.manual_seed(0)


def main() -> None:
    device = torch.device("cuda")
    x = torch.arange(12, dtype=torch.float32, device=device).reshape(3, 4) - 5
    factories(device)
    factories("cuda:0")
    dtypes_and_devices()
    arithmetic(x.clone(), x.clone())
    numbers(x)
    shapes(x)
    indexing(x[:2].clone())
    indexing(x[:2].cpu())
    reductions(x)
    conversions(x, device)
    arrays(x)
    streams(x)
    memory()
    tools(x)
    devices(x)
    random(device)


if __name__ == "__main__":
    main()
