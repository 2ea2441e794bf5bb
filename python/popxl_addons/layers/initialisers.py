"""Initial values of layers' variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.stats import truncnorm

DEVIATION = 0.02


def truncated_normal(shape: Sequence[int]) -> Callable[[], np.ndarray]:
    """Draws normal values of deviation 0.02 within two deviations, from NumPy's global generator.

    Args:
        shape: The shape of the array.

    Returns:
        A function that draws a new float64 array.
    """
    return partial(truncnorm.rvs, -2, 2, loc=0, scale=DEVIATION, size=tuple(shape))
