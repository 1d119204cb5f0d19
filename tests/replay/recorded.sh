#!/bin/sh
# recorded.sh PROGRAM FOLDER: what PyTorch did on a GPU (bench/python/record_traces.py), replayed. The
# model of PyTorch has to do the same, address for address, and ember, with segments that grow, has to
# keep to its goals, but for two misses that docs/traces.md names.
set -u
failed=0
for trace in "$2"/*.trace.gz; do
  echo "$trace"
  case $trace in
    */graphs.*) over="--over-mib 2 --over-calls 2" ;;
    */images.*) over="--over-calls 5" ;;
    *) over= ;;
  esac
  # shellcheck disable=SC2086  # several words, or none
  gzip -dc "$trace" | "$1" --check $over - || failed=1
done
exit "$failed"
