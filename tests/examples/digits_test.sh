#!/usr/bin/env bash
# usage: digits_test.sh DEVICES COMMAND...
# Runs examples/digits as a user would, with EMBER_DEVICES=DEVICES. COMMAND is knn, or Python with
# knn.py. Its answers are held against digits_reference.py, where there is a Python to run that.
set -euo pipefail

export EMBER_DEVICES=$1
program=("${@:2}")
if [[ ${program[-1]} == *.py ]] && ! "${program[@]::${#program[@]}-1}" -c \
  'import ember; ember.Tensor.topk, ember.cuda.comm.scatter' 2>/dev/null; then
  echo 'skipped: the Python package has no topk or no cuda.comm'
  exit 77
fi
here=$(cd "$(dirname "$0")" && pwd)
data=$here/../../examples/digits/data/digits.csv
name=knn
# shellcheck source-path=SCRIPTDIR source=program.sh
source "$here/program.sh"

# agree ARGUMENT...: the answers must be the reference's, to the last one.
agree() {
  rm -f "$work/answers"
  expect 0 '^accuracy' "$@" --repeat 1 --predictions "$work/answers"
  [[ -n $python ]] || return 0
  "$python" "$here/digits_reference.py" "$@" >"$work/reference"
  cmp -s "$work/answers" "$work/reference" ||
    fail "knn $*: $(paste "$work/answers" "$work/reference" | awk '$1 != $2' | wc -l) answers differ"
}

python=
for candidate in "${EMBER_TEST_PYTHON:-}" "$here/../../.venv/bin/python" python3; do
  if [[ -n $candidate ]] && "$candidate" -c '' 2>/dev/null; then
    python=$candidate
    break
  fi
done

# --- The real data ---
agree
[[ $(wc -l <"$work/answers") == 797 ]] || fail 'not 797 answers'
grep -q $'[\r\033]' "$work/out" && fail 'a progress bar although stdout is no terminal'
grep -qE '4 as 9    9 as 3' "$work/out" || fail 'no pictures of wrong answers'
if [[ $EMBER_DEVICES == sim:* ]]; then
  grep -q 'cuda:0   Simulated GPU' "$work/out" || fail 'simulated devices are not called so'
fi
cp "$work/answers" "$work/once"
expect 0 '797 right: 95.73 %' --repeat 7 --predictions "$work/answers"
cmp -s "$work/answers" "$work/once" || fail 'seven times the same queries, other answers'
expect 0 'in batches of 300;' --repeat 2 --devices 1 --batch 300 --predictions "$work/answers"
cmp -s "$work/answers" "$work/once" || fail 'one device has other answers'
agree --train 1796
if [[ -n $python ]] && "$python" -c 'import numpy' 2>/dev/null; then  # slow without
  agree --k 1
  agree --k 1000
fi

# --- Own data ---
head -n 11 "$data" >"$work/own.csv"
agree --csv "$work/own.csv" --k 2 --train 5
sed 's/$/\r/' "$work/own.csv" >"$work/crlf.csv"
expect 0 '5 training images and 6 queries' --csv "$work/crlf.csv" --repeat 1
head -n 1 "$data" >"$work/same.csv"
for _ in 1 2 3; do cat "$work/same.csv" "$work/same.csv" >"$work/more"; mv "$work/more" "$work/same.csv"; done
sed '2s/.$/7/; 3s/.$/7/; 1s/.$/3/' "$work/same.csv" >"$work/ties.csv"  # labels 3, 7, 7, 0, ...
agree --csv "$work/ties.csv" --train 4 --k 1
grep -qx 3 "$work/answers" || fail 'of equal distances, not the lower row'
agree --csv "$work/ties.csv" --train 4 --k 4
grep -qx 7 "$work/answers" || fail 'not the most frequent label'
agree --csv "$work/ties.csv" --train 5 --k 5
grep -qx 0 "$work/answers" || fail 'of equally frequent labels, not the smallest'

# --- Malformed data: file, line, column, value and what was expected ---
row=$(head -n 1 "$data")
malformed() {  # TEXT ERROR
  printf '%b' "$1" >"$work/bad.csv"
  expect 2 "^knn: $work/bad.csv, line $2" --csv "$work/bad.csv"
}
malformed '' '1, column 1: the file ends: expected at least two rows'
malformed "$row" '2, column 1: the file ends: expected at least two rows'
malformed "$row\n\n$row" "2, column 1: '': expected a whole number from 0 to 16, a pixel$"
malformed "$row\n1,17" "2, column 2: '17': expected a whole number from 0 to 16, a pixel$"
malformed "$row\n1,-1" "2, column 2: '-1': expected a whole number"
malformed "$row\n1, 2" "2, column 2: ' 2': expected a whole number"
malformed "$row\n1,2.0" "2, column 2: '2\.0': expected a whole number"
malformed "$row\n1,\x1b[2J" "2, column 2: '.x1b\[2J': expected a whole number"
malformed "\xef\xbb\xbf$row" "1, column 1: '.xef.xbb.xbf0': expected a whole number"
malformed "$row\n1,99999999999999999999999" "2, column 2: '99999999999999999999\.\.\.': expected"
malformed "$row\n1,2\n" '2, column 3: the line ends: expected 64 pixels and a label$'
malformed "$row\n${row%,*}" '2, column 65: the line ends: expected 64 pixels and a label$'
malformed "$row\n${row%,*},10" "2, column 65: '10': expected a whole number from 0 to 9, the label$"
malformed "$row,5\n" "1, column 66: '5': expected the end of the line after 64 pixels and a label$"
expect 2 "^knn: --csv '.*/none': cannot be opened \(No such file or directory\); expected" \
  --csv "$work/none"
expect 2 "^knn: --csv '.*': is a directory; expected" --csv "$work"
expect 2 "^knn: --csv '/dev/zero': .*expected a regular file" --csv /dev/zero

# --- Wrong arguments ---
for option in --devices --k --repeat --train; do
  for value in 0 -1 x 1.5 '' 99999999999999999999; do
    expect 2 "'$value': expected a whole number from 1 to" "$option=$value"
  done
done
expect 2 "^knn: --devices '64': expected at most [0-9]+" --devices 64
expect 2 "^knn: --train '1797': expected at most 1796" --train 1797
expect 2 "^knn: --k '1001': expected at most 1000, the number of training rows" --k 1001
expect 2 "^knn: --timeline 'run.txt': Timeline: file is 'run.txt', expected a file whose name ends in" --repeat 1 \
  --timeline run.txt
expect 2 "^knn: --timeline '.*/no/file.json': Timeline: '.*' cannot be written" --repeat 1 \
  --timeline "$work/no/file.json"
expect 2 "^knn: --predictions '.*/no/file': cannot be written" --repeat 1 \
  --predictions "$work/no/file"
expect 2 '--frobnicate' --frobnicate
expect 0 '^usage: knn' --help
EMBER_DEVICES=simm expect 1 'EMBER_DEVICES'
EMBER_DEVICES=none expect 1 'EMBER_DEVICES'

finish
[[ -n $python ]] || printf 'skipped: the comparison with digits_reference.py, for want of a Python\n'
