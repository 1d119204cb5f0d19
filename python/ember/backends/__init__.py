"""What computes on the devices, and its settings."""

from ember._C import _refuse_name

# In place of a submodule that is imported later; and for type checkers, which take what is imported
# `as` itself for public.
import ember.backends.cuda
from ember.backends import cuda as cuda

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.backends", name)
