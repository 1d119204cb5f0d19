"""What torch calls a stream and an event of whatever accelerator there is: here it is always CUDA's."""

import abc
import typing

from ember._C import device as _device
from ember._C.cuda import Event as _CudaEvent, Stream as _CudaStream

_Place = typing.Union[_device, str, int, None]


class Stream(abc.ABC):
    """The class that ``cuda.Stream`` is one of. Making one makes a ``cuda.Stream``, with
    ``stream_id``, ``device_index`` and ``device_type`` of a stream that there is."""

    def __new__(cls, device: _Place = None, *,  # type: ignore[misc]
                priority: "int | None" = None, stream_id: "int | None" = None,
                device_index: "int | None" = None,
                device_type: "int | None" = None) -> _CudaStream:
        return _CudaStream(device, priority, stream_id=stream_id, device_index=device_index,
                           device_type=device_type)


class Event(abc.ABC):
    """The class that ``cuda.Event`` is one of. Making one makes a ``cuda.Event``, which belongs to
    the device of the stream that first records it; ``device`` says the kind of device alone."""

    def __new__(cls, device: _Place = None, *, enable_timing: bool = False,  # type: ignore[misc]
                blocking: bool = False, interprocess: bool = False) -> _CudaEvent:
        if device is not None and not isinstance(device, int) and _device(device).type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        return _CudaEvent(enable_timing, blocking, interprocess)


Stream.register(_CudaStream)
Event.register(_CudaEvent)
