#!/usr/bin/env bash
# Builds PyTorch's side of the tables against the PyTorch that python3 finds.
#
#   build.sh OUTPUT    compiles and links the program (about a minute)
#   build.sh --check   prints which PyTorch it would take, or says on stderr what is missing
#
# python3 is only asked where PyTorch lies; nothing is imported. CXX, CUDA_HOME and PYTHON choose
# other tools. EMBER_TORCH_DIR names PyTorch's folder (with include/ and lib/) without python3.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
missing() { printf '%s\n' "$*" >&2; exit 1; }

[[ $# -eq 1 ]] || missing 'usage: build.sh OUTPUT | --check'

# ---- PyTorch

python=${PYTHON:-python3}
torch=${EMBER_TORCH_DIR:-}
if [[ -z $torch ]]; then
  command -v "$python" >/dev/null 2>&1 || missing "no $python to ask for PyTorch"
  torch=$("$python" -c '
import importlib.util, os
spec = importlib.util.find_spec("torch")
print(os.path.dirname(spec.origin) if spec and spec.origin else "")' 2>/dev/null) || torch=''
  [[ -n $torch ]] || missing "$python has no torch"
fi
[[ -e $torch/include/c10/cuda/CUDACachingAllocator.h ]] ||
  missing "the PyTorch in $torch has no CUDA headers"
[[ -e $torch/lib/libtorch_cuda.so ]] || missing "the PyTorch in $torch was built without CUDA"
version=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$torch/version.py" 2>/dev/null || true)

# ---- CUDA's headers and runtime: the toolkit's, else those that were installed with PyTorch

# The first path that is there; globs that match nothing stay as they are and are none.
first() {
  local path
  for path in "$@"; do
    if [[ -e $path ]]; then printf '%s\n' "$path"; return; fi
  done
}
site=$(dirname "$torch")
nvcc=$(command -v nvcc || true)
homes=(${CUDA_HOME:+"$CUDA_HOME"} ${nvcc:+"$(dirname "$(dirname "$(readlink -f "$nvcc")")")"}
  /usr/local/cuda)
includes=(-I"$root" -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include")
found=''
for folder in "${homes[@]/%//include}" "$site"/nvidia/*/include; do
  [[ -d $folder ]] || continue
  includes+=(-isystem "$folder")
  [[ ! -e $folder/cuda_runtime_api.h ]] || found=yes
done
[[ -n $found ]] || missing 'no CUDA headers (cuda_runtime_api.h)'

# The runtime that PyTorch itself loads, so that there is only one in the process.
runtime=$(first "$site"/nvidia/*/lib/libcudart.so.* "$torch"/lib/libcudart*.so.* \
  "${homes[@]/%//lib64/libcudart.so}")
[[ -n $runtime ]] || missing 'no CUDA runtime library (libcudart.so)'

if [[ $1 == --check ]]; then
  printf 'PyTorch %s in %s\n' "${version:-of unknown version}" "$torch"
  exit
fi

# ---- Building

# Which of its two ABIs of std::string the C++ library has to have: that of PyTorch's libraries.
abi=0
if grep -q __cxx11 "$torch/lib/libc10.so"; then abi=1; fi

output=$1
"${CXX:-g++}" -std=c++20 -O2 -DNDEBUG -Wall -Wextra -D_GLIBCXX_USE_CXX11_ABI=$abi \
  -DEMBER_TORCH_VERSION="\"$version\"" "${includes[@]}" \
  "$here/torch_burst.cpp" "$here/../table.cpp" -o "$output" \
  -L"$torch/lib" -Wl,--no-as-needed -ltorch -ltorch_cpu -ltorch_cuda -lc10 -lc10_cuda "$runtime" \
  -Wl,--unresolved-symbols=ignore-in-shared-libs \
  -Wl,--disable-new-dtags,-rpath,"$torch/lib:$(dirname "$runtime")" -ldl -pthread
