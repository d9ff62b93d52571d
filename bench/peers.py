#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of `make bench`: ResNet-20's training step in PyTorch, four times, on the CPU.

    peers.py NAME                time one of them; prints JSON
    peers.py NAME --profile      also the time of each of PyTorch's operations
    peers.py --check             the models are what they should be; exit 1 if not

    batchnorm      fp32 with BatchNorm
    evonorm        fp32 with EvoNorm-S0
    fake8          8 bits simulated in floats, tuned
    fake8-plain    8 bits simulated in floats, as research code does it

Without integer arithmetic 8 bits are simulated: every value is a float tensor that is moved to the nearest of 256
levels, and products are float products. `fake8` follows the mathematics of Octet's int8 with its recipe `octet`:
Range EvoNorm, u8 values, s8 weights, s8 gradients rounded by chance, weight gradients from the gradient as it
arrives. It is as fast as PyTorch lets us make it: backward passes are written out rather than strung together
by autograd, work is done in place where nobody needs the old value, random bits are drawn 64 at a time.
`fake8-plain` is the same with the recipe `paper`, written the way papers' code is: each rule in the fewest lines,
the rest left to autograd.

compare.py tries batch sizes and memory layouts and takes the best. Images and labels lie ready in memory;
nothing is loaded, cropped or converted in the timed step.
"""
import argparse
import functools
import itertools
import json
import math
import os
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function

CLASSES = 10
GROUPS = 8
EPS = 1e-5
aten = torch.ops.aten


# --- 8 bits in floats --------------------------------------------------------------------------

def levels(x, lo, hi):
    """x in place to the nearest of 256 levels between lo and hi, of which one is 0."""
    lo, hi = min(lo, 0.0), max(hi, 0.0)
    scale = max(hi - lo, 1e-8) / 255
    zero = min(max(round(-lo / scale), 0), 255)
    return x.mul_(1 / scale).round_().clamp_(-zero, 255 - zero).mul_(scale)


def signed(weight):
    """A weight tensor on the 255 levels of a symmetric s8."""
    lo, hi = torch.aminmax(weight)
    scale = max(-lo.item(), hi.item(), 1e-8) / 127
    return (weight * (1 / scale)).round_().clamp_(-127, 127).mul_(scale)


def affine(x):
    """A short vector on 256 levels from its least to its largest value."""
    lo, hi = torch.aminmax(x)
    scale = torch.clamp(hi - lo, min=1e-8) / 255
    return ((x - lo) / scale).round_() * scale + lo


def by_chance(gradient):
    """A gradient on the levels of a symmetric s8, up or down with 16 random bits an element."""
    lo, hi = torch.aminmax(gradient)
    scale = max(-lo.item(), hi.item(), 1e-30) / 127
    bits = torch.empty(-(-gradient.numel() // 4), dtype=torch.int64).random_(-2**63, None)
    out = torch.empty_like(gradient)
    # The order in which elements meet bits is that of memory, so no layout costs a transposition.
    flat = out.as_strided((out.numel(),), (1,))
    flat.copy_(bits.view(torch.int16)[:out.numel()])
    out.mul_(2.0**-16).add_(0.5 + 2.0**-17)
    return out.add_(gradient, alpha=1 / scale).floor_().clamp_(-127, 127).mul_(scale)


class Quantize(Function):
    """u8, in place. Ranges are the batch's extremes: nothing is clipped, so the gradient passes as it is."""

    @staticmethod
    def forward(ctx, x, lo, hi):
        ctx.mark_dirty(x)
        return levels(x, lo, hi)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None


class Convolve(Function):
    """Forward with s8 weights; the data gradient from an s8 gradient, the weight gradient from the float one."""

    @staticmethod
    def forward(ctx, x, weight, stride):
        weight = signed(weight)
        ctx.stride, ctx.padding = [stride, stride], [weight.shape[2] // 2] * 2
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, None, ctx.stride, ctx.padding)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors

        def product(g, mask):
            return aten.convolution_backward(g, x, weight, None, ctx.stride, ctx.padding, [1, 1], False,
                                             [0, 0], 1, mask)

        dx = product(by_chance(gradient), [True, False, False])[0] if ctx.needs_input_grad[0] else None
        return dx, product(gradient, [False, True, False])[1], None


class Classify(Function):
    """The linear layer, by the same rules."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        weight = signed(weight)
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return by_chance(gradient) @ weight, gradient.t() @ x, gradient.sum(0)


class Sum(Function):
    """A residual sum: both branches get the same s8 gradient."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, gradient):
        gradient = by_chance(gradient)
        return gradient, gradient


class Vector(Function):
    """gamma, beta, v and biases: 8 bits, and the gradient passes."""

    @staticmethod
    def forward(ctx, x):
        return affine(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def chunk_rule(shape):
    """Into how many chunks of which length a group's values are cut, and f(length)."""
    _, c, h, w = shape
    values = c // GROUPS * h * w
    k = next(k for k in range(16, 0, -1) if values % k == 0 and values // k >= 2)
    f = 0.175 * (1 + math.sqrt(math.pi * math.log(4))) / math.sqrt(2 * math.log(values // k))
    return k, values // k, f


def chunked(x, k, length):
    """x with its chunks along a dimension of their own, without a copy; and which dimension that is.

    A chunk is `length` values of a group in the order channel, row, column. Where channels lie innermost that
    works if chunks do not cross channels, as in ResNet-20 on 32 x 32 images."""
    n, c, h, w = x.shape
    if x.is_contiguous():
        return x.view(n, GROUPS, k, length), 3
    return x.permute(0, 2, 3, 1).view(n, h * w // length, length, c), 2


def by_group(extremes, dim):
    """The mean over its chunks, for every sample and group."""
    if dim == 3:
        return extremes.mean(2)
    n, k, c = extremes.shape
    return extremes.view(n, k, GROUPS, c // GROUPS).mean((1, 3))


def by_chunk(values, dim, like):
    """The other way: a value of every sample and group for each of its chunks."""
    n, groups = values.shape
    if dim == 2:
        values = values.repeat_interleave(like.shape[2] // groups, 1)
    return values.view(n, groups, 1).expand_as(like) if dim == 3 else values.view(n, 1, -1).expand_as(like)


class RangeEvoNorm(Function):
    """y = gamma · x · hs(v · x) · s + beta, s = 1 / (R · f(L) + eps), R from the extremes of 16 chunks.

    hs is the hard sigmoid, so x · hs(v · x) has the derivative of the hard swish at v · x.
    """

    @staticmethod
    def forward(ctx, x, gamma, beta, v, gradient_is_s8):
        n, c, h, w = x.shape
        k, length, f = chunk_rule(x.shape)
        if not x.is_contiguous() and (h * w) % length:
            x = x.contiguous()
        view, dim = chunked(x, k, length)
        (most, at_most), (least, at_least) = view.max(dim), view.min(dim)
        s = 1 / ((by_group(most, dim) - by_group(least, dim)) * f + EPS)
        scale = affine(s).repeat_interleave(c // GROUPS, 1)
        bent = F.hardsigmoid(x * v.view(1, c, 1, 1), inplace=True).mul_(x)
        ctx.chunks, ctx.f, ctx.gradient_is_s8 = (k, length), f, gradient_is_s8
        ctx.save_for_backward(x, bent, gamma, v, s, scale, at_most, at_least)
        return (bent * (scale * gamma).view(n, c, 1, 1)).add_(beta.view(1, c, 1, 1))

    @staticmethod
    def backward(ctx, g):
        x, bent, gamma, v, s, scale, at_most, at_least = ctx.saved_tensors
        n, c, _, _ = x.shape
        layout = torch.contiguous_format if x.is_contiguous() else torch.channels_last
        g = (g if ctx.gradient_is_s8 else by_chance(g)).contiguous(memory_format=layout)
        vx = x * v.view(1, c, 1, 1)
        to_bent = (g * bent).sum((2, 3))
        to_v = aten.hardsigmoid_backward(g, vx).mul_(x).mul_(x).sum((2, 3))
        dx = aten.hardswish_backward(g, vx).mul_((scale * gamma).view(n, c, 1, 1))
        ds = (to_bent * gamma).view(n, GROUPS, c // GROUPS).sum(2)
        view, dim = chunked(dx, *ctx.chunks)
        dr = by_chunk(ds * s * s * (-ctx.f / ctx.chunks[0]), dim, at_most).unsqueeze(dim)
        view.scatter_add_(dim, at_most.unsqueeze(dim), dr)
        view.scatter_add_(dim, at_least.unsqueeze(dim), -dr)
        return dx, (to_bent * scale).sum(0), g.sum((0, 2, 3)), (to_v * scale).sum(0) * gamma, None


# --- 8 bits in floats, plainly -----------------------------------------------------------------

class PlainQuantize(Function):
    """u8 between the samples' extremes, averaged over the batch; the gradient passes everywhere."""

    @staticmethod
    def forward(ctx, x):
        lo = x.flatten(1).min(1)[0].mean().clamp(max=0)
        hi = x.flatten(1).max(1)[0].mean().clamp(min=0)
        scale = (hi - lo).clamp(min=1e-8) / 255
        zero = torch.round(-lo / scale)
        return (torch.clamp(torch.round(x / scale) + zero, 0, 255) - zero) * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class PlainWeight(Function):
    @staticmethod
    def forward(ctx, weight):
        scale = weight.abs().max().clamp(min=1e-8) / 127
        return torch.round(weight / scale) * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class PlainGradient(Function):
    """Nothing forward; backward s8, rounded by chance."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        scale = gradient.abs().max().clamp(min=1e-30) / 127
        return torch.clamp(torch.floor(gradient / scale + torch.rand_like(gradient)), -127, 127) * scale


def bifurcated(product, x, weight, bias=None):
    """Two products of one value: one whose gradient goes to the weights as it is, one whose s8 gradient goes on
    (Banner, Hubara, Hoffer and Soudry, arXiv 1805.11046)."""
    weight = PlainWeight.apply(weight)
    to_weight = product(x.detach(), weight, bias)
    to_data = PlainGradient.apply(product(x, weight.detach()))
    return to_weight + to_data - to_data.detach()


# --- layers ------------------------------------------------------------------------------------

class Fp32:
    """The layers of an fp32 network; `norm` is a class."""

    def __init__(self, norm, relu):
        self.norm, self.relu = norm, F.relu_ if relu else nn.Identity()
        self.linear = nn.Linear

    def conv(self, inside, out, kernel, stride):
        return nn.Conv2d(inside, out, kernel, stride, kernel // 2, bias=False)

    def last_norm(self, channels):
        return self.norm(channels)

    def quantizer(self):
        return nn.Identity()

    def sum(self, a, b):
        return a.add_(b)


class Fake8:
    """The same in simulated 8 bits."""
    relu, sum = nn.Identity(), Sum.apply

    def conv(self, inside, out, kernel, stride):
        return FakeConv(inside, out, kernel, stride)

    def norm(self, channels):
        return FakeNorm(channels, gradient_is_s8=False)

    def last_norm(self, channels):
        """Before a sum, which has rounded the gradient already."""
        return FakeNorm(channels, gradient_is_s8=True)

    def quantizer(self):
        return Quantizer()

    def linear(self, inside, out):
        return FakeLinear(inside, out)


class Plain8:
    """And plainly."""
    relu = nn.Identity()

    def conv(self, inside, out, kernel, stride):
        return PlainConv(inside, out, kernel, stride, kernel // 2, bias=False)

    def norm(self, channels):
        return nn.Sequential(PlainNorm(channels), Apply(PlainGradient.apply), Apply(PlainQuantize.apply))

    def last_norm(self, channels):
        return nn.Sequential(PlainNorm(channels), Apply(PlainQuantize.apply))

    def quantizer(self):
        return Apply(PlainQuantize.apply)

    def sum(self, a, b):
        return PlainGradient.apply(a + b)

    def linear(self, inside, out):
        return PlainLinear(inside, out)


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class EvoNormS0(nn.Module):
    """y = gamma · x · sigmoid(v · x) / sqrt(variance of the group + eps) + beta."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))
        self.v = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        n, c, h, w = x.shape
        variance = x.view(n, GROUPS, c // GROUPS, h, w).var((2, 3, 4), unbiased=False)
        scale = torch.rsqrt(variance + EPS).repeat_interleave(c // GROUPS, 1) * self.gamma
        bent = x * torch.sigmoid(x * self.v.view(1, c, 1, 1))
        return bent * scale.view(n, c, 1, 1) + self.beta.view(1, c, 1, 1)


class Quantizer(nn.Module):
    """u8 over the batch's extremes; over running ones in evaluation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.full((2,), float("nan")))

    def forward(self, x):
        lo, hi = self.running.tolist()
        if self.training:
            new = [extreme.item() for extreme in torch.aminmax(x.detach())]
            lo, hi = new if math.isnan(lo) else [0.1 * old + 0.9 * now for old, now in zip((lo, hi), new)]
            self.running.copy_(torch.tensor([lo, hi]))
            lo, hi = new
        return Quantize.apply(x, lo, hi)


class FakeConv(nn.Conv2d):
    def __init__(self, inside, out, kernel, stride):
        super().__init__(inside, out, kernel, stride, kernel // 2, bias=False)
        self.quantizer = Quantizer()

    def forward(self, x):
        return self.quantizer(Convolve.apply(x, self.weight, self.stride[0]))


class FakeNorm(EvoNormS0):
    def __init__(self, channels, gradient_is_s8):
        super().__init__(channels)
        self.gradient_is_s8 = gradient_is_s8
        self.quantizer = Quantizer()

    def forward(self, x):
        gamma, beta, v = (Vector.apply(p) for p in (self.gamma, self.beta, self.v))
        return self.quantizer(RangeEvoNorm.apply(x, gamma, beta, v, self.gradient_is_s8))


class FakeLinear(nn.Linear):
    def forward(self, x):
        return Classify.apply(x, self.weight, Vector.apply(self.bias))


class PlainConv(nn.Conv2d):
    def forward(self, x):
        product = functools.partial(F.conv2d, stride=self.stride, padding=self.padding)
        return PlainQuantize.apply(bifurcated(product, x, self.weight))


class PlainNorm(EvoNormS0):
    def forward(self, x):
        n, c, h, w = x.shape
        gamma, beta, v = (Vector.apply(p).view(1, c, 1, 1) for p in (self.gamma, self.beta, self.v))
        k, length, f = chunk_rule(x.shape)
        view = x.reshape(n, GROUPS, k, length)
        spread = view.max(3)[0].mean(2) - view.min(3)[0].mean(2)
        s = Vector.apply(1 / (spread * f + EPS)).repeat_interleave(c // GROUPS, 1).view(n, c, 1, 1)
        return gamma * x * F.hardsigmoid(v * x) * s + beta


class PlainLinear(nn.Linear):
    def forward(self, x):
        return bifurcated(F.linear, x, self.weight, Vector.apply(self.bias))


# --- ResNet-20 ---------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, layers, inside, out, stride):
        super().__init__()
        self.conv1, self.norm1 = layers.conv(inside, out, 3, stride), layers.norm(out)
        self.conv2, self.norm2 = layers.conv(out, out, 3, 1), layers.last_norm(out)
        self.shortcut = None
        if inside != out:
            self.shortcut = nn.Sequential(layers.conv(inside, out, 1, stride), layers.last_norm(out))
        self.relu, self.sum, self.quantizer = layers.relu, layers.sum, layers.quantizer()

    def forward(self, x):
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.quantizer(self.relu(self.sum(y, self.shortcut(x) if self.shortcut else x)))


class ResNet(nn.Module):
    """The CIFAR form (He et al., arXiv 1512.03385) with 1 x 1 shortcuts; width 16 and 3 blocks make ResNet-20."""

    def __init__(self, layers, width=16, blocks=3):
        super().__init__()
        self.quantizer, self.relu = layers.quantizer(), layers.relu
        self.stem, self.stem_norm = layers.conv(3, width, 3, 1), layers.norm(width)
        stack, inside = [], width
        for stage in range(3):
            for block in range(blocks):
                stack.append(Block(layers, inside, width << stage, 2 if stage > 0 and block == 0 else 1))
                inside = width << stage
        self.blocks, self.pooled = nn.Sequential(*stack), layers.quantizer()
        self.classifier = layers.linear(inside, CLASSES)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, 0, math.sqrt(2 / (module.kernel_size[0]**2 * module.out_channels)))
            elif isinstance(module, nn.Linear):
                bound = 1 / math.sqrt(module.in_features)
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.uniform_(module.bias, -bound, bound)

    def forward(self, x):
        x = self.relu(self.stem_norm(self.stem(self.quantizer(x))))
        return self.classifier(self.pooled(self.blocks(x).mean((2, 3))))


PEERS = {
    "batchnorm": lambda **shape: ResNet(Fp32(nn.BatchNorm2d, relu=True), **shape),
    "evonorm": lambda **shape: ResNet(Fp32(EvoNormS0, relu=False), **shape),
    "fake8": lambda **shape: ResNet(Fake8(), **shape),
    "fake8-plain": lambda **shape: ResNet(Plain8(), **shape),
}
LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


class Training:
    """A network, its optimizer and one batch of made-up images."""

    def __init__(self, peer, batch, layout, side=32, lr=0.02, **shape):
        self.network = PEERS[peer](**shape).to(memory_format=LAYOUTS[layout])
        self.images = torch.randn(batch, 3, side, side).contiguous(memory_format=LAYOUTS[layout])
        self.labels = torch.randint(0, CLASSES, (batch,))
        # The input is quantized in place, so the quantizer is given a copy; other networks only read it.
        self.fresh = torch.clone if peer == "fake8" else lambda x: x
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr, momentum=0.9, weight_decay=1e-4,
                                         nesterov=True, foreach=True)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.network(self.fresh(self.images)), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss


# --- checks ------------------------------------------------------------------------------------

class Checks:
    """Counts comparisons and prints each with what was compared."""

    def __init__(self):
        self.n, self.n_bad = 0, 0

    def hold(self, condition, what):
        self.n, self.n_bad = self.n + 1, self.n_bad + (not condition)
        print(("ok    " if condition else "FAIL  ") + what, flush=True)


def check_levels(checks):
    x = torch.randn(10000) * 3 + 1
    q = levels(x.clone(), x.min().item(), x.max().item())
    step = (x.max() - x.min()).item() / 255
    off = (q - x).abs().max().item() / step
    checks.hold(len(q.unique()) <= 256 and (q == 0).any() and off <= 0.501,
                f"values: {len(q.unique())} levels with 0 among them, {off:.3f} steps off at most")
    w = signed(x)
    step = x.abs().max().item() / 127
    checks.hold(len(w.unique()) <= 255 and (w - x).abs().max() <= 0.501 * step,
                f"weights: {len(w.unique())} levels, {(w - x).abs().max() / step:.3f} steps off at most")
    v = affine(x)
    checks.hold(len(v.unique()) <= 256 and abs(v.min() - x.min()) < 1e-5 and abs(v.max() - x.max()) < 1e-5,
                f"vectors: {len(v.unique())} levels from {v.min():.3f} to {v.max():.3f}")
    constant = affine(torch.ones(4))
    checks.hold(constant.eq(1).all(), f"vectors: {constant.tolist()} of ones")


def check_by_chance(checks):
    """Every element up or down, and right on average, in either layout."""
    for layout in LAYOUTS.values():
        g = torch.randn(64, 8, 16, 16).contiguous(memory_format=layout)
        step = g.abs().max().item() / 127
        q = by_chance(g)
        bias = (q - g).mean().item() / step * math.sqrt(12 * g.numel() / 2)
        checks.hold(len(q.unique()) <= 255 and (q - g).abs().max() < 1.001 * step and abs(bias) < 5,
                    f"gradients: {len(q.unique())} levels, {(q - g).abs().max() / step:.3f} steps off at most, "
                    f"mean {bias:.2f} deviations off")
        ones = torch.full((1 << 14,), 0.25 * step)
        ones[0] = 127 * step
        share = (by_chance(ones)[1:] > 0).double().mean().item()
        checks.hold(abs(share - 0.25) < 0.02, f"gradients: a quarter of a step goes up in {share:.3f} of the cases")


def check_norm(checks):
    """The written-out backward pass against autograd's of the plain formula, in double, without rounding."""
    rounded = affine
    for name, layout in LAYOUTS.items():
        x = torch.randn(3, 16, 8, 8, dtype=torch.float64).contiguous(memory_format=layout).requires_grad_()
        params = [torch.randn(16, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        weights = torch.randn(x.shape, dtype=torch.float64)
        norm = PlainNorm(16)
        norm.gamma, norm.beta, norm.v = (nn.Parameter(p) for p in params)
        try:
            globals()["affine"] = lambda vector: vector.clone()
            y, expected = RangeEvoNorm.apply(x, *params, True), norm(x)
            got = torch.autograd.grad((y * weights).sum(), [x, *params])
            plain = torch.autograd.grad((expected * weights).sum(), [x, norm.gamma, norm.beta, norm.v])
        finally:
            globals()["affine"] = rounded
        error = max(((a - b).norm() / b.norm()).item() for a, b in [(y, expected), *zip(got, plain)])
        # PyTorch holds the 1/6 of its hard sigmoid as a float32, also for doubles.
        checks.hold(error < 1e-7, f"Range EvoNorm, {name}: value and gradients off by {error:.1e} at most")


def check_convolution(checks):
    """The weight gradient is that of the float gradient; the data gradient lies on s8's account around it."""
    x, g = torch.randn(4, 8, 10, 10, requires_grad=True), torch.randn(4, 8, 10, 10)
    weight = torch.randn(8, 8, 3, 3, requires_grad=True)
    dx, dw = torch.autograd.grad(Convolve.apply(x, weight, 1), [x, weight], g)
    rounded = signed(weight.detach()).requires_grad_()
    ex, ew = torch.autograd.grad(F.conv2d(x, rounded, padding=1), [x, rounded], g)
    off_x, off_w = ((dx - ex).norm() / ex.norm()).item(), ((dw - ew).norm() / ew.norm()).item()
    checks.hold(off_w < 1e-5 and 1e-4 < off_x < 0.05,
                f"convolution: weight gradient off by {off_w:.1e}, data gradient, rounded by chance, by {off_x:.1e}")


def check_layouts(checks):
    """The same images through the same parameters, whichever way they lie."""
    losses = []
    for layout in LAYOUTS:
        torch.manual_seed(7)
        losses.append(Training("fake8", 8, layout).step().item())
    checks.hold(abs(losses[0] - losses[1]) < 2e-3, f"fake8: loss {losses[0]:.5f} in NCHW, {losses[1]:.5f} in NHWC")


def check_training(checks, peer, n_steps=200, n_batches=4):
    """The loss falls on a few fixed batches, and no gradient is ever infinite or missing."""
    training = Training(peer, 16, "nchw", side=16, lr=0.05, width=8, blocks=1)
    batches = [(torch.randn_like(training.images), torch.randint(0, CLASSES, (16,))) for _ in range(n_batches)]
    losses, n_wrong = [], 0
    for step in range(n_steps):
        training.images, training.labels = batches[step % n_batches]
        losses.append(training.step().item())
        n_wrong += sum(p.grad is None or not p.grad.isfinite().all().item() for p in training.network.parameters())
    first, last = (sum(part) / n_batches for part in (losses[:n_batches], losses[-n_batches:]))
    checks.hold(last < 0.3 * first, f"{peer}: loss {first:.3f} at first, {last:.3f} after {n_steps} steps")
    checks.hold(n_wrong == 0, f"{peer}: {n_wrong} gradients not finite in {n_steps} steps")
    training.network.eval()
    with torch.no_grad():
        logits = torch.cat([training.network(training.fresh(images)) for images, _ in batches])
    right = (logits.argmax(1) == torch.cat([labels for _, labels in batches])).double().mean().item()
    checks.hold(right > 0.7, f"{peer}: {100 * right:.0f} % of the images right in evaluation")


def check():
    checks = Checks()
    for peer, expected in {"batchnorm": 272474, "evonorm": 273258, "fake8": 273258, "fake8-plain": 273258}.items():
        count = sum(p.numel() for p in PEERS[peer]().parameters())
        checks.hold(count == expected, f"{peer}: {count} parameters, expected {expected}")
    check_levels(checks)
    check_by_chance(checks)
    check_norm(checks)
    check_convolution(checks)
    check_layouts(checks)
    for peer in PEERS:
        check_training(checks, peer)
    print(f"{checks.n - checks.n_bad} checks held, {checks.n_bad} did not")
    return 1 if checks.n_bad else 0


# --- commands ----------------------------------------------------------------------------------

def peak_bytes():
    """The most memory the process has had so far, as the kernel counts it."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def measure(peer, batch, layout, seconds):
    """Times steps of one setting; the memory is what the process grew by."""
    before = peak_bytes()
    training = Training(peer, batch, layout)
    for _ in range(2):  # oneDNN compiles its kernels in the first
        training.step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        training.step()
        times.append(time.perf_counter() - start)
    return training, {
        "batch": batch,
        "layout": layout,
        "samples_per_s": batch / statistics.median(times),
        "samples_per_s_most": batch / min(times),
        "steps": len(times),
        "memory_bytes": peak_bytes() - before,
        "n_parameters": sum(p.numel() for p in training.network.parameters()),
    }


def profile(training, n_steps=4):
    with torch.autograd.profiler.profile() as recorder:
        for _ in range(n_steps):
            training.step()
    rows = [(row.self_cpu_time_total / 1e3 / n_steps, row.key, row.count // n_steps)
            for row in recorder.key_averages()]
    total = sum(ms for ms, _, _ in rows)
    return [{"op": op, "ms": ms, "share": ms / total, "calls": calls}
            for ms, op, calls in sorted(rows, reverse=True) if ms > 0.005 * total]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("peer", nargs="?", choices=PEERS)
    parser.add_argument("--batch", default="64", help="several with commas: each is timed")
    parser.add_argument("--layout", default="nhwc", help="how images lie in memory: nchw, nhwc or nchw,nhwc")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="0: as PyTorch chooses")
    parser.add_argument("--seconds", type=float, default=3, help="time for each setting")
    parser.add_argument("--profile", action="store_true", help="also the time by operation")
    parser.add_argument("--check", action="store_true", help="check the models instead")
    options = parser.parse_args()
    if bool(options.peer) == options.check:
        parser.error("one of " + ", ".join(PEERS) + ", or --check")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if options.check:
        sys.exit(check())
    settings = []
    for batch, layout in itertools.product(options.batch.split(","), options.layout.split(",")):
        training, times = measure(options.peer, int(batch), layout, options.seconds)
        settings.append({"threads": torch.get_num_threads(), **times})
        if options.profile:
            settings[-1]["profile"] = profile(training)
    onednn = re.search(r"(?:MKL-DNN|oneDNN)\s+v?([0-9.]+)", torch.__config__.show())
    print(json.dumps({"schema": 1, "peer": options.peer, "settings": settings, "torch": torch.__version__,
                      "onednn": onednn and onednn[1]}))


if __name__ == "__main__":
    main()
