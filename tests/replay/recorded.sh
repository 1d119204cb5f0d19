#!/bin/sh
# recorded.sh PROGRAM FOLDER: what PyTorch did on a GPU (bench/python/record_traces.py), replayed. The
# model of PyTorch has to do the same, address for address, and ember, with segments that grow, has to
# keep to its goals.
set -u
failed=0
for trace in "$2"/*.trace.gz; do
  echo "$trace"
  gzip -dc "$trace" | "$1" --check - || failed=1
done
exit "$failed"
