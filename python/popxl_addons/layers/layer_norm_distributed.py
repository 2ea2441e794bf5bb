"""Layer normalisation of an axis that is split over replicas."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl_addons.module import Module
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed


class LayerNormDistributed(Module):
    """Normalises rows whose features are split over the members of the grouping."""

    def __init__(self, replica_grouping: popxl.ReplicaGrouping) -> None:
        super().__init__()
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        # Every member has features, hence variables, of its own.
        parameters: dict[str, Any] = {
            "dtype": x.dtype,
            "replica_grouping": self.replica_grouping.transpose(),
        }
        shape = x.shape[-1:]
        weight = self.add_variable_input("weight", partial(np.ones, shape), **parameters)
        bias = self.add_variable_input("bias", partial(np.zeros, shape), **parameters)
        return layer_norm_distributed(x, weight, bias, eps, self.replica_grouping)
