"""Small networks of the package transformers with random weights, as their authors wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers as t
from torch import nn

CLASSES, IMAGE, LENGTH, VOCABULARY = 8, 64, 8, 64
STAGES = ["stage1", "stage2", "stage3", "stage4"]


class Result(nn.Module):
    """A model of one input that gives one of its results."""

    def __init__(self, model: nn.Module, argument: str, result: str) -> None:
        super().__init__()
        self.model, self.argument, self.result = model, argument, result
        self.more = {"use_cache": False} if argument == "input_ids" else {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = getattr(self.model(**{self.argument: x, **self.more}), self.result)
        return found


def _language(model: nn.Module) -> Result:
    return Result(model, "input_ids", "logits")


def _image(model: nn.Module, result: str = "logits") -> Result:
    return Result(model, "pixel_values", result)


def segformer() -> Result:
    return _image(t.SegformerForSemanticSegmentation(t.SegformerConfig(
        depths=[1] * 4, hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16,
        num_labels=CLASSES)))


def upernet() -> Result:
    backbone = t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], out_features=STAGES)
    return _image(t.UperNetForSemanticSegmentation(t.UperNetConfig(
        backbone_config=backbone, hidden_size=16, num_labels=CLASSES, use_auxiliary_head=False)))


def siglip() -> Result:
    return _image(t.SiglipVisionModel(t.SiglipVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=IMAGE,
        patch_size=16)), "pooler_output")


def detr() -> Result:
    backbone = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1] * 4, layer_type="basic",
                              out_features=["stage4"])
    return _image(t.DetrForObjectDetection(t.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32, encoder_attention_heads=2,
        decoder_attention_heads=2, num_queries=6, num_labels=CLASSES)))


def qwen3_moe() -> Result:
    return _language(t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2)))


def mobilevit_v2() -> Result:
    return _image(t.MobileViTV2ForImageClassification(t.MobileViTV2Config(
        image_size=IMAGE, width_multiplier=0.25, n_attn_blocks=[1, 1, 1], num_labels=CLASSES)))


def rwkv() -> Result:
    return _language(t.RwkvForCausalLM(t.RwkvConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, context_length=16)))


def dpt() -> Result:
    model = t.DPTForDepthEstimation(t.DPTConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64, image_size=IMAGE,
        patch_size=16, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16))
    model.head.head[4].bias.data.fill_(1.0)  # else the ReLU behind it leaves nothing
    return _image(model, "predicted_depth")


def depth_anything() -> Result:
    backbone = t.Dinov2Config(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, mlp_ratio=2, image_size=IMAGE, patch_size=16,
        out_features=STAGES, reshape_hidden_states=False, apply_layernorm=True)
    return _image(t.DepthAnythingForDepthEstimation(t.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=32, neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16,
        head_hidden_size=8, patch_size=16)), "predicted_depth")


NETWORKS: Mapping[str, Callable[[], Result]] = {f.__name__: f for f in (
    segformer, upernet, siglip, detr, qwen3_moe, mobilevit_v2, rwkv, dpt, depth_anything)}


def built(name: str) -> Result:
    """A network with seeded weights, whose vectors (biases, gains) are not what they begin with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = NETWORKS[name]().eval()
        with torch.no_grad():
            for parameter in made.parameters():
                if parameter.dim() < 2:
                    parameter.add_(0.1 * torch.randn_like(parameter))
                else:
                    parameter.normal_(std=parameter[0].numel() ** -0.5)
    return made


def inputs(network: Result, seed: int) -> tuple[Any]:
    """An image, or a sequence of tokens."""
    generator = torch.Generator().manual_seed(seed)
    if network.argument == "input_ids":
        return (torch.randint(VOCABULARY, (1, LENGTH), generator=generator),)
    return (torch.randn(1, 3, IMAGE, IMAGE, generator=generator),)
