#!/usr/bin/env bash
# usage: digits_seeds.sh DIGITS_SEEDS [SEEDS]
# A seed is the same run of digits in every process: with the same log, bit by bit the same answers,
# whatever the addresses, the size of the environment, and what else runs.
set -euo pipefail

seeds=${2:-1000}
work=$(mktemp -d)
load=()
trap 'kill "${load[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
export EMBER_DEVICES=sim:2 EMBER_SIM_SCHEDULE=random:0 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
"$1" 0 $((seeds - 1)) >"$work/calm"
for _ in $(seq "$(nproc)"); do
  (while :; do :; done) &
  load+=($!)
done
EMBER_SIZE_OF_ENVIRONMENT=$(printf 'x%.0s' $(seq 50000)) "$1" 0 $((seeds - 1)) >"$work/busy"
cmp "$work/calm" "$work/busy" || { echo 'two processes made different runs' >&2; exit 1; }
[ "$(wc -l <"$work/calm")" -eq "$seeds" ] || { echo "expected $seeds runs" >&2; exit 1; }
# The order is another one each time, and the answers never are.
orders=$(cut -d' ' -f4 "$work/calm" | sort -u | wc -l)
answers=$(cut -d' ' -f6 "$work/calm" | sort -u | wc -l)
echo "$seeds seeds, $orders orders, $answers answer"
[ "$answers" -eq 1 ] || { echo 'the answers depend on the order' >&2; exit 1; }
[ "$orders" -ge $((seeds * 9 / 10)) ] || { echo "expected $((seeds * 9 / 10)) orders" >&2; exit 1; }
