#!/usr/bin/env bash
# Runs the benchmark programs that are built, PyTorch's too if it is there and there is a GPU, and
# shows one table of all; then the operations from Python, in a table of their own.
#
#   bench/run.sh [--preset PRESET] [--save [DIR]] [--quick] [--no-torch]
#
#   --preset PRESET  programs of build/PRESET/bin (default release)
#   --save [DIR]     also keep the tables and their figures, as DATE-GPU-Ngpu.md and .jsonl, as
#                    DATE-GPU-Ngpu-calls.md and .jsonl, and as DATE-GPU-Ngpu-python.md and .json
#                    (default bench/results)
#   --quick          hardly any repetitions: whether everything runs
#   --no-torch       without PyTorch
#
# EMBER_DEVICES chooses the devices, as everywhere (docs/environment.md).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=release
save=''
quick=()
torch=yes
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) [[ $# -gt 1 ]] || usage; preset=$2; shift ;;
    --save)
      save=$root/bench/results
      if [[ $# -gt 1 && $2 != --* ]]; then save=$(realpath -m "$2"); shift; fi ;;
    --quick) quick=(--quick) ;;
    --no-torch) torch='' ;;
    *) usage ;;
  esac
  shift
done

bin=$root/build/$preset/bin
work=$root/build/$preset/bench
say() { printf '%s\n' "$*"; }
[[ -x $bin/merge_results ]] || { say "Nothing is built in $bin: try ./dev build $preset" >&2; exit 1; }
mkdir -p "$work"
status=0

# What a program says besides its table goes to stderr, which stays visible.
measure() {  # NAME COMMAND...
  local name=$1
  shift
  if ! timeout 300 "$@" >"$work/$name.txt"; then
    say "$name failed: its output is in $work/$name.txt" >&2
    status=1
  fi
}

results=()
for name in runtime copies ops jit graphs; do
  [[ -x $bin/bench_$name ]] || continue
  rm -f "$work/$name.jsonl"
  measure "bench_$name" "$bin/bench_$name" --json "$work/$name.jsonl" "${quick[@]}"
  [[ ! -e $work/$name.jsonl ]] || results+=("$work/$name.jsonl")
done
((${#results[@]})) || { say 'No benchmark gave a result.' >&2; exit 1; }

# PyTorch has no simulated devices to be measured on.
if [[ -n $torch ]] && ! grep -qh '"devices": .*Simulated' "${results[0]}"; then
  if [[ -x $bin/torch_burst ]]; then
    measure torch_burst "$bin/torch_burst" "${quick[@]}"
    results+=("$work/torch_burst.txt")
  else
    say "Without PyTorch's figures: $("$root/bench/peer/build.sh" --check 2>&1 >/dev/null ||
      true) (bench/peer/build.sh $bin/torch_burst builds its program)"
  fi
fi

outputs=(--markdown "$work/table.md" --json "$work/table.jsonl")
"$bin/merge_results" "${outputs[@]}" "${results[@]}"

# Calls of every kind, in a table of their own.
if [[ -x $bin/bench_calls ]]; then
  say ''
  say '== Calls of every kind, from C++ =='
  rm -f "$work/calls.jsonl"
  measure bench_calls "$bin/bench_calls" --json "$work/calls.jsonl" "${quick[@]}"
  calls=("$work/calls.jsonl")
  if [[ " ${results[*]} " == *torch_burst* ]]; then
    measure torch_calls "$bin/torch_burst" --calls "${quick[@]}"
    calls+=("$work/torch_calls.txt")
  fi
  "$bin/merge_results" --markdown "$work/calls.md" --json "$work/calls-all.jsonl" "${calls[@]}"
fi

# Programs whose tables are of another kind.
for program in "$bin"/bench_*; do
  name=${program##*/bench_}
  case $name in runtime | copies | ops | jit | graphs | calls) continue ;; esac
  [[ -x $program ]] || continue
  say ''
  say "== bench_$name =="
  timeout 300 "$program" || { say "bench_$name failed" >&2; status=1; }
done

# Operations from Python.
python=$root/.venv/bin/python
[[ -x $python ]] || python=python3
kept=()
if PYTHONPATH=$root/build/$preset/python "$python" -c 'import ember' 2>/dev/null; then
  say ''
  say '== Operations, from Python =='
  options=("${quick[@]}")
  [[ -n $torch ]] || options+=(--no-torch)
  # Simulated devices show that everything runs; at full size that would take hours.
  if grep -qh '"devices": .*Simulated' "${results[0]}"; then options+=(--quick); fi
  if PYTHONPATH=$root/build/$preset/python timeout 300 "$python" "$root/bench/python/bench_ops.py" \
    --markdown "$work/python.md" --json "$work/python.json" "${options[@]}"; then
    kept=(md json)
  else
    say 'bench_ops.py failed' >&2
    status=1
  fi
else
  say "Without the operations from Python: $python cannot import ember."
fi

if [[ -n $save ]]; then
  field() { sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p;q" "$work/table.jsonl"; }
  devices=$(field devices)  # "2 x NVIDIA H200"
  gpu=$(tr '[:upper:] ' '[:lower:]-' <<<"${devices#* x }" | sed 's/nvidia-//; s/[^a-z0-9-]//g')
  file=$save/$(field date)-$gpu-${devices%% x *}gpu
  mkdir -p "$save"
  { say "# $(field date), $devices"; say ''; cat "$work/table.md"; } >"$file.md"
  cp "$work/table.jsonl" "$file.jsonl"
  if [[ -e $work/calls-all.jsonl ]]; then
    { say "# Calls from C++, $(field date), $devices"; say ''; cat "$work/calls.md"; } >"$file-calls.md"
    cp "$work/calls-all.jsonl" "$file-calls.jsonl"
  fi
  for suffix in "${kept[@]}"; do cp "$work/python.$suffix" "$file-python.$suffix"; done
  say ''
  say "Kept as $file.md and $file.jsonl"
fi
exit "$status"
