"""Tokens drawn from scores, on the host."""

from __future__ import annotations

import numpy as np


def sample_tokens(
    scores: np.ndarray,
    generator: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
) -> np.ndarray:
    """Draws one token for each row of scores.

    Token i has the probability softmax(scores / temperature)[i] among the `top_k` best.

    Args:
        scores: (rows, tokens), of a floating dtype; -inf forbids a token.
        generator: Draws as many numbers as there are scores, none at temperature 0.
        temperature: Below 1 good tokens become more likely, above 1 less; 0: always the best, the
            first of equals.
        top_k: How many of the best tokens may be drawn; None, or more than there are: all.

    Returns:
        int32 (rows,), a new array.

    Raises:
        ValueError: `temperature` or `top_k` is out of range, `scores` has another number of axes or
            no tokens, or a row holds NaN, +inf or nothing but -inf.
    """
    if not (np.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature: wanted a number from 0 on; given {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: wanted at least 1 token, or None for all; given {top_k}")
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"wanted scores of shape (rows, tokens); given {scores.shape}")
    best = scores.max(axis=1)
    if not np.isfinite(best).all():
        row = int(np.argmin(np.isfinite(best)))
        raise ValueError(
            f"wanted scores that are finite or -inf; the best of row {row} is {best[row]}"
        )
    if temperature == 0:
        return scores.argmax(axis=1).astype(np.int32)
    # The best of scores plus Gumbel noise is a draw from their softmax.
    with np.errstate(over="ignore"):  # to -inf
        logits = (scores.astype(np.float64) - best[:, None]) / temperature
    drawn = logits + generator.gumbel(size=logits.shape)
    if top_k is not None and top_k < scores.shape[1]:
        others = np.argpartition(-logits, top_k - 1, axis=1)[:, top_k:]
        np.put_along_axis(drawn, others, -np.inf, axis=1)
    return drawn.argmax(axis=1).astype(np.int32)
