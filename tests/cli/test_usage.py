#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help, exit codes, and wrong usage: each mistake is named in a line or two on stderr, exit 2."""
from octet_cli import check, contains, environment, equal, finish, has_json, lacks, octet

# --- help goes to stdout, exit 0 ---------------------------------------------------------------

COMMANDS = ["train", "bench step", "bench kernels", "bench codec", "bench infer", "bench gradients", "data list", "data get",
            "data verify", "partition", "topology", "runs", "info", "help", "version"]

overview = octet()
equal(overview.code, 0, "octet alone: exit", overview)
equal(overview.err, "", "octet alone: stderr")
for command in COMMANDS:
    contains(overview.out, f"\n  {command}", "octet alone")
for arguments in (["help"], ["--help"], ["-h"]):
    done = octet(*arguments)
    equal((done.code, done.out, done.err), (0, overview.out, ""), f"{arguments} is the overview")
lines = overview.out.count("\n")
check(lines <= 50, f"the overview is about one screen: {lines} lines")

for command in COMMANDS:
    if command == "help":
        continue
    by_option, by_word = octet(*command.split(), "--help"), octet("help", *command.split())
    equal(by_option.code, 0, f"{command} --help: exit", by_option)
    equal(by_option.err, "", f"{command} --help: stderr")
    equal(by_word.out, by_option.out, f"help {command} is {command} --help")
    check(by_option.out.startswith(f"octet {command}"), f"{command} --help names it", by_option)
    lines = by_option.out.count("\n")
    most = {"train": 146, "bench step": 85}.get(command, 60)  # the whole option table is more
    check(lines <= most, f"{command} --help is about one screen: {lines} lines")
    widest = max(len(line) for line in by_option.out.splitlines())
    check(widest <= 80, f"{command} --help fits 80 columns: {widest}")

for group in ("bench", "data"):
    one, other = octet("help", group), octet(group, "--help")
    equal((one.code, one.out), (0, other.out), f"help {group} is {group} --help")

train_help = octet("train", "--help").out
for piece in ("--weight-decay X", "[1e-4]", "--norm NAME", "range-batchnorm", "crop-flip",
              "{int8, fp32, int8-sim} [int8]", "--precision-recipe NAME", "octet[:...], paper[:...]",
              "--activation-rounding NAME", "{nearest, stochastic}", "--compare PRECISION",
              "--trace-quant", "--save FILE", "Examples", "octet train"):
    contains(train_help, piece, "train --help")
flat = " ".join(train_help.split())
contains(flat, "print both {int8, fp32, int8-sim}", "train --help: choices of --compare")
contains(flat, "by itself: range-evonorm in int8, evonorm-s0 in fp32", "train --help: default norms")
# A choice whose help says that it takes options: help says where these are, and there they are.
contains(flat, "'octet info' lists the options", "train --help says where options are")
contains(" ".join(octet("info").out.split()), "eps=X, reach=X", "info lists the options of recipes")
contains(octet("bench", "step", "--help").out, "[fp32,int8]", "bench step --help")
contains(octet("bench", "infer", "--help").out, "[1,64]", "bench infer --help")
contains(octet("bench", "gradients", "--help").out, "[paper,octet]", "bench gradients --help")

for arguments in (["version"], ["--version"], ["-V"]):
    done = octet(*arguments)
    equal(done.code, 0, f"{arguments}: exit")
    check(done.out.startswith("octet ") and done.out.count("\n") == 1, f"{arguments}: {done.out!r}")

# --- what works in several spellings -----------------------------------------------------------

for arguments in (["info", "--seed", "3", "--threads=1"], ["info", "--quiet", "--verbose"],
                  ["version", "--seed=3"], ["data", "list", "synthetic", "--threads", "1"],
                  ["bench", "kernels", "--only=add_f32", "--seconds", "0.001"]):
    done = octet(*arguments)
    equal(done.code, 0, f"{arguments}: exit", done)
for spelling in (["--weight-decay", "0x"], ["--weight_decay", "0x"], ["--weight_decay=0x"]):
    contains(octet("train", *spelling).err, "--weight-decay is '0x'", f"{spelling}")

# --- wrong usage: arguments, and what the message must contain ---------------------------------

# Data that is not there: whoever looked for it would say so, and exit with 1.
NO_DATA = ["--data", "cifar10", "--data-dir", "/no/such/folder"]

WRONG = [
    # commands
    (["trian"], ["'trian' is no command", "did you mean 'octet train'?"]),
    (["dtaa", "list"], ["'dtaa' is no command", "did you mean 'octet data'?"]),
    (["frobnicate"], ["'frobnicate' is no command", "octet help"]),
    (["bench"], ["needs one more word", "step, kernels, codec, infer, gradients"]),
    (["bench", "stp"], ["'stp' is no part of 'octet bench'", "step, kernels, codec, infer, gradients"]),
    (["data"], ["list, get, verify"]),
    (["--seed=3", "info"], ["'--seed=3' comes before the command", "octet COMMAND --seed=3"]),
    (["help", "trian"], ["'trian' is no command"]),
    (["help", "bench", "stp"], ["'bench stp' is no command"]),
    # names of options
    (["train", "--epoch", "3"], ["--epoch is no option", "did you mean --epochs?"]),
    (["train", "--weihgt-decay=3"], ["did you mean --weight-decay?"]),
    (["train", "--weight", "3"], ["did you mean --weights?"]),
    (["train", "--weight-dec", "3"], ["did you mean --weight-decay?"]),
    (["train", "--jsn"], ["did you mean --json?"]),
    (["train", "--frobnicate", "3"], ["--frobnicate is no option"]),
    (["train", "--=3"], ["is no option"]),
    (["train", "-batch", "3"], ["'-batch' has one dash", "--batch"]),
    (["train", "-x"], ["'-x' is no option"]),
    (["info", "--batch", "3"], ["--batch is an option of 'octet train', not of 'octet info'"]),
    (["train", "--" + "x" * 5000, "3"], ["is no option"]),
    # values
    (["train", "--batch"], ["--batch needs a value", "1 to 65536"]),
    (["train", "--batch", "--quiet"], ["--batch needs a value"]),
    (["train", "--lr"], ["--lr needs a value, a number from 0 to"]),
    (["train", "--norm"], ["--norm needs a value, one of:", "batchnorm"]),
    (["train", "--save"], ["--save needs a value, as in --save FILE"]),
    (["train", "--save="], ["--save needs a value"]),
    (["train", "--json=yes"], ["--json takes no value", "'yes'"]),
    (["train", "--batch", "8x"], ["--batch is '8x'", "whole number from 1 to 65536"]),
    (["train", "--batch=0"], ["--batch is '0'", "from 1 to 65536"]),
    (["train", "--batch", "-1"], ["--batch is '-1'", "from 1 to 65536"]),
    (["train", "--batch", " 8"], ["--batch is ' 8'"]),
    (["train", "--batch", ""], ["--batch is ''"]),
    (["train", "--batch", "1e2"], ["--batch is '1e2'", "whole number"]),
    (["train", "--lr", "0,8"], ["--lr is '0,8'", "expected a number from 0 to"]),
    (["train", "--lr", "nan"], ["--lr is 'nan'", "expected a number"]),
    (["train", "--lr", "inf"], ["--lr is 'inf'", "expected a number"]),
    (["train", "--lr=-0.1"], ["--lr is '-0.1'", "from 0 to"]),
    (["train", "--beta", "1"], ["--beta is '1'", "from 0 to 0.9999"]),
    (["train", "--seed", "99999999999999999999"], ["--seed is '99999999999999999999'"]),
    (["info", "--seed", "x"], ["--seed is 'x'"]),
    (["data", "list", "--threads", "many"], ["--threads is 'many'", "0 to 4096"]),
    (["train", "--norm", "batchnrm"], ["--norm is 'batchnrm'", "did you mean 'batchnorm'?"]),
    (["train", "--model", "resnet"], ["--model is 'resnet'", "expected one of:", "resnet20"]),
    (["train", "--augment", "flip"], ["--augment is 'flip'", "crop-flip, none"]),
    (["train", "--data", "cifar"], ["--data is 'cifar'", "cifar10"]),
    (["train", "--data", "synthetic:sampels=5"], ["sampels"]),
    (["train", "--data", "synthetic:samples=8x"], ["samples", "'8x'"]),
    # precisions and recipes: refused before any data is read
    (["train", "--precision", "int4"], ["--precision is 'int4'", "int8, fp32, int8-sim", "'int8'?"]),
    (["train", "--activation-rounding", "up"], ["--activation-rounding is 'up'", "nearest"]),
    (["train", "--precision-recipe", "octt"], ["--precision-recipe is 'octt'", "did you mean 'octet'?"]),
    (["train", *NO_DATA, "--precision-recipe", "octet:range=ful"],
     ["--precision-recipe octet: range is 'ful'", "mean, full"]),
    (["train", *NO_DATA, "--precision-recipe", "octet:rnage=full"], ["no option 'rnage'", "range, mask"]),
    (["train", *NO_DATA, "--precision-recipe", "octet:mask=no,mask=yes"], ["mask is given twice"]),
    (["train", *NO_DATA, "--precision-recipe", "octet:"], ["--precision-recipe octet: range has no value"]),
    (["train", *NO_DATA, "--compare", "int8"], ["--compare is 'int8', the precision of the run itself"]),
    (["train", *NO_DATA, "--precision", "fp32", "--compare=fp32"], ["--compare is 'fp32'", "another"]),
    (["train", *NO_DATA, "--compare", "fp31"], ["--compare is 'fp31'", "did you mean 'fp32'?"]),
    (["train", "--compare"], ["--compare needs a value, one of: int8, fp32, int8-sim"]),
    (["train", *NO_DATA, "--precision", "fp32", "--trace-quant"], ["--trace-quant", "precision is 'fp32'"]),
    (["train", "--trace-quant=yes"], ["--trace-quant takes no value"]),
    (["train", "--recipes", "octet"], ["--recipes is an option of 'octet bench gradients'"]),
    (["bench", "gradients", "--recipes", "octt"], ["--recipes is 'octt'", "did you mean 'octet'?"]),
    (["bench", "gradients", *NO_DATA, "--recipes", "paper,octet:mask=maybe"],
     ["--recipes octet: mask is 'maybe'", "no, yes"]),
    (["bench", "gradients", "--recipes", "paper,,octet"], ["--recipes is ''", "octet, paper"]),
    (["bench", "gradients", *NO_DATA, "--recipes", "octet,octet,octet,octet,octet,paper"],
     ["--recipes has more than 5"]),
    (["bench", "gradients", "--steps", "-1"], ["--steps is '-1'", "from 0 to"]),
    (["bench", "gradients", "--batches", "0"], ["--batches is '0'", "from 1 to"]),
    (["bench", "step", "--precision-recipe", "octet:range=ful"], ["range is 'ful'"]),
    (["bench", "step", "--precision", "fp32,fp31"], ["--precision is 'fp31'", "fp32"]),
    (["bench", "step", "--precision", "fp32,"], ["--precision is ''"]),
    (["bench", "step", "--seconds", "0"], ["--seconds is '0'", "from 0.01 to 3600"]),
    (["bench", "step", "--nodes", "2.5"], ["--nodes is '2.5'", "whole number"]),
    (["bench", "infer", "--batch", "1,x"], ["--batch is '1,x'", "from 1 to 65536", "--batch 1,64"]),
    (["bench", "infer", "--batch", "0"], ["--batch is '0'", "from 1 to 65536"]),
    (["bench", "infer", "--batch", "-1"], ["--batch is '-1'", "from 1 to 65536"]),
    (["bench", "infer", "--batch", "1,"], ["--batch is '1,'", "whole numbers"]),
    (["bench", "infer", "--batch", " 1"], ["--batch is ' 1'", "whole numbers"]),
    (["bench", "infer", "--batch", "8,8"], ["--batch is '8,8'", "8 is there twice"]),
    (["bench", "infer", "--batch", "99999999999999999999"], ["from 1 to 65536"]),
    (["bench", "infer", "--batch", ",".join(map(str, range(1, 18)))], ["--batch has more than 16 numbers"]),
    (["bench", "infer", "--precision", "fp32,fp31"], ["--precision is 'fp31'", "fp32"]),
    (["bench", "infer", "--seconds", "0"], ["--seconds is '0'", "from 0.01 to 3600"]),
    (["bench", "kernels", "--seconds", "1s"], ["--seconds is '1s'"]),
    # words
    (["train", "a.yaml", "b.yaml"], ["'b.yaml' is one word too many", "octet train [RUN.yaml]"]),
    (["info", "now"], ["'now' is unexpected", "--key value"]),
    (["info", "--", "--json"], ["'--json' is unexpected"]),
    (["data", "get"], ["a word is missing", "octet data get NAME"]),
    (["data", "get", "cifra10"], ["'cifra10' is no dataset", "did you mean 'cifar10'?"]),
    (["data", "verify", "imagenet"], ["'imagenet' is no dataset", "fashion-mnist"]),
    (["data", "get", "cifar10", "cifar100"], ["'cifar100' is one word too many"]),
]
if has_json():
    WRONG.append((["help", "--man", "--json"], ["--man prints roff, not JSON"]))
    WRONG.append((["--json"], ["'--json' comes before the command"]))

for arguments, pieces in WRONG:
    shown = " ".join(a if len(a) < 50 else a[:20] + "..." for a in arguments)
    done = octet(*arguments)
    equal(done.code, 2, f"octet {shown}: exit", done)
    if "--json" not in arguments:
        equal(done.out, "", f"octet {shown}: stdout")
    for piece in pieces:
        contains(done.err, piece, f"octet {shown}")
    check(done.err.startswith("octet") and done.err.count("\n") <= 2,
          f"octet {shown}: a line or two", done.err)
    check(max(len(line) for line in done.err.splitlines()) < 250, f"octet {shown}: short lines")

# --- the environment ---------------------------------------------------------------------------

done = octet("info", env=environment(OCT_CPU="pentium"))
equal(done.code, 2, "OCT_CPU=pentium: exit", done)
for piece in ("OCT_CPU", "pentium", "avx2"):
    contains(done.err, piece, "OCT_CPU=pentium")
done = octet("info", env=environment(OCT_CPU="ref"))
equal(done.code, 0, "OCT_CPU=ref: exit", done)
contains(done.out, "ref: portable C", "OCT_CPU=ref")
for level in ("avx2", "avx512"):
    lacks(done.out, f"\n  {level} ", "OCT_CPU=ref: kernels")
equal(octet("version", env=environment(OCT_CPU="")).code, 0, "an empty OCT_CPU is none: exit")

# A full disk under stdout is a failure, not silence.
with open("/dev/full", "w", encoding="ascii") as full:
    done = octet("help", stdout=full)
equal(done.code, 1, "stdout on a full disk: exit", done)
contains(done.err, "cannot write to stdout", "stdout on a full disk")

finish()
