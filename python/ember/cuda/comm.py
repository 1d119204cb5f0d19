"""Tensors between the devices of one process."""

from ember._C.cuda.comm import *
