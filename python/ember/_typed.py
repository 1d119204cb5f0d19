"""The typed classes of old programs, such as ``FloatTensor``: for `isinstance`, and as what
`Tensor.type` takes. They make no tensors."""

import typing as _typing

from ember._C import (Tensor as _Tensor, bfloat16 as _bfloat16, bool_ as _bool, dtype as _dtype,
                      float16 as _float16, float32 as _float32, float64 as _float64,
                      int8 as _int8, int16 as _int16, int32 as _int32, int64 as _int64,
                      uint8 as _uint8)


class _Typed(type):
    dtype: _dtype
    is_cuda: bool

    def __instancecheck__(cls, instance: object) -> bool:
        return (isinstance(instance, _Tensor) and instance.dtype == cls.dtype
                and instance.is_cuda == cls.is_cuda)

    def __call__(cls, *args: object, **kwargs: object) -> _typing.NoReturn:
        device = ", device='cuda'" if cls.is_cuda else ""
        raise TypeError(f"{cls.__module__}.{cls.__name__} is a type, and no function that makes tensors: "
                        f"ember.empty(2, 3, dtype={cls.dtype}{device}) makes one of these sizes, "
                        f"ember.tensor([1, 2], dtype={cls.dtype}{device}) one of these elements")


def _typed(name: str, dtype: _dtype, is_cuda: bool = False) -> _Typed:
    module = "torch.cuda" if is_cuda else "torch"
    return _Typed(name, (), {"__module__": module, "__doc__": f"Tensors of {dtype}.", "dtype": dtype,
                             "is_cuda": is_cuda})


BFloat16Tensor = _typed("BFloat16Tensor", _bfloat16)
BoolTensor = _typed("BoolTensor", _bool)
ByteTensor = _typed("ByteTensor", _uint8)
CharTensor = _typed("CharTensor", _int8)
DoubleTensor = _typed("DoubleTensor", _float64)
FloatTensor = _typed("FloatTensor", _float32)
HalfTensor = _typed("HalfTensor", _float16)
IntTensor = _typed("IntTensor", _int32)
LongTensor = _typed("LongTensor", _int64)
ShortTensor = _typed("ShortTensor", _int16)
