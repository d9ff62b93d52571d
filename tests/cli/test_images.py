#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""octet train --data folder:PATH: pictures of one's own, damaged ones, --strict; what else reads them."""
import os
import struct
import sys
import tempfile
import zlib

from octet_cli import (check, contains, equal, finish, has_json, lacks, octet, octet_json)

NET = ["--model", "resnet20:width=8,blocks=1", "--nodes", "2", "--partition", "skew:0", "--algorithm", "none",
       "--momentum", "local", "--batch", "8", "--epochs", "2", "--threads", "2", "--precision", "fp32",
       "--lr", "0.05", "--db", "none"]


def png(width, height, colour):
    """A PNG file of one colour with a darker diagonal."""
    rows = b"".join(b"\0" + b"".join(bytes(c // 2 if x == y else c for c in colour) for x in range(width))
                    for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def put(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


built_with = " ".join(octet("info").out.split("built without")[0].split())
if "libpng (" not in built_with:
    if "libjpeg-turbo (" in built_with:
        print("this build has no libpng, and the pictures here are PNG files")
        sys.exit(77)
    done = octet("train", "--data", "folder:/nowhere", *NET)
    equal(done.code, 1, "no decoder: exit", done)
    contains(done.err, "unavailable: built without libjpeg-turbo and libpng", "no decoder")
    finish()

with tempfile.TemporaryDirectory() as folder:
    data = f"folder:{folder},size=16"
    done = octet("train", "--data", data, *NET)
    equal(done.code, 1, "no folder train: exit", done)
    contains(done.err, "has no folder 'train'; expected are train/CLASS/*.jpg", "no folder train")

    for half, n in (("train", 24), ("test", 9)):
        for label, colour in enumerate(((220, 40, 40), (40, 200, 60), (50, 60, 230))):
            for i in range(n):
                put(folder, f"{half}/colour{label}/{i:02}.png",
                    png(20 + i % 7, 18 + i % 5, [min(255, c + i) for c in colour]))

    done = octet("train", "--data", data, *NET)
    equal(done.code, 0, "train: exit", done)
    contains(done.out, "resnet20:width=8,blocks=1 on folder:", "train")
    lacks(done.err, "damaged", "nothing is damaged")
    if has_json():
        report = octet_json("train", "--data", data, *NET)
        check(report["accuracy"] > 60, f"three colours are learned: {report['accuracy']:.1f} %")
        again = octet_json("train", "--data", data, *NET, "--threads", "1")
        equal(again["model_sha256"], report["model_sha256"], "one thread, the same model")
        few = octet_json("train", "--data", data, *NET, "--samples", "30", "--test-samples", "6")
        check(few["model_sha256"] != report["model_sha256"], "--samples: another model")
        deal = octet_json("partition", "--data", data, "--nodes", "3", "--skew", "1")
        equal(deal["histogram"], [[24, 0, 0], [0, 24, 0], [0, 0, 24]], "partition: histogram")

    # Damaged: named and left out; refused with --strict.
    whole = png(20, 20, (40, 200, 60))
    for i in range(12):
        put(folder, f"train/colour1/bad{i:02}.png", whole[:60 + i])
    done = octet("train", "--data", data, *NET)
    equal(done.code, 0, "damaged: exit", done)
    contains(done.err, "train/colour1/bad00.png: not a whole PNG file", "damaged: the first is named")
    contains(done.err, "train/colour1/bad09.png: not a whole PNG file", "damaged: the tenth is named")
    lacks(done.err, "bad10.png", "damaged: no more than ten are named")
    contains(done.err, "12 of 84 pictures in", "damaged: how many")
    if has_json():
        after = octet_json("train", "--data", data, *NET)
        equal(after["model_sha256"], report["model_sha256"], "damaged files change nothing")
    for strict in (["--strict"], ["--strict", "yes"], ["--strict=yes"]):
        done = octet("train", "--data", data, *strict, *NET)
        equal(done.code, 1, f"{strict}: exit", done)
        contains(done.err, "strict: 12 pictures are damaged: ", f"{strict}")
        contains(done.err, "train/colour1/bad00.png", f"{strict}: the first is named")
    done = octet("train", "--data", data, "--strict", "no", *NET)
    equal(done.code, 0, "--strict no: exit", done)
    done = octet("train", "--data", data, *NET, "--strict=maybe")
    equal(done.code, 2, "--strict=maybe: exit", done)
    contains(done.err, "expected one of: no, yes", "--strict=maybe")

    # Verified, both halves in one report.
    put(folder, "test/colour2/bad.png", whole[:70])
    done = octet("data", "verify", data)
    equal(done.code, 1, "data verify: exit", done)
    said = " ".join(done.out.split())
    for piece in ("12 of its training pictures are damaged: ", "train/colour1/bad00.png: not a whole PNG file",
                  "; 1 of its test pictures is damaged: ", "test/colour2/bad.png: not a whole PNG file"):
        contains(said, piece, "data verify")
    os.remove(os.path.join(folder, "test/colour2/bad.png"))

    # Names that others gave their files do not reach the terminal's controls.
    put(folder, "train/colour1/\x1b[2J\u009b\r.png", whole[:70])
    for strict in ("no", "yes"):
        done = octet("train", "--data", data, "--strict", strict, *NET)
        contains(done.err, "train/colour1/ [2J  .png: not a whole PNG file", f"an odd name, --strict {strict}")
        check(not set(done.err) & set("\x1b\r\u009b"), f"an odd name, --strict {strict}: no control characters",
              repr(done.err))
    os.unlink(os.path.join(folder, "train/colour1/\x1b[2J\u009b\r.png"))

    # A class that only the test half has.
    put(folder, "test/colour9/1.png", whole)
    done = octet("train", "--data", data, *NET)
    equal(done.code, 1, "a class to test that is not trained: exit", done)
    contains(done.err, "has a class 'colour9' that the training half has not", "a class to test only")

    # One class alone.
    for half in ("train", "test"):
        put(folder, f"alone/{half}/only/1.png", whole)
    done = octet("train", "--data", f"folder:{folder}/alone,size=16", *NET)
    equal(done.code, 2, "one class: exit", done)
    contains(done.err, f"{folder}/alone/train are of one class, 'only'", "one class")
    done = octet("data", "verify", f"folder:{folder}/alone,size=16")
    equal((done.code, "unusable" in done.out), (1, True), "data verify of one class", done)

    # Imagenette is looked for in the data folder.
    done = octet("data", "verify", "imagenette", "--data-dir", folder)
    equal(done.code, 1, "data verify imagenette: exit", done)
    contains(done.out, "octet data get imagenette", "data verify imagenette: remedy")
    done = octet("data", "list", "--data-dir", folder)
    equal(done.code, 0, "data list: exit", done)
    contains(done.out, "folder:/path", "data list: folder says how")

finish()
