"""Work that is recorded once and run often: not in ember yet (docs/coverage.md)."""

from ember._C import _refuse_name
from ember._C.cuda import graph_pool_handle as graph_pool_handle

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda.graphs", name)
