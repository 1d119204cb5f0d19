"""Lines for flame graphs beside PyTorch's."""

from torch.cuda import _memory_viz as theirs

import ember
from ember import cuda

ours = cuda.memory._memory_viz


def test_lines():
    """The same text for the same snapshot."""
    cuda.memory._record_memory_history(stacks="python")
    try:
        kept = [ember.zeros(n, device="cuda") for n in (1, 1000, 5_000_000)]
        before = cuda.memory._snapshot()
        del kept[1:]
        kept.append(ember.zeros(30_000_000, device="cuda"))
        after = cuda.memory._snapshot()
    finally:
        cuda.memory._record_memory_history(None)
    for of in (lambda viz: viz.segments(before, format_flamegraph=str),
               lambda viz: viz.memory(after, format_flamegraph=str),
               lambda viz: viz.compare(before["segments"], after["segments"], format_flamegraph=str)):
        assert of(ours) == of(theirs) != ""
