"""Functions that are told what happens on devices, once ``ember._C._activate_gpu_trace()`` was called."""

from ember._C.cuda._gpu_trace import *
