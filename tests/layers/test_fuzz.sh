#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every fuzz target has a corpus that the suite replays, every corpus a target, and SECURITY.md names both the
# input and its target: a reader of untrusted bytes that is not fuzzed is missed here or nowhere.
set -eu
cd "$OCT_SOURCE"
bad=0
n=0
complain() {
    echo "FAIL  $*"
    bad=$((bad + 1))
}

tests=$(ctest --test-dir "$OCT_BUILD" -N -L '^fuzz$' 2>/dev/null)
for target in tests/fuzz/fuzz_*.c; do
    name=${target#tests/fuzz/fuzz_}
    name=${name%.c}
    inputs=$(find "tests/fuzz/corpus/$name" -type f 2>/dev/null | wc -l)
    n=$((n + 1))
    echo "$name: $inputs inputs"
    [ "$inputs" -ge 5 ] || complain "tests/fuzz/corpus/$name has $inputs inputs, expected 5 at least"
    echo "$tests" | grep -q "fuzz/$name\$" || complain "no test fuzz/$name replays it"
    grep -q "\`$name\`" SECURITY.md || complain "SECURITY.md does not name \`$name\`"
done
for corpus in tests/fuzz/corpus/*; do
    name=${corpus#tests/fuzz/corpus/}
    [ -f "tests/fuzz/fuzz_$name.c" ] || complain "$corpus has no tests/fuzz/fuzz_$name.c"
done
[ "$n" -ge 12 ] || complain "only $n targets were found"
echo "$n targets, $bad complaints"
[ "$bad" -eq 0 ]
