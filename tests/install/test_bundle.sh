#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_bundle.sh - what scripts/bundle packs runs from any folder, without the libraries of this machine.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
mkdir out "some where" home
"$OCT_SOURCE/scripts/bundle" "$OCT_BUILD" out
set -- out/*
[ $# = 1 ] || { echo "more than an archive: $*"; exit 1; }
tar -C "some where" -xzf "$1"
folder=$(echo "$scratch/some where"/octet-*)
octet=$folder/octet
clean() {
    env -i PATH=/usr/bin:/bin HOME="$scratch/home" "$@"
}

# Every library that is loaded is the bundle's, but for the C library and its loader.
clean LD_DEBUG=libs "$octet" version >said 2>loaded
sed -n 's/.*calling init: //p' loaded | sort -u >libraries
n_libraries=$(ls "$folder/lib" | wc -l)
echo "$n_libraries libraries are packed, $(wc -l <libraries) loaded"
if grep -v "^$folder/lib/" libraries |
    grep -vE '/(ld-linux[^/]*|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl)\.so[.0-9]*$'; then
    echo "these are not of the bundle"
    exit 1
fi
n_own=$(grep -c "^$folder/lib/" libraries || true)
[ "$n_own" = "$n_libraries" ] || { echo "only $n_own of the bundle's were loaded:"; cat libraries; exit 1; }

# The program works, also by a link from elsewhere, and is the one that was built.
ln -s "$octet" link
"$OCT_BUILD/octet" version | diff - said
clean ./link version | diff - said
clean "$octet" train --data synthetic:samples=64,size=8 --nodes 2 --epochs 1 --db none >trained 2>&1 ||
    { cat trained; exit 1; }
grep accuracy trained

# What cannot be packed is told.
refused() {
    mkdir -p wrong
    if "$OCT_SOURCE/scripts/bundle" wrong refuse >said 2>&1; then
        echo "should have been refused: $1"
        exit 1
    fi
    grep "$1" said || { cat said; exit 1; }
    [ ! -e refuse ] || { echo "something was made all the same: $1"; exit 1; }
}
refused "there is no wrong/octet"
printf '#!/bin/sh\nexit 3\n' >wrong/octet
chmod +x wrong/octet
refused "wrong/octet does not run"
printf '#!/bin/sh\necho nothing\n' >wrong/octet
refused "does not say its version"
printf '#!/bin/sh\necho octet 0.1.0\n' >wrong/octet
refused "ldd cannot say"
