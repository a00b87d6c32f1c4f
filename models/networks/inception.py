"""Inception: v1 (GoogLeNet), v2 (with batch normalization) and v3 (with factorized kernels)."""

from __future__ import annotations

from functools import partial

from torch import nn

from archloom.models.networks.layers import Concat, Conv, Head

MODULES = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None, (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)
"""v1: 1x1; reduction and 3x3; reduction and 5x5; after the pooling (Szegedy et al. 2015, table 1). None: a max-pool."""

V2_MODULES = (
    (64, 64, 64, 64, 96, 32), (64, 64, 96, 64, 96, 64), (0, 128, 160, 64, 96, 0), (224, 64, 96, 96, 128, 128),
    (192, 96, 128, 96, 128, 128), (160, 128, 160, 128, 160, 96), (96, 128, 192, 160, 192, 96),
    (0, 128, 192, 192, 256, 0), (352, 192, 320, 160, 224, 128), (352, 192, 320, 192, 224, 128),
)
"""v2: as above with two 3x3 in place of 5x5; without 1x1 the module halves the image (Ioffe and Szegedy 2015)."""


def inception_v1(scale: int = 1, classes: int = 1000) -> nn.Module:
    """[n, 3, h, w] → [n, classes]; all channels are divided by ``scale``."""
    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU())

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    channels = 192 // scale
    layers: list[nn.Module] = [
        conv(3, 64 // scale, 7, 2), pool(), conv(64 // scale, 64 // scale, 1), conv(64 // scale, channels, 3), pool()]
    for module in MODULES:
        if module is None:
            layers.append(pool())
            continue
        one, reduce3, three, reduce5, five, pooled = (n // scale for n in module)
        layers.append(Concat(
            conv(channels, one, 1), nn.Sequential(conv(channels, reduce3, 1), conv(reduce3, three, 3)),
            nn.Sequential(conv(channels, reduce5, 1), conv(reduce5, five, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(channels, pooled, 1))))
        channels = one + three + five + pooled
    return nn.Sequential(*layers, Head(channels, classes))


def inception_v2(scale: int = 1, classes: int = 1000) -> nn.Module:
    """[n, 3, h, w] → [n, classes]; all channels are divided by ``scale``."""
    channels = 192 // scale
    layers: list[nn.Module] = [
        Conv(3, 64 // scale, 7, 2), nn.MaxPool2d(3, 2, 1), Conv(64 // scale, 64 // scale, 1),
        Conv(64 // scale, channels, 3), nn.MaxPool2d(3, 2, 1)]
    for module in V2_MODULES:
        one, reduce3, three, reduce5, five, pooled = (n // scale for n in module)
        halved = one == 0
        stride = 2 if halved else 1
        branches: list[nn.Module] = [] if halved else [Conv(channels, one, 1)]
        branches += [
            nn.Sequential(Conv(channels, reduce3, 1), Conv(reduce3, three, 3, stride)),
            nn.Sequential(Conv(channels, reduce5, 1), Conv(reduce5, five, 3), Conv(five, five, 3, stride))]
        if halved:
            branches.append(nn.MaxPool2d(3, 2, 1))
        else:
            branches.append(nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(channels, pooled, 1)))
        layers.append(Concat(*branches))
        channels = one + three + five + (channels if halved else pooled)
    return nn.Sequential(*layers, Head(channels, classes))


def inception_v3(scale: int = 1, classes: int = 1000) -> nn.Module:
    """[n, 3, 299, 299] → [n, classes], no auxiliary head; channels are divided by ``scale`` (Szegedy et al. 2016)."""
    conv = partial(Conv, epsilon=1e-3)
    s = scale

    def chain(inputs: int, *stages: tuple[int, int | tuple[int, int]], stride: int = 1) -> nn.Module:
        layers = []
        for number, (outputs, kernel) in enumerate(stages):
            last = number + 1 == len(stages)
            reducing = stride if last else 1
            layers.append(conv(inputs, outputs // s, kernel, reducing, padding=0 if reducing > 1 else None))
            inputs = outputs // s
        return nn.Sequential(*layers)

    def pooled(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(inputs, outputs // s, 1))

    layers: list[nn.Module] = [
        conv(3, 32 // s, 3, 2, padding=0), conv(32 // s, 32 // s, 3, padding=0), conv(32 // s, 64 // s, 3),
        nn.MaxPool2d(3, 2), conv(64 // s, 80 // s, 1), conv(80 // s, 192 // s, 3, padding=0), nn.MaxPool2d(3, 2)]
    c = 192 // s
    for after_pool in (32, 64, 64):
        layers.append(Concat(chain(c, (64, 1)), chain(c, (48, 1), (64, 5)), chain(c, (64, 1), (96, 3), (96, 3)),
                             pooled(c, after_pool)))
        c = 224 // s + after_pool // s
    layers.append(Concat(chain(c, (384, 3), stride=2), chain(c, (64, 1), (96, 3), (96, 3), stride=2),
                         nn.MaxPool2d(3, 2)))
    c += 480 // s
    for inner in (128, 160, 160, 192):
        layers.append(Concat(
            chain(c, (192, 1)), chain(c, (inner, 1), (inner, (1, 7)), (192, (7, 1))),
            chain(c, (inner, 1), (inner, (7, 1)), (inner, (1, 7)), (inner, (7, 1)), (192, (1, 7))), pooled(c, 192)))
        c = 768 // s
    layers.append(Concat(chain(c, (192, 1), (320, 3), stride=2),
                         chain(c, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3), stride=2), nn.MaxPool2d(3, 2)))
    c += 512 // s
    for _ in range(2):
        def forked(inputs: int) -> nn.Module:
            return Concat(chain(inputs, (384, (1, 3))), chain(inputs, (384, (3, 1))))

        layers.append(Concat(
            chain(c, (320, 1)), nn.Sequential(chain(c, (384, 1)), forked(384 // s)),
            nn.Sequential(chain(c, (448, 1), (384, 3)), forked(384 // s)), pooled(c, 192)))
        c = 320 // s + 4 * (384 // s) + 192 // s
    return nn.Sequential(*layers, Head(c, classes))
