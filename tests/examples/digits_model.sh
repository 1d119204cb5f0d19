#!/usr/bin/env bash
# usage: digits_model.sh KNN
# The timeline of digits by a device model: the same in two processes, with copies that run while
# kernels do where the host is quick enough: the H200's takes longer to enqueue one of digits' small
# kernels than the device to run it.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'ember device model 1\nname quick_host\nlike h200\nlaunch_call 500\ncopy_call 500\n' >"$work/model"
export EMBER_DEVICES=sim:1 EMBER_SIM_SCHEDULE=model:$work/model
for run in 1 2; do
  "$1" --repeat 20 --timeline "$work/$run.json" >"$work/$run.out"
done
cmp "$work/1.json" "$work/2.json" || { echo 'two processes recorded different timelines' >&2; exit 1; }
python3 - "$work/1.json" <<'CHECK'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
spans = {kind: sorted((each["ts"], each["ts"] + each["dur"]) for each in slices
                      if each["cat"] == kind) for kind in ("copy", "kernel")}
both = sum(max(0, min(copy[1], kernel[1]) - max(copy[0], kernel[0]))
           for copy in spans["copy"] for kernel in spans["kernel"])
copying = sum(end - begin for begin, end in spans["copy"])
print(f"{copying:.1f} us of copies, {both:.1f} us of them while kernels ran")
if not (copying > 0 and both > 0):
    sys.exit("no copy overlaps a kernel")
CHECK
