"""wheel.py SITE: uses the ember that is installed in the folder SITE, on the CPU and on a simulated device."""

import importlib.metadata
import pathlib
import sys

import ember as torch
import ember.multiprocessing  # every part of the package is in the wheel
import ember.top

package = pathlib.Path(torch.__file__).parent
assert package.parent == pathlib.Path(sys.argv[1]), package
for stub in ("_C/__init__.pyi", "_C/_ops.pyi", "_C/cuda/__init__.pyi", "py.typed"):
    assert (package / stub).exists(), f"the wheel has no {stub}"
points = {point.name: point.value for point in importlib.metadata.distribution("ember").entry_points}
assert points == {"ember": "ember.__main__:main", "ember.pytest_plugin": "ember.pytest_plugin"}, points
for device in ("cpu", "cuda"):
    x = torch.arange(8, dtype=torch.float32, device=device)
    there = torch.fft.rfft(x)
    assert there[0].item() == 28, there
    assert (torch.fft.irfft(there) - x).abs().max().item() < 1e-5
    assert torch.ops.aten.mm.default(torch.ones(2, 2, device=device),
                                     torch.ones(2, 2, device=device)).sum().item() == 8
print(f"ember {torch.__version__} of a wheel: {package}")
