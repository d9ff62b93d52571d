#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_headers.sh - each public header compiles alone, as C11 and as C++17, without a warning.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
n=0
for header in "$OCT_SOURCE"/include/octet/*.h; do
    name=octet/$(basename "$header")
    # Twice: the second must change nothing. The typedef keeps the unit from being empty.
    printf '#include <%s>\n#include <%s>\ntypedef int nonempty;\n' "$name" "$name" >"$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cpp"
    "$CC" -std=c11 -Wall -Wextra -Wpedantic -Wundef -Wstrict-prototypes -Werror -fsyntax-only \
        -I "$OCT_SOURCE/include" "$scratch/alone.c"
    if command -v c++ >/dev/null 2>&1; then
        c++ -std=c++17 -Wall -Wextra -Wpedantic -Wundef -Werror -fsyntax-only \
            -I "$OCT_SOURCE/include" "$scratch/alone.cpp"
    else
        echo "no C++ compiler: $name checked as C only"
    fi
    n=$((n + 1))
    echo "$name"
done
[ "$n" -ge 9 ] || { echo "only $n headers were found"; exit 1; }

# And the check can fail: a header that leans on another's includes.
mkdir "$scratch/octet"
echo 'uint8_t lost(void);' >"$scratch/octet/bad.h"
echo '#include <octet/bad.h>' >"$scratch/alone.c"
if "$CC" -std=c11 -Werror -fsyntax-only -I "$scratch" "$scratch/alone.c" 2>/dev/null; then
    echo "a header that does not compile alone was not noticed"
    exit 1
fi
