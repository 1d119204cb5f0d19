"""Operations by the names that torch gives their forms: ``ember.ops.aten.add.Tensor(x, y)``. The
``_schema`` of each says what it takes, returns, reads and writes."""

from ember._C import _refuse_name
from ember._ops import aten as aten

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.ops", name)
