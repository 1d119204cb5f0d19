#!/bin/sh
# recorded.sh PROGRAM FOLDER: what PyTorch did on a GPU (bench/python/record_traces.py), replayed. The
# model of PyTorch has to do the same, address for address, and ember has to keep to its goals; where
# segments would have to grow for that (lengths.trace.gz) only the first.
set -u
failed=0
for trace in "$2"/*.trace.gz; do
  policy=all
  case $trace in */lengths.trace.gz) policy=torch ;; esac
  echo "$trace"
  gzip -dc "$trace" | "$1" --policy "$policy" --check - || failed=1
done
exit "$failed"
