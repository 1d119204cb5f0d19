"""Discrete Fourier transforms."""

from ember._C import _refuse_name
from ember._C.fft import *

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.fft", name)
