"""Simulated devices: runs in which a seed decides the order, and what is proved of a program (docs/order.md); faults on
request (docs/faults.md)."""

from ember._C.sim import *
