"""static_runtime.py MODULE before|after PACKAGE...: error texts of an ember whose C++ runtime is linked
statically, in a process in which other packages brought theirs.

Each of these once died in libember's copy of the runtime, which had met the process's other one."""

import importlib
import os
import subprocess
import sys

module, order, packages = sys.argv[1], sys.argv[2], sys.argv[3:]

needed = subprocess.run(
    ["readelf", "-d", module, os.path.dirname(module) + "/../../lib/libember.so"],
    capture_output=True, text=True, check=True,
).stdout
assert "libember.so" in needed, needed
assert "libstdc++" not in needed, "this build has no C++ runtime of its own"
assert needed.count("libgcc_s.so") == 2, "exceptions cannot cross: each library unwinds for itself"


def others():
    for package in packages:
        importlib.import_module(package)


if order == "before":
    others()
import ember as torch
if order == "after":
    others()
assert os.path.samefile(torch._C.__file__, module), torch._C.__file__
with open("/proc/self/maps") as maps:
    assert "libstdc++.so" in maps.read(), f"{packages} brought no C++ runtime: this proves nothing"


def text(call, kind):
    try:
        call()
    except kind as error:
        assert type(error) is kind, (type(error), kind)
        return str(error)
    raise AssertionError("nothing was raised")


def expect(call, kind, part):
    found = text(call, kind)
    assert part in found, (found, part)


x = torch.ones(2, 3)
expect(lambda: torch.normal(0.0, -1.0, (2,)), RuntimeError, "normal expects std >= 0.0, but found std -1")
expect(lambda: x.uniform_(2.5, 1.5), RuntimeError, "found from=2.5 > to=1.5")
expect(lambda: x.exponential_(-0.25), RuntimeError, "but found lambda=-0.25")
expect(lambda: x.bernoulli_(1.5), RuntimeError, "but got p=1.5")
expect(lambda: torch.tensor(300).to(torch.int8).fill_(300.5), RuntimeError, "300.5")
expect(lambda: torch.arange(0.0, 1.0, -0.5), RuntimeError, "upper bound")
expect(lambda: x + torch.ones(4), RuntimeError, "The size of tensor a (3) must match the size of tensor b (4)")
expect(lambda: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 2")
expect(lambda: torch.zeros(-1), torch.InvalidValueError, "negative dimension -1")
expect(lambda: torch.cuda.set_per_process_memory_fraction(1.5), torch.InvalidValueError, "Invalid fraction value: 1.5")
expect(lambda: torch.ones(1 << 40, device="cuda"), torch.cuda.OutOfMemoryError, "4096.00 GiB")
expect(lambda: torch.cuda.synchronize(7), torch.AcceleratorError, "invalid device ordinal")
assert repr(torch.tensor([0.5, 1e-9, 3.0])).startswith("tensor([5.0000e-01, 1.0000e-09, 3.0000e+00])")
assert torch.cuda.get_arch_list() == []
y = torch.randn(4, 4, device="cuda:1")
assert (y @ y).sum().item() == (y.cpu() @ y.cpu()).sum().item()

# Work on other threads, and an exception out of one of them.
e = torch.zeros(3, device="cuda").index_select(0, torch.tensor([0, 9], device="cuda"))
expect(torch.cuda.synchronize, torch.AcceleratorError, "index 9 is out of bounds for dimension 0 with size 3")
print(f"{order} {', '.join(packages)}: error texts as they should be")
