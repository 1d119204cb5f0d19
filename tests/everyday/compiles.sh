#!/usr/bin/env bash
# compiles.sh COMPILER SOURCE: whether page.h compiles without a warning, as users compile; whether each
# line of refused.cpp does not, with the word in the compiler's text that it names; and what C++17 is told.
set -euo pipefail
compiler=$1 source=$2
here=$source/tests/everyday
failed=0
say() { printf '%s\n' "$*"; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compile() { "$compiler" -std=c++20 -fsyntax-only -I"$source" "$@" 2>&1; }

if ! out=$(compile -Wall -Wextra -Wconversion -Wpedantic -Wshadow -Werror -x c++ - \
  <<<"#include \"$here/page.h\""); then
  say "page.h:" "$out"
  failed=1
fi
if ! out=$(compile -Wall -Wextra -Werror -DCASE=0 "$here/refused.cpp"); then
  say "refused.cpp without a case:" "$out"
  failed=1
fi
# The headers once, not for each case.
flags=(-Wall -Wextra -Werror -Wno-error=unused-variable)
echo '#include <ember/ember.h>' >"$scratch/ember.h"
"$compiler" -std=c++20 -I"$source" "${flags[@]}" -x c++-header "$scratch/ember.h" -o "$scratch/ember.h.gch"
cases=$(grep -c '^#\(if\|elif\) CASE' "$here/refused.cpp")
for ((n = 1; n <= cases; ++n)); do
  reason=$(grep -A1 "CASE == $n\$" "$here/refused.cpp" | sed -n 's|.*// ||p')
  if out=$(compile "${flags[@]}" -include "$scratch/ember.h" -DCASE="$n" "$here/refused.cpp"); then
    say "case $n compiles"
    failed=1
  elif ! grep -q -- "$reason" <<<"$out"; then
    say "case $n fails without '$reason':" "$out"
    failed=1
  fi
done
out=$("$compiler" -std=c++17 -fsyntax-only -I"$source" -DCASE=0 "$here/refused.cpp" 2>&1) && failed=1
if ! grep -q 'ember needs C++20' <<<"$out"; then
  say "C++17 is not told:" "$out"
  failed=1
fi
exit "$failed"
