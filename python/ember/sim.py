"""Simulated devices: faults on request (docs/faults.md)."""

from ember._C.sim import faults as faults, faults_happened as faults_happened
