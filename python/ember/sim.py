"""Runs of simulated devices in which a seed decides the order (docs/order.md)."""

from ember._C.sim import (begin_run as begin_run, log as log, replay_line as replay_line,
                          save_log as save_log, schedule as schedule, seeded as seeded)
