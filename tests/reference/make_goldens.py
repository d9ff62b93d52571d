#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of ResNet-20 with PyTorch, in double precision.

    make_goldens.py                      write golden/*.golden anew
    make_goldens.py --check              compute them again and compare with the files
    make_goldens.py --study              what float32 and a little noise do to every quantity
    make_goldens.py --mutants PROGRAM    the test PROGRAM must fail on every wrong golden
    make_goldens.py --search CASE N      the best of the seeds 1 … N for a case

README.md beside this file has the rules by which inputs are drawn and the layout of a file. The
network is written here from its description, not from Octet's source, and nothing of Octet is used:
both sides agree only if both are right.

Needs PyTorch (Debian: python3-torch). Double precision, one thread: the files are the mathematics,
rounded once to float32, and come out the same on any machine.
"""
import argparse
import dataclasses
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).resolve().parent / "golden"
CLASSES, SIDE, CHANNELS = 10, 32, 3
MEAN = np.array([0.4914, 0.4822, 0.4465], dtype=np.float32)
DEVIATION = np.array([0.2023, 0.1994, 0.2010], dtype=np.float32)
N_BATCHES, N_STEPS, N_SAMPLED = 2, 10, 64


@dataclasses.dataclass(frozen=True)
class Case:
    """A file: a model with a norm. The seeds keep inputs of ReLU away from 0 (--search)."""
    name: str
    norm: str
    width: int
    blocks: int
    batch: int
    lr: float
    seed: int


CASES = [
    Case("narrow-evonorm-s0", "evonorm-s0", 8, 1, 18, 0.05, 1),
    Case("narrow-batchnorm", "batchnorm", 8, 1, 18, 0.005, 184),
    Case("narrow-groupnorm", "groupnorm", 8, 1, 18, 0.005, 30),
    Case("full-evonorm-s0", "evonorm-s0", 16, 3, 4, 0.05, 1),
    Case("full-batchnorm", "batchnorm", 16, 3, 4, 0.001, 145),
    Case("full-groupnorm", "groupnorm", 16, 3, 4, 0.001, 159),
]


@dataclasses.dataclass(frozen=True)
class Rules:
    """The details that are easy to get wrong. A mutant changes one of them."""
    eps: float = 1e-5
    eps_outside: bool = False    # deviation + eps rather than the root of variance + eps
    evonorm_groups: int = 8
    groupnorm_groups: int = 2
    unbiased: bool = False       # variance of the norms
    centred: bool = True         # EvoNorm: variance rather than the mean of squares
    uses_v: bool = True          # EvoNorm: sigmoid(v x) rather than sigmoid(x)
    shortcut_norm: bool = True
    shortcut_relu: bool = False
    relu_after_sum: bool = True
    relu_before_sum: bool = False
    stride_in_second: bool = False
    running_unbiased: bool = True
    running_momentum: float = 0.1
    loss_sum: bool = False
    rgb: bool = True
    beta: float = 0.9
    nesterov: bool = True
    decay: float = 1e-4
    decay_vectors: bool = True


# --- Philox ------------------------------------------------------------------------------------

def philox(key, counter):
    """Philox4x32-10 (Salmon et al., SC 2011) on counters; four columns of 32-bit words."""
    mask = np.uint64(0xffffffff)
    half = np.uint64(32)
    k0, k1 = key
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counter)
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> half) ^ c1 ^ np.uint64(k0), p1 & mask,
                          (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & mask)
        k0 = (k0 + 0x9E3779B9) & 0xffffffff
        k1 = (k1 + 0xBB67AE85) & 0xffffffff
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def check_philox():
    """The known answers that come with the published implementation."""
    known = [
        ((0, 0), (0, 0, 0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xffffffff,) * 2, (0xffffffff,) * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0xa4093822, 0x299f31d0), (0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for key, counter, answer in known:
        got = " ".join(f"{word:08x}" for word in philox(key, counter))
        if got != answer:
            sys.exit(f"philox: {got}, expected {answer}")


PURPOSE_TEST = 7
PARAMS, IMAGES, LABELS, POSITIONS = range(4)  # "node" of the streams; README.md


def words(seed, kind, layer, count):
    """Words 0 … count - 1 of the stream (seed, TEST, node = kind, step = 0, layer)."""
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(block)
    counter = (block, zero + (PURPOSE_TEST << 24 | layer), zero, zero + kind)
    return philox((seed & 0xffffffff, seed >> 32), counter).reshape(-1)[:count]


def unit(word):
    return (word >> np.uint32(8)).astype(np.float64) * 2.0**-24


def below(word, n):
    return ((word.astype(np.uint64) * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


# --- inputs ------------------------------------------------------------------------------------

def draw_images(case):
    """Bytes [image][row][column][channel]: 4 x 4 patches of their own level, and noise."""
    n_pixels = SIDE * SIDE * CHANNELS
    images = np.zeros((N_BATCHES * case.batch, SIDE, SIDE, CHANNELS), dtype=np.uint8)
    for i in range(len(images)):
        word = words(case.seed, IMAGES, i, 48 + n_pixels)
        level = below(word[:48], 192).reshape(4, 4, CHANNELS)
        noise = below(word[48:], 64).reshape(SIDE, SIDE, CHANNELS)
        images[i] = np.repeat(np.repeat(level, 8, axis=0), 8, axis=1) + noise
    return images


def draw_labels(case):
    return below(words(case.seed, LABELS, 0, N_BATCHES * case.batch), CLASSES)


def draw_param(case, index, name, shape):
    count = int(np.prod(shape))
    u = unit(words(case.seed, PARAMS, index, count))
    leaf = name.rsplit(".", 1)[1]
    if leaf == "weight":
        bound = np.sqrt(6.0 / (count // shape[0])) / (1 << index % 3)
        value = 2.0 * bound * u - bound
    elif leaf in ("gamma", "v"):
        value = 0.75 + 0.5 * u
    else:
        value = 0.4 * u - 0.2
    return value.astype(np.float32).reshape(shape)


# --- the network -------------------------------------------------------------------------------

def layout(case):
    """Parameters (name, shape) and statistics (name, start), in the order of the layers."""
    params, stats = [], []

    def conv(name, out, inside, kernel):
        params.append((f"{name}.weight", (out, inside, kernel, kernel)))

    def norm(name, channels):
        params.append((f"{name}.gamma", (channels,)))
        params.append((f"{name}.beta", (channels,)))
        if case.norm == "evonorm-s0":
            params.append((f"{name}.v", (channels,)))
        if case.norm == "batchnorm":
            stats.append((f"{name}.running_mean", channels, 0.0))
            stats.append((f"{name}.running_var", channels, 1.0))

    conv("stem", case.width, CHANNELS, 3)
    norm("stem_norm", case.width)
    inside = case.width
    for stage in range(3):
        out = case.width << stage
        for block in range(case.blocks):
            name = f"stage{stage + 1}.block{block}"
            conv(f"{name}.conv1", out, inside, 3)
            norm(f"{name}.norm1", out)
            conv(f"{name}.conv2", out, out, 3)
            norm(f"{name}.norm2", out)
            if inside != out:
                conv(f"{name}.shortcut", out, inside, 1)
                norm(f"{name}.shortcut_norm", out)
            inside = out
    params.append(("classifier.weight", (CLASSES, inside)))
    params.append(("classifier.bias", (CLASSES,)))
    return params, stats


class Network:
    """ResNet for 32 x 32 images (He et al., arXiv 1512.03385), one forward pass at a time."""

    def __init__(self, case, rules, dtype, noise=0):
        """Parameters are moved by a few units of float32's last place when `noise` is a seed."""
        self.case, self.rules = case, rules
        specs, stats = layout(case)
        generator = torch.Generator().manual_seed(noise)
        self.params = {
            name: torch.tensor(draw_param(case, i, name, shape)).to(dtype).requires_grad_()
            for i, (name, shape) in enumerate(specs)}
        for tensor in self.params.values() if noise else []:
            units = 2.0**-22 * (2 * torch.rand(tensor.shape, generator=generator) - 1)
            tensor.data *= 1 + units.to(dtype)
        self.stats = {name: torch.full((n,), start, dtype=dtype) for name, n, start in stats}
        self.training = True
        self.margin = float("inf")  # the smallest |input of a ReLU| so far

    def relu(self, x):
        if self.case.norm == "evonorm-s0":
            return x
        self.margin = min(self.margin, x.detach().abs().min().item())
        return F.relu(x)

    def conv(self, name, x, stride):
        weight = self.params[f"{name}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    def norm(self, name, x):
        gamma, beta = self.params[f"{name}.gamma"], self.params[f"{name}.beta"]
        rules = self.rules
        n, c, h, w = x.shape
        if self.case.norm == "batchnorm":
            return self.batch_norm(name, x, gamma, beta)
        evonorm = self.case.norm == "evonorm-s0"
        groups = rules.evonorm_groups if evonorm else rules.groupnorm_groups
        grouped = x.reshape(n, groups, c // groups, h, w)
        variance = grouped.var(dim=(2, 3, 4), unbiased=rules.unbiased, keepdim=True)
        if evonorm and not rules.centred:
            variance = grouped.square().mean(dim=(2, 3, 4), keepdim=True)
        deviation = torch.sqrt(variance + rules.eps)
        if rules.eps_outside:
            deviation = torch.sqrt(variance) + rules.eps
        gamma, beta = gamma.view(1, c, 1, 1), beta.view(1, c, 1, 1)
        if evonorm:
            v = self.params[f"{name}.v"].view(1, c, 1, 1)
            bent = x * torch.sigmoid(v * x if rules.uses_v else x + 0.0 * v)
            return gamma * (bent.view_as(grouped) / deviation).view_as(x) + beta
        mean = grouped.mean(dim=(2, 3, 4), keepdim=True)
        return gamma * ((grouped - mean) / deviation).view_as(x) + beta

    def batch_norm(self, name, x, gamma, beta):
        rules = self.rules
        run_mean = self.stats[f"{name}.running_mean"]
        run_var = self.stats[f"{name}.running_var"]
        if not self.training:
            return F.batch_norm(x, run_mean, run_var, gamma, beta, False, 0.0, rules.eps)
        with torch.no_grad():
            mean = x.mean(dim=(0, 2, 3))
            variance = x.var(dim=(0, 2, 3), unbiased=rules.running_unbiased)
            run_mean += rules.running_momentum * (mean - run_mean)
            run_var += rules.running_momentum * (variance - run_var)
        if rules.unbiased:
            var = x.var(dim=(0, 2, 3), unbiased=True, keepdim=True)
            mean = x.mean(dim=(0, 2, 3), keepdim=True)
            return (gamma.view_as(mean) * (x - mean) / torch.sqrt(var + rules.eps)
                    + beta.view_as(mean))
        return F.batch_norm(x, None, None, gamma, beta, True, 0.0, rules.eps)

    def block(self, name, x, stride):
        rules = self.rules
        first, second = (1, stride) if rules.stride_in_second else (stride, 1)
        y = self.relu(self.norm(f"{name}.norm1", self.conv(f"{name}.conv1", x, first)))
        y = self.norm(f"{name}.norm2", self.conv(f"{name}.conv2", y, second))
        if f"{name}.shortcut.weight" in self.params:
            x = self.conv(f"{name}.shortcut", x, stride)
            normed = self.norm(f"{name}.shortcut_norm", x)
            x = normed if rules.shortcut_norm else x + 0.0 * normed
            x = self.relu(x) if rules.shortcut_relu else x
        y = self.relu(y) if rules.relu_before_sum else y
        return self.relu(x + y) if rules.relu_after_sum else x + y

    def forward(self, x):
        x = self.relu(self.norm("stem_norm", self.conv("stem", x, 1)))
        for stage in range(3):
            for block in range(self.case.blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                x = self.block(f"stage{stage + 1}.block{block}", x, stride)
        x = x.mean(dim=(2, 3))
        return F.linear(x, self.params["classifier.weight"], self.params["classifier.bias"])

    def optimizer(self):
        rules = self.rules
        vectors = [p for p in self.params.values() if p.dim() == 1]
        others = [p for p in self.params.values() if p.dim() != 1]
        groups = [{"params": others},
                  {"params": vectors, "weight_decay": rules.decay if rules.decay_vectors else 0.0}]
        return torch.optim.SGD(groups, lr=self.case.lr, momentum=rules.beta,
                               weight_decay=rules.decay, nesterov=rules.nesterov)


def normalized(images, rules, dtype):
    x = images.astype(np.float64) / 255.0
    x = (x - MEAN.astype(np.float64)) / DEVIATION.astype(np.float64)
    x = x if rules.rgb else x[..., ::-1].copy()
    return torch.tensor(x).permute(0, 3, 1, 2).contiguous().to(dtype)


def compute(case, rules=Rules(), dtype=torch.float64, noise=0, n_steps=N_STEPS):
    """Every quantity of a case as {name: float64 array}, and the smallest distance from 0 of a
    ReLU's input in the first two steps."""
    images, labels = draw_images(case), draw_labels(case)
    x, target = normalized(images, rules, dtype), torch.tensor(labels)
    network = Network(case, rules, dtype, noise)
    optimizer = network.optimizer()

    def doubles(tensor):
        return tensor.detach().to(torch.float64).numpy().reshape(-1).copy()

    result = {"images": images.astype(np.float64).reshape(-1), "labels": labels.astype(np.float64)}
    for name, tensor in network.params.items():
        result[f"start/{name}"] = doubles(tensor)
    losses = []
    for step in range(n_steps):
        batch = slice(step % N_BATCHES * case.batch, (step % N_BATCHES + 1) * case.batch)
        logits = network.forward(x[batch])
        loss = F.cross_entropy(logits, target[batch], reduction="sum" if rules.loss_sum else "mean")
        losses.append(loss.item() / (case.batch if rules.loss_sum else 1))
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            result["logits"] = doubles(logits)
            for name, tensor in network.params.items():
                result[f"grad/{name}"] = doubles(tensor.grad)
            for name, tensor in network.stats.items():
                result[f"stat/{name}"] = doubles(tensor)
        optimizer.step()
        if step == 1:
            margin = network.margin
            for name, tensor in network.params.items():
                result[f"after2/{name}"] = doubles(tensor)
    result["losses"] = np.array(losses)
    network.training = False
    with torch.no_grad():
        result["evaluation"] = doubles(F.cross_entropy(network.forward(x), target))
    return result, margin


# --- files -------------------------------------------------------------------------------------

def is_full(case, name):
    """What is stored whole: everything small, and the narrow model's gradients."""
    return case.width == 8 and name.startswith("grad/")


def pack(case, result):
    """A golden file as bytes; README.md draws it."""
    out = [b"octgold1", struct.pack("<QII", case.seed, case.batch, len(result))]
    for index, (name, value) in enumerate(result.items()):
        stored = value
        if value.size > N_SAMPLED and not is_full(case, name):
            stored = value[below(words(case.seed, POSITIONS, index, N_SAMPLED), value.size)]
        text = name.encode()
        text += b"\0" * (-len(text) % 4)
        out.append(struct.pack("<III", len(text), value.size, stored.size) + text)
        out.append(struct.pack("<dd", value.sum(), np.sqrt(np.square(value).sum())))
        out.append(stored.astype("<f4").tobytes())
    return b"".join(out)


def write(folder, cases, rules=Rules()):
    for case in cases:
        data = pack(case, compute(case, rules)[0])
        (folder / f"{case.name}.golden").write_bytes(data)


# --- commands ----------------------------------------------------------------------------------

def check():
    wrong = 0
    for case in CASES:
        data, stored = pack(case, compute(case)[0]), (FOLDER / f"{case.name}.golden").read_bytes()
        n = sum(a != b for a, b in zip(data, stored)) + abs(len(data) - len(stored))
        print(f"{case.name}: {len(stored)} bytes, {n} of them differ")
        wrong += n > 0
    return wrong


def relative_errors(got, exact):
    """{kind of quantity: its largest error}; "loss" is the first of the losses."""
    worst = {"loss": abs(got["losses"][0] / exact["losses"][0] - 1)}
    for name, value in exact.items():
        kind, error = name.split("/")[0], np.linalg.norm(got[name] - value) / np.linalg.norm(value)
        if kind == "losses":
            error = np.abs(got[name] / value - 1)[1:].max()
        worst[kind] = max(worst.get(kind, 0.0), error)
    return worst


def corner_error(case):
    """Root mean square of float32's error in those inputs of ReLU that lie near 0."""
    class Recorder(Network):
        def relu(self, x):
            self.inputs.append(x.detach().double().reshape(-1))
            return super().relu(x)

    passes = []
    for dtype in (torch.float64, torch.float32):
        recorder = Recorder(case, Rules(), dtype)
        recorder.inputs = []
        recorder.forward(normalized(draw_images(case)[:case.batch], Rules(), dtype))
        passes.append(torch.cat(recorder.inputs))
    exact, single = passes
    near = exact.abs() < 0.01
    return (exact - single)[near].square().mean().sqrt().item()


def study():
    """PyTorch's float32, and double precision from parameters moved by float32's last places."""
    for case in CASES:
        exact, margin = compute(case)
        count = sum(int(np.prod(shape)) for _, shape in layout(case)[0])
        print(f"{case.name}: {count} parameters, losses",
              " ".join(f"{loss:.4f}" for loss in exact["losses"]))
        if case.norm != "evonorm-s0":
            print(f"    ReLU's inputs {margin:.1e} from 0, "
                  f"near it known to {corner_error(case):.1e}")
        single = relative_errors(compute(case, dtype=torch.float32)[0], exact)
        noisy = [relative_errors(compute(case, noise=i)[0], exact) for i in range(1, 9)]
        print(f"    {'':12} float32    8 x noise")
        for kind, error in single.items():
            if kind not in ("images", "labels", "start"):
                print(f"    {kind:12} {error:.1e}    {max(run[kind] for run in noisy):.1e}",
                      flush=True)


def search(name, n_seeds):
    case = next(case for case in CASES if case.name == name)
    best = 0.0
    for seed in range(1, n_seeds + 1):
        _, margin = compute(dataclasses.replace(case, seed=seed), n_steps=2)
        if margin > best:
            best = margin
            print(f"{name}: seed {seed} keeps ReLU's inputs {margin:.1e} from 0", flush=True)


EVONORM, BATCHNORM, GROUPNORM = ("evonorm-s0",), ("batchnorm",), ("groupnorm",)
ALL = EVONORM + BATCHNORM + GROUPNORM
MUTANTS = [
    ("unbiased variance", ALL, Rules(unbiased=True)),
    ("eps 1e-6", ALL, Rules(eps=1e-6)),
    ("eps outside the root", EVONORM + GROUPNORM, Rules(eps_outside=True)),
    ("four groups", EVONORM + GROUPNORM, Rules(evonorm_groups=4, groupnorm_groups=4)),
    ("mean of squares for variance", EVONORM, Rules(centred=False)),
    ("sigmoid without v", EVONORM, Rules(uses_v=False)),
    ("shortcut without norm", ALL, Rules(shortcut_norm=False)),
    ("ReLU on the shortcut", BATCHNORM + GROUPNORM, Rules(shortcut_relu=True)),
    ("ReLU before the sum", BATCHNORM + GROUPNORM,
     Rules(relu_before_sum=True, relu_after_sum=False)),
    ("no ReLU after the sum", BATCHNORM + GROUPNORM, Rules(relu_after_sum=False)),
    ("stride in the second convolution", ALL, Rules(stride_in_second=True)),
    ("biased running variance", BATCHNORM, Rules(running_unbiased=False)),
    ("running momentum 0.9", BATCHNORM, Rules(running_momentum=0.9)),
    ("gradient of the summed loss", ALL, Rules(loss_sum=True)),
    ("channels backwards", ALL, Rules(rgb=False)),
    ("heavy-ball momentum", ALL, Rules(nesterov=False)),
    ("momentum 0.91", ALL, Rules(beta=0.91)),
    ("no weight decay", ALL, Rules(decay=0.0)),
    ("weight decay on weights alone", ALL, Rules(decay_vectors=False)),
]


def mutants(program):
    """Every mutant must make the test fail; the right goldens must not."""
    survivors = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, norms, rules in [("nothing wrong", ALL, Rules())] + MUTANTS:
            for case in (c for c in CASES if c.width == 8 and c.norm in norms):
                write(folder, [case], rules)
                run = subprocess.run([program, folder, f"{case.name} on cpu"], check=False,
                                     capture_output=True, text=True)
                wrong = [f"{line[4:30].strip()} {line.split(' allowed')[0].split()[-1]}"
                         for line in run.stdout.splitlines() if line.endswith("WRONG")]
                right = (run.returncode == 0) == (rules == Rules())
                survivors += not right
                print(f"{'ok  ' if right else 'BAD '} {what}, {case.norm}: exit {run.returncode};",
                      ", ".join(wrong) or "all within what is allowed", flush=True)
    return survivors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--study", action="store_true")
    parser.add_argument("--mutants", metavar="PROGRAM")
    parser.add_argument("--search", nargs=2, metavar=("CASE", "N"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    check_philox()
    if options.check:
        sys.exit(1 if check() else 0)
    if options.mutants:
        sys.exit(1 if mutants(options.mutants) else 0)
    if options.study:
        study()
    elif options.search:
        search(options.search[0], int(options.search[1]))
    else:
        FOLDER.mkdir(exist_ok=True)
        write(FOLDER, CASES)


if __name__ == "__main__":
    main()
