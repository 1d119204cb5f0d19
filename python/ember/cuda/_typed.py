"""The typed classes of ember._typed, of tensors on devices."""

import ember._typed as _cpu

BFloat16Tensor: _cpu._Typed = _cpu._typed("BFloat16Tensor", _cpu.BFloat16Tensor.dtype, True)
BoolTensor: _cpu._Typed = _cpu._typed("BoolTensor", _cpu.BoolTensor.dtype, True)
ByteTensor: _cpu._Typed = _cpu._typed("ByteTensor", _cpu.ByteTensor.dtype, True)
CharTensor: _cpu._Typed = _cpu._typed("CharTensor", _cpu.CharTensor.dtype, True)
DoubleTensor: _cpu._Typed = _cpu._typed("DoubleTensor", _cpu.DoubleTensor.dtype, True)
FloatTensor: _cpu._Typed = _cpu._typed("FloatTensor", _cpu.FloatTensor.dtype, True)
HalfTensor: _cpu._Typed = _cpu._typed("HalfTensor", _cpu.HalfTensor.dtype, True)
IntTensor: _cpu._Typed = _cpu._typed("IntTensor", _cpu.IntTensor.dtype, True)
LongTensor: _cpu._Typed = _cpu._typed("LongTensor", _cpu.LongTensor.dtype, True)
ShortTensor: _cpu._Typed = _cpu._typed("ShortTensor", _cpu.ShortTensor.dtype, True)
