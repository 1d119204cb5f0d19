# shellcheck shell=bash disable=SC2154  # what it uses is set by ./dev
# ./dev lint and ./dev format: the sources and scripts, and what is checked of them.

sources() {
  find ember examples python tests bench tools -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort
}

scripts() {
  say dev
  say .ci/run
  find bench tests tools -type f -name '*.sh'
}

# The compile commands of a build folder for files below a folder of ours, as lines of shell that only
# check.
check_commands() {  # DIR FOLDER
  python3 -c '
import json, sys
for entry in json.load(sys.stdin):
    if entry["file"].startswith(sys.argv[1]):
        print(entry["command"], "-fsyntax-only")' "$root/$2/" <"$1/compile_commands.json"
}

cmd_lint() {
  local failed=() script
  prepare_build
  prepare "$lint_needs"
  say '== Shell syntax =='
  while read -r script; do bash -n "$script" || failed+=("$script"); done < <(scripts)
  say '== Formatting =='
  sources | xargs clang-format-14 --dry-run -Werror || failed+=('formatting (try ./dev format)')
  configure debug build/lint -DCMAKE_CXX_COMPILER=clang++-14 -DEMBER_CUDA=OFF \
    -DEMBER_PYTHON=OFF -DEMBER_UNITY=OFF
  # Clang's warnings, lock annotations among them: of the library from clang-tidy, of its tests from
  # the build with the thread sanitizer, which clang makes. That leaves the benchmarks.
  say '== Warnings of clang =='
  { check_commands build/lint bench; check_commands build/lint tools; } | tr '\n' '\0' |
    (cd build/lint && xargs -0 -P "$jobs" -I '{}' sh -c '{}') || failed+=('clang warnings')
  say '== clang-tidy =='
  python3 tools/tidy.py build/lint "$root" --jobs "$jobs" || failed+=('clang-tidy')
  [[ ${#failed[@]} -eq 0 ]] || die "lint: $(joined "${failed[@]}")"
  say 'lint: clean'
}

cmd_format() {
  prepare "$format_needs"
  sources | xargs clang-format-14 -i
}
