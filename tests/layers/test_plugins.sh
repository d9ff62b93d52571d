#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_plugins.sh - one file and one row: a row without its file stops the configuration, a file without
# its row is not built, both together are. The plug-in is the one that docs/howto/add-a-model.md shows.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree"
cp -r "$OCT_SOURCE"/{CMakeLists.txt,cmake,include,src} "$scratch/tree"
cd "$scratch"

configure() {
    cmake -G Ninja -S tree -B build -DOCT_TESTS=OFF -DCMAKE_C_COMPILER="$CC" -DOCT_WITH_DNNL=OFF >log 2>&1
}
expect() {
    grep -qE "$1" log || { cat log; echo "not said: $1"; exit 1; }
    echo "said: $(grep -oE "$1" log | head -n 1)"
}

echo "--- a row without its file"
echo 'OCT_MODEL(resnet32)' >>tree/src/models/models.def
if configure; then
    echo "a row without a file was accepted"
    exit 1
fi
tr '\n' ' ' <log | tr -s ' ' >log.line && mv log.line log
expect 'src/models/models\.def has the row .OCT_MODEL\(resnet32\).*no src/models/resnet32\.c'

echo "--- both"
sed -n '/^   ```c$/,/^   ```$/s/^   //p' "$OCT_SOURCE/docs/howto/add-a-model.md" | sed '/^```/d' >tree/src/models/resnet32.c
grep -q 'oct_model_resnet32' tree/src/models/resnet32.c || { echo "the how-to's file was not found"; exit 1; }
configure || { cat log; exit 1; }
grep -q 'models/resnet32\.c\.o' build/build.ninja || { echo "resnet32.c is not built"; exit 1; }
cmake --build build --target CMakeFiles/octet_objects.dir/src/models/resnet32.c.o >log 2>&1 || { cat log; exit 1; }

echo "--- a change of the list configures anew, and a file without its row is left out"
sed -i '/resnet32/d' tree/src/models/models.def
touch -d '+2 seconds' tree/src/models/models.def
cmake --build build --target build.ninja >log 2>&1 || { cat log; exit 1; }
expect 'src/models/resnet32\.c has no row in src/models/models\.def: not built'
if grep -q 'models/resnet32\.c\.o' build/build.ninja; then
    echo "resnet32.c is still built"
    exit 1
fi

echo "--- a row twice"
echo 'OCT_MODEL(resnet20)' >>tree/src/models/models.def
if configure; then
    echo "a row that stands twice was accepted"
    exit 1
fi
expect "two rows are called 'resnet20'"
