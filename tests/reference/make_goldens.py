#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of every model with PyTorch, in double precision.

    make_goldens.py                      write golden/*.golden anew
    make_goldens.py --check              compute them again and compare with the files
    make_goldens.py --study              what float32 and a little noise do to every quantity
    make_goldens.py --mutants PROGRAM    the test PROGRAM must fail on every wrong golden
    make_goldens.py --search CASE N      the best of the seeds 1 … N for a case
    make_goldens.py … --only PATTERN     the same, of files like PATTERN (shell's * and ?) alone

README.md beside this file has the rules by which inputs are drawn and the layout of a file. The
networks are written here from their descriptions, not from Octet's source, and nothing of Octet is
used: both sides agree only if both are right.

Needs PyTorch (Debian: python3-torch). Double precision, one thread: the files are the mathematics,
rounded once to float32, and come out the same on any machine.
"""
import argparse
import dataclasses
import fnmatch
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).resolve().parent / "golden"
CLASSES, CHANNELS = 10, 3
MEAN = np.array([0.4914, 0.4822, 0.4465], dtype=np.float32)
DEVIATION = np.array([0.2023, 0.1994, 0.2010], dtype=np.float32)
N_BATCHES, N_SAMPLED = 2, 64
EVERYTHING = 1 << 30


@dataclasses.dataclass(frozen=True)
class Case:
    """A file: a model with a norm. The seeds keep inputs of ReLU away from 0, and the largest value of
    a pooling away from the next (--search)."""
    name: str           # MODEL-FORM-NORM
    options: dict       # of the model
    side: int           # of the images
    batch: int
    lr: float
    seed: int
    n_steps: int = 10
    sampled: int = 64   # entries of a larger tensor
    whole: int = 0      # gradients of up to so many elements are stored whole

    @property
    def model(self):
        return self.name.split("-")[0]

    @property
    def norm(self):
        return self.name.split("-", 2)[2]

    @property
    def is_smooth(self):
        return self.norm == "evonorm-s0" and self.model not in ("resnet18", "vgg11")


NARROW20, FULL20 = {"width": 8, "blocks": 1}, {"width": 16, "blocks": 3}
NARROW54, FULL54 = {"width": 4, "blocks": 8}, {"width": 16, "blocks": 8}
NARROW, FULL = {"width": 8}, {"width": 64}
NARROW_MOBILE, SHORT_MOBILE = {"percent": 25, "blocks": 4}, {"percent": 25, "blocks": 1}
FULL_MOBILE = {"percent": 100, "blocks": 4}

CASES = [
    Case("resnet20-narrow-evonorm-s0", NARROW20, 32, 18, 0.05, 1, whole=EVERYTHING),
    Case("resnet20-narrow-batchnorm", NARROW20, 32, 18, 0.005, 184, whole=EVERYTHING),
    Case("resnet20-narrow-groupnorm", NARROW20, 32, 18, 0.005, 30, whole=EVERYTHING),
    Case("resnet20-full-evonorm-s0", FULL20, 32, 4, 0.05, 1),
    Case("resnet20-full-batchnorm", FULL20, 32, 4, 0.001, 145),
    Case("resnet20-full-groupnorm", FULL20, 32, 4, 0.001, 159),
    Case("resnet54-narrow-evonorm-s0", NARROW54, 32, 6, 0.02, 1, 5, 16, 300),
    Case("resnet54-narrow-batchnorm", NARROW54, 32, 3, 0.0001, 89, 2, 16, 300),
    Case("resnet54-full-evonorm-s0", FULL54, 32, 2, 0.02, 1, 3, 8),
    Case("resnet18-narrow-evonorm-s0", NARROW, 64, 6, 0.02, 18, 5, 32, 2304),
    Case("resnet18-narrow-batchnorm", NARROW, 64, 6, 0.001, 12, 2, 32, 2304),
    Case("resnet18-narrow-groupnorm", NARROW, 64, 6, 0.001, 16, 2, 32, 600),
    Case("resnet18-full-evonorm-s0", FULL, 64, 2, 0.01, 8, 2, 16),
    Case("resnet18-full-batchnorm", FULL, 64, 3, 0.001, 9, 2, 16),
    Case("vgg11-narrow-evonorm-s0", NARROW, 64, 6, 0.02, 18, 5, 32, 2304),
    Case("vgg11-narrow-batchnorm", NARROW, 64, 6, 0.001, 19, 2, 32, 2304),
    Case("vgg11-full-evonorm-s0", FULL, 32, 2, 0.01, 20, 2, 16),
    Case("vgg11-full-batchnorm", FULL, 32, 3, 0.001, 30, 2, 16),
    Case("mobilenetv2-narrow-evonorm-s0", NARROW_MOBILE, 80, 3, 0.02, 1, 5, 16, 80),
    Case("mobilenetv2-narrow-batchnorm", SHORT_MOBILE, 80, 4, 0.0001, 26, 2, 16, 80),
    Case("mobilenetv2-full-evonorm-s0", FULL_MOBILE, 32, 2, 0.01, 1, 2, 8),
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
    stem_stride: bool = True     # ResNet-18, and MobileNetV2 of large images
    row_stride: bool = True      # MobileNetV2, second row, of large images
    pools_mean: bool = False     # for the largest
    pool_pad: float = -np.inf
    hidden_relu: bool = True     # VGG-11
    project_relu: bool = False   # MobileNetV2, after the third norm
    stride_in_expansion: bool = False
    expands_first: bool = True   # the norm and activation of the block whose factor is 1
    shortcut: bool = True        # MobileNetV2, where channels change
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
    side, patch = case.side, case.side // 4
    n_pixels = side * side * CHANNELS
    images = np.zeros((N_BATCHES * case.batch, side, side, CHANNELS), dtype=np.uint8)
    for i in range(len(images)):
        word = words(case.seed, IMAGES, i, 48 + n_pixels)
        level = below(word[:48], 192).reshape(4, 4, CHANNELS)
        noise = below(word[48:], 64).reshape(side, side, CHANNELS)
        images[i] = np.repeat(np.repeat(level, patch, axis=0), patch, axis=1) + noise
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


# --- the networks ------------------------------------------------------------------------------

def groups_of(channels, wanted):
    """The most groups, up to `wanted`, that channels divide into."""
    return next(n for n in range(wanted, 0, -1) if channels % n == 0)


class Layers:
    """What networks are made of. Parameters come into being, in the order of the layers, when they
    are first asked for."""

    def __init__(self, case, rules, dtype, noise=0):
        """Parameters are moved by a few units of float32's last place when `noise` is a seed."""
        self.case, self.rules, self.dtype, self.noise = case, rules, dtype, noise
        self.generator = torch.Generator().manual_seed(noise)
        self.params, self.stats = {}, {}
        self.training = True
        self.margin = float("inf")
        with torch.no_grad():
            self.forward(torch.zeros((2, CHANNELS, case.side, case.side), dtype=dtype))
        for name in self.stats:
            self.stats[name].fill_(float(name.endswith("var")))
        self.margin = float("inf")  # the smallest distance from a corner so far

    def forward(self, x):
        return MODELS[self.case.model](self, x)

    def param(self, name, shape):
        if name not in self.params:
            value = draw_param(self.case, len(self.params), name, shape)
            tensor = torch.tensor(value).to(self.dtype)
            if self.noise:
                units = 2.0**-22 * (2 * torch.rand(shape, generator=self.generator) - 1)
                tensor *= 1 + units.to(self.dtype)
            self.params[name] = tensor.requires_grad_()
        return self.params[name]

    def relu(self, x):
        self.margin = min(self.margin, x.detach().abs().min().item())
        return F.relu(x)

    def act(self, x):
        """ReLU, where the norm before it has no non-linearity of its own."""
        return x if self.case.norm == "evonorm-s0" else self.relu(x)

    def max_pool(self, x, kernel, stride, pad):
        if self.rules.pools_mean:
            return F.avg_pool2d(x, kernel, stride, pad, count_include_pad=False)
        wide = F.pad(x, (pad,) * 4, value=self.rules.pool_pad)
        windows = wide.unfold(2, kernel, stride).unfold(3, kernel, stride).flatten(4)
        best = windows.detach().amax(dim=-1, keepdim=True)
        second = windows.detach().masked_fill(windows == best, -np.inf).amax(dim=-1, keepdim=True)
        self.margin = min(self.margin, (best - second).min().item())
        return F.max_pool2d(wide, kernel, stride)

    def conv(self, name, x, out, kernel=3, stride=1, groups=1):
        weight = self.param(f"{name}.weight", (out, x.shape[1] // groups, kernel, kernel))
        return F.conv2d(x, weight, stride=stride, padding=kernel // 2, groups=groups)

    def linear(self, name, x, out):
        weight = self.param(f"{name}.weight", (out, x.shape[1]))
        return F.linear(x, weight, self.param(f"{name}.bias", (out,)))

    def norm(self, name, x):
        rules = self.rules
        n, c, h, w = x.shape
        gamma, beta = self.param(f"{name}.gamma", (c,)), self.param(f"{name}.beta", (c,))
        if self.case.norm == "batchnorm":
            return self.batch_norm(name, x, gamma, beta)
        evonorm = self.case.norm == "evonorm-s0"
        groups = groups_of(c, rules.evonorm_groups if evonorm else rules.groupnorm_groups)
        grouped = x.reshape(n, groups, c // groups, h, w)
        variance = grouped.var(dim=(2, 3, 4), unbiased=rules.unbiased, keepdim=True)
        if evonorm and not rules.centred:
            variance = grouped.square().mean(dim=(2, 3, 4), keepdim=True)
        deviation = torch.sqrt(variance + rules.eps)
        if rules.eps_outside:
            deviation = torch.sqrt(variance) + rules.eps
        gamma, beta = gamma.view(1, c, 1, 1), beta.view(1, c, 1, 1)
        if evonorm:
            v = self.param(f"{name}.v", (c,)).view(1, c, 1, 1)
            bent = x * torch.sigmoid(v * x if rules.uses_v else x + 0.0 * v)
            return gamma * (bent.view_as(grouped) / deviation).view_as(x) + beta
        mean = grouped.mean(dim=(2, 3, 4), keepdim=True)
        return gamma * ((grouped - mean) / deviation).view_as(x) + beta

    def batch_norm(self, name, x, gamma, beta):
        rules = self.rules
        zeros = torch.zeros(x.shape[1], dtype=self.dtype)
        run_mean = self.stats.setdefault(f"{name}.running_mean", zeros)
        run_var = self.stats.setdefault(f"{name}.running_var", zeros.clone())
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

    def optimizer(self):
        rules = self.rules
        vectors = [p for p in self.params.values() if p.dim() == 1]
        others = [p for p in self.params.values() if p.dim() != 1]
        groups = [{"params": others},
                  {"params": vectors, "weight_decay": rules.decay if rules.decay_vectors else 0.0}]
        return torch.optim.SGD(groups, lr=self.case.lr, momentum=rules.beta,
                               weight_decay=rules.decay, nesterov=rules.nesterov)


# Residual networks (He et al., arXiv 1512.03385): basic blocks, and a 1 x 1 convolution with a norm on
# the shortcut where the shape changes.

def basic_block(net, name, x, out, stride):
    rules = net.rules
    first, second = (1, stride) if rules.stride_in_second else (stride, 1)
    y = net.act(net.norm(f"{name}.norm1", net.conv(f"{name}.conv1", x, out, 3, first)))
    y = net.norm(f"{name}.norm2", net.conv(f"{name}.conv2", y, out, 3, second))
    if stride != 1 or x.shape[1] != out:
        x = net.conv(f"{name}.shortcut", x, out, 1, stride)
        normed = net.norm(f"{name}.shortcut_norm", x)
        x = normed if rules.shortcut_norm else x + 0.0 * normed
        x = net.act(x) if rules.shortcut_relu else x
    y = net.act(y) if rules.relu_before_sum else y
    return net.act(x + y) if rules.relu_after_sum else x + y


def residual_stages(net, x, n_stages, n_blocks):
    for stage in range(n_stages):
        for block in range(n_blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            name = f"stage{stage + 1}.block{block}"
            x = basic_block(net, name, x, net.case.options["width"] << stage, stride)
    return net.linear("classifier", x.mean(dim=(2, 3)), CLASSES)


def resnet_cifar(net, x):
    x = net.act(net.norm("stem_norm", net.conv("stem", x, net.case.options["width"])))
    return residual_stages(net, x, 3, net.case.options["blocks"])


def resnet18(net, x):
    stride = 2 if net.rules.stem_stride else 1
    x = net.conv("stem", x, net.case.options["width"], 7, stride)
    x = net.max_pool(net.act(net.norm("stem_norm", x)), 3, 2, 1)
    return residual_stages(net, x, 4, 2)


def vgg11(net, x):
    """Configuration A of Simonyan and Zisserman (arXiv 1409.1556) with norms, the mean of what is left
    of the map, and two linear layers; without dropout."""
    width, n_convs = net.case.options["width"], 0
    for section in ((1,), (2,), (4, 4), (8, 8), (8, 8)):
        for factor in section:
            n_convs += 1
            x = net.conv(f"conv{n_convs}", x, factor * width)
            x = net.act(net.norm(f"norm{n_convs}", x))
        x = net.max_pool(x, 2, 2, 0)
    x = net.linear("hidden", x.mean(dim=(2, 3)), 8 * width)
    x = net.relu(x) if net.rules.hidden_relu else x
    return net.linear("classifier", x, CLASSES)


# MobileNetV2 (Sandler et al., arXiv 1801.04381), table 2, in the form of the CIFAR literature: a block
# with stride 1 always has a shortcut, a 1 x 1 convolution with a norm where channels change.
MOBILE_ROWS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
               (6, 160, 3, 2), (6, 320, 1, 1)]


def inverted_block(net, name, x, expansion, out, stride):
    rules, inside = net.rules, x.shape[1]
    wide = expansion * inside
    first, second = (stride, 1) if rules.stride_in_expansion else (1, stride)
    y = net.conv(f"{name}.expand", x, wide, 1, first)
    normed = net.act(net.norm(f"{name}.expand_norm", y))
    y = y + 0.0 * normed if expansion == 1 and not rules.expands_first else normed
    y = net.conv(f"{name}.depthwise", y, wide, 3, second, groups=wide)
    y = net.act(net.norm(f"{name}.depthwise_norm", y))
    y = net.norm(f"{name}.project_norm", net.conv(f"{name}.project", y, out, 1))
    y = net.act(y) if rules.project_relu else y
    if stride != 1:
        return y
    if inside != out:
        x = net.conv(f"{name}.shortcut", x, out, 1)
        normed = net.norm(f"{name}.shortcut_norm", x)
        x = normed if rules.shortcut_norm else x + 0.0 * normed
        x = x if rules.shortcut else 0.0 * x
    return x + y


def mobilenetv2(net, x):
    rules, large = net.rules, net.case.side > 64

    def scaled(channels):
        return max(8, 8 * round(channels * net.case.options["percent"] / 800 + 1e-9))

    x = net.conv("stem", x, scaled(32), 3, 2 if large and rules.stem_stride else 1)
    x = net.act(net.norm("stem_norm", x))
    for row, (expansion, channels, n_blocks, stride) in enumerate(MOBILE_ROWS, 1):
        if row == 2 and not (large and rules.row_stride):
            stride = 1
        for block in range(min(n_blocks, net.case.options["blocks"])):
            x = inverted_block(net, f"row{row}.block{block}", x, expansion, scaled(channels),
                               stride if block == 0 else 1)
    x = net.act(net.norm("head_norm", net.conv("head", x, scaled(1280), 1)))
    return net.linear("classifier", x.mean(dim=(2, 3)), CLASSES)


MODELS = {"resnet20": resnet_cifar, "resnet54": resnet_cifar, "resnet18": resnet18, "vgg11": vgg11,
          "mobilenetv2": mobilenetv2}


def normalized(images, rules, dtype):
    x = images.astype(np.float64) / 255.0
    x = (x - MEAN.astype(np.float64)) / DEVIATION.astype(np.float64)
    x = x if rules.rgb else x[..., ::-1].copy()
    return torch.tensor(x).permute(0, 3, 1, 2).contiguous().to(dtype)


def compute(case, rules=Rules(), dtype=torch.float64, noise=0):
    """Every quantity of a case as {name: float64 array}, and the smallest distance from a corner (of
    a ReLU's input from 0, of a pooling's largest value from the next) in the first step."""
    images, labels = draw_images(case), draw_labels(case)
    x, target = normalized(images, rules, dtype), torch.tensor(labels)
    network = Layers(case, rules, dtype, noise)
    optimizer = network.optimizer()

    def doubles(tensor):
        return tensor.detach().to(torch.float64).numpy().reshape(-1).copy()

    result = {"images": images.astype(np.float64).reshape(-1), "labels": labels.astype(np.float64)}
    for name, tensor in network.params.items():
        result[f"start/{name}"] = doubles(tensor)
    losses = []
    for step in range(case.n_steps):
        batch = slice(step % N_BATCHES * case.batch, (step % N_BATCHES + 1) * case.batch)
        logits = network.forward(x[batch])
        loss = F.cross_entropy(logits, target[batch], reduction="sum" if rules.loss_sum else "mean")
        losses.append(loss.item() / (case.batch if rules.loss_sum else 1))
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            margin = network.margin
            result["logits"] = doubles(logits)
            for name, tensor in network.params.items():
                result[f"grad/{name}"] = doubles(tensor.grad)
            for name, tensor in network.stats.items():
                result[f"stat/{name}"] = doubles(tensor)
        optimizer.step()
        if step == 1:
            for name, tensor in network.params.items():
                result[f"after2/{name}"] = doubles(tensor)
    result["losses"] = np.array(losses)
    network.training = False
    with torch.no_grad():
        result["evaluation"] = doubles(F.cross_entropy(network.forward(x), target))
    return result, margin


# --- files -------------------------------------------------------------------------------------

def most_stored(case, name):
    """The size up to which a quantity is stored whole."""
    if "/" not in name:
        return N_SAMPLED
    return max(case.sampled, case.whole if name.startswith("grad/") else 0)


def pack(case, result):
    """A golden file as bytes; README.md draws it."""
    out = [b"octgold1", struct.pack("<QII", case.seed, case.batch, len(result))]
    for index, (name, value) in enumerate(result.items()):
        stored = value
        if value.size > most_stored(case, name):
            count = case.sampled if "/" in name else N_SAMPLED
            stored = value[below(words(case.seed, POSITIONS, index, count), value.size)]
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

def check(cases):
    wrong = 0
    for case in cases:
        data, stored = pack(case, compute(case)[0]), (FOLDER / f"{case.name}.golden").read_bytes()
        n = sum(a != b for a, b in zip(data, stored)) + abs(len(data) - len(stored))
        print(f"{case.name}: {len(stored)} bytes, {n} of them differ")
        wrong += n > 0
    return wrong


def relative_errors(got, exact):
    """{kind of quantity: its largest error}; "loss" is the first of the losses."""
    worst = {"loss": abs(got["losses"][0] / exact["losses"][0] - 1)}
    norms = {name: np.linalg.norm(value) for name, value in exact.items()}
    largest = max(norm for name, norm in norms.items() if name.startswith("grad/"))
    for name, value in exact.items():
        kind, scale = name.split("/")[0], norms[name]
        if kind == "grad" and scale < 1e-9 * largest:  # 0 by construction
            scale = 0.1 * largest
        error = np.linalg.norm(got[name] - value) / scale
        if kind == "losses":
            error = np.abs(got[name] / value - 1)[1:].max()
        worst[kind] = max(worst.get(kind, 0.0), error)
    return worst


def corner_error(case):
    """Root mean square of float32's error in those inputs of ReLU that lie near 0."""
    class Recorder(Layers):
        inputs = []

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


def study(cases):
    """PyTorch's float32, and double precision from parameters moved by float32's last places."""
    for case in cases:
        exact, margin = compute(case)
        count = sum(value.size for name, value in exact.items() if name.startswith("start/"))
        print(f"{case.name}: {count} parameters, losses",
              " ".join(f"{loss:.4f}" for loss in exact["losses"]))
        if case.norm != "evonorm-s0":
            print(f"    corners {margin:.1e} away, "
                  f"ReLU's inputs near 0 known to {corner_error(case):.1e}")
        elif not case.is_smooth:
            print(f"    corners {margin:.1e} away")
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
        tried = dataclasses.replace(case, seed=seed)
        network = Layers(tried, Rules(), torch.float64)
        with torch.no_grad():
            network.forward(normalized(draw_images(tried)[:case.batch], Rules(), torch.float64))
        if network.margin > best:
            best = network.margin
            print(f"{name}: seed {seed} keeps corners {best:.1e} away", flush=True)


EVONORM, BATCHNORM, GROUPNORM = ("evonorm-s0",), ("batchnorm",), ("groupnorm",)
ALL, RELUS = EVONORM + BATCHNORM + GROUPNORM, BATCHNORM + GROUPNORM
MUTANTS = [  # what, in which models' narrow forms, with which norms
    ("unbiased variance", "resnet20", ALL, Rules(unbiased=True)),
    ("eps 1e-6", "resnet20", ALL, Rules(eps=1e-6)),
    ("eps outside the root", "resnet20", EVONORM + GROUPNORM, Rules(eps_outside=True)),
    ("four groups", "resnet20", EVONORM + GROUPNORM, Rules(evonorm_groups=4, groupnorm_groups=4)),
    ("mean of squares for variance", "resnet20", EVONORM, Rules(centred=False)),
    ("sigmoid without v", "resnet20", EVONORM, Rules(uses_v=False)),
    ("shortcut without norm", "resnet20 resnet18 mobilenetv2", ALL, Rules(shortcut_norm=False)),
    ("ReLU on the shortcut", "resnet20 resnet18", RELUS, Rules(shortcut_relu=True)),
    ("ReLU before the sum", "resnet20 resnet54", RELUS,
     Rules(relu_before_sum=True, relu_after_sum=False)),
    ("no ReLU after the sum", "resnet20", RELUS, Rules(relu_after_sum=False)),
    ("stride in the second convolution", "resnet20 resnet54 resnet18", ALL,
     Rules(stride_in_second=True)),
    ("biased running variance", "resnet20", BATCHNORM, Rules(running_unbiased=False)),
    ("running momentum 0.9", "resnet20", BATCHNORM, Rules(running_momentum=0.9)),
    ("gradient of the summed loss", "resnet20", ALL, Rules(loss_sum=True)),
    ("channels backwards", "resnet20", ALL, Rules(rgb=False)),
    ("heavy-ball momentum", "resnet20", ALL, Rules(nesterov=False)),
    ("momentum 0.91", "resnet20", ALL, Rules(beta=0.91)),
    ("no weight decay", "resnet20", ALL, Rules(decay=0.0)),
    ("weight decay on weights alone", "resnet20", ALL, Rules(decay_vectors=False)),
    ("stem without stride", "resnet18 mobilenetv2", ALL, Rules(stem_stride=False)),
    ("mean instead of the largest", "resnet18 vgg11", ALL, Rules(pools_mean=True)),
    ("pooling with zeros around", "resnet18", EVONORM, Rules(pool_pad=0.0)),
    ("hidden layer without ReLU", "vgg11", ALL, Rules(hidden_relu=False)),
    ("second row without stride", "mobilenetv2", ALL, Rules(row_stride=False)),
    ("ReLU after the third norm", "mobilenetv2", RELUS, Rules(project_relu=True)),
    ("stride in the expansion", "mobilenetv2", ALL, Rules(stride_in_expansion=True)),
    ("first block without its expansion's norm", "mobilenetv2", ALL, Rules(expands_first=False)),
    ("no shortcut where channels change", "mobilenetv2", ALL, Rules(shortcut=False)),
]


def mutants(program, cases):
    """Every mutant must make the test fail; the right goldens must not."""
    survivors = 0
    narrow = [case for case in cases if "-narrow-" in case.name]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, models, norms, rules in [("nothing wrong", " ".join(MODELS), ALL, Rules())] + MUTANTS:
            for case in (c for c in narrow if c.model in models.split() and c.norm in norms):
                write(folder, [case], rules)
                run = subprocess.run([program, folder, f"{case.name} on cpu"], check=False,
                                     capture_output=True, text=True)
                wrong = [f"{line[4:30].strip()} {line.split(' allowed')[0].split()[-1]}"
                         for line in run.stdout.splitlines() if line.endswith("WRONG")]
                right = (run.returncode == 0) == (rules == Rules())
                survivors += not right
                print(f"{'ok  ' if right else 'BAD '} {what}, {case.name}: exit {run.returncode};",
                      ", ".join(wrong) or "all within what is allowed", flush=True)
    return survivors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--study", action="store_true")
    parser.add_argument("--mutants", metavar="PROGRAM")
    parser.add_argument("--search", nargs=2, metavar=("CASE", "N"))
    parser.add_argument("--only", metavar="PATTERN", default="*")
    options = parser.parse_args()
    cases = [case for case in CASES if fnmatch.fnmatch(case.name, options.only)]
    torch.set_num_threads(1)
    check_philox()
    if options.check:
        sys.exit(1 if check(cases) else 0)
    if options.mutants:
        sys.exit(1 if mutants(options.mutants, cases) else 0)
    if options.study:
        study(cases)
    elif options.search:
        search(options.search[0], int(options.search[1]))
    else:
        FOLDER.mkdir(exist_ok=True)
        write(FOLDER, cases)


if __name__ == "__main__":
    main()
