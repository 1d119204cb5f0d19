"""Snapshots of memory as pictures. `snapshot` is what `memory._snapshot()` answers, or a file of
`memory._dump_snapshot` read by pickle, also of PyTorch's. Nothing here needs a network."""

import pickle as _pickle
import subprocess as _subprocess
import typing as _typing

from ember._C import _refuse_name
from ember._C.cuda import _flame_graph, _folded_changes, _folded_memory, _snapshot_page

_Snapshot = _typing.Dict[str, _typing.Any]
_Segments = _typing.Union[_Snapshot, _typing.List[_Snapshot]]


def format_flamegraph(flamegraph_lines: str, flamegraph_script: "str | None" = None) -> str:
    """A flame graph (SVG) of lines of names, separated by `;`, a blank and a number of bytes; made
    by another program, if one is named."""
    if flamegraph_script is None:
        return _flame_graph(flamegraph_lines, "Memory")
    return _subprocess.run([flamegraph_script, "--countname", "bytes"], input=flamegraph_lines,
                           stdout=_subprocess.PIPE, encoding="utf-8", check=True).stdout


def segments(snapshot: _Snapshot,
             format_flamegraph: _typing.Callable[[str], str] = format_flamegraph) -> str:
    """Who holds how much of which segment."""
    return format_flamegraph(_folded_memory(_pickle.dumps(snapshot, protocol=4), True))


def memory(snapshot: _Snapshot,
           format_flamegraph: _typing.Callable[[str], str] = format_flamegraph) -> str:
    """Who holds how much on which stream."""
    return format_flamegraph(_folded_memory(_pickle.dumps(snapshot, protocol=4), False))


def compare(before: _Segments, after: _Segments,
            format_flamegraph: _typing.Callable[[str], str] = format_flamegraph) -> str:
    """Segments that only one of two snapshots has. Takes lists of segments, too."""
    both = [_pickle.dumps(each if isinstance(each, dict) else {"segments": each}, protocol=4)
            for each in (before, after)]
    return format_flamegraph(_folded_changes(*both))


def trace_plot(data: _Snapshot, device: "int | None" = None, plot_segments: bool = False,
               filter_freed: bool = False) -> str:
    """A page (HTML) that shows what was in use over time, and the rest of the snapshot, for all
    devices: it has choices for what the other arguments choose in PyTorch."""
    return _snapshot_page(_pickle.dumps(data, protocol=4), "snapshot")


def segment_plot(data: _Snapshot, device: "int | None" = None) -> str:
    """The same page, which shows segments and blocks, too."""
    return _snapshot_page(_pickle.dumps(data, protocol=4), "snapshot")


# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda._memory_viz", name)
