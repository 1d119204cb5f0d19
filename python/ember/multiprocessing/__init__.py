"""The standard multiprocessing module, with queues, pipes and pools that send tensors.

Tensors of the CPU and of devices arrive as the same memory, not as copies; a tensor of the CPU that
is not shared (``share_memory_``) is copied to shared memory when it is sent. What a message holds
besides tensors and events is pickled by Python: receive only from processes that you trust.

Children see the devices that this process sees, also after ``ember.cuda.simulate``. Simulated ones
are those of one machine: what a child holds of a device, this process does not get. Use the start
methods "spawn" or "forkserver" with devices: a child that is forked after their first use cannot use
them.
"""

from __future__ import annotations

import multiprocessing as _standard
import multiprocessing.context as _context
import multiprocessing.queues as _queues
import pickle as _pickle
import typing as _typing
from multiprocessing import *  # pyright: ignore[reportAssignmentType]

import ember._C.cuda as _cuda
from ember import _C
from ember.multiprocessing import reductions
from ember.multiprocessing.spawn import (ProcessContext as ProcessContext,
                                         ProcessExitedException as ProcessExitedException,
                                         ProcessRaisedException as ProcessRaisedException,
                                         SpawnContext as SpawnContext, spawn as spawn,
                                         start_processes as start_processes)


class Lease(_typing.NamedTuple):
    """A process's use of another one's memory."""

    granted: bool  # this process owns the memory; else it uses another's
    process: int  # the other process
    device: str
    bytes: int
    failed: bool  # the owner ended before the work was done that was to write the memory


def leases() -> list[Lease]:
    """Who holds what: all leases that this process granted, and all that it has."""
    return [Lease(*lease) for lease in _C._ipc_leases()]


_strategies = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names that set_sharing_strategy takes."""
    return set(_strategies)


def set_sharing_strategy(new_strategy: str) -> None:
    """Has no effect: tensors of the CPU share a few files without a name, however many they are, so
    that neither descriptors nor names run out."""
    global _strategy
    if new_strategy not in _strategies:
        raise AssertionError(f"new_strategy: expected one of {sorted(_strategies)}, got "
                             f"{new_strategy!r}")
    _strategy = new_strategy


def get_sharing_strategy() -> str:
    """What set_sharing_strategy was given."""
    return _strategy


class _Pickled:
    """An object that was pickled when it was put into a queue; it arrives as the object."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> _typing.Any:
        return _pickle.loads, (self.data,)


class _PicklesInPut:
    """Tensors are sent as they are when put() is called, and in the order of the caller's current
    stream. The standard queues pickle later, on a thread of their own."""

    def put(self, obj: object, block: bool = True, timeout: float | None = None) -> None:
        data, handles = reductions.dumps(obj)
        try:
            super().put(_Pickled(bytes(data)), block, timeout)  # type: ignore[misc]
        except BaseException:
            reductions.withdraw(handles)
            raise


class _Queue(_PicklesInPut, _queues.Queue):  # type: ignore[type-arg]
    pass


class _SimpleQueue(_queues.SimpleQueue):  # type: ignore[type-arg]
    """What is in a message that cannot be put is withdrawn. Of pools, too."""

    def put(self, obj: object) -> None:
        data, handles = reductions.dumps(obj)
        try:
            super().put(_Pickled(bytes(data)))
        except BaseException:
            reductions.withdraw(handles)
            raise


class _JoinableQueue(_PicklesInPut, _queues.JoinableQueue):  # type: ignore[type-arg]
    pass


def _start_on(machine: _typing.Any, function: _typing.Any, arguments: _typing.Any) -> _typing.Any:
    """In a child, before anything that may hold a tensor is unpickled."""
    if machine is not None:
        _cuda._join_machine(machine)
    return function(*arguments)


class _SameMachine:
    """A process that sees the devices of the one that started it: simulated ones are those of one
    machine, on which both have a part."""

    def __reduce_ex__(self, protocol: _typing.Any) -> _typing.Any:
        reduced: _typing.Any = super().__reduce_ex__(protocol)
        function, arguments, *rest = reduced
        return (_start_on, (_cuda._share_machine(), function, arguments), *rest)

    def _bootstrap(self, parent_sentinel: _typing.Any = None) -> _typing.Any:
        try:
            return super()._bootstrap(parent_sentinel)  # type: ignore[misc]
        finally:
            _cuda._leave_machine()  # what is forked ends by os._exit


class _Context:
    """What the contexts here have that the standard ones do not."""

    def get_context(self, method: str | None = None) -> _typing.Any:
        """The context of a start method; this one by default."""
        if method is None:
            return self
        try:
            return _contexts[method]
        except KeyError:
            raise ValueError(f"cannot find context for {method!r}") from None

    def Queue(self, maxsize: int = 0) -> _typing.Any:
        """A queue shared between processes."""
        return _Queue(maxsize, ctx=self.get_context())

    def SimpleQueue(self) -> _typing.Any:
        """A queue without limits and without a thread of its own."""
        return _SimpleQueue(ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> _typing.Any:
        """The same with task_done() and join()."""
        return _JoinableQueue(maxsize, ctx=self.get_context())


class ForkProcess(_SameMachine, _context.ForkProcess):
    """A process that is forked."""

    @staticmethod
    def _Popen(process_obj: _typing.Any) -> _typing.Any:
        _cuda._share_machine()  # before the fork, by which the child knows it
        return _context.ForkProcess._Popen(process_obj)


class SpawnProcess(_SameMachine, _context.SpawnProcess):
    """A process that starts anew."""


class ForkServerProcess(_SameMachine, _context.ForkServerProcess):
    """A process that a server forks, which has used no device."""


class Process(_SameMachine, _context.Process):  # type: ignore[no-redef]
    """A process of the start method that was chosen."""

    @staticmethod
    def _Popen(process_obj: _typing.Any) -> _typing.Any:
        return _default.get_context().Process._Popen(process_obj)

    @staticmethod
    def _after_fork() -> _typing.Any:
        return _default.get_context().Process._after_fork()


class _ForkContext(_Context, _context.ForkContext):
    Process = ForkProcess


class _SpawnContext(_Context, _context.SpawnContext):
    Process = SpawnProcess


class _ForkServerContext(_Context, _context.ForkServerContext):
    Process = ForkServerProcess


class _DefaultContext(_Context, _context.BaseContext):
    """Of the start method that was chosen, here or in the standard module: that is one choice."""

    Process = Process

    def get_context(self, method: str | None = None) -> _typing.Any:
        return super().get_context(method or self.get_start_method())

    def set_start_method(self, method: _typing.Any, force: bool = False) -> None:
        _standard.set_start_method(method, force)

    def get_start_method(self, allow_none: bool = False) -> _typing.Any:
        return _standard.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        """The start methods that there are, the default one first."""
        return _standard.get_all_start_methods()


_contexts = {"fork": _ForkContext(), "spawn": _SpawnContext(), "forkserver": _ForkServerContext()}
_default = _DefaultContext()

__all__ = [name for name in dir(_default) if not name.startswith("_")]
globals().update((name, getattr(_default, name)) for name in __all__)
__all__ += ["Lease", "ProcessContext", "ProcessExitedException", "ProcessRaisedException",
            "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "leases",
            "reductions", "set_sharing_strategy", "spawn", "start_processes"]

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _C._refuse_name("ember.multiprocessing", name)
