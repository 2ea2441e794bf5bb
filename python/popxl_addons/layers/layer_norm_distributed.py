"""Layer normalisation of an axis that is split over replicas."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl_addons.module import Module
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed


class LayerNormDistributed(Module):
    """Normalises rows whose features are split over replicas.

    Variables: `weight` and `bias`, one element per feature of this replica, ones and zeros.

    Args:
        replica_grouping: The members of a group have the parts of the same rows.
    """

    def __init__(self, replica_grouping: popxl.ReplicaGrouping) -> None:
        super().__init__()
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Normalises.

        Args:
            x: This replica's part of the rows, (n, features / members).
            eps: Added to the variance.

        Returns:
            This replica's part of the result, of the shape and dtype of `x`.

        Raises:
            AssertionError: `x` does not have two axes.
        """
        # Every member has features, hence variables, of its own.
        parameters: dict[str, Any] = {
            "dtype": x.dtype,
            "replica_grouping": self.replica_grouping.transpose(),
        }
        shape = x.shape[-1:]
        weight = self.add_variable_input("weight", partial(np.ones, shape), **parameters)
        bias = self.add_variable_input("bias", partial(np.zeros, shape), **parameters)
        return layer_norm_distributed(x, weight, bias, eps, self.replica_grouping)
