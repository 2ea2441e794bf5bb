"""Draws of tokens, against the probabilities of SciPy's softmax."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from pando.sampling import sample_tokens

SCORES = np.array([1.5, -2.0, 0.0, 3.0, 2.5, -np.inf], np.float32)
DRAWS = 20_000


def counts(temperature: float = 1.0, top_k: int | None = None, seed: int = 4) -> np.ndarray:
    rows = np.tile(SCORES, (DRAWS, 1))
    tokens = sample_tokens(rows, np.random.default_rng(seed), temperature, top_k)
    assert tokens.dtype == np.int32 and tokens.shape == (DRAWS,)
    return np.bincount(tokens, minlength=SCORES.size)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("top_k", [None, 1, 3, 5, 6, 100])
def test_tokens_have_the_probabilities_of_the_softmax(
    temperature: float, top_k: int | None
) -> None:
    kept = np.full_like(SCORES, -np.inf)
    best = np.argsort(-SCORES)[:top_k]
    kept[best] = SCORES[best]
    wanted = softmax(kept.astype(np.float64) / temperature)
    given = counts(temperature, top_k)
    possible = wanted > 0
    assert not given[~possible].any()
    if possible.sum() > 1:
        assert chisquare(given[possible], DRAWS * wanted[possible]).pvalue > 1e-3


def test_at_temperature_0_the_first_of_the_best_is_taken() -> None:
    rows = np.array([[0, 2, 2], [1, 0, -1]], np.float16)
    np.testing.assert_array_equal(sample_tokens(rows, np.random.default_rng(0), 0), [1, 0])


def test_temperatures_near_0_do_not_overflow() -> None:
    rows = np.array([[3e38, -3e38, 0]], np.float32)
    assert sample_tokens(rows, np.random.default_rng(0), 1e-300).tolist() == [0]


def test_equal_scores_are_cut_to_k_tokens() -> None:
    tokens = sample_tokens(np.zeros((500, 10)), np.random.default_rng(1), 1.0, 4)
    assert np.unique(tokens).size == 4


@pytest.mark.parametrize(
    ("scores", "settings", "message"),
    [
        (np.zeros((1, 3)), {"temperature": -1}, "temperature: .* given -1"),
        (np.zeros((1, 3)), {"temperature": np.nan}, "temperature: .* given nan"),
        (np.zeros((1, 3)), {"top_k": 0}, "top_k: .* given 0"),
        (np.zeros(3), {}, r"\(rows, tokens\); given \(3,\)"),
        (np.zeros((2, 0)), {}, r"given \(2, 0\)"),
        (np.array([[0.0, 1.0], [0.0, np.nan]]), {}, "best of row 1 is nan"),
        (np.array([[np.inf, 0.0]]), {}, "best of row 0 is inf"),
        (np.full((1, 2), -np.inf), {}, "best of row 0 is -inf"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(
    scores: np.ndarray, settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sample_tokens(scores, np.random.default_rng(0), **settings)
