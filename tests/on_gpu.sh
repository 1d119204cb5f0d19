#!/bin/sh
# Runs a command where there is an NVIDIA GPU; elsewhere says so and exits with 77, which ctest
# knows as "skipped". Of several GPUs it runs on the two that ctest gives the test (RESOURCE_GROUPS,
# tools/gpu.sh).
# EMBER_TEST_THROUGH is what to run it through, such as compute-sanitizer --error-exitcode 9.
given=${CTEST_RESOURCE_GROUP_0_GPUS:-} # id:0_1,slots:1
if [ -n "$given" ]; then
  given=${given#id:}
  CUDA_VISIBLE_DEVICES=$(echo "${given%%,*}" | tr _ ,)
  export CUDA_VISIBLE_DEVICES
fi

if command -v nvidia-smi >/dev/null 2>&1; then
  nvidia-smi -L 2>/dev/null | grep -q '^GPU ' && exec $EMBER_TEST_THROUGH "$@"
else
  for device in /dev/nvidia[0-9]*; do
    [ -e "$device" ] && exec $EMBER_TEST_THROUGH "$@"
  done
fi
echo 'skipped: no NVIDIA GPU'
exit 77
