from __future__ import annotations

from functools import partial

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks.frameworks.popxl_models import Linear, normal
from benchmarks.models.lstm import Lstm


class Layers(addons.Module):
    def __init__(self, of: Lstm) -> None:
        super().__init__()
        self.of = of

    def _weights(self, layer: int, features: int) -> ops.RecurrentWeights:
        gates = 4 * self.of.hidden
        shapes = {
            "weight_ih": (gates, features),
            "weight_hh": (gates, self.of.hidden),
            "bias_ih": (gates,),
            "bias_hh": (gates,),
        }
        return ops.RecurrentWeights(
            *(
                self.add_variable_input(
                    f"{name}_l{layer}", partial(normal, 0.02, shape), popxl.float32
                )
                for name, shape in shapes.items()
            )
        )

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        read = [x.shape[-1]] + [self.of.hidden] * (self.of.layers - 1)
        _, last, _ = ops.lstm(x, [self._weights(i, n) for i, n in enumerate(read)])
        return last[-1]


class Net(addons.Module):
    def __init__(self, of: Lstm) -> None:
        super().__init__()
        self.lstm, self.head = Layers(of), Linear(of.classes)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.head(self.lstm(x))
