#!/bin/sh
# Runs a command where there is an NVIDIA GPU; elsewhere says so and exits with 77, which ctest
# knows as "skipped".
if command -v nvidia-smi >/dev/null 2>&1; then
  nvidia-smi -L 2>/dev/null | grep -q '^GPU ' && exec "$@"
else
  for device in /dev/nvidia[0-9]*; do
    [ -e "$device" ] && exec "$@"
  done
fi
echo 'skipped: no NVIDIA GPU'
exit 77
