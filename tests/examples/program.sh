# shellcheck shell=bash
# Of the tests of examples that run a program: what is counted, and how it is said. The test sets
# `name`, and `program`, the command as an array.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  printf 'FAILED: %s\n' "$1"
  sed 's/^/  | /' "$work/out" "$work/err"
  failures=$((failures + 1))
}

# expect STATUS TEXT ARGUMENT...: runs the program; TEXT, a regular expression, must be in what it
# prints: on stdout if all is well, else on stderr.
expect() {
  local status=0 where=$work/out
  "${program[@]}" "${@:3}" >"$work/out" 2>"$work/err" || status=$?
  [[ $1 == 0 ]] || where=$work/err
  if [[ $status != "$1" ]]; then
    fail "$name ${*:3}: exit status $status, expected $1"
  elif ! grep -qE -- "$2" "$where"; then
    fail "$name ${*:3}: '$2' was not printed"
  fi
}

# finish: the test's last command.
finish() {
  ((failures == 0)) || printf '%d failed\n' "$failures"
  ((failures == 0))
}
