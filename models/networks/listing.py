"""The catalogue's entries: names, sizes, and what makes each network (torch is imported when one is built)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Sizes = Mapping[str, int]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Network:
    """A network of the catalogue.

    ``module`` makes it from its sizes; ``inputs`` gives the shapes of its inputs, whose integers are drawn below
    ``below``; ``sizes`` are the defaults, ``tiny`` the sizes of a small one that has every kind of layer.
    """

    name: str
    summary: str
    sizes: Sizes
    tiny: Sizes
    module: Callable[[Sizes], "torch.nn.Module"]
    inputs: Callable[[Sizes], Shapes]
    below: Mapping[str, str | int] = ()  # type: ignore[assignment]


def make(where: str, *taken: str, percent: tuple[str, ...] = (), **fixed: Any) -> Callable[[Sizes], "torch.nn.Module"]:
    """``where`` is ``module.function`` below ``models.networks``; it gets the sizes ``taken`` and what is ``fixed``."""
    module, name = where.split(".")

    def make(sizes: Sizes) -> "torch.nn.Module":
        values = {k: sizes[k] / 100 if k in percent else sizes[k] for k in taken}
        return getattr(import_module(f"archloom.models.networks.{module}"), name)(**values, **fixed)

    return make


def _image(sizes: Sizes) -> Shapes:
    return {"image": (sizes["batch"], 3, sizes["image"], sizes["image"])}


def _tokens(sizes: Sizes) -> Shapes:
    return {"tokens": (sizes["batch"], sizes["length"])}


def _masked(sizes: Sizes) -> Shapes:
    return {**_tokens(sizes), "mask": (sizes["batch"], sizes["length"])}


def _cached(sizes: Sizes) -> Shapes:
    heads = max(2, sizes["width"] // 64)
    cache = (sizes["layers"], sizes["batch"], heads, sizes["length"], sizes["width"] // heads)
    return {"token": (sizes["batch"], 1), "keys": cache, "values": cache}


def _grouped(sizes: Sizes) -> Shapes:
    cache = (sizes["layers"], sizes["batch"], sizes["groups"], sizes["length"], sizes["width"] // sizes["heads"])
    return {"token": (sizes["batch"], 1), "keys": cache, "values": cache}


def _diffusion(sizes: Sizes) -> Shapes:
    n, c = sizes["batch"], sizes["channels"]
    return {"x": (n, c, sizes["image"], sizes["image"]), "time": (n, 4 * c), "context": (n, 77, sizes["context"])}


def _pictures(
    name: str, summary: str, where: str, sizes: Sizes, tiny: Sizes, percent: tuple[str, ...] = (), **fixed: Any
) -> Network:
    """A network that takes images: what it is made from are its sizes but ``batch`` (and ``image``, if not stated)."""
    taken = [k for k in sizes if k != "image"] + (["image"] if fixed.pop("sized", False) else [])
    return Network(name, summary, {"batch": 1, "image": 224, **sizes}, tiny, make(
        where, *taken, percent=percent, **fixed), _image)


def _llama3(name: str, summary: str, **sizes: int) -> "tuple[Network, Network]":
    """A decoder over a prompt, and a step of it."""
    defaults = {"batch": 1, "length": 128, **sizes, "vocabulary": 128256}
    tiny = {"length": 6, "width": 32, "layers": 3, "heads": 4, "groups": 2, "inner": 48, "vocabulary": 50}
    taken = [size for size in defaults if size not in ("batch", "length")]
    return (
        Network(name, f"{summary} over a prompt", defaults, tiny, make("decoder.Decoder", *taken), _tokens, TOKENS),
        Network(f"{name}_decode", f"{summary}, one token after a prompt whose keys and values are kept", defaults, tiny,
                make("decoder.DecoderStep", *taken), _grouped, {"token": "vocabulary"}))


CLASSES = {"classes": 1000}
TOKENS = {"tokens": "vocabulary"}


def _transformer(
    name: str, summary: str, where: str, width: int, layers: int, vocabulary: int,
    inputs: Callable[[Sizes], Shapes] = _masked, below: Mapping[str, str | int] = {**TOKENS, "mask": 1},
) -> Network:
    """A network of the package ``transformers``: masked ones look at longer texts than those that go on with them."""
    length, tiny = (128, 8) if inputs is _masked else (64, 6)
    return Network(
        name, summary, {"batch": 1, "length": length, "width": width, "layers": layers, "vocabulary": vocabulary},
        {"length": tiny, "width": 32, "layers": 2, "vocabulary": 50},
        make(f"language.{where}", "width", "layers", "vocabulary"), inputs, below)


NETWORKS = (
    _pictures("alexnet", "AlexNet (one tower)", "classic.alexnet", {"width": 64, "hidden": 4096, **CLASSES},
              {"image": 64, "width": 8, "hidden": 32, "classes": 10}, sized=True),
    _pictures("alexnet_lrn", "AlexNet with local response normalization", "classic.alexnet",
              {"width": 64, "hidden": 4096, **CLASSES}, {"image": 64, "width": 8, "hidden": 32, "classes": 10},
              sized=True, normalize=1),
    *(_pictures(f"vgg{depth}", f"VGG-{depth}", "classic.vgg", {"width": 64, "hidden": 4096, **CLASSES},
                {"image": 32, "width": 8, "hidden": 32, "classes": 10}, depth=depth, sized=True) for depth in (16, 19)),
    *(_pictures(f"resnet{depth}", f"ResNet-{depth}", "classic.resnet", {"width": 64, **CLASSES},
                {"image": 32, "width": 8, "classes": 10}, depth=depth) for depth in (18, 50)),
    _pictures("squeezenet", "SqueezeNet 1.1", "classic.squeezenet", {"width": 16, **CLASSES},
              {"image": 64, "width": 4, "classes": 10}),
    _pictures("densenet121", "DenseNet-121; share of its layers in per cent", "classic.densenet",
              {"growth": 32, "share": 100, **CLASSES}, {"image": 32, "growth": 4, "share": 25, "classes": 10},
              ("share",)),
    _pictures("inception_v1", "Inception v1 (GoogLeNet)", "inception.inception_v1", {"scale": 1, **CLASSES},
              {"image": 64, "scale": 16, "classes": 10}),
    _pictures("inception_v2", "Inception v2", "inception.inception_v2", {"scale": 1, **CLASSES},
              {"image": 64, "scale": 16, "classes": 10}),
    _pictures("inception_v3", "Inception v3", "inception.inception_v3", {"image": 299, "scale": 1, **CLASSES},
              {"image": 75, "scale": 16, "classes": 10}),
    _pictures("mobilenet_v2", "MobileNetV2; width in per cent", "mobile.mobilenet_v2", {"width": 100, **CLASSES},
              {"image": 32, "width": 25, "classes": 10}, ("width",)),
    _pictures("mobilenet_v3", "MobileNetV3 large; width in per cent", "mobile.mobilenet_v3",
              {"width": 100, **CLASSES}, {"image": 32, "width": 25, "classes": 10}, ("width",)),
    _pictures("efficientnet_b0", "EfficientNet-B0; width in per cent", "mobile.efficientnet_b0",
              {"width": 100, **CLASSES}, {"image": 32, "width": 25, "classes": 10}, ("width",)),
    _pictures("shufflenet", "ShuffleNetV2", "mobile.shufflenet", {"width": 116, **CLASSES},
              {"image": 32, "width": 12, "classes": 10}),
    _pictures("yolo", "a YOLO-style detector", "dense_prediction.Detector", {"image": 640, "width": 16, "classes": 80},
              {"image": 64, "width": 4, "classes": 3}),
    _pictures("unet", "U-Net", "dense_prediction.UNet", {"image": 256, "width": 64, "depth": 4, "classes": 2},
              {"image": 16, "width": 8, "depth": 2}),
    Network("diffusion_block", "a block of a diffusion model's U-Net, with self- and cross-attention",
            {"batch": 1, "image": 64, "channels": 320, "heads": 8, "context": 768, "groups": 32},
            {"image": 4, "channels": 16, "heads": 2, "context": 12, "groups": 4},
            make("dense_prediction.DiffusionBlock", "channels", "heads", "context", "groups"), _diffusion),
    _pictures("mlp_mixer", "MLP-Mixer B/16", "patches.Mixer",
              {"patch": 16, "width": 768, "depth": 12, "tokens": 384, "channels": 3072, **CLASSES},
              {"image": 16, "patch": 4, "width": 16, "depth": 2, "tokens": 24, "channels": 32, "classes": 10},
              sized=True),
    _pictures("vit_base", "vision transformer B/16", "patches.VisionTransformer",
              {"patch": 16, "width": 768, "depth": 12, "heads": 12, **CLASSES},
              {"image": 16, "patch": 4, "width": 16, "depth": 2, "heads": 2, "classes": 10}, sized=True),
    Network("lstm_keywords", "an LSTM keyword spotter",
            {"batch": 1, "frames": 49, "features": 40, "hidden": 128, "classes": 12},
            {"frames": 5, "features": 8, "hidden": 16}, make(
                "patches.KeywordSpotter", "frames", "features", "hidden", "classes"),
            lambda s: {"audio": (s["batch"], s["frames"], s["features"])}),
    _transformer("bert_base", "BERT-base", "bert", 768, 12, 30522),
    _transformer("minilm", "MiniLM-L6", "bert", 384, 6, 30522),
    _transformer("distilbert", "DistilBERT", "distilbert", 768, 6, 30522),
    _transformer("ibert", "I-BERT in floats", "ibert", 768, 12, 50265),
    _transformer("gpt2", "GPT-2 over a prompt", "gpt2", 768, 12, 50257, _tokens, TOKENS),
    _transformer("gpt2_decode", "GPT-2, one token after a prompt whose keys and values are kept", "gpt2_decode", 768,
                 12, 50257, _cached, {"token": "vocabulary"}),
    Network("llama", "a Llama-style decoder over a prompt, of SmolLM-135M's sizes",
            {"batch": 1, "length": 64, "width": 576, "layers": 30, "heads": 9, "groups": 3, "inner": 1536,
             "vocabulary": 49152},
            {"length": 6, "width": 32, "layers": 2, "heads": 4, "groups": 2, "inner": 48, "vocabulary": 50}, make(
                "language.llama", "width", "layers", "vocabulary", "heads", "groups", "inner"), _tokens, TOKENS),
    *_llama3("llama3_8b", "Llama 3 8B", width=4096, layers=32, heads=32, groups=8, inner=14336),
    *_llama3("llama3_70b", "Llama 3 70B", width=8192, layers=80, heads=64, groups=8, inner=28672),
    Network("whisper_encoder", "the encoder of Whisper-tiny",
            {"batch": 1, "frames": 3000, "width": 384, "layers": 4, "heads": 6},
            {"frames": 16, "width": 32, "layers": 2, "heads": 2}, make(
                "language.whisper_encoder", "width", "layers", "frames", "heads"),
            lambda s: {"features": (s["batch"], 80, s["frames"])}),
)
"""All networks, by kind."""
