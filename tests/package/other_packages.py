"""A plugin of pytest (`-p other_packages`): imports packages that bring a C++ runtime, before or after
ember, as EMBER_TEST_PACKAGES says ("before" or "after"), and says which of them it left out.

With `--every-other`, "before" runs every other test, and "after" the others."""

import importlib
import importlib.util
import os
import sys
import warnings

PACKAGES = ["numpy", "torch", "cupy", "numba"]

order = os.environ["EMBER_TEST_PACKAGES"]
assert order in ("before", "after"), order
imported, left_out = [], []
assert not set(PACKAGES) & set(sys.modules), "something else imported them first"

if order == "after":
    import ember
with warnings.catch_warnings():  # such as cupy's, that there is no CUDA
    warnings.simplefilter("ignore")
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            left_out.append(f"{name} (not installed)")
            continue
        try:
            importlib.import_module(name)
            imported.append(name)
        except Exception as error:
            left_out.append(f"{name} ({error})")
assert imported, f"no other package brought a C++ runtime: {left_out}"
import ember

with open("/proc/self/maps") as maps:
    assert "libstdc++.so" in maps.read(), f"{imported} brought no C++ runtime: this proves nothing"


def pytest_addoption(parser):
    parser.addoption("--every-other", action="store_true")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--every-other"):
        items[:] = items[order == "after"::2]


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"imported {order} ember: {', '.join(imported)}; "
                                f"left out: {', '.join(left_out) or 'none'}; {ember._C.__file__}")
