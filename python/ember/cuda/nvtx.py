"""Ranges and marks for profilers, such as Nsight Systems."""

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager
from typing import Protocol as _Protocol, Union as _Union, overload as _overload

from ember._C.cuda.nvtx import (Domain as _Domain, RegisteredString as RegisteredString,
                                is_compiled_in as is_compiled_in, mark as mark,
                                range_end as range_end, range_pop as range_pop,
                                range_push as range_push, range_start as range_start,
                                registered as registered)


class _Push(_Protocol):
    @_overload
    def __call__(self, msg: str) -> int: ...
    @_overload
    def __call__(self, msg: RegisteredString) -> int: ...


def _begin(push: _Push, msg: _Union[str, RegisteredString], args: tuple[object, ...],
           kwargs: dict[str, object]) -> None:
    if isinstance(msg, RegisteredString) and not args and not kwargs:
        push(msg)
    else:
        push(str(msg).format(*args, **kwargs))


class Domain(_Domain):
    """The ranges of one library or part of a program: stacks and categories of their own."""

    @_contextmanager
    def range(self, msg: _Union[str, RegisteredString], *args: object,
              **kwargs: object) -> _Iterator[None]:
        """A range for a with block, or as a decorator around each call of a function. The message
        is msg.format(*args, **kwargs), or a registered string."""
        _begin(self.range_push, msg, args, kwargs)
        try:
            yield
        finally:
            self.range_pop()


@_contextmanager
def range(msg: _Union[str, RegisteredString], *args: object, **kwargs: object) -> _Iterator[None]:
    """A range for a with block, or as a decorator around each call of a function. The message is
    msg.format(*args, **kwargs), or a registered string."""
    _begin(range_push, msg, args, kwargs)
    try:
        yield
    finally:
        range_pop()
