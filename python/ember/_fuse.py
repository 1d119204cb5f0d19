"""ember.fuse, which only wraps a call: what it does is done by the library (ember/fuse/)."""

import functools as _functools
import typing as _typing

from ember._C import _FusedCall

_Function = _typing.TypeVar("_Function", bound=_typing.Callable[..., _typing.Any])


@_typing.overload
def fuse(function: _Function, *, precise: bool = True) -> _Function:
    ...


@_typing.overload
def fuse(*, precise: bool = True) -> _typing.Callable[[_Function], _Function]:
    ...


def fuse(function: _typing.Any = None, *, precise: bool = True) -> _typing.Any:
    """A function whose element-wise operations, and reductions over the last dimensions or over all,
    are done by one kernel, compiled at its first call: a decorator, with and without arguments, or a
    call. Results have the bits of the operations one by one, except that reductions add up in an
    order of their own; with precise=False those of 16-bit floats are not rounded between operations.
    Other operations cut it into parts. RuntimeError for a function that asks for a tensor's value.
    docs/fuse.md."""
    if function is None:
        return _functools.partial(fuse, precise=precise)
    if not callable(function):
        raise TypeError(f"fuse: expected a function, got {type(function).__name__}")
    name = getattr(function, "__name__", "fused")

    @_functools.wraps(function)
    def fused(*args: _typing.Any, **kwargs: _typing.Any) -> _typing.Any:
        with _FusedCall(name, precise):
            return function(*args, **kwargs)

    return fused
