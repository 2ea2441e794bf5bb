from __future__ import annotations

from functools import partial

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks.frameworks.popxl_models import normal
from benchmarks.models.graph import GraphNet


class GraphConv(addons.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def build(
        self,
        x: popxl.Tensor,
        sources: popxl.Tensor,
        targets: popxl.Tensor,
        factors: popxl.Tensor,
    ) -> popxl.Tensor:
        shape = (x.shape[1], self.outputs)
        w = self.add_variable_input("weight", partial(normal, 0.1, shape), x.dtype)
        b = self.add_variable_input("bias", partial(np.zeros, self.outputs), x.dtype)
        sent = ops.gather(x @ w, sources) * factors.reshape((-1, 1))
        return ops.scatter_reduce(sent, targets, "sum", axis=0, axis_size=x.shape[0]) + b


class Net(addons.Module):
    def __init__(self, of: GraphNet) -> None:
        super().__init__()
        self.of = of
        for name, outputs in zip(of.layers, of.widths[1:], strict=True):
            setattr(self, name, GraphConv(outputs))

    def build(
        self,
        x: popxl.Tensor,
        sources: popxl.Tensor,
        targets: popxl.Tensor,
        factors: popxl.Tensor,
    ) -> popxl.Tensor:
        for name in self.of.layers:
            x = getattr(self, name)(x, sources, targets, factors)
            if name != self.of.layers[-1]:
                x = ops.relu(x)
        return x
