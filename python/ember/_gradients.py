"""What torch has for gradients. There are none, so nothing has to be turned off."""

from typing import Any, Callable, Optional, TypeVar, Union, overload

_F = TypeVar("_F", bound=Callable[..., Any])


class _WithoutGradients:
    """A with statement, or a decorator, that changes nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        pass

    def __call__(self, function: _F) -> _F:
        return function


@overload
def no_grad() -> _WithoutGradients: ...
@overload
def no_grad(orig_func: _F) -> _F: ...
def no_grad(orig_func: Optional[_F] = None) -> Union[_WithoutGradients, _F]:
    """For ``with`` and as a decorator. Changes nothing: ember computes no gradients."""
    return _WithoutGradients() if orig_func is None else orig_func


@overload
def inference_mode(mode: bool = True) -> _WithoutGradients: ...
@overload
def inference_mode(mode: _F) -> _F: ...
def inference_mode(mode: Union[bool, _F] = True) -> Union[_WithoutGradients, _F]:
    """The same as ``no_grad``."""
    return _WithoutGradients() if isinstance(mode, bool) else mode


enable_grad = no_grad  # which changes nothing either: tensors cannot ask for gradients


def set_grad_enabled(mode: bool) -> _WithoutGradients:
    """As a call, for ``with`` and as a decorator. Changes nothing, either way."""
    if not isinstance(mode, bool):
        raise TypeError(f"mode is {mode!r}, expected a bool")
    return _WithoutGradients()


def is_grad_enabled() -> bool:
    """False: ember computes no gradients."""
    return False
