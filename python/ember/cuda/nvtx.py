"""Ranges and marks for profilers, such as Nsight Systems."""

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

from ember._C.cuda.nvtx import (Domain as _Domain, is_compiled_in as is_compiled_in, mark as mark,
                                range_end as range_end, range_pop as range_pop,
                                range_push as range_push, range_start as range_start)


class Domain(_Domain):
    """The ranges of one library or part of a program: stacks and categories of their own."""

    @_contextmanager
    def range(self, msg: str, *args: object, **kwargs: object) -> _Iterator[None]:
        """A range for a with block, or as a decorator around each call of a function. The message
        is msg.format(*args, **kwargs)."""
        self.range_push(msg.format(*args, **kwargs))
        try:
            yield
        finally:
            self.range_pop()


@_contextmanager
def range(msg: str, *args: object, **kwargs: object) -> _Iterator[None]:
    """A range for a with block, or as a decorator around each call of a function. The message is
    msg.format(*args, **kwargs)."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
