"""Names by which tools ask which devices there are, and modules of ember.cuda that they import."""

import math
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import environment_with

import ember
import ember as torch
from ember import cuda

pytestmark = pytest.mark.once


@pytest.mark.parametrize("text,found", [
    (None, list(range(64))), ("", []), ("0", [0]), ("1,0", [1, 0]), ("1gpu2,2ampere", [1, 2]),
    (" 3 , 1", [3, 1]), ("0,1,2,-1,3", [0, 1, 2]), ("0,a,1", [0]), ("-1", []), ("2,2", []),
    ("+3", [3]), ("GPU-9e8d,GPU-1", ["GPU-9e8d", "GPU-1"]), ("GPU-1,MIG-2", ["GPU-1"]),
    ("GPU-1,0", ["GPU-1"]), ("GPU-1,GPU-1", []), ("MIG-1,MIG-2", ["MIG-1", "MIG-2"]),
    ("0,GPU-1", [0])])
def test_parse_visible_devices(monkeypatch, text, found):
    if text is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert cuda._parse_visible_devices() == found


@pytest.mark.parametrize("candidates,found", [
    (["GPU-1"], [0]), (["GPU-3", "GPU-2"], [2, 1]), (["GPU-"], []), (["GPU-2", "GPU-"], [1]),
    (["GPU-2", "GPU-9", "GPU-1"], [1]), (["GPU-2", "GPU-22"], []), ([], [])])
def test_transform_uuid_to_ordinals(candidates, found):
    assert cuda._transform_uuid_to_ordinals(candidates, ["GPU-11", "GPU-22", "GPU-33"]) == found


def test_transform_mistakes():
    with pytest.raises(TypeError):
        cuda._transform_uuid_to_ordinals("GPU-1", 3)


def run(program, **environment):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)],
                          env=environment_with(**environment), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SHOW = """
    from ember import cuda
    print(cuda._raw_device_count_nvml(), cuda._device_count_nvml(), cuda.device_count(),
          cuda.is_initialized())
"""


@pytest.mark.parametrize("devices,visible,shown", [
    ("sim:3", None, "3 3 3"), ("sim:3", "2,0", "3 2 2"), ("sim:3", "0,7,1", "3 1 1"),
    ("sim:3", "0,0", "3 0 0"), ("sim:3", "MIG-1", "3 -1 0"), ("sim:3", "GPU-x", "3 0 0"),
    ("none", None, "0 0 0")])
def test_counts(devices, visible, shown):
    assert run(SHOW, EMBER_DEVICES=devices, CUDA_VISIBLE_DEVICES=visible) == [*shown.split(), "False"]


def test_a_count_holds_once_cuda_is_initialised():
    assert run("""
        import os
        from ember import cuda
        counts = []
        for visible in ("0,1", "2"):
            os.environ["CUDA_VISIBLE_DEVICES"] = visible
            counts.append(cuda.device_count())
        cuda.init()
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
        counts += [cuda.device_count(), cuda._device_count_nvml()]
        print(*counts)
    """, EMBER_DEVICES="sim:3") == "2 1 1 2".split()


def test_uuids():
    assert run("""
        import os
        from ember import cuda
        uuids = cuda._raw_device_uuid_nvml()
        assert len(set(uuids)) == 3 and all(uuid.startswith("GPU-") for uuid in uuids)
        os.environ["CUDA_VISIBLE_DEVICES"] = f"{uuids[2]},{uuids[0]}"
        assert cuda._parse_visible_devices() == [uuids[2], uuids[0]]
        assert cuda._device_count_nvml() == 2 == cuda.device_count()
        print(cuda._get_nvml_device_index(0), cuda._get_nvml_device_index("cuda:1"))
        assert not cuda.is_initialized()
        assert "GPU-" + str(cuda.get_device_properties(0).uuid) == uuids[2]
    """, EMBER_DEVICES="sim:3", CUDA_VISIBLE_DEVICES=None) == ["2", "0"]


def test_nvml_index(monkeypatch):
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda._get_nvml_device_index("cpu")
    with pytest.raises(RuntimeError, match=r"device 64 is not visible \(CUDA_VISIBLE_DEVICES=\["):
        cuda._get_nvml_device_index(64)
    with pytest.raises(RuntimeError, match="device -1 is not visible"):
        cuda._get_nvml_device_index(-1)


def test_the_nvml_based_check():
    """is_available() asks NVML in any case, and leaves the process able to fork."""
    program = """
        import os
        from ember import cuda
        available = cuda.is_available()
        assert not cuda.is_initialized()
        child = os.fork()
        if child == 0:
            os._exit(0 if cuda.is_available() == available and not cuda._is_in_bad_fork() else 1)
        print(available, os.waitpid(child, 0)[1])
    """
    for check in (None, "0", "1"):
        assert run(program, EMBER_DEVICES="sim:1", PYTORCH_NVML_BASED_CUDA_CHECK=check) == ["True", "0"]
        assert run(program, EMBER_DEVICES="none", PYTORCH_NVML_BASED_CUDA_CHECK=check) == ["False", "0"]


def test_pynvml(tmp_path):
    """The module is another library's; one that stands in for it shows what is asked of it."""
    call = """
        import os
        from ember import cuda
        try:
            print(cuda._get_pynvml_handler(int(os.environ["DEVICE"])))
        except (RuntimeError, ModuleNotFoundError) as error:
            print(type(error).__name__, str(error), repr(error.__cause__))
    """
    fake = tmp_path / "pynvml.py"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    fake.write_text("raise ImportError('not that one')")
    text = " ".join(run(call, PYTHONPATH=path, DEVICE="0", EMBER_DEVICES="sim:2"))
    assert text == ("ModuleNotFoundError nvidia-ml-py does not seem to be installed or it can't be "
                    "imported. ImportError('not that one')")
    fake.write_text("class NVMLError_DriverNotLoaded(Exception): pass\n"
                    "def nvmlInit(): raise NVMLError_DriverNotLoaded('no')")
    text = " ".join(run(call, PYTHONPATH=path, DEVICE="0", EMBER_DEVICES="sim:2"))
    assert text == ("RuntimeError cuda driver can't be loaded, is cuda enabled? "
                    "NVMLError_DriverNotLoaded('no')")
    fake.write_text("class NVMLError_DriverNotLoaded(Exception): pass\n"
                    "def nvmlInit(): pass\n")
    text = " ".join(run(call, PYTHONPATH=path, DEVICE="3", EMBER_DEVICES="sim:2"))
    assert text == "RuntimeError device 3 is not visible (CUDA_VISIBLE_DEVICES=[0, 1]) None"
    text = " ".join(run(call, PYTHONPATH=path, DEVICE="0", EMBER_DEVICES="sim:2"))
    assert "expected a real device, NVML knows no simulated ones" in text


@pytest.mark.needs_devices(1)
def test_generator_offsets():
    torch.cuda.manual_seed(1)
    assert torch.cuda._get_rng_state_offset() == 0 == torch.cuda._get_rng_state_offset("cuda:0")
    first = torch.rand(4, device="cuda:0")
    after = torch.cuda._get_rng_state_offset(0)
    assert after > 0 and after % 4 == 0
    assert torch.cuda._set_rng_state_offset(0, "cuda:0") is None
    assert torch.rand(4, device="cuda:0").tolist() == first.tolist()
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        torch.cuda._set_rng_state_offset(3)


@pytest.mark.needs_devices(1)
def test_out_of_memory_observer():
    assert run("""
        import ember
        from ember import cuda
        told = []
        ember._C._cuda_attach_out_of_memory_observer(lambda *values: told.append(values))
        ember._C._cuda_attach_out_of_memory_observer(lambda *values: told.append(len(told)))
        x = ember.empty(1000, device="cuda:0")
        assert not told
        for _ in range(2):
            try:
                ember.empty(cuda.get_device_properties(0).total_memory, dtype=ember.int64, device="cuda:0")
            except cuda.OutOfMemoryError:
                pass
        (device, requested, total, free), first, _, second = told
        assert device == 0 and (first, second) == (1, 3)
        assert total == cuda.get_device_properties(0).total_memory and requested == 8 * total
        assert 0 < free <= total

        def fails(*values):
            raise KeyError("of the observer")
        ember._C._cuda_attach_out_of_memory_observer(fails)
        try:
            ember.empty(1 << 50, dtype=ember.int8, device="cuda:0")
        except KeyError as error:
            print(error)
        try:
            ember._C._cuda_attach_out_of_memory_observer(3)
        except TypeError as error:
            print(error)
    """) == "'of the observer' observer: expected a function, got int".split()


def test_modules():
    from ember.cuda import graphs, memory, streams
    from ember.cuda.memory import memory_allocated, set_per_process_memory_fraction
    assert memory_allocated is ember.cuda.memory_allocated
    assert set_per_process_memory_fraction is cuda.set_per_process_memory_fraction
    for name in set(dir(cuda)) & {
            "caching_allocator_alloc", "caching_allocator_delete", "empty_cache", "list_gpu_processes",
            "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
            "memory_reserved", "memory_stats", "reset_peak_memory_stats", "get_allocator_backend",
            "memory_cached", "max_memory_cached", "reset_max_memory_allocated", "memory_summary",
            "reset_max_memory_cached", "memory_snapshot", "CUDAPluggableAllocator",
            "change_current_allocator"}:
        assert getattr(memory, name) is getattr(cuda, name), name
    for name in set(dir(cuda)) & {"CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables",
                                  "is_current_stream_capturing"}:
        assert getattr(graphs, name) is getattr(cuda, name), name
    assert (ember.inf, ember.pi, ember.e) == (math.inf, math.pi, math.e) and math.isnan(ember.nan)
    assert streams.Stream is cuda.Stream and torch.cuda.memory is memory
    for module in (memory, graphs):
        with pytest.raises(AttributeError, match="not in ember yet"):
            module.no_such_name
        assert not hasattr(module, "_no_such_name")


@pytest.mark.parametrize("alias", ["""
    sys.modules["torch"] = ember
""", """
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "ember":
            sys.modules["torch" + name[5:]] = module
"""])
def test_under_the_name_torch(alias):
    assert run("import sys, ember\n" + textwrap.dedent(alias) + textwrap.dedent("""
        import torch.cuda.memory
        import torch.cuda.graphs
        from torch.cuda.memory import memory_allocated
        from torch.cuda.streams import Stream
        assert memory_allocated is ember._C.cuda.memory_allocated and Stream is ember._C.cuda.Stream
        assert torch.cuda.memory.memory_allocated() == 0 and torch.ops.aten.add.Tensor is not None
        print("good")
    """)) == ["good"]
