"""Work that is captured once and replayed often."""

import gc as _gc
from types import TracebackType as _TracebackType
from typing import Optional as _Optional, Tuple as _Tuple, Type as _Type

import ember._C.cuda as _native
from ember._C import _refuse_name
from ember._C.cuda import (CUDAGraph as CUDAGraph, _default_capture_stream, _host_empty_cache,
                           empty_cache as _empty_cache, graph_pool_handle as graph_pool_handle,
                           is_current_stream_capturing as is_current_stream_capturing,
                           stream as _stream, synchronize as _synchronize)


class graph:
    """In a with block, the thread's work is captured into a CUDAGraph instead of being done.

    stream: where it is captured; without one, on a side stream that all uses share
    (``default_capture_stream``). pool and capture_error_mode: as of CUDAGraph.capture_begin. An
    exception out of the block ends the capture, and leaves no graph."""

    default_capture_stream: _Optional[_native.Stream] = None

    def __init__(self, cuda_graph: CUDAGraph, pool: _Optional[_Tuple[int, int]] = None,
                 stream: _Optional[_native.Stream] = None, capture_error_mode: str = "global") -> None:
        if stream is None:
            stream = graph.default_capture_stream = _default_capture_stream()
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode
        self.stream_ctx = _stream(stream)

    def __enter__(self) -> None:
        _synchronize()
        _gc.collect()  # what is garbage now must not be freed in the middle of the capture
        _empty_cache()
        _host_empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, exc_type: _Optional[_Type[BaseException]],
                 exc_value: _Optional[BaseException],
                 traceback: _Optional[_TracebackType]) -> None:
        try:
            self.cuda_graph.capture_end()
        except RuntimeError:
            if exc_type is None:
                raise
            # The exception out of the block is why; it goes on.
        else:
            if exc_type is not None:
                self.cuda_graph.reset()
        finally:
            self.stream_ctx.__exit__(None, None, None)


# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda.graphs", name)
