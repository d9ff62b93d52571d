#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files: datasets that are missing or damaged, folders from the environment, saving to a full disk."""
import json
import os
import stat
import struct
import tempfile

from octet_cli import TINY, check, contains, environment, equal, finish, has_json, lacks, octet, octet_json


def crc32c(data):
    """As docs/formats/wire.md defines it, bit by bit for a table: not our own code."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 255]
    return f"{value ^ 0xFFFFFFFF:08x}"


with tempfile.TemporaryDirectory() as folder:
    equal(crc32c(b"123456789"), "e3069283", "the published sum of nine digits")
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)

    # --- a missing dataset says which command gets it ------------------------------------------
    done = octet("train", "--data", "cifar10", "--data-dir", empty)
    equal(done.code, 1, "train on a missing dataset: exit", done)
    contains(done.err, "octet data get cifar10", "train on a missing dataset")
    contains(done.err, "cifar10", "train on a missing dataset")
    done = octet("data", "verify", "cifar10", "--data-dir", empty)
    equal(done.code, 1, "verify of a missing dataset: exit", done)
    contains(done.out, "octet data get cifar10", "verify of a missing dataset")
    done = octet("data", "verify", "--data-dir", empty)
    equal(done.code, 0, "verify of all with some missing: exit", done)

    # --- the data folder comes from the option, OCTET_DATA, XDG_DATA_HOME or HOME --------------
    if has_json():
        for env, expected in (
                (environment(OCTET_DATA="/a/b"), "/a/b"),
                (environment(OCTET_DATA="", XDG_DATA_HOME="/c"), "/c/octet"),
                (environment(XDG_DATA_HOME="relative", HOME="/d"), "/d/.local/share/octet"),
                (environment(HOME="/d"), "/d/.local/share/octet"),
                (environment(HOME=None), None)):
            value = octet_json("data", "list", "synthetic", env=env)
            equal(value.get("data_dir"), expected, "data_dir")
        value = octet_json("data", "list", "--data_dir", empty, env=environment(OCTET_DATA="/a/b"))
        equal(value.get("data_dir"), empty, "--data_dir before OCTET_DATA")
        rows = {row["name"]: row for row in value.get("datasets", [])}
        check({"fashion-mnist", "cifar10", "cifar100", "synthetic"} <= set(rows), f"{sorted(rows)}")
        for name, row in rows.items():
            check({"name", "path", "ok", "reason"} <= set(row), f"data list {name}: keys", row)
            check(row["ok"] == (row["reason"] is None), f"data list {name}: a reason or ok", row)
        equal(rows["synthetic"]["ok"], True, "synthetic needs no files")
        equal(rows["cifar10"]["ok"], False, "cifar10 is not in an empty folder")
        equal(octet_json("data", "get", "cifar10", code=2, env=environment(HOME=None))
              .get("error", {}).get("status"), "INVALID", "data get without a folder")
    done = octet("data", "get", "cifar10", env=environment(HOME=None))
    contains(done.err, "--data-dir", "data get without a folder")

    # --- damaged files are named ---------------------------------------------------------------
    bad = os.path.join(folder, "bad")
    os.makedirs(os.path.join(bad, "cifar10"))
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(bad, "cifar10", name), "wb") as file:
            file.write(b"\0" * 3073)
    done = octet("train", "--data", "cifar10", "--data-dir", bad)
    equal(done.code, 1, "train on a truncated dataset: exit", done)
    contains(done.err, "data_batch_1.bin", "train on a truncated dataset")
    done = octet("data", "verify", "cifar10", "--data-dir", bad)
    equal(done.code, 1, "verify of a truncated dataset: exit", done)
    contains(done.out, "damaged", "verify of a truncated dataset")
    said = " ".join(done.out.split())
    for name in ("data_batch_1.bin: 3,073 bytes, expected 30,730,000: truncated; ",
                 "test_batch.bin: 3,073 bytes, expected 30,730,000: truncated; get it again with"):
        contains(said, name, "verify of a truncated dataset, both halves")
    equal(said.count("get it again with"), 1, "verify of a truncated dataset: what to do, once")
    equal(octet("data", "verify", "--data-dir", bad).code, 1, "verify of all, one damaged: exit")
    equal(octet("data", "list", "cifar10", "--data-dir", bad).code, 0, "data list only tells: exit")

    # --- a download that cannot be ------------------------------------------------------------
    # Port 9 of loopback: nothing listens, and nothing leaves this machine.
    target = os.path.join(folder, "target")
    done = octet("data", "get", "cifar10", "--data-dir", target, "--from", "http://127.0.0.1:9/x.tar.gz",
                 env=environment(http_proxy=None, https_proxy=None, all_proxy=None, no_proxy="*"))
    equal(done.code, 1, "data get from nowhere: exit", done)
    equal(done.out, "", "data get from nowhere: stdout")
    left = [name for _, _, names in os.walk(target) for name in names]
    equal(left, [], "data get from nowhere leaves no files")

    # --- saving --------------------------------------------------------------------------------
    kept = os.path.join(folder, "kept")
    os.mkdir(kept)
    path = os.path.join(kept, "model.safetensors")
    done = octet("train", *TINY, "--epochs", "0", "--save", path)
    equal(done.code, 0, "--save: exit", done)
    contains(done.out, path, "--save: the table names the file")
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    check(len(header) > 10, f"--save: a safetensors file with {len(header)} entries")
    equal(header["__metadata__"].get("crc32c"), crc32c(data), "--save: the checksum that other tools compute")
    equal(os.listdir(kept), ["model.safetensors"], "--save leaves one file")

    # --- what is there already: another file beside it, a link, a file that may not be written -----
    partial = path + ".partial"
    with open(partial, "wb") as file:
        file.write(b"somebody's own")
    done = octet("train", *TINY, "--epochs", "0", "--save", path)
    equal(done.code, 0, "--save beside NAME.partial: exit", done)
    with open(partial, "rb") as file:
        equal(file.read(), b"somebody's own", "--save leaves NAME.partial, which is somebody's own")
    os.remove(partial)
    with open(path, "rb") as file:
        model = file.read()
    target, link = os.path.join(kept, "target"), os.path.join(kept, "link")
    with open(target, "wb") as file:
        file.write(b"the older one")
    os.symlink("target", link)
    done = octet("train", *TINY, "--epochs", "0", "--db", "none", "--save", link, room=2000)
    equal(done.code, 1, "--save LINK on a full disk: exit", done)
    with open(target, "rb") as file:
        equal(file.read(), b"the older one", "--save LINK on a full disk")
    done = octet("train", *TINY, "--epochs", "0", "--save", link)
    equal(done.code, 0, "--save LINK: exit", done)
    equal(os.readlink(link), "target", "--save LINK leaves the link")
    with open(target, "rb") as file:
        check(file.read() == model, "--save LINK replaces what it leads to")
    os.chmod(kept, 0o777)
    os.chmod(folder, 0o755)
    os.chmod(target, 0o444)
    for name in (target, link):
        done = octet("train", *TINY, "--save", name, "--db", "none", as_nobody=True)
        equal(done.code, 1, f"--save over a read-only {os.path.basename(name)}: exit", done)
        contains(done.err, f"--save: '{name}' may not be written: Permission denied", "--save over a read-only file")
        check("epoch" not in done.err, "--save over a read-only file fails before training", done.err)
    equal(sorted(os.listdir(kept)), ["link", "model.safetensors", "target"], "--save: nothing beside them")
    os.remove(link)
    os.remove(target)

    # --- as bytes: named weights, one tensor of the rest -----------------------------------------
    small = os.path.join(kept, "model.int8")
    done = octet("train", *TINY, "--epochs", "0", "--save", small, "--save-form", "int8")
    equal(done.code, 0, "--save-form int8: exit", done)
    with open(small, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        compact = json.loads(file.read(size))
        data = file.read()
    metadata = compact.pop("__metadata__")
    equal((metadata.get("form"), metadata.get("scales")), ("int8", "tensor"), "--save-form int8: metadata")
    equal(metadata.get("crc32c"), crc32c(data), "--save-form int8: the checksum")
    weights = [name for name, row in header.items() if len(row.get("shape", [])) > 1]
    equal(sorted(compact), sorted(weights + ["octet.vectors"]), "--save-form int8: tensors")
    equal({row["dtype"] for name, row in compact.items() if name in weights}, {"I8"}, "--save-form int8: weights")
    ratio = os.path.getsize(path) / os.path.getsize(small)
    check(3.8 < ratio < 4, f"--save-form int8: 1/{ratio:.2f} of the floats' file")
    os.remove(small)
    # --- put to use ----------------------------------------------------------------------------------
    data = TINY[:2]
    if has_json():
        for precision, form in (("int8", "int8"), ("int8", "f32"), ("fp32", "f32")):
            run = octet_json("train", *TINY, "--nodes", "2", "--epochs", "2", "--batch", "4", "--precision", precision,
                             "--save", small, "--save-form", form)
            for batch in ("64", "1", "5"):
                value = octet_json("test", small, *data, "--batch", batch)
                what = f"test of {precision} as {form}, {batch} at a time"
                equal((value["accuracy"], value["model"], value["precision"]), (run["accuracy"], "resnet20", precision),
                      f"{what}: as the run said")
                check(abs(value["loss"] - run["loss"]) < 1e-5, f"{what}: loss {value['loss']}, of the run {run['loss']}")
                equal(sum(row["samples"] for row in value["classes"]), value["samples"], f"{what}: every sample has a class")
                right = sum(row["samples"] * row["accuracy"] / 100 for row in value["classes"])
                check(abs(100 * right / value["samples"] - value["accuracy"]) < 1e-6, f"{what}: classes add up")
        equal(octet_json("test", small, *data, "--test-samples", "5")["samples"], 5, "test --test-samples 5")
    octet("train", *TINY, "--epochs", "0", "--save", small)
    done = octet("test", small, *data)
    equal(done.code, 0, "test: exit", done)
    for piece in ("resnet20, range-evonorm, int8 on synthetic", "accuracy", "of 16 test samples", "most often taken for"):
        contains(done.out, piece, "test")
    for arguments, code, says in ((["test"], 2, "a word is missing"),
                                  (["test", os.path.join(kept, "none"), *data], 1, "No such file"),
                                  (["test", __file__, *data], 1, "test_files.py"),
                                  (["test", small, "--data", "synthetic:size=12,classes=4"], 1,
                                   "the model is for samples of 8x8x3 in 4 classes, and synthetic has 12x12x3 in 4"),
                                  (["test", small, *data, "--test-samples", "17"], 2, "has 16"),
                                  (["test", small, *data, "--batch", "0"], 2, "--batch is '0'")):
        done = octet(*arguments)
        equal(done.code, code, f"{' '.join(arguments[:2])} …: exit", done)
        contains(done.err, says, " ".join(arguments[-2:]))
    os.remove(small)
    for arguments, says in ((["--save", small, "--save-form", "int4"], "--save-form is 'int4', expected f32 or int8"),
                            (["--save-form", "int8"], "give --save FILE"),
                            (["--save", small, "--save-form", "int8", "--precision", "fp32"],
                             "precision is 'fp32'")):
        done = octet("train", *TINY, "--epochs", "0", *arguments)
        equal(done.code, 2, f"{' '.join(arguments[-4:])}: exit", done)
        contains(done.err, says, " ".join(arguments[-4:]))
    check(not os.path.exists(small), "nothing was written")

    done = octet("train", *TINY, "--epochs", "0", "--save", "-")
    equal((done.code, done.out), (2, ""), "--save -: exit and stdout", done)
    contains(done.err, "--save is '-', but a model is no text for stdout; name a file", "--save -")
    check(not os.path.exists("-"), "--save -: no file is called -")
    done = octet("train", *TINY, "--epochs", "0", "--save", "/dev/full")
    equal(done.code, 1, "--save /dev/full: exit", done)
    contains(done.err, "/dev/full", "--save /dev/full names the file")
    check(stat.S_ISCHR(os.stat("/dev/full").st_mode), "/dev/full is still a device")
    contains(done.out, "accuracy ", "--save /dev/full: what was learned is printed all the same")
    lacks(done.out, "saved ", "--save /dev/full: the table names no file")
    if has_json():
        value = octet_json("train", *TINY, "--epochs", "0", "--save", "/dev/full", code=1)
        equal((value.get("saved"), "accuracy" in value), (None, True), "--save /dev/full --json")
    done = octet("train", *TINY, "--save", os.path.join(folder, "no/such/model"))
    equal(done.code, 1, "--save into a folder that is not there: exit", done)
    contains(done.err, "no/such", "--save into a folder that is not there")
    check("epoch" not in done.err, "--save into no folder fails before training", done.err)
    done = octet("train", *TINY, "--epochs", "0", "--save", empty)
    equal(done.code, 1, "--save over a folder: exit", done)
    check(os.path.isdir(empty), "--save over a folder leaves the folder")

finish()
