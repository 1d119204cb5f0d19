"""Several processes that run one function, and end together."""

from __future__ import annotations

import multiprocessing.connection as _connection
import os as _os
import signal as _signal
import time as _time
import traceback as _traceback
import typing as _typing
import warnings as _warnings

from ember import _C

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
           "SpawnContext", "spawn", "start_processes"]


class ProcessException(Exception):
    """A process failed: ``error_index`` is its number, ``pid`` the system's."""

    def __init__(self, msg: str, error_index: int, pid: int | None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = self.error_pid = pid

    def __reduce__(self) -> _typing.Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the text has the traceback of that process."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """The process ended by a signal (``signal_name``) or with an ``exit_code`` that is not 0."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None, exit_code: int,
                 signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> _typing.Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: _typing.Callable[..., object], i: int, args: tuple[_typing.Any, ...],
         errors: _typing.Any, parent: int) -> None:
    """In the process."""
    _C._end_with_parent(parent)
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has it, too
    except Exception:
        errors.send_bytes(_traceback.format_exc().encode("utf-8", "backslashreplace"))
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[_typing.Any], errors: list[_typing.Any]) -> None:
        self.processes = processes
        self._errors = errors
        self._running = dict(enumerate(processes))
        self._texts: dict[int, str] = {}  # the errors that arrived

    def pids(self) -> list[int]:
        """The system's numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one of those that run has ended or raised, or for so many seconds; True if
        all have ended. When one fails, the others are ended (killed, if they still run after
        grace_period seconds, 30 by default), and this raises ProcessRaisedException or
        ProcessExitedException."""
        deadline = None if timeout is None else _time.monotonic() + timeout
        ended: list[int] = []
        raised: list[int] = []
        while self._running and not ended and not raised:
            left = None if deadline is None else max(0.0, deadline - _time.monotonic())
            waited: dict[_typing.Any, int] = {process.sentinel: i
                                              for i, process in self._running.items()}
            # A traceback may be too long for the pipe: its process ends when it has been read. And
            # the end takes long where something was sent that nobody has received.
            pipes = {self._errors[i]: i for i in self._running if i not in self._texts}
            ready = _connection.wait([*waited, *pipes], left)
            if not ready:
                break
            for each in ready:
                if each not in pipes:
                    ended.append(waited[each])
                elif self._read(pipes[each]):
                    raised.append(pipes[each])
        for i in ended:
            self._running.pop(i).join()
        failed = raised + [i for i in ended if self.processes[i].exitcode != 0]
        if failed:
            self._end(grace_period)
            self._raise(failed[0])
        return not self._running

    def _read(self, i: int) -> str:
        """The error of a process; empty if it ends without one, or was killed in the middle."""
        try:
            self._texts[i] = self._errors[i].recv_bytes().decode("utf-8")
        except (EOFError, OSError):
            self._texts[i] = ""
        return self._texts[i]

    def _end(self, grace_period: float | None) -> None:
        for process in self._running.values():
            process.terminate()
        deadline = _time.monotonic() + (30.0 if grace_period is None else grace_period)
        for process in self._running.values():
            process.join(max(0.0, deadline - _time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._running.clear()

    def _raise(self, i: int) -> _typing.NoReturn:
        process = self.processes[i]
        if i not in self._texts and self._errors[i].poll():
            self._read(i)
        if self._texts.get(i):
            raise ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{self._texts[i]}", i,
                process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = _signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(f"process {i} terminated with signal {name}", i,
                                         process.pid, code, name)
        raise ProcessExitedException(f"process {i} terminated with exit code {code}", i,
                                     process.pid, code)


class SpawnContext(ProcessContext):
    """What spawn() returns."""


def start_processes(fn: _typing.Callable[..., object], args: tuple[_typing.Any, ...] = (),
                    nprocs: int = 1, join: bool = True, daemon: bool = False,
                    start_method: str = "spawn") -> ProcessContext | None:
    """Starts nprocs processes that call fn(i, *args), i from 0 on. With join it waits for them and
    returns None, and raises what ProcessContext.join does; else it returns that."""
    import ember.multiprocessing as here

    context: _typing.Any = here.get_context(start_method)
    served = start_method == "forkserver"  # whose processes have the server for a parent
    errors, processes = [], []
    try:
        for i in range(nprocs):
            receive, send = context.Pipe(duplex=False)
            errors.append(receive)
            process = context.Process(target=_run, daemon=daemon,
                                      args=(fn, i, args, send, 0 if served else _os.getpid()))
            process.start()
            processes.append(process)
            send.close()
    except BaseException:
        ProcessContext(processes, errors)._end(None)
        raise
    started = SpawnContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn: _typing.Callable[..., object], args: tuple[_typing.Any, ...] = (), nprocs: int = 1,
          join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> ProcessContext | None:
    """start_processes by the method "spawn". Other ones are for start_processes."""
    if start_method != "spawn":
        _warnings.warn(f"spawn: start_method={start_method!r} has no effect, processes are spawned; "
                       "start_processes takes other methods", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
