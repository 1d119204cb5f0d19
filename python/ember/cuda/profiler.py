"""What a profiler that is attached to the process collects, such as ``nsys profile -c cudaProfilerApi``.
Without one, and on simulated devices, these do nothing."""

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

from ember._C.cuda import (_cudaProfilerStart as _start, _cudaProfilerStop as _stop,
                           check_error as _check_error)

__all__ = ["start", "stop", "profile"]


def start() -> None:
    """The profiler collects from now on what the current device does."""
    _check_error(_start())


def stop() -> None:
    """The profiler collects no longer. What the device has yet to do is not waited for."""
    _check_error(_stop())


@_contextmanager
def profile() -> _Iterator[None]:
    """The profiler collects in this block, and no longer when it is left by an exception."""
    try:
        start()
        yield
    finally:
        stop()
