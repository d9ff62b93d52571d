#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""People's own arrays on the command line: npy and idx folders, and what is said about wrong ones."""
import os
import struct
import tempfile

from octet_cli import check, contains, environment, equal, finish, has_json, lacks, octet, octet_json

CLASSES, SIDE = 3, 8
RUN = ["--nodes", "1", "--momentum", "local", "--epochs", "1", "--batch", "8", "--augment", "none",
       "--threads", "1", "--model", "resnet20:width=4,blocks=1"]


def npy(path, descr, shape, items, order=False):
    """A file as np.save writes it."""
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + items)


def idx(path, kind, sizes, items):
    with open(path, "wb") as file:
        file.write(bytes([0, 0, kind, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + items)


def pixels(n):
    """Class k is lit up to row 3k, so that even a tiny network can learn it."""
    images = bytearray()
    for i in range(n):
        for y in range(SIDE):
            images += bytes([(200 if y < 3 * (i % CLASSES) else 20) + i % 7] * SIDE)
    return bytes(images)


def labels(n):
    return [i % CLASSES for i in range(n)]


with tempfile.TemporaryDirectory() as folder:
    mine, mnist, bad = (os.path.join(folder, name) for name in ("mine", "mnist", "bad"))
    for path in (mine, mnist, bad):
        os.mkdir(path)
    for half, other, n in (("train", "train", 48), ("test", "t10k", 12)):
        npy(f"{mine}/{half}_images.npy", "|u1", (n, SIDE, SIDE), pixels(n))
        npy(f"{mine}/{half}_labels.npy", "<i8", (n,), struct.pack(f"<{n}q", *labels(n)))
        idx(f"{mnist}/{other}-images-idx3-ubyte", 8, (n, SIDE, SIDE), pixels(n))
        idx(f"{mnist}/{other}-labels-idx1-ubyte", 8, (n,), bytes(labels(n)))

    # --- both are the same data, so the runs are the same --------------------------------------
    results = []
    for data in (f"npy:{mine}", f"npy:path={mine}", f"idx:{mnist}"):
        if has_json():
            value = octet_json("train", "--data", data, *RUN)
            results.append(value["model_sha256"])
            equal(value["config"]["data"], data, "the configuration has the folder")
        done = octet("partition", "--data", data, "--nodes", "2")
        equal(done.code, 0, f"partition --data {data}: exit", done)
        contains(done.out, "48 samples of 3 classes on 2 nodes", f"partition --data {data}")
    equal(len(set(results)), 1 if has_json() else 0, f"npy and idx train the same model {results}")
    done = octet("train", "--data", f"npy:{mine},pad=2", *RUN)
    equal(done.code, 0, "train on padded images: exit", done)

    # --- help and info list them with their options --------------------------------------------
    done = octet("train", "--help")
    contains(done.out, "npy", "train --help")
    contains(done.out, "idx", "train --help")
    done = octet("info")
    contains(done.out, "npy", "info")
    contains(done.out, "path=FOLDER", "info")

    # --- octet data: listed, checked where a folder is named -----------------------------------
    done = octet("data", "list")
    equal(done.code, 0, "data list: exit", done)
    contains(done.out, "--data npy:FOLDER", "data list says how to bring one's own")
    done = octet("data", "verify", env=environment(HOME=None))
    equal(done.code, 0, "data verify without a name: exit", done)
    for data in (f"npy:{mine}", f"idx:{mnist}"):
        done = octet("data", "verify", data)
        equal(done.code, 0, f"data verify {data}: exit", done)
        contains(done.out, data[4:], f"data verify {data} names the folder")
    done = octet("data", "verify", "npy")
    equal(done.code, 1, "data verify npy, without a folder: exit", done)
    contains(done.out, "missing", "data verify npy, without a folder")
    done = octet("data", "get", "npy", "--data-dir", folder)
    equal(done.code, 1, "data get npy: exit", done)
    contains(done.err, "bring your own with --data npy:FOLDER", "data get npy")

    # --- wrong files: the file, the place and the remedy ---------------------------------------
    n = 12
    good = (("train_images.npy", "|u1", (n, SIDE, SIDE), pixels(n)),
            ("train_labels.npy", "|u1", (n,), bytes(labels(n))),
            ("test_images.npy", "|u1", (n, SIDE, SIDE), pixels(n)),
            ("test_labels.npy", "|u1", (n,), bytes(labels(n))))
    for name, descr, shape, items, code, state, says in (
            ("train_images.npy", "<f4", (n, SIDE, SIDE), bytes(4 * n * SIDE * SIDE), 2, "unusable",
             ["(x * 255).round().astype(np.uint8)", "at byte 20"]),
            ("test_images.npy", "|u1", (n, 3, SIDE, SIDE), bytes(3 * n * SIDE * SIDE), 2, "unusable",
             ["np.ascontiguousarray(x.transpose(0, 2, 3, 1))"]),
            ("train_labels.npy", "<i8", (n, CLASSES), bytes(8 * n * CLASSES), 2, "unusable",
             ["y.argmax(1)"]),
            ("train_images.npy", "|u1", (n, SIDE, SIDE), pixels(n)[:-1], 1, "damaged",
             ["895 bytes", "says 896: truncated"]),
            ("test_labels.npy", "|u1", (n - 1,), bytes(n - 1), 1, "damaged",
             ["11 labels, but the test images are 12"])):
        for row in good:
            npy(f"{bad}/{row[0]}", *row[1:])
        npy(f"{bad}/{name}", descr, shape, items)
        what = f"{name} of {descr} {shape}"
        done = octet("train", "--data", f"npy:{bad}", *RUN)
        equal(done.code, code, f"{what}: exit", done)
        equal(len(done.err.strip().split("\n")), 1, f"{what}: one line", done)
        for piece in [name, *says]:
            contains(done.err, piece, what)
        done = octet("data", "verify", f"npy:{bad}")
        equal(done.code, 1, f"{what}: exit of verify", done)
        contains(done.out, state, f"{what}: verify")
    for row in good:
        npy(f"{bad}/{row[0]}", *(row[1:] if "images" in row[0] else ("<i8", (n,), bytes(8 * n))))
    done = octet("train", "--data", f"npy:{bad}", *RUN)
    equal(done.code, 2, "one class: exit", done)
    contains(done.err, f"{bad}/train_labels.npy: every label is 0, and so are those of the test half", "one class")
    lacks(done.err, "network", "one class: it is the dataset")
    done = octet("data", "verify", f"npy:{bad}")
    equal((done.code, "unusable" in done.out), (1, True), "data verify of one class", done)
    done = octet("train", "--data", f"npy:{bad}/all.npz", *RUN)
    check(done.code != 0 and "all.npz" in done.err, "an archive that is not there", done)
    with open(f"{bad}/all.npz", "wb") as file:
        file.write(b"PK\3\4")
    done = octet("train", "--data", f"npy:{bad}/all.npz", *RUN)
    equal(done.code, 2, "an archive: exit", done)
    contains(done.err, "np.save('train_images', z['x_train'])", "an archive")

finish()
