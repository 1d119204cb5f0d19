"""Discrete Fourier transforms."""

from ember._C.fft import *
