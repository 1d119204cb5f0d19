#!/usr/bin/env bash
# usage: overlap_test.sh PROGRAM DEVICES
# Runs examples/overlap as a user would, with EMBER_DEVICES=DEVICES.
set -euo pipefail

program=("$(realpath "$1")")
export EMBER_DEVICES=$2
name=overlap
# shellcheck source-path=SCRIPTDIR source=program.sh
source "$(dirname "$0")/program.sh"

# The CRC-32 of a file, from gzip's trailer.
crc_of() { gzip -1 -c <"$1" | tail -c 8 | head -c 4 | od -An -tx1 | awk '{ print $4 $3 $2 $1 }'; }

equal='^checked against .*: equal$'

# --- Files ---
expect 0 "$equal" --repeat 2
grep -q $'[\r\033]' "$work/out" && fail 'a progress bar although stdout is no terminal'
[[ $(wc -l <"$work/out") -le 25 ]] || fail 'more than 25 lines'
expect 0 "this program" --repeat 1

: >"$work/empty"
expect 0 "$equal" "$work/empty"
expect 0 'crc-32 +0x00000000$' "$work/empty" --repeat 1
expect 0 "$equal" "$work/empty" --repeat 3
printf x >"$work/one"
expect 0 "$equal" "$work/one" --repeat 1000003
expect 0 'crc-32 +0x8cdc1683$' "$work/one" --repeat 1
head -c 1234567 /dev/urandom >"$work/odd"
for arguments in '' '--chunk 4KiB' '--chunk=65537' '--chunk 1MiB --devices 1'; do
  # shellcheck disable=SC2086
  expect 0 "crc-32 +0x$(crc_of "$work/odd")\$" "$work/odd" --repeat 1 $arguments
  # shellcheck disable=SC2086
  expect 0 "$equal" "$work/odd" --repeat 7 $arguments
done
head -c 3000000 /dev/zero >"$work/zeros"
expect 0 'bytes +0x00 100.00 %; 1 of 256' "$work/zeros" --repeat 2
cp "$work/one" "$work/--one"
cd "$work"
expect 0 "$equal" --repeat 1 -- --one
cd - >/dev/null

# --- What goes wrong ---
expect 2 "FILE '.*/none': cannot be opened .*expected" "$work/none"
expect 2 "FILE '.*': is a directory; expected" "$work"
expect 2 "FILE '/dev/zero': .*expected a regular file" /dev/zero
if ((EUID != 0)); then
  chmod 0 "$work/one"
  expect 2 "FILE '.*/one': cannot be opened .*expected" "$work/one"
fi
expect 2 "argument '.*': expected one FILE" "$work/odd" "$work/odd"
expect 2 "FILE '': expected" ''
for value in 0 -1 x 2x '' 65 99999999999999999999; do
  expect 2 "--devices '$value': expected a whole number from 1 to 64" --devices "$value"
done
expect 2 "--devices '64': expected at most [0-9]+" --devices 64
for value in 0 100 1KiB 2GiB -4MiB x ''; do
  expect 2 "--chunk '$value': expected a size from 4KiB to 1GiB" --chunk "$value"
done
for value in 0 -1 1.5 x 18446744073709551617; do
  expect 2 "--repeat '$value': expected a whole number" "--repeat=$value"
done
expect 2 "--repeat '1099511627776': expected at most" "$work/odd" --repeat 1099511627776
expect 2 "option '--repeat': expected a value" --repeat
expect 2 "option '--frobnicate': expected" --frobnicate
expect 0 '^usage: overlap' --help
EMBER_DEVICES=simm expect 1 'EMBER_DEVICES' "$work/odd"
EMBER_DEVICES=none expect 1 'EMBER_DEVICES' "$work/odd"
if [[ $EMBER_DEVICES == *@64MiB ]]; then
  expect 1 'out of memory' "$work/odd" --repeat 100 --chunk 64MiB
fi

finish
