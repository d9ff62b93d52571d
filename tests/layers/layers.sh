#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layers.sh - checks the order of the layers by the includes. Usage: layers.sh ROOT
#
#   base < kernels < engine < nn < models          each uses those before it
#   data, topology, compress, transport            base, engine/engine.h and engine/packet.h, never one another
#   gossip                                         also topology and compress
#   train                                          all of those
#   store                                          train and base
#   programs, examples                             only <octet/…>; those called bench and info reach inside
#   include/octet                                  only <octet/…> and the C library
#
# An include of ours is written "layer/file.h". Prints each violation as FILE:LINE: what; exit 1.
set -eu
cd "$1"

files=$(find include src programs examples -type f \( -name '*.[ch]' -o -name '*.def' \) 2>/dev/null | sort)
[ -n "$files" ] || { echo "layers: no sources under $1" >&2; exit 2; }

awk '
BEGIN {
    uses["base"] = ""
    uses["kernels"] = "base"
    uses["engine"] = "base kernels"
    uses["nn"] = "base kernels engine"
    uses["models"] = "base kernels engine nn"
    uses["data"] = uses["topology"] = uses["compress"] = uses["transport"] = "base"
    uses["gossip"] = "base topology compress"
    uses["train"] = "base kernels engine nn models data topology compress gossip transport"
    uses["store"] = "base train"
    sees_engine["data"] = sees_engine["topology"] = sees_engine["compress"] = 1
    sees_engine["transport"] = sees_engine["gossip"] = 1
}
function wrong(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    bad++
}
function allowed(layer, other,    list, n, i) {
    if (layer == other) return 1
    n = split(uses[layer], list, " ")
    for (i = 1; i <= n; i++) if (list[i] == other) return 1
    return 0
}
FNR == 1 {
    n_parts = split(FILENAME, part, "/")
    base_name = part[n_parts]
    area = part[1]
    layer = area == "src" ? part[2] : ""
    if (area == "src" && !(layer in uses)) wrong("src/" layer " is no layer; see docs/ARCHITECTURE.md")
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    n_checked++
    quoted = $0 ~ /include[ \t]*"/
    path = $0
    sub(/^[^<"]*[<"]/, "", path)
    sub(/[>"].*$/, "", path)
    slash = index(path, "/")
    folder = slash ? substr(path, 1, slash - 1) : ""
    if (area == "include") {
        if (quoted) wrong("a public header includes \"" path "\"; write <octet/…>")
    } else if (area == "src") {
        if (!quoted) {
            if (folder in uses) wrong("<" path "> is ours: write \"" path "\"")
        } else if (folder == "octet") {
            wrong("\"" path "\" is public: write <" path ">")
        } else if (!(folder in uses)) {
            wrong("\"" path "\" does not begin with a layer")
        } else if (layer in uses && !allowed(layer, folder) &&
                   !(path ~ /^engine\/(engine|packet)\.h$/ && layer in sees_engine)) {
            wrong(layer " may not use " folder " (\"" path "\")")
        }
    } else if (area == "programs") {
        inside = base_name ~ /^(cmd_)?(bench|info)[a-z_]*\.[ch]$/
        if (folder in uses && !inside) wrong("a program uses \"" path "\"; only <octet/…> is public")
    } else if (quoted) {
        wrong("an example includes \"" path "\"; only <octet/…> is public")
    }
}
END {
    if (bad) exit 1
    printf "layers: %d includes in %d files are in order\n", n_checked, ARGC - 1
}
' $files
