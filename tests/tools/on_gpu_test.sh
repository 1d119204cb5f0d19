#!/bin/sh
# What tests/on_gpu.sh does with the GPUs that ctest gives a test, and where there is none.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
expect() { # WHAT GOT EXPECTED
  [ "$2" = "$3" ] || { echo "$1: got '$2', expected '$3'"; exit 1; }
}
unset CUDA_VISIBLE_DEVICES
PATH=$fake:$PATH

printf '#!/bin/sh\necho "GPU 0: of a test"\n' >"$fake/nvidia-smi"
chmod +x "$fake/nvidia-smi"
# shellcheck disable=SC2016
show='echo "${CUDA_VISIBLE_DEVICES-all}"'
expect 'no resources' "$("$here/../on_gpu.sh" sh -c "$show")" all
expect 'the caller says which' "$(CUDA_VISIBLE_DEVICES=1 "$here/../on_gpu.sh" sh -c "$show")" 1
expect 'one GPU' "$(CTEST_RESOURCE_GROUP_0_GPUS=id:3,slots:6 "$here/../on_gpu.sh" sh -c "$show")" 3
expect 'two GPUs' "$(CTEST_RESOURCE_GROUP_0_GPUS=id:3_0,slots:1 "$here/../on_gpu.sh" sh -c "$show")" 3,0
expect 'through a tool' "$(EMBER_TEST_THROUGH='env CUDA_VISIBLE_DEVICES=7' "$here/../on_gpu.sh" sh -c "$show")" 7

printf '#!/bin/sh\nexit 9\n' >"$fake/nvidia-smi"
status=0
text=$("$here/../on_gpu.sh" sh -c "$show") || status=$?
expect 'the status without a GPU' "$status" 77
expect 'the text without a GPU' "$text" 'skipped: no NVIDIA GPU'
