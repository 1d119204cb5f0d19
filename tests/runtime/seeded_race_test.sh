#!/usr/bin/env bash
# In runs of one host thread that a seed decides, the thread sanitizer finds a missing order whatever
# the order in which the seed has the work run, and is silent about what is ordered. Usage:
# seeded_race_test.sh PROBE
set -u
export EMBER_DEVICES=sim:1@256MiB TSAN_OPTIONS='exitcode=66 halt_on_error=0 atexit_sleep_ms=0'
probe=$1
failed() {
  printf '%s, %s: %s:\n%s\n' "$name" "$schedule" "$1" "$said"
  exit 1
}
races=0 silent=0
while read -r kind name; do
  if [[ $kind == none ]]; then
    schedule=random:0
    said=$(EMBER_SIM_SCHEDULE=$schedule "$probe" "$name" 100 2>&1) || failed 'expected no race'
    if [[ $name == reused* ]]; then
      said=$(EMBER_ALLOC_CONF=backend:cudaMallocAsync EMBER_SIM_SCHEDULE=$schedule \
        "$probe" "$name" 100 2>&1) || failed 'expected no race with cudaMallocAsync'
    fi
    silent=$((silent + 1))
    continue
  fi
  orders=''
  for schedule in random:{1..12} pct:1:2 pct:2:2 steps: model; do
    said=$(EMBER_SIM_SCHEDULE=$schedule "$probe" "$name" 1 2>&1)
    [[ $? -eq 66 && $said == *'data race'* ]] || failed 'the race was overlooked'
    [[ $name != nothing || $said == *first_kernel*second_kernel* ||
      $said == *second_kernel*first_kernel* ]] || failed 'expected the names of both kernels'
    orders+=$(grep '^ran:' <<<"$said")
  done
  if [[ $name == nothing ]]; then
    [[ $orders == *'ran: first second'* && $orders == *'ran: second first'* ]] ||
      failed "expected seeds with either order, found '$orders'"
  fi
  races=$((races + 1))
done < <("$probe")
[[ $races -ge 12 && $silent -ge 18 ]] || { echo "only $races races and $silent twins"; exit 1; }
