"""What must not type-check: each line marked `wrong`, and no other. It is never run."""

from __future__ import annotations

import numpy as np

import ember as torch

x = torch.zeros(2, 3)
stream = torch.cuda.Stream()
event = torch.cuda.Event()

# Factories.
torch.zeros("a")  # wrong
torch.zeros(2.5)  # wrong
torch.zeros(2, "3")  # wrong
torch.ones(2, 3, dtype="float32")  # wrong
torch.ones(2, 3, device=1.5)  # wrong
torch.empty(2, 3, shape=(2, 3))  # wrong
torch.full((2, 3))  # wrong
torch.full((2, 3), "7")  # wrong
torch.tensor("a")  # wrong
torch.tensor(["a"])  # wrong
torch.tensor([["a", "b"], ["c", "d"]])  # wrong
torch.tensor()  # wrong
torch.tensor([1], torch.float)  # wrong
torch.arange("3")  # wrong
torch.randn(3, generator=1)  # wrong
torch.from_numpy([1, 2])  # wrong
torch.zeros_like(3)  # wrong
torch.no_such_function(x)  # wrong
torch.from_dlpack(3)  # wrong
torch.Tensor(2, 3)  # wrong

# Dtypes and devices.
torch.device(1.5)  # wrong
torch.device("cuda", "0")  # wrong
dtype: torch.dtype = "float32"  # wrong
text: str = torch.float32  # wrong
place: str = x.device  # wrong
torch.promote_types(torch.int8, 3)  # wrong

# Arithmetic.
x + "a"  # wrong
None * x  # wrong
x - None  # wrong
x > "a"  # wrong
x @ 2  # wrong
x.add("a")  # wrong
x.add(1, 2)  # wrong
x.clamp(low=0)  # wrong
torch.div(x, 2, rounding_mode="up")  # wrong
torch.where(True, x, x)  # wrong
torch.exp(1.0)  # wrong
torch.add(x, 1, out=(x,))  # wrong
number: int = x + 1  # wrong
truth: bool = x > 0  # wrong

# Numbers and arrays.
word: str = x.item()  # wrong
total: float = x.sum()  # wrong
length: str = len(x)  # wrong
x.item(0.5)  # wrong
array: list[float] = x.numpy()  # wrong
values: torch.Tensor = x.cpu().numpy()  # wrong

# Shapes and indexing.
size: torch.Size = x.size(0)  # wrong
rank: tuple[int, ...] = x.dim()  # wrong
x.view("a")  # wrong
x.view(-1, 2.0)  # wrong
x.reshape(None)  # wrong
x.permute("a", "b")  # wrong
x.transpose(0)  # wrong
x.squeeze("a")  # wrong
torch.cat(x, "0")  # wrong
torch.stack([1, 2])  # wrong
x["a"]  # wrong
x[1.5]  # wrong
x[0, "a"]  # wrong
x[0] = "a"  # wrong
x["a"] = 0  # wrong
del x[0]  # wrong
x.backward()  # wrong
x.shape = (3, 2)  # wrong
for row in x:
    line: int = row  # wrong

# Reductions.
x.sum(dim="a")  # wrong
x.sum(keep=True)  # wrong
x.max(0).value  # wrong
x.max().values  # wrong
highest: torch.Tensor = x.max(0)  # wrong
one, two, three = x.max(0)  # wrong
x.topk()  # wrong
x.softmax()  # wrong
order: int = x.argmax()  # wrong
rows: torch.Tensor = x.nonzero(as_tuple=True)  # wrong

# Conversions.
x.to(1.5)  # wrong
x.to(torch.float, "cpu")  # wrong
x.to(device="cpu", kind=torch.float)  # wrong
x.int(3)  # wrong
x.float().integer()  # wrong
x.cuda(stream)  # wrong
whole: int = x.int()  # wrong
name: torch.Tensor = x.type()  # wrong

# Streams, events, memory.
torch.cuda.Stream(priority="high")  # wrong
torch.cuda.Stream(0, stream=1)  # wrong
torch.cuda.Event(timing=True)  # wrong
torch.cuda.stream(event)  # wrong
stream.wait_event(stream)  # wrong
stream.wait_stream(event)  # wrong
event.elapsed_time(1.0)  # wrong
late: int = event.elapsed_time(event)  # wrong
x.record_stream(event)  # wrong
with x:  # wrong
    pass
with torch.cuda.device(None, None):  # wrong
    pass
used: str = torch.cuda.memory_allocated()  # wrong
torch.cuda.nvtx.range_push(3)  # wrong
torch.cuda.nvtx.mark("here", payload="three")  # wrong
busy: str = torch.cuda.utilization()  # wrong
torch.cuda.temperature(0.5)  # wrong
torch.backends.cuda.matmul.allow_tf32 = "yes"  # wrong
torch.set_float32_matmul_precision(3)  # wrong
peak: str = torch.cuda.memory_stats()["peak"]  # wrong
torch.cuda.set_device(x)  # wrong
torch.cuda.manual_seed("a")  # wrong
torch.cuda.comm.broadcast([x], [0, 1])  # wrong
both: torch.Tensor = torch.cuda.comm.broadcast(x, [0, 1])  # wrong
torch.cuda.comm.gather(x, destination=1.5)  # wrong
torch.Generator().manual_seed("a")  # wrong
torch.set_rng_state(np.zeros(3))  # wrong


def added(y: torch.Tensor) -> None:
    y += "a"  # wrong


def left() -> int:
    """What a `with` block raises goes on, so nothing is missing after it."""
    with torch.cuda.stream(stream), torch.cuda.device(0), stream:
        return 1
