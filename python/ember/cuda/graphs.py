"""Work that is captured once and replayed often."""

import functools as _functools
import gc as _gc
from collections import OrderedDict as _OrderedDict
from enum import Enum as _Enum
from types import MethodType as _MethodType, TracebackType as _TracebackType
from typing import (Any as _Any, Callable as _Callable, List as _List, Optional as _Optional,
                    Tuple as _Tuple, Type as _Type)

import ember._C as _core
import ember._C.cuda as _native
from ember._C import _refuse_name
from ember._C.cuda import (CUDAGraph as CUDAGraph, _default_capture_stream, _host_empty_cache,
                           _make_graphed_callables, empty_cache as _empty_cache, graph_pool_handle as graph_pool_handle,
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
            self.cuda_graph._abandon_capture()
            if exc_type is None:
                raise
            # The exception out of the block is why; it goes on.
        else:
            if exc_type is not None:
                self.cuda_graph.reset()
        finally:
            self.stream_ctx.__exit__(None, None, None)


def _constant(leaf: _Any) -> _Any:
    """A part of a signature. Numbers that are equal are not the same: 1, 1.0, True; 0.0, -0.0."""
    if isinstance(leaf, _core.Tensor):
        return None
    hash(leaf)
    return (type(leaf), repr(leaf) if isinstance(leaf, (float, complex)) else leaf)


def _is_sequence(kind: type) -> bool:
    """Whether it can be made anew of its parts, as classes of a program's own may not be."""
    return kind in (tuple, list) or issubclass(kind, tuple) and (hasattr(kind, "_fields")
                                                                 or hasattr(kind, "n_fields"))


def _flatten(tree: _Any, leaves: _List[_Any]) -> _Any:
    """What a tuple, list or dict is made of, with its innermost parts put into leaves."""
    kind = type(tree)
    if kind in (dict, _OrderedDict):
        return (kind, [(_constant(key), key) for key in tree],
                [_flatten(part, leaves) for part in tree.values()])
    if _is_sequence(kind):
        return (kind, None, [_flatten(part, leaves) for part in tree])
    leaves.append(tree)
    return None


def _unflatten(form: _Any, leaves: _Any) -> _Any:
    if form is None:
        return next(leaves)
    kind, keys, forms = form
    parts = [_unflatten(part, leaves) for part in forms]
    if keys is not None:
        return kind(zip([key for _, key in keys], parts))
    return kind._make(parts) if hasattr(kind, "_fields") else kind(parts)


class _Graphed:
    """One of make_graphed_callables' functions: how its arguments and results are nested."""

    def __init__(self, function: _Callable[..., _Any], sample_args: _Tuple[_Any, ...]) -> None:
        self.function = function
        self.samples: _List[_core.Tensor] = []
        self.arguments = _flatten(tuple(sample_args), self.samples)
        self.results: _Any = None
        self.graphed: _Any = None
        assert all(isinstance(sample, _core.Tensor) for sample in self.samples), (
            "In the beta API, sample_args for each callable must contain only Tensors. "
            "Other types are not allowed.")

    def call(self, leaves: _List[_core.Tensor]) -> _List[_core.Tensor]:
        results: _List[_Any] = []
        self.results = _flatten(self.function(*_unflatten(self.arguments, iter(leaves))), results)
        for result in results:
            if not isinstance(result, _core.Tensor):
                raise TypeError("make_graphed_callables: callables must return tensors, or tuples, "
                                f"lists and dicts of them, got {type(result).__name__}")
        return results

    def __call__(self, *args: _Any) -> _Any:
        leaves: _List[_Any] = []
        if _flatten(args, leaves) != self.arguments:
            raise TypeError("a graphed callable takes arguments like its sample_args: "
                            f"{len(self.samples)} tensors, nested as there; got {len(leaves)}")
        return _unflatten(self.results, iter(self.graphed(leaves)))


def make_graphed_callables(callables: _Any, sample_args: _Any, num_warmup_iters: int = 3,
                           allow_unused_input: bool = False,
                           pool: _Optional[_Tuple[int, int]] = None) -> _Any:
    """Functions of tensors as graphs: each is called num_warmup_iters times with its sample
    arguments, and captured, in order.

    callables: a function, with a tuple of arguments as sample_args, or a tuple of functions, with
    a tuple of such tuples. Gives as many functions, to be called in the same order and never at
    once, with arguments like the samples: those that lie elsewhere are copied to the samples'
    memory. Results lie in the same memory each time. There are no gradients yet, which
    allow_unused_input is about. Raises what a function raises; AssertionError for samples that
    are no tensors."""
    alone = not isinstance(callables, tuple)
    if alone:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"make_graphed_callables: there are {len(callables)} callables and "
                         f"sample_args for {len(sample_args)}")
    made = [_Graphed(function, args) for function, args in zip(callables, sample_args)]
    _gc.collect()  # what is garbage now must not be freed in the middle of a capture
    graphed = _make_graphed_callables([each.call for each in made], [each.samples for each in made],
                                      num_warmup_iters, pool)
    for each, native in zip(made, graphed):
        each.graphed = native
    return made[0] if alone else tuple(made)


# What a function may give beside tensors: a replay gives it once more, and no tensor is hidden in it.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, _core.dtype, _core.device,
          _core.Size)


class _GraphedFunction:
    """What graphed makes of a function."""

    def __init__(self, function: _Callable[..., _Any], max_graphs: int, copy: bool) -> None:
        if not callable(function):
            raise TypeError(f"graphed: function: expected something to call, got {type(function).__name__}")
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self._function = function
        self._calls = _native._GraphedCalls(max_graphs, copy, name, _gc.collect)
        _functools.update_wrapper(self, function)

    def __get__(self, instance: _Any, owner: _Any = None) -> _Any:
        return self if instance is None else _MethodType(self, instance)

    def __call__(self, *args: _Any, **kwargs: _Any) -> _Any:
        leaves: _List[_Any] = []
        form = _flatten((args, kwargs), leaves)
        refusal, signature = "", None
        try:
            for leaf in leaves:  # tensors may be in it, and == of two such is none
                if isinstance(leaf, tuple) and not isinstance(leaf, _core.Size):
                    raise TypeError(f"and {type(leaf).__name__} is a tuple of a class of its own")
            signature = (form, tuple([_constant(leaf) for leaf in leaves]))
        except TypeError as error:
            refusal = f"an argument that is no tensor has to be hashable, {error}"

        as_it_is: _List[_Any] = []  # what the function gave when it was called, and not captured

        def run(tensors: _List[_core.Tensor], captured: bool) -> _Tuple[_List[_core.Tensor], _Any, str]:
            others = iter(tensors)
            given = [next(others) if isinstance(leaf, _core.Tensor) else leaf for leaf in leaves]
            # A capture has what replays read, in containers of its own.
            given_args, given_kwargs = _unflatten(form, iter(given)) if captured else (args, kwargs)
            results: _List[_Any] = []
            result = self._function(*given_args, **given_kwargs)
            form_of_results = _flatten(result, results)
            unfit = ""
            if not captured:
                as_it_is[:] = [result]
            if captured:
                after: _List[_Any] = []
                if _flatten((given_args, given_kwargs), after) != form or len(after) != len(given) or any(
                        one is not other for one, other in zip(after, given)):
                    unfit = "it changes a list or dict that it is given"
                for leaf in results:
                    if not (isinstance(leaf, (_core.Tensor, _Enum)) or type(leaf) in _PLAIN):
                        unfit = f"a result is of {type(leaf).__name__}, in which tensors may be"
            constants = [None if isinstance(leaf, _core.Tensor) else (leaf,) for leaf in results]
            return ([leaf for leaf in results if isinstance(leaf, _core.Tensor)],
                    (form_of_results, constants), unfit)

        tensors, (form_of_results, constants) = self._calls(
            run, [leaf for leaf in leaves if isinstance(leaf, _core.Tensor)], signature, refusal)
        if as_it_is:
            return as_it_is[0]
        results = iter(tensors)
        return _unflatten(form_of_results, iter([next(results) if each is None else each[0]
                                                 for each in constants]))

    def clear(self) -> None:
        """Forgets all graphs and signatures."""
        self._calls.clear()


def graphed(function: _Optional[_Callable[..., _Any]] = None, *, max_graphs: int = 8,
            copy: bool = True) -> _Any:
    """Makes a function whose calls become replays of graphs by themselves; also a decorator, with
    and without arguments.

    For each signature (dtypes, shapes, strides and devices of tensor arguments, which may be nested
    in tuples, lists and dicts, and the values of the others, which have to be hashable) the first
    call is the function's, the second one captures it, and later ones replay. max_graphs: how many
    graphs there are at most; the one used least recently goes. copy: whether results are copied out
    of the graph's memory; without, the next call of the function overwrites them, whatever its
    arguments. Where there can be no graph the function is called, and a warning says why, once.
    ValueError for a max_graphs below 1. docs/graphs.md says what a function has to keep to."""
    if function is None:
        return lambda decorated: graphed(decorated, max_graphs=max_graphs, copy=copy)
    return _GraphedFunction(function, max_graphs, copy)


# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.cuda.graphs", name)
