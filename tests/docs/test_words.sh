#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_words.sh - what the documents name is there: links, files, make's goals; and the version agrees.
set -euo pipefail
cd "$OCT_SOURCE"
bad=0
wrong() {
    echo "$1"
    bad=1
}
documents=$(find . -name '*.md' -not -path './build*' | sort)
[ "$(echo "$documents" | wc -l)" -ge 12 ] || wrong "only these documents were found: $documents"

n_links=0
while IFS=: read -r document target; do
    n_links=$((n_links + 1))
    file=${target%%#*}
    [ -z "$file" ] || [ -e "$(dirname "$document")/$file" ] || wrong "$document: no such file as the link ($target)"
    case $target in
    *'#'*) # GitHub's anchor of a heading: lower case, blanks as dashes
        [ -n "$file" ] && headings=$(dirname "$document")/$file || headings=$document
        grep -E '^#+ ' "$headings" | sed 's/^#* //' | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9\n_-' |
            grep -qxF "${target#*#}" || wrong "$document: no heading for the link ($target)"
        ;;
    esac
done < <(for d in $documents; do grep -oE '\]\([^)]+\)' "$d" | sed -E 's/^\]\((.*)\)$/\1/' | grep -vE '^[a-z]+:' |
    sed "s|^|$d:|" || true; done)

# Paths in code marks, unless they hold a placeholder in capitals or a star.
n_paths=0
while IFS=: read -r document path; do
    n_paths=$((n_paths + 1))
    [ -e "$path" ] || wrong "$document: no such file as \`$path\`"
done < <(for d in $documents; do grep -oE '`(src|tests|include|docs|scripts|examples|programs|cmake)/[a-z0-9_./-]+`' "$d" |
    tr -d '`' | sed "s|^|$d:|" || true; done)

n_goals=0
while IFS=: read -r document goal; do
    n_goals=$((n_goals + 1))
    grep -qE "^$goal:" Makefile || wrong "$document: 'make $goal' is no goal of the Makefile"
done < <(for d in $documents Makefile; do { grep -oE '(^|`)make [a-z][a-z-]*' "$d" || true
    grep -oE '"make [a-z-]+' "$d" || true; } | sed -E "s/.*make //; s|^|$d:|"; done)

version=$(sed -n 's/^#define OCT_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/octet/octet.h | paste -sd. -)
grep -q "^version: $version\$" CITATION.cff || wrong "CITATION.cff does not say version $version"
grep -q "^## $version" CHANGELOG.md || wrong "CHANGELOG.md has no heading for version $version"

echo "$n_links links, $n_paths paths, $n_goals goals, version $version"
[ "$n_links" -ge 20 ] && [ "$n_paths" -ge 20 ] && [ "$n_goals" -ge 10 ] || wrong "too few: the search does not find them"
exit $bad
