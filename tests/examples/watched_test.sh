#!/usr/bin/env bash
# usage: watched_test.sh COMMAND...
# Runs a program on two simulated devices under the stream sanitizer, which must find nothing and
# leave nothing unchecked.
set -euo pipefail

summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
EMBER_DEVICES=sim:2 EMBER_SANITIZER=continue EMBER_SANITIZER_EXITCODE=23 \
  EMBER_SANITIZER_SUMMARY=$summary "$@"
[[ $(wc -l <"$summary") == 1 ]] || { echo 'FAILED: expected one summary'; cat "$summary"; exit 1; }
grep -q '"clean": true}$' "$summary" || { echo 'FAILED: not clean'; cat "$summary"; exit 1; }
