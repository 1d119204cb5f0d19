# shellcheck shell=bash disable=SC2034,SC2154  # what it uses is set by ./dev
# What ./dev needs, and how it is installed: prepare TABLE, prepare_python TABLE. A part of ./dev,
# which reads this file.

# need | Debian package | what is left out without it; "-" when nothing goes without it
build_needs='
compiler  | g++              | -
cmake     | cmake            | -
ninja     | ninja-build      | Ninja (make is used instead)
gtest     | libgtest-dev     | the tests written with GoogleTest
zlib      | zlib1g-dev       | zlib (the example checks its results by itself)
ccache    | ccache           | the compiler cache (building again takes longer)
blas      | libopenblas0-pthread | OpenBLAS (matrix products on the CPU take one core)
python    | python3-dev      | the Python package
venv      | python3-venv     | .venv/ (the Python package is built for python3 itself)
'
# For what is counted and checked by scripts in Python.
script_needs='
python3   | python3          | -
'
# For the sanitizers: clang compiles for them, and what it makes runs, in half of the time, and clang's
# warnings, lock annotations among them, come with it.
sanitizer_needs='
clang++-14      | clang-14           | the sanitizers of clang (those of g++ take twice as long)
clang-rt-14     | libclang-rt-14-dev | the same
'
# What pip installs into .venv/: module | requirement | what is left out without it
module_needs='
nanobind          | nanobind>=2             | the Python package
'
# NVTX's header; a CUDA toolkit has it, too.
if [[ ! -e /usr/local/cuda/include/nvtx3/nvToolsExt.h && ! -e /usr/include/nvtx3/nvToolsExt.h ]]; then
  module_needs+='
nvidia.cu13.include.nvtx3 | nvidia-nvtx==13.* | what profilers see of ranges (ember.cuda.nvtx)
'
fi
python_needs=$module_needs'
pytest            | pytest                  | the tests of the Python package
numpy             | numpy                   | what of the Python package is tested against NumPy
scikit_build_core | scikit-build-core>=0.10 | building wheels without a network
'
# The same for ./dev test alone: they are large. One version each, so that everyone gets the same
# verdict.
typing_needs='
mypy         | mypy==2.4.1          | what mypy makes of the stubs
basedpyright | basedpyright==1.40.2 | what Pyright makes of the stubs
'
# For the documentation site. One version each, so that the same pages come out everywhere.
docs_needs='
python3  | python3      | the documentation site
venv     | python3-venv | .venv/ (what python3 has itself is used)
doxygen  | doxygen      | the documentation site (1.9.4 or newer makes it)
'
site_needs='
sphinx      | sphinx==8.1.3      | the documentation site
myst_parser | myst-parser==4.0.1 | the documentation site
furo        | furo==2025.12.19   | the documentation site
'
# One version of the clang tools, so that everyone gets the same verdict.
format_needs='
clang-format-14 | clang-format-14 | -
'
lint_needs=$script_needs$format_needs'
clang++-14      | clang-14        | -
clang-tidy-14   | clang-tidy-14   | -
'

have() {
  case $1 in
    compiler) has "${CXX:-c++}" || has g++ || has clang++ ;;
    cmake) has cmake && is_new_enough "$(cmake --version)" ;;
    gtest) has_header gtest/gtest.h ;;
    zlib) has_header zlib.h ;;
    clang-rt-14) has clang++-14 && [[ -e $(clang++-14 -print-file-name=libclang_rt.tsan-x86_64.a) ]] ;;
    blas) has_library libopenblas.so.0 ;;
    doxygen) has doxygen && knows_concepts "$(doxygen --version)" ;;
    python) python3 -c "$python_header" 2>/dev/null ;;
    venv) [[ -x .venv/bin/python ]] || python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    *) has "$1" ;;
  esac
}

python_header='
import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'

# Looks where CMake does.
has_header() {
  local prefix prefixes
  IFS=: read -ra prefixes <<<"/usr:/usr/local:${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    if [[ -n $prefix && -e $prefix/include/$1 ]]; then return; fi
  done
  return 1
}

# Looks where the loader does.
has_library() {
  local directory directories
  IFS=: read -ra directories <<<"${LD_LIBRARY_PATH:-}"
  for directory in "${directories[@]}"; do
    if [[ -n $directory && -e $directory/$1 ]]; then return; fi
  done
  # Not through a pipe to `grep -q`: that leaves at the first match, and ldconfig may fail for it.
  [[ $(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null) == *"$1 "* ]]
}

# "cmake version 3.25.1 ..." is 3.25 or newer.
is_new_enough() {
  [[ $1 =~ ([0-9]+)\.([0-9]+) ]] || return 1
  ((BASH_REMATCH[1] > 3 || (BASH_REMATCH[1] == 3 && BASH_REMATCH[2] >= 25)))
}

# "1.9.4 (...)" is 1.9.4 or newer.
knows_concepts() { [[ $1 == [0-9]* && $1 != 1.[0-8].* && ! $1 =~ ^1\.9\.[0-3]($|[^0-9]) ]]; }

# The rows of a table whose need is not met, without spaces around the fields.
missing() {
  local need package without
  while IFS='|' read -r need package without; do
    need=${need// /} package=${package// /}
    [[ -z $need ]] || have "$need" || say "$need|$package|${without# }"
  done <<<"$1"
}

# Installs what is missing where that is possible, then names what still is.
prepare() {
  local absent need package without packages unmet=() lost=()
  mkdir -p "$log"
  absent=$(missing "$1")
  [[ -n $absent ]] || return 0
  if [[ ${EMBER_INSTALL:-1} != 0 ]]; then
    mapfile -t packages < <(cut -d'|' -f2 <<<"$absent")
    install_packages "${packages[@]}" || true
    absent=$(missing "$1")
  fi
  while IFS='|' read -r need package without; do
    [[ -n $need ]] || continue
    if [[ $without == - ]]; then
      unmet+=("$need (Debian package $package)")
    else
      lost+=("Left out: $without. Not found: $need (Debian package $package).")
    fi
  done <<<"$absent"
  [[ ${#unmet[@]} -eq 0 ]] || die "cannot go on without $(joined "${unmet[@]}")$(old_cmake)"
  [[ ${#lost[@]} -eq 0 ]] || printf '%s\n' "${lost[@]}"
}

install_packages() {
  local as_root=()
  has apt-get || { say "Not installing $*: there is no apt-get."; return 1; }
  if ((EUID != 0)); then
    has sudo || { say "Not installing $*: neither root nor sudo."; return 1; }
    as_root=(sudo)
  fi
  # Short limits, so that a machine without a network is told apart soon.
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
    -o DPkg::Lock::Timeout=120)
  say "Installing: $*"
  { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@"; } \
    >"$log/apt.txt" 2>&1 && return
  say "Installing failed; the end of $log/apt.txt:"
  tail -n 3 "$log/apt.txt"
  return 1
}

# Makes .venv/ with what the Python package needs, as far as a registry can be reached; what python3
# has already is used as it is. Without .venv/ the package is built for python3.
prepare_python() {  # TABLE
  local absent module requirement without requirements
  # One that was made for another python3, or moved, is no use.
  if [[ -e .venv ]] && ! .venv/bin/python -c 'import sys' 2>/dev/null; then rm -rf .venv; fi
  absent=$(missing_modules "$1")
  if [[ ${EMBER_INSTALL:-1} != 0 && (-n $absent || ! -e .venv) ]]; then
    [[ -e .venv ]] || ! have venv || make_venv
    absent=$(missing_modules "$1")
    if [[ -n $absent && -e .venv ]]; then
      mapfile -t requirements < <(cut -d'|' -f2 <<<"$absent")
      install_modules "${requirements[@]}" || true
      absent=$(missing_modules "$1")
    fi
  fi
  while IFS='|' read -r module requirement without; do
    [[ -z $module ]] || say "Left out: $without. Not found: $requirement (pip install)."
  done <<<"$absent"
  [[ ! -e .venv ]] || python tools/link_package.py build/release/python
}

# The Python that the package is built for; CMake chooses the same.
python() {
  if [[ -e .venv ]]; then .venv/bin/python "$@"; else python3 "$@"; fi
}

find_module='
import importlib.util, sys
try:
    sys.exit(importlib.util.find_spec(sys.argv[1]) is None)
except ModuleNotFoundError:  # not even the package that it would be in
    sys.exit(1)'

missing_modules() {  # TABLE
  local module requirement without
  while IFS='|' read -r module requirement without; do
    module=${module// /} requirement=${requirement// /}
    [[ -z $module ]] || python -c "$find_module" "$module" ||
      say "$module|$requirement|${without# }"
  done <<<"$1"
}

make_venv() {
  python3 -m venv --system-site-packages .venv >"$log/venv.txt" 2>&1 || {
    say "Making .venv/ failed; the end of $log/venv.txt:"
    tail -n 3 "$log/venv.txt"
    rm -rf .venv
  }
}

# Headers that the library is compiled with, from a source package of PyPI's, where CMake looks for
# them.
prepare_headers() {
  local target=build/ducc0
  [[ ! -e $target/src/ducc0/fft/fftnd_impl.h ]] || return 0
  if [[ ${EMBER_INSTALL:-1} != 0 ]] && python -m pip --version >/dev/null 2>&1; then
    say 'Getting the headers of ducc0'
    if ! python tools/fetch_headers.py "$target" >"$log/headers.txt" 2>&1; then
      say "Getting them failed; the end of $log/headers.txt:"
      tail -n 3 "$log/headers.txt"
    fi
  fi
  [[ -e $target/src/ducc0/fft/fftnd_impl.h ]] ||
    say 'Left out: Fourier transforms on the CPU and on simulated devices. Not found: ducc0 (pip download).'
}

# PyTorch without CUDA, which random calls are compared with: a Python of its own, in build/torch.
prepare_torch() {
  [[ -z $(python_with_torch) && ${EMBER_INSTALL:-1} != 0 ]] || return 0
  say 'Getting PyTorch for the CPU (540 MB)'
  python tools/torch_for_cpu.py build/torch >"$log/torch.txt" 2>&1 && return
  say "Getting it failed; the end of $log/torch.txt:"
  tail -n 3 "$log/torch.txt"
  rm -rf build/torch
}

python_with_torch() { [[ ! -e build/torch/ready ]] || say "$root/build/torch/bin/python"; }

install_modules() {
  say "Installing into .venv/: $*"
  .venv/bin/python -m pip install -q --retries 1 --timeout 20 "$@" >"$log/pip.txt" 2>&1 && return
  say "Installing failed; the end of $log/pip.txt:"
  tail -n 3 "$log/pip.txt"
  return 1
}

old_cmake() {
  if has cmake && ! have cmake; then
    say "; 3.25 or newer is needed, here is $(cmake --version | sed -n 1p)"
  fi
}
