"""Settings of what computes on CUDA devices."""

from ember._C import _MatmulSettings, _matmul_settings

matmul: _MatmulSettings = _matmul_settings
