"""Tensors and CUDA semantics, as PyTorch's documents describe them, on real and simulated GPUs.

``import ember as torch`` and go on. Everything here comes from the extension module ``ember._C``.
"""

from ember._C import *
from ember._C import __version__ as __version__, _refuse_name, bool_, float32, int32

# In place of the extension's own submodules of these names; and for type checkers, which take what
# is imported `as` itself for public.
import ember.cuda
import ember.random
from ember import cuda as cuda, random as random

bool = bool_
float = float32
int = int32

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember", name)
