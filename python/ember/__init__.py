"""Tensors and CUDA semantics, as PyTorch's documents describe them, on real and simulated GPUs.

``import ember as torch`` and go on. Everything here comes from the extension module ``ember._C``.
"""

import copyreg as _copyreg
from math import e as e, inf as inf, nan as nan, pi as pi

from ember._C import *
from ember._C import (__version__ as __version__, _assert_async as _assert_async, _refuse_name,
                      bool_, float32, int32)

# In place of the extension's own submodules of these names; and for type checkers, which take what
# is imported `as` itself for public.
import ember.backends
import ember.cuda
import ember.fft
import ember.ops
import ember.random
import ember.return_types
import ember.sim
from ember._C.cuda import Event as Event, Stream as Stream
from ember._fuse import fuse as fuse
from ember._gradients import (enable_grad as enable_grad, inference_mode as inference_mode,
                              is_grad_enabled as is_grad_enabled, no_grad as no_grad,
                              set_grad_enabled as set_grad_enabled)
from ember._typed import (BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor,
                          ByteTensor as ByteTensor, CharTensor as CharTensor,
                          DoubleTensor as DoubleTensor, FloatTensor as FloatTensor,
                          HalfTensor as HalfTensor, IntTensor as IntTensor,
                          LongTensor as LongTensor, ShortTensor as ShortTensor)
from ember import (backends as backends, cuda as cuda, fft as fft, ops as ops, random as random,
                   return_types as return_types, sim as sim)


class _NoGradients:
    """Stands in Tensor for what torch has for gradients. What says that there are none is there; the
    rest says why it is missing. ``__getattr__``
    could do that for every name, but would make attributes that exist a fifth slower, and calls of
    methods more than twice as slow."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: object, kind: object = None) -> object:
        if self.name in _NONE:
            return _NONE[self.name]
        raise AttributeError(f"'Tensor' object has no attribute '{self.name}': ember computes no "
                             "gradients (docs/differences.md)")

    def __set__(self, tensor: object, value: object) -> None:
        if value is not None and value is not False:  # what holds anyhow may be said
            raise AttributeError(f"'{self.name}' cannot be set: ember computes no gradients "
                                 "(docs/differences.md)")


_NONE = {"grad": None, "grad_fn": None, "retains_grad": False}
for _name in ("backward", "grad", "grad_fn", "register_hook", "retain_grad",
              "retains_grad"):
    setattr(Tensor, _name, _NoGradients(_name))
del _name

bool = bool_
float = float32
int = int32

# Functions and methods are pickled by their names, as Python's own are.
for _kind in (type(zeros), type(Tensor.add)):
    _copyreg.pickle(_kind, lambda function: function.__qualname__)
del _kind

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember", name)
