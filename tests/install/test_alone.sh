#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_alone.sh - a build without optional libraries needs libc and libm, and nothing else.
set -eu
for file in "$OCT_BUILD/octet" "$OCT_BUILD/liboctet.so"; do
    needed=$(ldd "$file" | awk '{print $1}')
    echo "$file needs:" $needed
    others=$(echo "$needed" | grep -vE '^(linux-vdso\.so\.1|libm\.so\.6|libc\.so\.6|(/.*/)?ld-linux[-a-z0-9_]*\.so\.[0-9])$' || true)
    [ -z "$others" ] || { echo "not expected: $others"; exit 1; }
    echo "$needed" | grep -q '^libc\.so\.6$'
done
