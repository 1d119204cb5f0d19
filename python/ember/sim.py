"""Runs of simulated devices in which a seed decides the order, and what is proved of a program: docs/order.md."""

from ember._C.sim import *
