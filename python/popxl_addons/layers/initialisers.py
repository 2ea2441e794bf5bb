"""Initial values of layers' variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.stats import truncnorm

DEVIATION = 0.02


def truncated_normal(shape: Sequence[int]) -> Callable[[], np.ndarray]:
    """Normal values within two deviations, from NumPy's global generator."""
    return partial(truncnorm.rvs, -2, 2, loc=0, scale=DEVIATION, size=tuple(shape))
