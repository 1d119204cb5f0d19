"""Settings of what computes on CUDA devices."""

from ember._C import _matmul_settings, _refuse_name
from ember._C.cuda import _cufft_plan_cache

cufft_plan_cache = _cufft_plan_cache
matmul = _matmul_settings

# Not as a function of this name: type checkers would take every name for one of ours.
globals()["__getattr__"] = lambda name: _refuse_name("ember.backends.cuda", name)
