"""Host weights by id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class PyWeightsIO:
    """Arrays by tensor id, to write from or to read into.

    Args:
        weights: The arrays, which are kept, not copied.
    """

    def __init__(self, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.weights = dict(weights)
