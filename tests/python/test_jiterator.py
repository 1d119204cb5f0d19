"""ember.cuda.jiterator: kernels from a text, as chapter 19 of the reference has them."""

import os
import pathlib
import re
import stat
import subprocess
import sys
import threading

import pytest

import ember as torch
from ember import cuda
from ember.cuda.jiterator import _create_jit_fn, _create_multi_output_jit_fn

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "jiterator.md"
ALPHA = "template <typename T> T my_kernel(T x, T y, T alpha) { return -x + alpha * y; }"
LIMIT = 120  # seconds, for what takes one


def test_one_output(device):
    """The example of torch's documentation: one result by value, and a number with a default."""
    jitted = _create_jit_fn(ALPHA, alpha=1.0)
    x = torch.arange(6, device=device).float().view(2, 3)
    y = torch.ones(3, device=device)
    assert jitted(x, y, alpha=3.14).tolist() == (-x + 3.14 * y).tolist()
    result = jitted(x, y)
    assert isinstance(result, torch.Tensor) and result.device == x.device
    assert result.tolist() == [[1, 0, -1], [-2, -3, -4]]


def test_several_outputs(device):
    """The example of torch's documentation: outputs by reference, behind the number."""
    code = """
    template <typename T>
    void my_kernel(T x, T y, T alpha, T& out1, T& out2) { out1 = x + alpha * y; out2 = -y; }"""
    jitted = _create_multi_output_jit_fn(code, 2, alpha=1)
    x = torch.tensor([1.0, 2.0], device=device)
    result = jitted(x, x + 1, alpha=2.5)
    assert isinstance(result, tuple) and len(result) == 2
    assert result[0].tolist() == [6, 9.5] and result[1].tolist() == [-2, -3]
    one = _create_multi_output_jit_fn(code_string="template <typename T> void f(T x, T& y) { y = x; }",
                                      num_outputs=1)
    assert one(x).tolist() == [1, 2]  # no tuple


def test_helpers(device):
    """The example of torch's documentation: the last of several functions is the entry."""
    code = ("template <typename T> T util_fn(T x, T y) { return ::sin(x) + ::cos(y); }"
            "template <typename T> T my_kernel(T x, T y, T val) { return ::min(val, util_fn(x, y)); }")
    x = torch.arange(8, device=device).double()
    result = _create_jit_fn(code, val=0.5)(x, x * 2)
    assert result.tolist() == torch.clamp(x.sin() + (x * 2).cos(), max=0.5).tolist()


def test_what_it_is_called():
    jitted = _create_jit_fn(ALPHA, alpha=1.0)
    assert jitted.kernel_name == "my_kernel" and jitted.code_string == ALPHA


@pytest.mark.parametrize("dtype", """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32
float64 complex64 complex128""".split())
def test_dtypes(dtype, device):
    x = torch.tensor([0, 1, 1, 3]).to(getattr(torch, dtype)).to(device)
    result = _create_jit_fn("template <typename T> T f(T x, T y) { return x * y; }")(x, x[1:2])
    assert result.dtype == x.dtype and result.tolist() == (x * x[1:2]).tolist()


def test_kinds_of_numbers(device):
    """A bool stays a bool, an int has 64 bits, a float 53, a complex two of these."""
    code = ("template <typename T, typename K> T f(T x, K k) {"
            " return T((int)sizeof(K)) + T(K(1) / K(2) != K(0) ? 100 : 0); }")
    jitted = _create_jit_fn(code, k=0)
    x = torch.zeros(1, device=device)
    assert [jitted(x, k=k).item() for k in (True, 1, 1.5, 1j)] == [101, 8, 108, 116]


def test_promotion_and_broadcast(device):
    jitted = _create_jit_fn("template <typename T> T f(T x, T y) { return x - y; }")
    x = torch.arange(6, device=device).view(2, 3)
    for y in (torch.tensor([0.5, 1.5, 2.5], device=device), torch.arange(2, device=device).view(2, 1),
              torch.tensor(1.5, device=device), x.t().contiguous().t().to(torch.int8),
              x.half()[:, ::2][:, :1]):
        expected = x - y
        result = jitted(x, y)
        assert result.dtype == expected.dtype and result.tolist() == expected.tolist()
    assert jitted(x[:0], x[:0].float()).shape == (0, 3)


def test_more_than_torch_has():
    """Forty inputs and twenty outputs; with strict torch's limit of eight."""
    inputs = ", ".join(f"T x{i}" for i in range(40))
    outputs = ", ".join(f"T& y{i}" for i in range(20))
    body = " ".join(f"y{i} = x{i} + x{39 - i};" for i in range(20))
    code = f"template <typename T> void many({inputs}, {outputs}) {{ {body} }}"
    x = [torch.full((3,), float(i), device="cuda") for i in range(40)]
    result = _create_multi_output_jit_fn(code, 20)(*x)
    assert [y.tolist() for y in result] == [[39.0] * 3] * 20
    with pytest.raises(AssertionError, match=r"^jiterator only supports up to 8 tensor inputs\.$"):
        _create_multi_output_jit_fn(code, 20, strict=True)(*x)


def test_errors_of_creation():
    for code in ("", "int f() { return 1; }", "template <typename T> T f(T x) { return x;"):
        with pytest.raises(Exception) as caught:
            _create_jit_fn(code)
        assert type(caught.value) is Exception
        assert str(caught.value) == "Couldn't parse code, please check correctness:\n" + code
    with pytest.raises(ValueError, match="num_outputs: expected at least 1, got -1"):
        _create_multi_output_jit_fn(ALPHA, -1)
    for value in ("1", None, [1], torch.ones(2)):
        with pytest.raises(TypeError, match="alpha: expected a bool, an int, a float or a complex"):
            _create_jit_fn(ALPHA, alpha=value)
    with pytest.raises(OverflowError):
        _create_jit_fn(ALPHA, alpha=1 << 70)


def test_errors_of_calls(device):
    jitted = _create_jit_fn(ALPHA, alpha=1)
    x = torch.ones(2, device=device)
    with pytest.raises(KeyError) as caught:
        jitted(x, x, beta=1)
    assert caught.value.args == ("beta is not declared in function definition",)
    with pytest.raises(TypeError, match="tensor 1"):
        jitted(x, 2.0)
    with pytest.raises(RuntimeError, match="'my_kernel' has 3 parameters, but gets 1 tensors"):
        jitted(x)
    with pytest.raises(RuntimeError, match="at least one tensor"):
        jitted()
    with pytest.raises(OverflowError, match="9223372036854775808"):
        jitted(x, x, alpha=1 << 63)
    bad = _create_jit_fn("template <typename T>\nT f(T x) {\n  return nowhere(x);  // \"é\" 'ö'\n}")
    with pytest.raises(RuntimeError, match=r"code_string.3[\s\S]*nowhere"):
        bad(x)
    assert jitted(x, x).tolist() == [0, 0]


@pytest.mark.needs_devices(1)
def test_errors_of_devices():
    jitted = _create_jit_fn(ALPHA, alpha=1)
    x = torch.ones(2, device="cuda")
    for y in (torch.ones(2), torch.tensor(2.0)):
        with pytest.raises(RuntimeError, match="cpu"):
            jitted(x, y)
    with pytest.raises(RuntimeError, match="expected CUDA tensors"):
        _create_jit_fn(ALPHA, strict=True, alpha=1)(torch.ones(2), torch.ones(2))


def test_strict_without_devices():
    """Creation works, as torch's does; the call says that there is no device."""
    program = (f"import ember\nf = ember.cuda.jiterator._create_jit_fn({ALPHA!r}, strict=True, alpha=1)\n"
               "try:\n  f(ember.ones(2), ember.ones(2))\n"
               "except AssertionError as error:\n  print(error)\n")
    assert run(program, EMBER_DEVICES="none") == (
        "Jiterator is only supported on CUDA and ROCm GPUs, none are available.\n")


@pytest.mark.needs_devices(1)
def test_streams():
    """It runs where other work does, on the current stream."""
    jitted = _create_jit_fn("template <typename T> T f(T x) { return x + 1; }")
    stream = cuda.Stream()
    x = torch.zeros(4, device="cuda")
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        cuda._sleep(1000000)
        for _ in range(3):
            x = jitted(x)
    stream.synchronize()
    assert x.tolist() == [3] * 4


# ---- Compilers and the cache on disk, which processes of their own see


@pytest.fixture
def compiler(tmp_path):
    """A C++ compiler that notes its starts, and may do something before."""
    class Compiler:
        path = tmp_path / "compiler"
        notes = tmp_path / "starts"
        cache = tmp_path / "kernels"

        def __init__(self, before=""):
            self.path.write_text(f"#!/bin/sh\necho $$ >> '{self.notes}'\n{before}\nexec c++ \"$@\"\n")
            self.path.chmod(0o700)

        @property
        def starts(self):
            return len(self.notes.read_text().split()) if self.notes.exists() else 0

        @property
        def environment(self):
            return {"CXX": str(self.path), "EMBER_KERNEL_CACHE_PATH": str(self.cache)}
    return Compiler


def environment_with(changes):
    made = dict(os.environ, **changes)
    made.pop("EMBER_TIMELINE", None)
    return made


def run(program, **changes):
    done = subprocess.run([sys.executable, "-c", program], env=environment_with(changes), text=True,
                          capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


TRIPLE = """
import ember
f = ember.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return 3 * x; }")
print(f(ember.ones(2)).tolist())
"""


def test_another_process_starts_no_compiler(compiler):
    used = compiler()
    for _ in range(3):
        assert run(TRIPLE, **used.environment) == "[3.0, 3.0]\n"
    assert used.starts == 1
    entries = list(used.cache.iterdir())
    assert len(entries) == 1 and re.fullmatch(r"[0-9a-f]{64}\.so", entries[0].name)
    assert stat.S_IMODE(used.cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(entries[0].stat().st_mode) & 0o077 == 0
    # The same compiler by another name, with other options, or changed, is another one.
    link = used.path.with_name("link")
    link.symlink_to(used.path)
    run(TRIPLE, **dict(used.environment, CXX=str(link) + " -DOTHER"))
    assert used.starts == 2
    os.utime(used.path, (1, 1))
    run(TRIPLE, **used.environment)
    assert used.starts == 3


@pytest.mark.needs_devices(1)
def test_cpu_and_simulated_devices_share_entries(compiler):
    if not cuda.is_simulated():
        pytest.skip("needs simulated devices")
    used = compiler()
    for device in ("cpu", "cuda"):
        run(TRIPLE.replace("ones(2)", f"ones(2, device='{device}')"), **used.environment)
    assert used.starts == 1


def test_the_cache_can_be_switched_off(compiler):
    used = compiler()
    for _ in range(2):
        run(TRIPLE, **used.environment, USE_PYTORCH_KERNEL_CACHE="0")
    assert used.starts == 2 and not used.cache.exists()


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:-1],
                                    lambda whole: whole[:1000] + b"\xff" + whole[1001:],
                                    lambda whole: b"\x7fELF" + bytes(100)])
def test_damaged_entries_are_built_again(compiler, damage):
    used = compiler()
    run(TRIPLE, **used.environment)
    entry, = used.cache.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert run(TRIPLE, **used.environment) == "[3.0, 3.0]\n"
    assert used.starts == 2
    run(TRIPLE, **used.environment)
    assert used.starts == 2 and [each.name for each in used.cache.iterdir()] == [entry.name]


def test_what_others_may_write_is_refused(compiler):
    used = compiler()
    run(TRIPLE, **used.environment)
    entry, = used.cache.iterdir()
    entry.chmod(0o722)
    refused = TRIPLE.replace("print(", "try: print(") + "except RuntimeError as error: print(error)\n"
    assert str(entry) in run(refused, **used.environment)
    entry.chmod(0o700)
    used.cache.chmod(0o777)
    assert str(used.cache) in run(refused, **used.environment)
    used.cache.chmod(0o700)
    assert run(TRIPLE, **used.environment) == "[3.0, 3.0]\n"
    assert used.starts == 1


def test_two_processes_build_the_same_entry(compiler):
    """Each compiler goes on once both have been started."""
    used = compiler()
    used = compiler(f"until [ $(wc -l < '{used.notes}') -ge 2 ]; do sleep 0.01; done")
    both = [subprocess.Popen([sys.executable, "-c", TRIPLE], env=environment_with(used.environment),
                             stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate(timeout=LIMIT)[0] for each in both] == ["[3.0, 3.0]\n"] * 2
    assert [each.returncode for each in both] == [0, 0]
    assert used.starts == 2 and len(list(used.cache.iterdir())) == 1
    run(TRIPLE, **used.environment)
    assert used.starts == 2


def test_other_threads_run_meanwhile(compiler, monkeypatch, tmp_path):
    """The compiler ends only after another thread of Python's has run."""
    go = tmp_path / "go"
    used = compiler(f"until [ -e '{go}' ]; do sleep 0.01; done")
    for name, value in used.environment.items():
        monkeypatch.setenv(name, value)
    jitted = _create_jit_fn("template <typename T> T f(T x) { return x + 12; }  // threads")
    made = []
    thread = threading.Thread(target=lambda: made.append(jitted(torch.zeros(1)).item()))
    thread.start()
    while not used.starts:
        assert thread.is_alive()
    go.touch()
    thread.join(LIMIT)
    assert made == [12]


def test_a_compiler_that_is_missing():
    program = TRIPLE.replace("print(", "try: print(") + "except RuntimeError as error: print(error)\n"
    assert "'nowhere-c++' (from CXX='nowhere-c++ -g') was not found" in run(
        program, CXX="nowhere-c++ -g", USE_PYTORCH_KERNEL_CACHE="0")


# ---- The guide


def test_listed_functions():
    """The page lists the functions that CPU tensors and simulated devices know, and no others."""
    prelude = (PAGE.parents[1] / "ember/jit/prelude_host_functions.inc").read_text(encoding="utf-8")
    known = set(re.findall(r"^EMBER_FUNCTION(?:_OF_C)?_[12]\((\w+)\)", prelude, re.M))
    with_f = known - {"abs"}
    known |= set(re.findall(r"^EMBER_HD [\w ]+? (\w+)\(", prelude, re.M))
    listed = PAGE.read_text(encoding="utf-8").split("## Functions")[1].split("There are no headers")[0]
    names = {name for block in re.findall(r"`([^`]+)`", listed.split("- Of complex")[0])
             for name in block.split()} - {"float", "double", "f"}
    assert {name for name in known if not (name.endswith("f") and name[:-1] in known)} <= names
    assert names <= known | {name + "f" for name in with_f} | {"fmaf"}
    page = set(re.findall(r"\w+", listed.split("- Of complex")[1]))
    prelude = (PAGE.parents[1] / "ember/jit/prelude_complex.inc").read_text(encoding="utf-8")
    of_complex = set(re.findall(r"^EMBER_COMPLEX_1\((\w+)\)", prelude, re.M))
    assert of_complex and of_complex <= page


EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.needs_devices(1)
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number, capsys):
    """docs/jiterator.md: what an example prints is what its comments say."""
    exec(compile(EXAMPLES[number], f"docs/jiterator.md example {number + 1}", "exec"), {})
    said = re.findall(r"^print.*#: (.*)$", EXAMPLES[number], re.M)
    assert said and capsys.readouterr().out.splitlines() == said


@pytest.mark.usefixtures("caching")
def test_is_captured():
    f = cuda.jiterator._create_jit_fn("template <typename T> T f(T x, T y) { return x * y + T(1); }")
    x = torch.ones(4, device="cuda")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = f(x, x)
    x.fill_(3.0)
    graph.replay()
    assert y.tolist() == [10.0] * 4


DIVIDE = """
import faulthandler, os, signal, ember as torch
from ember.cuda import jiterator
f = jiterator._create_jit_fn("template <typename T> T f(T x, T y) { return x / y; }")
zero = torch.zeros(3, dtype=torch.int64)
def divide():
    try:
        f(zero, zero)
    except RuntimeError as error:
        print("divided by zero" in str(error), flush=True)
divide()
"""


@pytest.mark.parametrize("later", ["faulthandler.enable()", "signal.signal(signal.SIGFPE, lambda *_: print('mine'))"])
def test_who_takes_the_signal_later_gets_what_is_sent(later):
    """And divisions are errors all the same."""
    sent = "os.kill(os.getpid(), signal.SIGFPE)\n" if "signal.signal" in later else ""
    said = run(DIVIDE + later + "\ndivide()\n" + sent + "divide()\n")
    assert said == "True\nTrue\n" + ("mine\n" if sent else "") + "True\n"
