"""How tensors and events travel between processes: as described bytes, never as code.

A tensor is the handle of its storage, its dtype, sizes, strides, offset and device. A storage is sent
once in each message, so that views of it arrive as views of one storage. Other objects in a message
are Python's own pickling.
"""

from __future__ import annotations

import multiprocessing.process
import os
import threading
import time
import typing
import weakref
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler

import ember._C.cuda as _cuda
from ember import _C

# Seconds that the end of a child waits for what it sent to be received. A receiver that hardly gets a
# core, on a machine where others have them all, was seen to take more than 5.
LINGER = 30.0


class _Message(threading.local):
    """What the calling thread is pickling."""

    def __init__(self) -> None:
        # The pickler keeps what it has seen until the message is done, and nobody else does.
        self.storages: weakref.WeakValueDictionary[int, SentStorage] = weakref.WeakValueDictionary()
        self.handles: list[bytes] | None = None


class SentStorage:
    """A storage in a message: one object for all tensors over it."""

    def __init__(self, storage: typing.Any, original: typing.Any) -> None:
        self.storage = storage
        self.original = original  # the tensor, so that the address of its storage stays its own

    def __reduce__(self) -> typing.Any:
        return receive, (send(self.storage),)


_message = _Message()
# What was sent in the start of a process. By reference to what started it: that of a start which failed
# is gone, that of others lives as long as their processes.
_for_child: list[tuple[weakref.ref[typing.Any], bytes]] = []
_has_sent = False


def send(storage: typing.Any) -> bytes:
    """The handle of a storage, noted for what has to be done if nobody receives it."""
    global _has_sent
    handle = _C._ipc_send(storage)
    _has_sent = True
    if _message.handles is not None:
        _message.handles.append(handle)
    child = get_spawning_popen()
    if child is not None:
        _for_child.append((weakref.ref(child), handle))
    return handle


def receive(handle: bytes) -> typing.Any:
    """The storage of a handle. RuntimeError if there is none any more."""
    return _C._ipc_receive(handle)


def reduce_tensor(tensor: typing.Any) -> typing.Any:
    """What a tensor is in a message."""
    attributes = getattr(tensor, "__dict__", None) or None
    if tensor.numel() == 0:
        return rebuild_tensor, (None, *_C._ipc_described(tensor), attributes)
    key = _C._ipc_storage_key(tensor)
    sent = _message.storages.get(key)
    if sent is None:
        sent = _message.storages[key] = SentStorage(_C._ipc_storage(tensor), tensor)
    return rebuild_tensor, (sent, *_C._ipc_described(tensor), attributes)


def rebuild_tensor(storage: typing.Any, dtype: typing.Any, size: typing.Any, stride: typing.Any,
                   storage_offset: int, device: str, attributes: typing.Any) -> typing.Any:
    """The tensor again. The view is checked against the storage."""
    tensor = _C._ipc_rebuilt(storage, dtype, size, stride, storage_offset, device)
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor


def reduce_event(event: typing.Any) -> typing.Any:
    """What an event is in a message: its device and its handle."""
    handle = event.ipc_handle()
    return rebuild_event, (event.device.index, handle)


def rebuild_event(device: int, handle: bytes) -> typing.Any:
    """The event, opened in this process."""
    return _cuda.Event.from_ipc_handle(device, handle)


def dumps(obj: object) -> tuple[memoryview, list[bytes]]:
    """A message, and the handles in it: to be withdrawn if it is not sent. There are none if this fails."""
    outer, _message.handles = _message.handles, []
    try:
        return ForkingPickler.dumps(obj), _message.handles
    except BaseException:
        withdraw(_message.handles)
        raise
    finally:
        _message.handles = outer


def withdraw(handles: list[bytes]) -> None:
    """Nobody will receive these."""
    for handle in handles:
        _C._ipc_withdraw(handle)


def send_object(connection: Connection, obj: object) -> None:
    """Connection.send; what the message holds is withdrawn if that fails."""
    connection._check_closed()  # type: ignore[attr-defined]
    connection._check_writable()  # type: ignore[attr-defined]
    message, handles = dumps(obj)
    try:
        connection._send_bytes(message)  # type: ignore[attr-defined]
    except BaseException:
        withdraw(handles)
        raise


def _is_over(starting: weakref.ref[typing.Any]) -> bool:
    """Whether a process has ended, or was never started."""
    child = starting()
    if child is None:
        return True
    return getattr(child, "pid", None) is not None and child.poll() is not None


def collect() -> None:
    """Gives up what was sent and can no longer be received: with the start of a process that has
    ended, or could not be started; and everything, if this process has no living child and was not
    started by another one."""
    for sent in list(_for_child):
        if _is_over(sent[0]):
            _for_child.remove(sent)
            _C._ipc_withdraw(sent[1])
    if multiprocessing.process.parent_process() is None and not multiprocessing.active_children():
        _C._ipc_withdraw_all()


def _linger() -> None:
    """A child's end waits until what it sent was received, and the work before it is done, or its
    parent has ended."""
    parent = multiprocessing.process.parent_process()
    if parent is None or not _has_sent:
        return
    until = time.monotonic() + LINGER
    while ((_C._ipc_unreceived() > 0 or _C._ipc_undone()) and time.monotonic() < until
           and parent.is_alive()):
        time.sleep(0.005)
    _C._ipc_end()


def _linger_at_end() -> None:
    # After the threads of queues, and before multiprocessing's folder goes, with the sockets in it.
    util.Finalize(None, _linger, exitpriority=-99)


# Not with the first tensor sent: the thread of a queue may send it when the end has begun, and an end
# that has begun takes up nothing more. What was forked has forgotten what is to be done at its end.
_linger_at_end()
util.register_after_fork(_linger, lambda _: _linger_at_end())

# Pools and managers send by it, too, and nothing tells them apart from pipes.
Connection.send = send_object  # type: ignore[assignment, method-assign]
ForkingPickler.register(_C.Tensor, reduce_tensor)
ForkingPickler.register(_cuda.Event, reduce_event)
