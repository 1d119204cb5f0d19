# What the stubs cannot learn from the module: types that C++ does not say, and the names that they
# need. A rule replaces everything of a name, with all its overloads. What is the same everywhere is
# left to finish_stubs.py.

# ---- Names for the stubs alone

^ember\._C\.__prefix__$:
    \from _typeshed import structseq
    \from collections.abc import Sequence
    \from numpy import generic
    \from numpy.typing import NDArray
    \from types import EllipsisType
    \from typing import Any, Literal, Protocol, SupportsIndex, final
    \from typing_extensions import CapsuleType, TypeAlias, TypeIs
    # What operators take beside a tensor.
    _Number: TypeAlias = complex | generic
    _Operand: TypeAlias = Tensor | _Number | NDArray[Any]

    # What a tensor is made of: numbers, in sequences of sequences. Not a type of itself, since str
    # is a sequence of str, and so on: it would be one of these.
    _Row: TypeAlias = Sequence[_Operand | list[Any] | tuple[Any, ...]]
    _Rows: TypeAlias = Sequence[_Operand | Sequence[_Operand | _Row]]
    _Data: TypeAlias = _Operand | Sequence[_Operand | _Rows]

    # What lies in x[...].
    _Item: TypeAlias = (
        SupportsIndex
        | slice
        | EllipsisType
        | Tensor
        | NDArray[Any]
        | Sequence[SupportsIndex]
        | Sequence[Sequence[SupportsIndex]]
        | None
    )
    _Index: TypeAlias = _Item | tuple[_Item, ...]

    class _SupportsDLPack(Protocol):
        def __dlpack__(self) -> Any: ...

    @final
    class _ValuesAndIndices(structseq[Tensor], tuple[Tensor, Tensor]):
        """What an operation found, and where."""

        @property
        def values(self) -> Tensor: ...

        @property
        def indices(self) -> Tensor: ...

^ember\._C\.__version__$:
    __version__: str

# ---- Exceptions, which say that they are ember's own

^ember\._C\.OutOfMemoryError$:
    class OutOfMemoryError(RuntimeError):
        \doc

^ember\._C\.AcceleratorError$:
    class AcceleratorError(RuntimeError):
        \doc
        error_code: int

^ember\._C\.cuda\.CudaError$:
    class CudaError(RuntimeError):
        \doc
        def __init__(self, code: int) -> None: ...

^ember\._C\.InvalidValueError$:
    class InvalidValueError(ValueError, RuntimeError):
        \doc

^ember\._C\.DeferredCudaCallError$:
    class DeferredCudaCallError(Exception):
        \doc

# ---- Sizes, devices, streams

^ember\._C\.Size$:
    class Size(tuple[int, ...]):
        """The sizes of a tensor: a tuple of ints."""

        def numel(self) -> int: ...
        @overload
        def __getitem__(self, key: SupportsIndex, /) -> int: ...
        @overload
        def __getitem__(self, key: slice, /) -> Size: ...
        def __add__(self, value: tuple[int, ...], /) -> Size: ...  # type: ignore[override]
        def __mul__(self, value: SupportsIndex, /) -> Size: ...
        def __rmul__(self, value: SupportsIndex, /) -> Size: ...

^ember\._C\.(?:device|cuda\.Stream)\.__(eq|ne)__$:
    def __\1__(self, other: object, /) -> bool: ...

^ember\._C\.device\.__reduce__$:
    def __reduce__(self) -> tuple[Any, ...]: ...

# False, and not bool: what a `with` block raises goes on.
\.__exit__$:
    \from typing import Literal
    def __exit__(self, type: object, value: object, traceback: object, /) -> Literal[False]: ...

^ember\._C\.cuda\.device_ctx_manager$:
    device_ctx_manager = device

^ember\._C\.cuda\.(Stream|Event)\._as_parameter_$:
    \from ctypes import c_void_p
    @property
    def _as_parameter_(self) -> c_void_p: ...

^ember\._C\.cuda\._host_function$:
    \from collections.abc import Callable
    def _host_function(function: Callable[[], object], stream: Stream | None = None) -> None:
        \doc

# ---- What operations return

# Only there to say why they are refused: type checkers are to find such calls.
^ember\._C\.Tensor\.__(init|delitem)__$:

^ember\._C\.Tensor\.(backward|grad|grad_fn|register_hook|retains?_grad)$:

^ember\._C\.Tensor\.item$:
    def item(self) -> int | float | bool:
        \doc

^ember\._C\.Tensor\.stride$:
    @overload
    def stride(self) -> tuple[int, ...]:
        \doc
    @overload
    def stride(self, dim: int) -> int: ...

^ember\._C\.Tensor\.type$:
    @overload
    def type(self, dtype: None = None, non_blocking: bool = False) -> str:
        \doc
    @overload
    def type(self, dtype: dtype | str | type, non_blocking: bool = False) -> Tensor: ...

^ember\._C\.Tensor\.nonzero$:
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor:
        \doc
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...

^ember\._C\.nonzero$:
    @overload
    def nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor:
        \doc
    @overload
    def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...

^ember\._C\.is_tensor$:
    def is_tensor(obj: object) -> TypeIs[Tensor]: ...

^ember\._C\._elementwise_ops$:
    def _elementwise_ops() -> list[dict[str, Any]]:
        \doc

# ---- Operators and indexing

^ember\._C\.Tensor\._Iterator\.__iter__$:
    def __iter__(self) -> Tensor._Iterator: ...

^ember\._C\.Tensor\.__getitem__$:
    def __getitem__(self, index: _Index, /) -> Tensor:
        \doc

^ember\._C\.Tensor\.__setitem__$:
    def __setitem__(self, index: _Index, value: _Data, /) -> None: ...

^ember\._C\.Tensor\.__(eq|ne)__$:
    def __\1__(self, other: _Operand, /) -> Tensor: ...  # type: ignore[override]

^ember\._C\.Tensor\.__(lt|le|gt|ge)__$:
    def __\1__(self, other: _Operand, /) -> Tensor: ...

# Arrays on the right, too: NumPy does what these leave to it, and makes tensors.
^ember\._C\.Tensor\.__(i?)(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|[lr]shift)__$:
    def __\1\2__(self, other: _Operand, /) -> Tensor: ...

^ember\._C\.Tensor\.__r(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|[lr]shift)__$:
    def __r\1__(self, other: Tensor | _Number, /) -> Tensor: ...

^ember\._C\.Tensor\.__matmul__$:
    def __matmul__(self, other: Tensor | NDArray[Any], /) -> Tensor: ...

# ---- What tensors are made from, and what they become elsewhere

^ember\._C\.tensor$:
    def tensor(data: _Data, *, dtype: dtype | None = None, device: device | int | str | None = None, pin_memory: bool = False) -> Tensor:
        \doc

^ember\._C\.Tensor\.new_tensor$:
    def new_tensor(self, data: _Data, *, dtype: dtype | None = None, device: device | int | str | None = None, pin_memory: bool = False) -> Tensor:
        \doc

^ember\._C\.as_tensor$:
    def as_tensor(data: _Data, dtype: dtype | None = None, device: device | int | str | None = None) -> Tensor:
        \doc

^ember\._C\.from_numpy$:
    def from_numpy(ndarray: NDArray[Any]) -> Tensor:
        \doc

^ember\._C\.from_dlpack$:
    def from_dlpack(ext_tensor: _SupportsDLPack | CapsuleType) -> Tensor:
        \doc

^ember\._C\.Tensor\.numpy$:
    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        \doc

^ember\._C\.Tensor\.__array__$:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...

^ember\._C\.Tensor\.__array_wrap__$:
    def __array_wrap__(self, array: NDArray[Any], context: object = None, return_scalar: bool = False) -> Tensor: ...

^ember\._C\.Tensor\.__cuda_array_interface__$:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        \doc

^ember\._C\._SharedMemory\.__array_interface__$:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

^ember\._C\.Tensor\.__getstate__$:
    def __getstate__(self) -> tuple[Any, ...]: ...

^ember\._C\.Tensor\.__setstate__$:
    def __setstate__(self, state: tuple[Any, ...], /) -> None: ...

# Named tuples, of which nanobind sees what they are made of.
^ember\._C\.return_types\.([a-z]\w*)$:
    \from ember._C import _ValuesAndIndices
    \1 = _ValuesAndIndices
