#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_setup.sh - scripts/setup: silent and fast when nothing is missing; else names and installs.
#
# The machine's own packages are left alone: dpkg-query, apt-get, id and sudo are stand-ins in a folder that
# comes first in PATH, and say what they were asked.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
setup=$OCT_SOURCE/scripts/setup
bin=$scratch/bin
mkdir "$bin"
for tool in sh env mktemp tail rm cat; do
    ln -s "$(command -v $tool)" "$bin/$tool"
done
say() { # say TOOL LINES: writes a stand-in
    printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
    chmod +x "$bin/$1"
}
expect() { # expect STATUS TEXT…: runs setup; its output must hold each TEXT
    status=$1
    shift
    got=0
    PATH=$bin "$setup" >"$scratch/out" 2>&1 || got=$?
    cat "$scratch/out"
    [ "$got" = "$status" ] || { echo "exit status $got, $status expected"; exit 1; }
    for text; do
        grep -qF -- "$text" "$scratch/out" || { echo "not said: $text"; exit 1; }
    done
}
all='shift 3; for p; do echo "installed $p"; done'
none_of='shift 3; for p; do case $p in cmake|libdnnl-dev) ;; *) echo "installed $p" ;; esac; done; exit 1'

echo "--- nothing missing"
say dpkg-query "$all"
say id 'echo 0'
say apt-get 'echo "apt-get should not be called"; exit 1'
expect 0
[ ! -s "$scratch/out" ] || { echo "it should have been silent"; exit 1; }

echo "--- two missing, root"
say dpkg-query "$none_of"
say apt-get "echo \"apt-get \$*\" >>$scratch/calls"
expect 0 "missing packages: cmake libdnnl-dev"
grep -F "install -y --no-install-recommends cmake libdnnl-dev" "$scratch/calls"

echo "--- half removed counts as missing"
say dpkg-query 'shift 3; for p; do case $p in cmake) echo "config-files cmake" ;; *) echo "installed $p" ;; esac; done'
expect 0 "missing packages: cmake"

echo "--- lists are old: update, then again"
say dpkg-query "$none_of"
rm -f "$scratch/calls"
say apt-get "echo \"apt-get \$*\" >>$scratch/calls; case \$1 in update) : >$scratch/updated ;; *) [ -f $scratch/updated ] ;; esac"
expect 0 "missing packages: cmake libdnnl-dev"
[ "$(grep -c install "$scratch/calls")" = 2 ]
grep -q update "$scratch/calls"

echo "--- not root, sudo"
rm -f "$scratch/calls" "$scratch/updated"
say id 'echo 1000'
say apt-get "echo \"apt-get \$*\" >>$scratch/calls"
say sudo "echo \"sudo \$*\" >>$scratch/calls; exec \"\$@\""
expect 0 "missing packages: cmake libdnnl-dev"
grep -q '^sudo env .*apt-get install' "$scratch/calls"

echo "--- not root, no sudo"
rm "$bin/sudo"
expect 1 "As root, run:" "apt-get install cmake libdnnl-dev"

echo "--- root, apt-get fails"
say id 'echo 0'
say apt-get 'echo "E: no network"; exit 100'
expect 1 "E: no network" "apt-get install cmake libdnnl-dev"

echo "--- another system, without cmake"
rm "$bin/dpkg-query"
expect 1 "cmake is missing"

echo "--- an unknown group"
got=0
"$setup" everything || got=$?
[ "$got" = 2 ]

echo "--- fast on this machine"
if command -v dpkg-query >/dev/null && start=$(date +%s%N) && PATH=$bin:$PATH "$setup" >/dev/null 2>&1; then
    took=$((($(date +%s%N) - start) / 1000000))
    echo "$took ms"
    [ "$took" -lt 1000 ] || { echo "too slow"; exit 1; }
fi
