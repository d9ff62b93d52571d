#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_tutorial.sh - the tutorial in <octet/octet.h> is examples/train.c, word for word.
#
# Layout may differ, because the header's columns begin further in; comments there use // as they stand
# inside one.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed -n '/^ \*     #include/,/^ \*     cc /s/^ \*     //p' "$OCT_SOURCE/include/octet/octet.h" |
    sed '/^cc /d' >"$scratch/tutorial"
sed -n '/^#include/,$p' "$OCT_SOURCE/examples/train.c" | sed 's|/\* \(.*\) \*/|// \1|' >"$scratch/example"
for name in tutorial example; do
    tr -s ' \n' '\n\n' <"$scratch/$name" | sed '/^$/d' >"$scratch/$name.words"
done
wc -w <"$scratch/example.words"
[ "$(wc -l <"$scratch/example.words")" -gt 100 ] || { echo "examples/train.c was not read"; exit 1; }
if ! diff "$scratch/tutorial.words" "$scratch/example.words"; then
    echo "'<' is the tutorial in octet.h, '>' is examples/train.c: make them equal"
    exit 1
fi
