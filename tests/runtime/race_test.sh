#!/usr/bin/env bash
# A missing wait between two short kernels is found by the thread sanitizer in every run, and an
# order that is there is never taken for a race. Usage: race_test.sh PROBE
set -u
export EMBER_DEVICES=sim:1 TSAN_OPTIONS='exitcode=66 halt_on_error=1 atexit_sleep_ms=0'
for run in 1 2 3 4 5 6 7 8 9 10; do
  for how in none third; do
    said=$("$1" "$how" 2>&1)
    if [[ $? -ne 66 || $said != *'data race'*add_one* ]]; then
      printf '%s, run %s: the race was overlooked:\n%s\n' "$how" "$run" "$said"
      exit 1
    fi
  done
  for how in wait event; do
    if ! said=$("$1" "$how" 2>&1); then
      printf '%s, run %s: expected no race:\n%s\n' "$how" "$run" "$said"
      exit 1
    fi
  done
done
