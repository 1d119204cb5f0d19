"""Devices, streams, events and memory."""

from ember._C import AcceleratorError, DeferredCudaCallError, OutOfMemoryError
from ember._C.cuda import *
from ember._C.cuda import _host_function, _sleep

# In place of the extension's own submodule of this name.
import ember.cuda.comm
import ember.cuda.random
