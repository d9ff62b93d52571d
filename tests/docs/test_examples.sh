#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_examples.sh - the examples run, and learn: each ends well above what guessing would give.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# learns EXAMPLE LEAST: its last line says "accuracy N".
learns() {
    "$OCT_BUILD/examples/$1" >out || { cat out; echo "$1 failed"; exit 1; }
    cat out
    accuracy=$(tail -n 1 out | sed -n 's/^accuracy \([0-9.]*\) %.*/\1/p')
    awk -v got="$accuracy" -v least="$2" 'BEGIN { exit !(got != "" && got + 0 >= least) }' ||
        { echo "$1: accuracy '$accuracy', at least $2 expected"; exit 1; }
}

learns own_model 70 # of 4 classes
learns own_data 80  # of 3 classes
learns train 50     # of 10 classes
[ "$(grep -c '^epoch' out)" = 5 ]
[ "$(wc -c <model.safetensors)" -gt 1000000 ] # 0.27 M parameters of 4 bytes
