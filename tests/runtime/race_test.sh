#!/usr/bin/env bash
# A missing wait between two short pieces of work is found by the thread sanitizer in every run, and
# an order that is there is never taken for a race. Usage: race_test.sh PROBE
set -u
export EMBER_DEVICES=sim:2 TSAN_OPTIONS='exitcode=66 halt_on_error=1 atexit_sleep_ms=0'
probe() {  # PAIR RUNS: a kernel and what comes second, and how often
  local run how said
  for run in $(seq "$2"); do
    for how in none third; do
      said=$("$probe" "$1" "$how" 2>&1)
      if [[ $? -ne 66 || $said != *'data race'*add_one* ]]; then
        printf '%s, %s, run %s: the race was overlooked:\n%s\n' "$1" "$how" "$run" "$said"
        exit 1
      fi
    done
    for how in wait event; do
      if ! said=$("$probe" "$1" "$how" 2>&1); then
        printf '%s, %s, run %s: expected no race:\n%s\n' "$1" "$how" "$run" "$said"
        exit 1
      fi
    done
  done
}
probe=$1
probe kernel 10
for pair in copy fill host devices queued; do probe "$pair" 3; done
