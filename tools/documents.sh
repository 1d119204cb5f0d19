# shellcheck shell=bash disable=SC2154  # what it uses is set by ./dev
# ./dev docs: links of the documents, the list of environment variables, and the site.

# Links of a document to files or headings that are not there.
broken_links() {
  local target file heading
  { without_code "$1" | grep -oE '\]\([^) ]+' || true; } | cut -c3- | sort -u | while read -r target; do
    case $target in *://* | mailto:*) continue ;; esac
    file=${target%%#*}
    heading=${target#"$file"}
    if [[ -n $file ]]; then file=$(dirname "$1")/$file; else file=$1; fi
    if [[ ! -e $file ]]; then
      say "$1: $target: no such file"
    elif [[ -n $heading ]] && ! grep -qxF "${heading#?}" <<<"$(headings "$file")"; then
      say "$1: $target: no such heading"
    fi
  done
}

# A document without its code blocks.
# shellcheck disable=SC2016
without_code() { sed '/^ *```/,/^ *```/d' "$1"; }

# A document's headings, as links name them.
headings() {
  without_code "$1" | sed -nE 's/^#+ +//p' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# Environment variables that the library reads, or that tests may be given, and docs/environment.md
# does not explain.
unexplained_variables() {
  local name
  {
    grep -rhoE 'env::(get|flag)\("[A-Z_0-9]+"' ember || true
    grep -rhoE -e '(getenv|environ\.get|number_from)\("EMBER_[A-Z_]+"' \
      -e '"EMBER_[A-Z_]+" in os\.environ' tests || true
  } | cut -d'"' -f2 | sort -u |
    while read -r name; do
      grep -sqwF "$name" docs/environment.md || say "docs/environment.md: $name is not explained"
    done
}

# The site in build/docs/, as far as what makes it is there, checked by docs/site/check.py. The Python
# reference comes from the type stubs of a built package.
build_site() {
  local package=build/release/python/ember
  prepare "$docs_needs"
  ! has python3 || prepare_python "$site_needs"
  if ! has python3 || ! have doxygen || [[ -n $(missing_modules "$site_needs") ]]; then return; fi
  if [[ ! -e $package/_C/__init__.pyi ]]; then
    say 'Left out: the Python reference. Not built: the Python package (./dev build).'
    package=
  fi
  python -B docs/site/build.py build/docs build/docs-work ${package:+"$package"} || die 'docs: see above'
  say 'docs: the site is build/docs/index.html'
}

cmd_docs() {
  local trouble
  trouble=$(
    find . -name '*.md' -not -path './build/*' -not -path './.*/*' |
      while read -r document; do broken_links "${document#./}"; done
    unexplained_variables
  )
  [[ -z $trouble ]] || { say "$trouble"; die 'docs: see above'; }
  say 'docs: links and environment variables are in order'
  build_site
}
