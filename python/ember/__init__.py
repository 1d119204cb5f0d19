"""Tensors and CUDA semantics, as PyTorch's documents describe them, on real and simulated GPUs.

``import ember as torch`` and go on. Everything here comes from the extension module ``ember._C``.
"""

from ember._C import *
from ember._C import __version__
from ember._C import bool_ as bool, float32 as float, int32 as int

# In place of the extension's own submodules of these names.
import ember.cuda
import ember.random
