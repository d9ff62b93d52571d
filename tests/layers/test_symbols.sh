#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_symbols.sh - the shared library exports what the public headers declare, and nothing else; its
# name carries the version.
set -eu
library=$OCT_BUILD/liboctet.so

exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
n=$(echo "$exported" | wc -l)
echo "$n exported symbols"
[ "$n" -ge 20 ] || { echo "too few: $exported"; exit 1; }
if echo "$exported" | grep -v '^oct_' || echo "$exported" | grep '^oct__'; then
    echo "the symbols above should be hidden"
    exit 1
fi

# Each declared function is there, each exported one is declared.
declared=$(cat "$OCT_SOURCE"/include/octet/*.h | tr '\n' ' ' |
    grep -oE 'OCT_API [^;]*;' | grep -oE '\boct_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$declared" >"$scratch/declared"
echo "$exported" >"$scratch/exported"
if ! diff "$scratch/declared" "$scratch/exported"; then
    echo "'<' is declared and not exported, '>' exported and not declared"
    exit 1
fi

version=$(sed -n 's/^#define OCT_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$OCT_SOURCE/include/octet/octet.h" |
    paste -sd. -)
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
echo "version $version, soname $soname"
[ "$soname" = "liboctet.so.${version%.*}" ]
