"""The typed classes of old programs, such as ``FloatTensor``: for `isinstance`, and as what
`Tensor.type` takes. They make no tensors."""

import typing as _typing

import ember._C as _C


class _Typed(type):
    dtype: _C.dtype
    is_cuda: bool

    def __instancecheck__(cls, instance: object) -> bool:
        return (isinstance(instance, _C.Tensor) and instance.dtype == cls.dtype
                and instance.is_cuda == cls.is_cuda)

    def __call__(cls, *args: object, **kwargs: object) -> _typing.NoReturn:
        device = ", device='cuda'" if cls.is_cuda else ""
        raise TypeError(f"{cls.__module__}.{cls.__name__} is a type, and no function that makes tensors: "
                        f"ember.empty(2, 3, dtype={cls.dtype}{device}) makes one of these sizes, "
                        f"ember.tensor([1, 2], dtype={cls.dtype}{device}) one of these elements")


def _typed(name: str, dtype: _C.dtype, is_cuda: bool = False) -> _Typed:
    module = "torch.cuda" if is_cuda else "torch"
    return _Typed(name, (), {"__module__": module, "__doc__": f"Tensors of {dtype}.", "dtype": dtype,
                             "is_cuda": is_cuda})


BFloat16Tensor: _Typed = _typed("BFloat16Tensor", _C.bfloat16)
BoolTensor: _Typed = _typed("BoolTensor", _C.bool_)
ByteTensor: _Typed = _typed("ByteTensor", _C.uint8)
CharTensor: _Typed = _typed("CharTensor", _C.int8)
DoubleTensor: _Typed = _typed("DoubleTensor", _C.float64)
FloatTensor: _Typed = _typed("FloatTensor", _C.float32)
HalfTensor: _Typed = _typed("HalfTensor", _C.float16)
IntTensor: _Typed = _typed("IntTensor", _C.int32)
LongTensor: _Typed = _typed("LongTensor", _C.int64)
ShortTensor: _Typed = _typed("ShortTensor", _C.int16)
