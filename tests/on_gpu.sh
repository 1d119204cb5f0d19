#!/bin/sh
# Runs a command where there is an NVIDIA GPU; elsewhere says so and exits with 77, which ctest
# knows as "skipped". Of several GPUs it runs on those that ctest gives the test (RESOURCE_GROUPS).
# EMBER_TEST_THROUGH is what to run it through, such as compute-sanitizer --error-exitcode 9.
visible=''
group=0
while [ "$group" -lt "${CTEST_RESOURCE_GROUP_COUNT:-0}" ]; do
  eval "given=\$CTEST_RESOURCE_GROUP_${group}_GPUS" # id:0,slots:1
  given=${given#id:}
  visible=${visible:+$visible,}${given%%,*}
  group=$((group + 1))
done
if [ -n "$visible" ]; then export CUDA_VISIBLE_DEVICES="$visible"; fi

if command -v nvidia-smi >/dev/null 2>&1; then
  nvidia-smi -L 2>/dev/null | grep -q '^GPU ' && exec $EMBER_TEST_THROUGH "$@"
else
  for device in /dev/nvidia[0-9]*; do
    [ -e "$device" ] && exec $EMBER_TEST_THROUGH "$@"
  done
fi
echo 'skipped: no NVIDIA GPU'
exit 77
