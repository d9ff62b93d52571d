#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_bundle.sh - what scripts/bundle packs runs from any folder, without the libraries of this machine.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/out" "$scratch/some where"
"$OCT_SOURCE/scripts/bundle" "$OCT_BUILD" "$scratch/out"
set -- "$scratch"/out/*
[ $# = 1 ] || { echo "more than an archive: $*"; exit 1; }
tar -C "$scratch/some where" -xzf "$1"
folder=$(echo "$scratch/some where"/octet-*)
octet=$folder/octet

# Every library is the bundle's, but for the C library and its loader.
LD_LIBRARY_PATH=$folder/lib ldd "$folder/bin/octet" >libraries 2>&1 || { cat libraries; exit 1; }
if grep -vF "$folder/lib/" libraries |
    grep -vE '^[[:space:]]*(linux-vdso|libc|libm|libdl|librt|libpthread|libresolv)\.so|ld-linux'; then
    echo "these are not of the bundle"
    exit 1
fi

# The program works, also by a link from elsewhere, and is the one that was built.
ln -s "$octet" "$scratch/link"
for program in "$octet" "$scratch/link"; do
    env -i PATH=/usr/bin:/bin HOME="$scratch" "$program" version >there
    "$OCT_BUILD/octet" version | diff - there
done
env -i PATH=/usr/bin:/bin HOME="$scratch" "$octet" train --data synthetic:samples=64,size=8 --nodes 2 --epochs 1 --db none \
    >trained 2>&1 || { cat trained; exit 1; }
grep accuracy trained

# Wrong use is told.
if "$OCT_SOURCE/scripts/bundle" "$scratch" "$scratch/out" >refused 2>&1; then
    echo "a folder without a program should have been refused"
    exit 1
fi
grep "there is no $scratch/octet" refused
