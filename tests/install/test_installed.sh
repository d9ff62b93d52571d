#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_installed.sh - installs into a folder of its own and builds the examples against what is there: with
# pkg-config, shared and static, and with CMake's find_package.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

DESTDIR=$scratch/root cmake --install "$OCT_BUILD" --prefix /opt/octet >install.log || { cat install.log; exit 1; }
prefix=$scratch/root/opt/octet
(cd root && find . -type f -o -type l) | sort
for file in bin/octet lib/liboctet.a include/octet/octet.h share/man/man1/octet.1 lib/pkgconfig/octet.pc \
    lib/cmake/octet/octetConfig.cmake share/octet/experiments/table2/resnet20-ring8.yaml; do
    [ -s "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done

# Only the public headers, each of them.
ls "$OCT_SOURCE/include/octet" >public
(cd "$prefix/include" && find . -type f | sed 's|^\./octet/||' | sort) >installed
sort public | diff - installed
grep -qE '^\.(Dt|TH) OCTET 1' "$prefix/share/man/man1/octet.1" || { echo "octet.1 is no manual page"; exit 1; }
if grep -rlF "$OCT_SOURCE" "$prefix/lib/pkgconfig" "$prefix/lib/cmake" "$prefix/include"; then
    echo "the files above name the source tree"
    exit 1
fi

version=$("$prefix/bin/octet" version | head -n 1)
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
pkg_version=$(pkg-config --modversion octet)
echo "program: $version; pkg-config: $pkg_version"
case $version in *"$pkg_version"*) ;; *) echo "versions differ"; exit 1 ;; esac
export LD_LIBRARY_PATH="$prefix/lib"

"$CC" -std=c11 "$OCT_SOURCE/examples/own_data.c" $(pkg-config --cflags --libs octet) -o own_data
ldd own_data | grep "liboctet.so.${pkg_version%.*} => $prefix/lib" ||
    { echo "own_data is not linked with the installed library"; exit 1; }
./own_data

"$CC" -std=c11 "$OCT_SOURCE/examples/own_model.c" $(pkg-config --cflags octet) \
    $(pkg-config --static --libs octet | sed 's/-loctet\b/-l:liboctet.a/') -o own_model
if ldd own_model | grep liboctet; then
    echo "own_model should hold the library itself"
    exit 1
fi
./own_model

for target in octet::octet octet::octet_static; do
    rm -rf examples
    cmake -G Ninja -S "$OCT_SOURCE/examples" -B examples -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$CC" -DOCTET_TARGET=$target >cmake.log 2>&1 &&
        cmake --build examples >>cmake.log 2>&1 || { cat cmake.log; exit 1; }
    linked=$(ldd examples/own_model | grep "$prefix/lib/liboctet" || true)
    echo "$target: ${linked:-holds the library itself}"
    case $target in
    *static) [ -z "$linked" ] ;;
    *) [ -n "$linked" ] ;;
    esac
    examples/own_model
done

# A program that asks for another minor version is refused while the ABI may change with each.
mkdir wrong
printf 'cmake_minimum_required(VERSION 3.25)\nproject(wrong LANGUAGES NONE)\nfind_package(octet 0.0 REQUIRED)\n' \
    >wrong/CMakeLists.txt
if cmake -S wrong -B wrong/build -DCMAKE_PREFIX_PATH="$prefix" >wrong/log 2>&1; then
    echo "find_package(octet 0.0) should have been refused"
    exit 1
fi
grep -q 'version: 0\.' wrong/log || { cat wrong/log; exit 1; }
