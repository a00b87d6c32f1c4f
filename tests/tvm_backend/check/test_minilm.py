"""A pretrained transformer: similarity of sentences in floats and in int8 on the accelerator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import archloom
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from examples import minilm, sentences

LEAST = 0.98


def test_ranks_of_equal_values_are_their_mean() -> None:
    a = np.array([3.0, 1.0, 2.0, 2.0])
    assert minilm.rank_correlation(a, a) == pytest.approx(1) == minilm.rank_correlation(a, np.exp(a))
    assert minilm.rank_correlation(a, -a) == pytest.approx(-1)
    b = np.random.default_rng(0).integers(0, 5, 40).astype(float)
    c = b + np.random.default_rng(1).integers(0, 9, 40)
    assert minilm.rank_correlation(b, c) == pytest.approx(scipy.stats.spearmanr(b, c).statistic)


def test_sentences_are_tokens_with_a_mask() -> None:
    short, longer = minilm.tokenized(["A dog.", "A dog is running across the field."])
    assert short["tokens"].shape == (1, minilm.LENGTH) and short["mask"].sum() == 5  # with [CLS] and [SEP]
    assert longer["mask"].sum() == 10 and not longer["tokens"][0, 10:].any()
    with pytest.raises(ModelError, match="expected at most 4 tokens, found 10"):
        minilm.tokenized(["A dog is running across the field."], 4)
    assert not set(sentences.CALIBRATION) & set(sentences.JUDGED)


@pytest.mark.slow
def test_int8_on_gemmini_ranks_pairs_of_sentences_as_floats_do() -> None:
    from examples import sentence_similarity

    found = sentence_similarity.networks(**sentence_similarity.SCHEME)
    judged = minilm.tokenized(sentences.JUDGED)
    exact = minilm.embeddings(minilm.in_floats(found.net), judged)
    np.testing.assert_allclose(np.linalg.norm(exact, axis=1), 1, rtol=1e-5)
    network, session = archloom.compile(found.int8), integer_session(found.int8)
    assert network.report.offloaded_macs_share == 1
    accelerated = minilm.embeddings(network, judged)
    quantized = minilm.embeddings(lambda x: run(session, x).popitem()[1], judged)
    np.testing.assert_allclose(accelerated, quantized, rtol=0, atol=0.02)
    ranks = minilm.rank_correlation(minilm.similarities(exact), minilm.similarities(accelerated))
    assert ranks >= LEAST
