"""Transformers of the package ``transformers``, built from configurations with random weights (nothing is downloaded).

Each is wrapped so that it takes and gives tensors only. ``layers`` and ``width`` make them small for tests.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import nn

VOCABULARY = 30522
HEAD = 64
"""Numbers of a head; smaller networks have narrower ones."""


def the_package() -> ModuleType:
    """transformers; ModelError where it is not installed."""
    from archloom.oracle.errors import ModelError

    try:
        import transformers
    except ImportError as error:
        raise ModelError("this network needs the package transformers: pip install transformers") from error
    transformers.logging.set_verbosity_error()
    return transformers


def _heads(width: int) -> int:
    return max(2, width // HEAD)


class _Wrapped(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model


class Encoder(_Wrapped):
    """``tokens`` and ``mask`` [n, length] int64 → hidden states [n, length, width], by a model of transformers."""

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, attention_mask=mask).last_hidden_state


def bert(width: int = 768, layers: int = 12, vocabulary: int = VOCABULARY, inner: int = 0) -> nn.Module:
    """BERT-base by default; MiniLM is the same at a width of 384 with heads of 32."""
    t = the_package()
    heads = 12 if width in (384, 768) else _heads(width)
    return Encoder(t.BertModel(t.BertConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner or 4 * width), add_pooling_layer=False))


def distilbert(width: int = 768, layers: int = 6, vocabulary: int = VOCABULARY) -> nn.Module:
    """DistilBERT by default."""
    t = the_package()
    return Encoder(t.DistilBertModel(t.DistilBertConfig(
        vocab_size=vocabulary, dim=width, n_layers=layers, n_heads=_heads(width), hidden_dim=4 * width)))


def ibert(width: int = 768, layers: int = 12, vocabulary: int = 50265) -> nn.Module:
    """I-BERT in floats: the network that is quantized to integers after training."""
    t = the_package()
    return Encoder(t.IBertModel(t.IBertConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=_heads(width),
        intermediate_size=4 * width, quant_mode=False), add_pooling_layer=False))


class Causal(_Wrapped):
    """``tokens`` [n, length] int64 → logits [n, length, vocabulary]."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits


def _gpt2(width: int, layers: int, vocabulary: int) -> Any:
    t = the_package()
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=_heads(width)))


def gpt2(width: int = 768, layers: int = 12, vocabulary: int = 50257) -> nn.Module:
    """GPT-2 over a prompt of fixed length."""
    return Causal(_gpt2(width, layers, vocabulary))


class Decoding(nn.Module):
    """One step of a decoder: a token at position ``length`` with the keys and values of those before it.

    ``token`` [n, 1] int64, ``keys`` and ``values`` [layers, n, heads, length, depth] → logits [n, 1, vocabulary], and
    the keys and values with the token's own, [layers, n, heads, length + 1, depth].
    """

    def __init__(self, model: Any, layers: int) -> None:
        super().__init__()
        self.model = model
        self.layers = layers

    def forward(
        self, token: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        cache = the_package().DynamicCache()
        for layer in range(self.layers):
            cache.update(keys[layer], values[layer], layer)
        place = torch.full((1, 1), keys.shape[3], dtype=torch.int64)
        out = self.model(input_ids=token, past_key_values=cache, position_ids=place, use_cache=True)
        kept = out.past_key_values.layers
        return out.logits, torch.stack([x.keys for x in kept]), torch.stack([x.values for x in kept])


def gpt2_decode(width: int = 768, layers: int = 12, vocabulary: int = 50257) -> nn.Module:
    """GPT-2, one token with a cache of keys and values."""
    return Decoding(_gpt2(width, layers, vocabulary), layers)


def llama(
    width: int = 576, layers: int = 30, vocabulary: int = 49152, heads: int = 9, groups: int = 3, inner: int = 1536
) -> nn.Module:
    """A decoder with RMS normalization, rotary embedding, grouped-query attention and SwiGLU, over a prompt."""
    t = the_package()
    return Causal(t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=groups, intermediate_size=inner)))


class SpeechEncoder(nn.Module):
    """Log-mel ``features`` [n, mels, frames] → hidden states [n, frames / 2, width]."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.encoder(features).last_hidden_state


def whisper_encoder(width: int = 384, layers: int = 4, frames: int = 3000, heads: int = 6) -> nn.Module:
    """The encoder of Whisper-tiny by default."""
    t = the_package()
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return SpeechEncoder(WhisperEncoder(t.WhisperConfig(
        d_model=width, encoder_layers=layers, encoder_attention_heads=heads, encoder_ffn_dim=4 * width,
        max_source_positions=frames // 2)))
