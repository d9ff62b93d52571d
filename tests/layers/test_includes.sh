#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_includes.sh - the tree keeps the order of the layers; and the check notices when one does not.
set -eu
here=$(dirname "$0")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# violation FILE INCLUDE MESSAGE: a tree with this one line must be refused at that line.
violation() {
    rm -rf "$tree"
    mkdir -p "$tree/$(dirname "$1")"
    printf '/* a file */\n#include %s\n' "$2" >"$tree/$1"
    if out=$("$here/layers.sh" "$tree"); then
        echo "not noticed: $1 with #include $2"
        exit 1
    fi
    case $out in
    "$1:"[12]": "*"$3"*) echo "noticed: $out" ;;
    *)
        echo "noticed otherwise than as '$3': $out"
        exit 1
        ;;
    esac
}

accepted() {
    rm -rf "$tree"
    mkdir -p "$tree/$(dirname "$1")"
    printf '/* a file */\n#include %s\n' "$2" >"$tree/$1"
    "$here/layers.sh" "$tree"
}

violation src/base/alloc.c '"kernels/kernels.h"' 'base may not use kernels'
violation src/kernels/ref/add.c '"engine/engine.h"' 'kernels may not use engine'
violation src/engine/cpu.c '"nn/graph.h"' 'engine may not use nn'
violation src/nn/graph.c '"models/models.h"' 'nn may not use models'
violation src/nn/graph.c '"data/data.h"' 'nn may not use data'
violation src/models/resnet20.c '"train/step.h"' 'models may not use train'
violation src/data/cifar.c '"compress/wire.h"' 'data may not use compress'
violation src/data/cifar.c '"engine/cpu.h"' 'data may not use engine'
violation src/data/cifar.h '"nn/graph.h"' 'data may not use nn'
violation src/topology/ring.c '"data/data.h"' 'topology may not use data'
violation src/gossip/choco.c '"transport/mpi.h"' 'gossip may not use transport'
violation src/train/step.c '"store/runs.h"' 'train may not use store'
violation src/train/step.c '"step.h"' 'does not begin with a layer'
violation src/train/step.c '"octet/trainer.h"' 'is public'
violation src/train/step.c '<base/alloc.h>' 'is ours'
violation src/misc/x.c '<stdio.h>' 'is no layer'
violation include/octet/graph.h '"base/fail.h"' 'a public header'
violation programs/octet/train.c '"base/alloc.h"' 'only <octet/…> is public'
violation examples/train.c '"base/alloc.h"' 'only <octet/…> is public'
accepted src/data/cifar.c '"engine/engine.h"'
accepted src/train/step.c '"data/data.h"'
accepted programs/octet/cmd_bench.c '"engine/engine.h"'
accepted programs/octet/cmd_info.c '"kernels/kernels.h"'
accepted programs/octet/train.c '"cli.h"'

"$here/layers.sh" "$OCT_SOURCE"
