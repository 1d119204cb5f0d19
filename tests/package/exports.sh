#!/usr/bin/env bash
# exports.sh <library> <sources>          libember.so exports names of ember alone, and only those
#                                         that stand in a header with EMBER_API in it; those with
#                                         C's names begin with ember_allocator_
# exports.sh <library> <sources> <name>   any other library exports this name alone
set -euo pipefail
library=$1 sources=$2 only=${3:-}

names=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort -u)
printf '%s: %d symbols\n' "${library##*/}" "$(wc -l <<<"$names")"
if [[ -n $only ]]; then
  [[ $names == "$only" ]] && exit
  printf 'expected only %s, found:\n%s\n' "$only" "$(head -n 20 <<<"$names")"
  exit 1
fi

foreign=$(grep -vE '^_Z(NK?|NO|T[ISV]N)5ember|^ember_allocator_' <<<"$names" || true)
if [[ -n $foreign ]]; then
  printf 'not of ember:\n%s\n' "$(c++filt <<<"$foreign" | head -n 20)"
  exit 1
fi

# Of "ember::cuda::Stream::query() const" the last name before the bracket; of a type, its own.
unmarked=$(nm -DC --defined-only "$library" |
  awk 'match($0, /ember::[A-Za-z0-9_:~]+/) { print substr($0, RSTART, RLENGTH) }' |
  sed -E 's/.*:://; s/^~//' | sort -u |
  grep -vxF -f <(grep -lrE 'EMBER_(TEST_)?API' "$sources/ember" --include='*.h' --include='*.inc' |
    xargs cat "$sources/ember/scalar/elementwise.inc" | grep -oE '[A-Za-z_]\w*' |
    sed -E 'p; s/$/_out/; p; s/_out$/_/' | sort -u) || true)
if [[ -n $unmarked ]]; then
  printf 'in no header with EMBER_API:\n%s\n' "$(head -n 20 <<<"$unmarked")"
  exit 1
fi
